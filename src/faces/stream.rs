//! A thread's journal: as a page, as a stream, and the token for viewers that can send no header.

use super::answer::{Response, Tail};
use super::call::Call;
use crate::auth;
use crate::error::{Problem, Refusal};
use crate::follow::{Face, Feed, What, follow};
use crate::id::{Place, partition_of_id};
use crate::prelude::*;
use crate::record::Head;
use crate::view;
use serde_json::{Value, json};

type Answer = Result<Response, Refusal>;

pub(super) fn events(call: &Call) -> Answer {
    let (place, head, _) = view::find_thread(&call.ports, &call.address()?)?;
    let (after, limit) = call.page()?;
    check_cursor(after, &head)?;
    let page = follow(&call.ports, &Feed { place, what: What::Thread, face: Face::Thread }, after)?;
    let all = page.frames.len();
    let frames: Vec<(u64, Value)> = page.frames.into_iter().take(limit as usize).collect();
    let next = match frames.last() {
        Some((n, _)) if frames.len() < all || *n < head.jused => Some(*n),
        _ => None,
    };
    let events: Vec<Value> =
        frames.into_iter().map(|(number, event)| json!({"number": number, "event": event})).collect();
    let answer = json!({"events": events, "next": next, "first": page.first, "last": head.jused});
    Ok(Response::json(200, &answer))
}

pub(super) fn stream(call: &Call) -> Answer {
    let (place, head, _) = view::find_thread(&call.ports, &call.address()?)?;
    let what = match call.path.query("submission") {
        None => What::Thread,
        Some(id) => What::Submission(submission_here(call, &place, id)?),
    };
    let last_seen = match call.request.header("last-event-id") {
        None | Some("") => call.number("after")?,
        Some(id) => {
            let text = "`Last-Event-ID` is not the number of an event.";
            Some(id.trim().parse().map_err(|_| Problem::field("last-event-id", text))?)
        }
    };
    let after = last_seen.unwrap_or(match what {
        What::Thread => head.jused,
        _ => 0,
    });
    check_cursor(after, &head)?;
    Ok(Response::stream(Tail { feed: Feed { place, what, face: Face::Thread }, after }))
}

pub(super) fn token(call: &Call) -> Answer {
    let address = call.address()?;
    let (place, _, _) = view::find_thread(&call.ports, &address)?;
    let (token, expires) = auth::stream_token(&call.ports, &address, &place)?;
    let path = format!("/v1/agents/{}/threads/{}/stream?token={token}", address.agent, address.thread);
    Ok(Response::json(201, &json!({"token": token, "expires": expires, "path": path})))
}

/// A cursor that the journal never gave is of another thread, or made up.
fn check_cursor(after: u64, head: &Head) -> Result<(), Problem> {
    if after <= head.jupto {
        return Ok(());
    }
    let text = format!("The cursor {after} is beyond this thread's journal, which ends at {}.", head.jused);
    Err(Problem::field("after", text).with("limit", head.jused))
}

fn submission_here(call: &Call, place: &Place, id: &str) -> Result<String, Refusal> {
    let sub = view::find(&call.ports, &call.owner, id)?;
    let here = partition_of_id(id) == Some(place.partition) && sub.tag == place.tag;
    here.then(|| id.to_owned()).ok_or_else(|| Problem::not_found().into())
}
