//! A turn: prompted, and cancelled.

use super::connection::{Connection, Prompt};
use super::feed::{Cursor, Told};
use super::{Answer, Fault, LANE, NOT_FOUND, Params, content, fault, key, no_session, nothing, permission, text};
use crate::admission;
use crate::delivery::Delivery;
use crate::faces::answer::{Response, Tail, Work};
use crate::faces::call::Call;
use crate::faces::session;
use crate::follow::{Face, Feed, What};
use crate::prelude::*;
use crate::view;
use serde_json::Value;

/// A prompt is a submission. Its updates come as they happen, and the answer when it has its outcome; behind another one
/// of its session it waits.
pub(super) fn prompt(call: &Call, connection: &mut Connection, id: &Value, params: &Params) -> Answer {
    let name = text(params, "sessionId")?;
    let content = content::delivered(params.get("prompt"))?;
    let key = key(params)?;
    let address = session::address(&call.owner, name).ok_or_else(no_session)?;
    let (_, head, _) = view::find_thread(&call.ports, &address).map_err(fault)?;
    connection.make_room(&call.ports)?;
    // What is asked again may have been told long ago.
    let after = if key.is_some() { 0 } else { head.jused };
    let delivery = Delivery { content, result_schema: None, steer: false, deadline_ms: None };
    let accepted = admission::submit(call.ports, call.agents, address, key, &delivery).map_err(fault)?;
    connection.add(Prompt { request: id.clone(), session: name.to_owned(), submission: accepted.id.clone() });
    let told = Told { request: id.clone(), session: name.to_owned(), client: connection.client, load: None };
    let what = What::Submission(accepted.id.clone());
    let feed = Feed { place: accepted.place.clone(), what, face: Face::Acp(told.written()) };
    let mut response = Response::stream(Tail { feed, after: Cursor::at(after).number() });
    response.header(LANE, name);
    if !accepted.sub.is_settled() {
        response = response.with_work(Work::run(&accepted));
    }
    Ok(response)
}

/// Ends what a session is busy with: the prompts of this connection, or the turn of an earlier one.
pub(super) fn cancel(call: &Call, connection: &Connection, params: &Params) -> Answer {
    let (response, failed) = end(call, connection, text(params, "sessionId")?)?;
    if let Some(fault) = failed {
        // Nobody is answered.
        call.ports.host.warn(&format!("a session/cancel was not done: {}", fault.message));
    }
    Ok(response)
}

/// Ends all prompts of a session, the last one first, so that none begins because another has ended. One that can't be
/// ended keeps nobody from ending the others; why it can't is told.
pub(super) fn end(call: &Call, connection: &Connection, name: &str) -> Result<(Response, Option<Fault>), Fault> {
    let address = session::address(&call.owner, name).ok_or_else(no_session)?;
    let (_, head, _) = view::find_thread(&call.ports, &address).map_err(fault)?;
    let mut ids: Vec<String> = connection.of_session(name).rev().map(|prompt| prompt.submission.clone()).collect();
    ids.extend(head.op.map(|op| op.sub).filter(|id| !connection.answers(id)));
    let (mut response, mut failed) = (nothing(), None);
    for id in ids {
        // One that has its outcome, or went with an earlier session of this name, is not touched.
        match permission::cancel(call, &id) {
            Ok(ended) => response.work.extend(ended.work),
            Err(fault) if fault.code == NOT_FOUND => {}
            Err(fault) => failed = Some(fault),
        }
    }
    response.work.dedup();
    Ok((response, failed))
}

/// The client does not want the answer of a request any more: a prompt ends. Everything else has been answered, or is told
/// in its turn.
pub(super) fn cancel_request(call: &Call, connection: &Connection, params: &Params) -> Answer {
    match params.get("requestId").and_then(|id| connection.of_request(id)) {
        Some(prompt) => permission::cancel(call, &prompt.submission),
        None => Ok(nothing()),
    }
}
