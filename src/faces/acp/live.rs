//! Events of the journal as updates, and an outcome as the answer of its prompt.

use super::tell::{Grown, Teller, call_id, message_id};
use super::{Fault, INTERNAL, content, permission};
use crate::error::Error;
use crate::faces::rpc;
use crate::prelude::*;
use crate::session::message::read_messages;
use crate::session::{Message, Role};
use serde_json::{Value, json};

/// The updates of an event. `page` are the events that were read with it, `asked` the calls that were asked about before.
/// With `own`, the message that was prompted is not told: who sent it shows it.
pub(super) fn updates(
    teller: &Teller,
    event: &Value,
    page: &[(u64, Value)],
    asked: &[String],
    grown: &mut Grown,
    own: bool,
) -> Result<Vec<Value>, Error> {
    Ok(match event["type"].as_str().unwrap_or_default() {
        "attempt" | "retrying" => {
            grown.begin_again();
            Vec::new()
        }
        "text" => piece(teller, event, grown).into_iter().collect(),
        "messages" => messages(teller, event, page, grown, own)?,
        "question" => {
            let questions = event["questions"].as_array().into_iter().flatten();
            let new = questions.filter(|q| !asked.iter().any(|call| q["call"] == call.as_str()));
            let id = event["submission"].as_str().unwrap_or_default();
            new.map(|question| permission::request(teller, id, question)).collect()
        }
        "answered" if event["decision"] == "approved" => {
            event["call"].as_str().map(|call| teller.status(call, "in_progress")).into_iter().collect()
        }
        _ => Vec::new(),
    })
}

fn piece(teller: &Teller, event: &Value, grown: &mut Grown) -> Option<Value> {
    let (n, offset, text) = (event["number"].as_u64()?, event["offset"].as_u64()?, event["text"].as_str()?);
    let follows = grown.grow(offset as usize, text.len());
    follows.then(|| teller.chunk("agent_message_chunk", &message_id(n, grown.take), content::said(text)))
}

fn messages(
    teller: &Teller,
    event: &Value,
    page: &[(u64, Value)],
    grown: &mut Grown,
    own: bool,
) -> Result<Vec<Value>, Error> {
    let mut all = Vec::new();
    let told = event["messages"].as_array().map_or(&[][..], Vec::as_slice);
    for one in told {
        let Some(n) = one["number"].as_u64() else { continue };
        let message = match serde_json::from_value::<Message>(one["message"].clone()) {
            Ok(message) => Some(message),
            // It was too large for the page.
            Err(_) => read_messages(teller.ports, teller.place, n, n + 1)?.pop(),
        };
        let Some(message) = message.filter(|m| !own || m.role != Role::User || m.kind.is_some()) else { continue };
        match message.role {
            Role::Assistant => {
                all.extend(teller.message(n, &message, *grown)?);
                *grown = Grown::default();
                let refused = |i: usize| told.iter().any(|other| other["number"] == n + 1 + i as u64);
                let calls = (0..message.calls().len()).filter(|i| !refused(*i)).map(|i| call_id(n, i));
                all.extend(calls.filter(|call| !waits(call, page)).map(|call| teller.status(&call, "in_progress")));
            }
            _ => all.extend(teller.message(n, &message, Grown::default())?),
        }
    }
    Ok(all)
}

/// Whether somebody is asked about a call: that is told in the commit that makes it.
fn waits(call: &str, page: &[(u64, Value)]) -> bool {
    let questions = page.iter().filter(|(_, event)| event["type"] == "question");
    questions.flat_map(|(_, event)| event["questions"].as_array().into_iter().flatten()).any(|q| q["call"] == call)
}

/// The answer of a prompt whose submission has its outcome, as an event tells of it.
pub(super) fn outcome(request: &Value, event: &Value) -> Value {
    let error = &event["error"];
    let code = error["code"].as_str().unwrap_or_default();
    let stop = match event["status"].as_str() {
        Some("completed") => "end_turn",
        Some("failed") => match code {
            "length" => "max_tokens",
            "budget" => "max_turn_requests",
            "model" if error["kind"] == "refused" => "refusal",
            _ => {
                let text = error["message"].as_str().unwrap_or("The turn failed.");
                let data = json!({"submission": event["submission"], "code": code});
                return Fault::new(INTERNAL, text).with(data).response(request);
            }
        },
        // Aborted, or gone with its session.
        _ => "cancelled",
    };
    let mut meta = json!({"writ/submission": event["submission"]});
    if !error.is_null() {
        meta["writ/error"] = error.clone();
    }
    rpc::response(request, json!({"stopReason": stop, "_meta": meta}))
}
