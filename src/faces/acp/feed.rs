//! The updates of a prompt, and of a session that is loaded.
//!
//! Nothing is remembered between two pages but their number: it holds the place in the journal and how much of an answer
//! that grows was told, so that no word is told twice.

use super::connection::Client;
use super::tell::{GROWN_BYTES_MAX, Grown, TAKES_MAX, Teller, call_id};
use super::{live, permission};
use crate::error::{Problem, Refusal};
use crate::faces::frames::{Frame, Frames};
use crate::faces::rpc;
use crate::follow::{Feed, What, follow};
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::Head;
use crate::session::message::{each_message, read_messages};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Frames of one page, about: a page ends after the event that brings it so far.
const FRAMES_MAX: usize = 256;
/// Bytes of one page, about.
const PAGE_BYTES: usize = 2 * 1024 * 1024;
/// Submissions that are followed after a load.
pub(super) const FOLLOWED_MAX: usize = 16;

/// What a feed of this face knows of its request; it stands in the feed's name.
#[derive(Serialize, Deserialize)]
pub(super) struct Told {
    /// The request's id.
    #[serde(rename = "i")]
    pub(super) request: Value,
    /// The session.
    #[serde(rename = "s")]
    pub(super) session: String,
    /// What its client can show.
    #[serde(default, flatten)]
    pub(super) client: Client,
    /// Of a load.
    #[serde(default, rename = "l", skip_serializing_if = "Option::is_none")]
    pub(super) load: Option<Load>,
}

/// How things stood when a session was loaded.
#[derive(Serialize, Deserialize)]
pub(super) struct Load {
    /// Messages that are told before the answer.
    #[serde(rename = "m")]
    messages: u64,
    /// The journal's last number then: what comes after it is told after the answer.
    #[serde(rename = "j")]
    journal: u64,
    /// Calls of the batch that was open: how many, and bits for those with a result and for those that wait for a yes.
    #[serde(default, rename = "b", skip_serializing_if = "Option::is_none")]
    batch: Option<(u32, u32, u32)>,
    /// Calls that waited for a yes, and are asked about again.
    #[serde(default, rename = "q", skip_serializing_if = "Vec::is_empty")]
    asked: Vec<String>,
    /// Unsettled submissions, which are followed.
    #[serde(default, rename = "f", skip_serializing_if = "Vec::is_empty")]
    follow: Vec<String>,
}

impl Told {
    /// As the name of a feed has it.
    pub(super) fn written(&self) -> String {
        // Its keys are texts, and nothing in it refuses.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Load {
    /// From a head, with the submissions to follow and the calls to ask about.
    pub(super) fn of(head: &Head, follow: Vec<String>, asked: Vec<String>) -> Self {
        let op = head.op.as_ref().filter(|op| !op.calls.is_empty() && op.base == head.count);
        let batch = op.map(|op| {
            let bits = |is: &dyn Fn(usize) -> bool| {
                (0..op.calls.len().min(32)).fold(0, |bits, i| bits | (u32::from(is(i)) << i))
            };
            let waits = |i: usize| asked.contains(&call_id(op.base.saturating_sub(1), i));
            (op.calls.len().min(32) as u32, bits(&|i| op.calls[i].done), bits(&waits))
        });
        Self { messages: head.count, journal: head.jused, batch, asked, follow }
    }

    /// Where its feed begins: at the first message, or behind the last one.
    pub(super) fn start(&self, replay: bool) -> u64 {
        if replay { 0 } else { self.messages }
    }
}

/// A place in a feed: up to where the journal was told, and how far the answer that grows. 40 bits, 3 and 21.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) journal: u64,
    grown: Grown,
}

impl Cursor {
    const BYTES_BITS: u32 = GROWN_BYTES_MAX.ilog2() + 1;
    const TAKE_BITS: u32 = TAKES_MAX.ilog2() + 1;
    /// Set in all numbers of a load behind its answer.
    const TAIL: u64 = 1 << 63;

    /// At a number of the journal.
    pub(super) fn at(journal: u64) -> Self {
        Self { journal, grown: Grown::default() }
    }

    fn read(number: u64) -> Self {
        let bits = |shift: u32, count: u32| (number >> shift) & ((1 << count) - 1);
        let grown = Grown { bytes: bits(0, Self::BYTES_BITS) as usize, take: bits(Self::BYTES_BITS, Self::TAKE_BITS) };
        Self { journal: bits(Self::BYTES_BITS + Self::TAKE_BITS, 39), grown }
    }

    pub(super) fn number(self) -> u64 {
        let shift = Self::BYTES_BITS + Self::TAKE_BITS;
        (self.journal << shift) | (self.grown.take << Self::BYTES_BITS) | self.grown.bytes as u64
    }
}

/// A page of a feed of this face.
pub(in crate::faces) fn frames(ports: &Ports, feed: &Feed, request: &str, after: u64) -> Result<Frames, Refusal> {
    let told: Told = serde_json::from_str(request).map_err(|_| Problem::not_found())?;
    let teller = Teller { ports, place: &feed.place, session: &told.session, client: told.client };
    match &told.load {
        None => prompt(&teller, feed, &told.request, after),
        Some(load) if after & Cursor::TAIL != 0 => tail(&teller, feed, load, after & !Cursor::TAIL),
        Some(load) => replay(&teller, load, &told.request, after),
    }
}

/// A page that is being filled.
#[derive(Default)]
struct Page {
    frames: Vec<Frame>,
    bytes: usize,
}

impl Page {
    fn put(&mut self, number: u64, event: Value) {
        self.bytes += event.to_string().len();
        self.frames.push(Frame { number, name: None, event });
    }

    fn is_full(&self) -> bool {
        self.frames.len() >= FRAMES_MAX || self.bytes >= PAGE_BYTES
    }

    fn end(self, next: u64, end: bool) -> Frames {
        Frames { frames: self.frames, next, end }
    }
}

/// The updates of a submission, and its outcome as the answer of its prompt.
fn prompt(teller: &Teller, feed: &Feed, request: &Value, after: u64) -> Result<Frames, Refusal> {
    let mut at = Cursor::read(after);
    let events = follow(teller.ports, feed, at.journal)?;
    let mut page = Page::default();
    for (n, event) in &events.frames {
        if event["type"] == "settled" || event["type"] == "gone" {
            let number = Cursor::at(*n).number().max(at.number());
            page.put(number, live::outcome(request, event));
            return Ok(page.end(number, true));
        }
        for update in live::updates(teller, event, &events.frames, &[], &mut at.grown, true)? {
            page.put(Cursor { journal: *n, ..at }.number(), update);
        }
        at.journal = *n;
        if page.is_full() {
            return Ok(page.end(at.number(), false));
        }
    }
    at.journal = at.journal.max(events.next);
    Ok(page.end(at.number(), false))
}

/// The transcript as it was at the load, then what was open in it, then the answer.
fn replay(teller: &Teller, load: &Load, request: &Value, after: u64) -> Result<Frames, Refusal> {
    let mut page = Page::default();
    let mut told = after;
    each_message(teller.ports, teller.place, told, load.messages, |n, message| {
        for update in teller.message(n, &message, Grown::default())? {
            page.put(n + 1, update);
        }
        told = n + 1;
        Ok(!page.is_full())
    })?;
    // Results of the open batch stand behind the messages, in the places that are kept for them.
    let (count, done, ask) = load.batch.unwrap_or_default();
    while let Some(i) = told.checked_sub(load.messages).filter(|i| *i < count.into()) {
        if page.is_full() {
            return Ok(page.end(told, false));
        }
        let (n, bit) = (told, 1 << i);
        told += 1;
        if done & bit != 0 {
            for message in read_messages(teller.ports, teller.place, n, n + 1)? {
                for update in teller.message(n, &message, Grown::default())? {
                    page.put(told, update);
                }
            }
        } else if ask & bit == 0 {
            page.put(told, teller.status(&call_id(load.messages.saturating_sub(1), i as usize), "in_progress"));
        }
    }
    if page.is_full() {
        return Ok(page.end(told, false));
    }
    let number = Cursor::TAIL | Cursor::at(load.journal).number();
    page.put(number, rpc::response(request, json!({})));
    if load.follow.is_empty() {
        return Ok(page.end(number, true));
    }
    // What waits for a yes is asked again: whoever was asked before may not be there any more.
    if !load.asked.is_empty() {
        for question in permission::asked_again(teller, &load.follow, &load.asked)? {
            page.put(number, question);
        }
    }
    Ok(page.end(number, false))
}

/// What comes after a load, until the submissions that were there have their outcomes.
fn tail(teller: &Teller, feed: &Feed, load: &Load, after: u64) -> Result<Frames, Refusal> {
    let mut at = Cursor::read(after);
    // Read before the journal: what has ended has told everything.
    let records = crate::run::records(teller.ports, load.follow.clone())?;
    let ended = load.follow.iter().all(|id| records.get(id).is_none_or(|record| record.is_settled()));
    let whole = Feed { what: What::Thread, ..feed.clone() };
    let events = match follow(teller.ports, &whole, at.journal) {
        Ok(events) => events,
        // It was deleted. The answer was given long ago, so there is nobody to tell.
        Err(Refusal::Problem(_)) => return Ok(Page::default().end(Cursor::TAIL | after, true)),
        Err(error) => return Err(error),
    };
    let mut page = Page::default();
    for (n, event) in &events.frames {
        let followed = event["submission"].as_str().is_some_and(|id| load.follow.iter().any(|f| f == id));
        if followed {
            for update in live::updates(teller, event, &events.frames, &load.asked, &mut at.grown, false)? {
                page.put(Cursor::TAIL | Cursor { journal: *n, ..at }.number(), update);
            }
        }
        at.journal = *n;
        if page.is_full() {
            return Ok(page.end(Cursor::TAIL | at.number(), false));
        }
    }
    let quiet = events.next <= at.journal && events.frames.is_empty();
    at.journal = at.journal.max(events.next);
    Ok(page.end(Cursor::TAIL | at.number(), ended && quiet))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_holds_the_place_and_never_falls() {
        let places =
            [(0, 0, 0), (7, 0, 0), (7, 0, 5), (7, 0, GROWN_BYTES_MAX), (7, 1, 0), (7, TAKES_MAX, 3), (8, 0, 0)];
        let numbers = places.map(|(journal, take, bytes)| {
            let cursor = Cursor { journal, grown: Grown { bytes, take } };
            assert_eq!(Cursor::read(cursor.number()), cursor);
            cursor.number()
        });
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        assert!(Cursor::at((1 << 39) - 1).number() < Cursor::TAIL);
    }
}
