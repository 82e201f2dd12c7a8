//! Streams: the frames of a thread after a number. A frame is a message; its number is the message's plus one.
//!
//! Deltas reach live viewers by `events.publish`; the journal that keeps them has its room in the head and its keys.

use crate::error::{Problem, Refusal};
use crate::id::Place;
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::{Head, Stage, decode_opt};
use crate::session::message::read_messages;
use crate::store::read;
use serde_json::json;

/// Frames of one page.
const PAGE: u64 = 64;

/// Frames of a thread (`feed` is the instance's name) after a number; whether the thread is at rest and has no more.
pub fn follow(ports: &Ports, feed: &str, after: u64) -> Result<(Vec<(u64, String)>, bool), Refusal> {
    let place = Place::parse(feed).ok_or_else(Problem::not_found)?;
    let [head] = read(ports.store, [place.head()])?;
    let head: Head = decode_opt(&place.head(), &head)?.ok_or_else(Problem::not_found)?;
    if head.stage != Stage::Live {
        return Err(Problem::not_found().into());
    }
    let end = head.count.min(after.saturating_add(PAGE));
    let messages = read_messages(ports, &place, after.min(end), end)?;
    let frames = (after..)
        .zip(messages)
        .map(|(n, message)| {
            let event = json!({"type": "message", "number": n, "message": message});
            (n + 1, event.to_string())
        })
        .collect();
    Ok((frames, end == head.count && head.op.is_none()))
}
