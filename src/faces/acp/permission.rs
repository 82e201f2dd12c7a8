//! Permissions: a question of a tool that is declared `ask`, and its answer.
//!
//! The id of a request names the question, so that whoever was asked by an earlier process can still answer, and an
//! answer is matched without anything being remembered.

use super::tell::Teller;
use super::{Answer, Fault, fault, nothing};
use crate::admission::{self, Cancelled};
use crate::approval::{self, Decision, Question, Reply};
use crate::error::Error;
use crate::faces::answer::Work;
use crate::faces::call::Call;
use crate::prelude::*;
use crate::view;
use serde_json::{Value, json};

/// What ids of these requests begin with.
const PREFIX: &str = "perm:";
const ALLOW: &str = "allow_once";
const REJECT: &str = "reject_once";

/// A question as a request.
pub(super) fn request(teller: &Teller, submission: &str, question: &Value) -> Value {
    let call = question["call"].as_str().unwrap_or_default();
    json!({
        "jsonrpc": "2.0",
        "id": format!("{PREFIX}{submission}:{call}"),
        "method": "session/request_permission",
        "params": {
            "sessionId": teller.session,
            "toolCall": {
                "toolCallId": call,
                "title": question["tool"],
                "kind": "other",
                "status": "pending",
                "rawInput": question["arguments"],
            },
            "options": [
                {"optionId": ALLOW, "name": "Allow", "kind": ALLOW},
                {"optionId": REJECT, "name": "Reject", "kind": REJECT},
            ],
        },
    })
}

/// The questions about some calls, as far as they are still open.
pub(super) fn asked_again(teller: &Teller, submissions: &[String], calls: &[String]) -> Result<Vec<Value>, Error> {
    let mut all = Vec::new();
    for (id, record) in crate::run::records(teller.ports, submissions.to_vec())? {
        for question in approval::questions(teller.ports, &id, &record)? {
            if calls.contains(&question.call) {
                let Question { call, tool, arguments, .. } = question;
                all.push(request(teller, &id, &json!({"call": call, "tool": tool, "arguments": arguments})));
            }
        }
    }
    Ok(all)
}

/// A client's answer to a request of ours. What is not asked any more changes nothing.
pub(super) fn answered(call: &Call, id: &Value, outcome: Result<Value, Value>) -> Answer {
    let named = id.as_str().and_then(|id| id.strip_prefix(PREFIX)?.split_once(':'));
    let Some((submission, tool_call)) = named else { return Ok(nothing()) };
    let decision = match outcome {
        Ok(result) => {
            let outcome = &result["outcome"];
            match (outcome["outcome"].as_str(), outcome["optionId"].as_str()) {
                (Some("selected"), Some(ALLOW)) => Decision::Approve,
                (Some("selected"), _) => Decision::Deny(None),
                // Whoever was to decide has ended the turn: the one that asks, not one that goes on meanwhile.
                (Some("cancelled"), _) if is_open(call, submission, tool_call)? => return cancel(call, submission),
                (Some("cancelled"), _) => return Ok(nothing()),
                _ => Decision::Deny(Some("The client's answer was neither a choice nor a cancellation.".into())),
            }
        }
        Err(error) => {
            let why: String = error["message"].as_str().unwrap_or("it gives no reason").chars().take(200).collect();
            Decision::Deny(Some(format!("The client could not ask anybody: {why}")))
        }
    };
    let reply = Reply { call: tool_call, hash: None, decision, message: None };
    let answered = approval::answer(call.ports, &call.owner, submission, reply).map_err(fault)?;
    Ok(nothing().with_work(Work::run(&answered)))
}

/// Whether a call of one's own submission still waits for an answer.
fn is_open(call: &Call, submission: &str, tool_call: &str) -> Result<bool, Fault> {
    let sub = view::find(&call.ports, &call.owner, submission).map_err(fault)?;
    let questions = approval::questions(&call.ports, submission, &sub).map_err(fault)?;
    Ok(questions.iter().any(|question| question.call == tool_call))
}

/// Cancels a submission, if it still goes on.
pub(super) fn cancel(call: &Call, submission: &str) -> Answer {
    let (cancelled, accepted) = admission::cancel(call.ports, &call.owner, submission).map_err(fault)?;
    if matches!(cancelled, Cancelled::Settled) {
        return Ok(nothing());
    }
    Ok(nothing().with_work(Work::cancel(&accepted.place)))
}
