//! Streams: a thread's journal after a number, whole or for one submission.
//!
//! What viewers see live and what they see later is read here, from the store: the same numbers, the same events.

use crate::error::{Error, Problem, Refusal};
use crate::id::Place;
use crate::journal::span;
use crate::keys::{self, RING};
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::{Event, Head, Inbox, Stage, Submission, decode, decode_opt};
use crate::session::{message::read_messages, settled_event};
use crate::store::read_many;
use crate::view;
use serde_json::{Value, json};

/// Slots of one read.
const CHUNK: u64 = 100;

/// Events of one page at most.
const EVENTS_MAX: usize = 256;

/// Events of one page for a face that makes several frames of one: `wit/runtime.wit` bounds those.
const EVENTS_TOLD_MAX: usize = 64;

/// Bytes of events of one page, about: a page ends early rather than grow beyond it.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// What to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The thread.
    pub place: Place,
    /// Of it.
    pub what: What,
    /// For whom.
    pub face: Face,
}

/// Whose frames a feed has: the face's name, and what it has to know of the request (at most about 3 KiB).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Face {
    /// The thread API.
    Thread,
    /// MCP.
    Mcp(String),
    /// A2A.
    A2a(String),
    /// ACP.
    Acp(String),
}

/// What of a thread to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// All of it, for as long as the thread lives.
    Thread,
    /// What concerns a submission, up to its outcome.
    Submission(String),
    /// No frames: it ends when the submission has its outcome.
    Outcome(String),
}

impl Feed {
    /// Its name towards the host.
    pub fn name(&self) -> String {
        let instance = self.place.head();
        let name = match &self.what {
            What::Thread => instance,
            What::Submission(id) => format!("{instance}?{id}"),
            What::Outcome(id) => format!("{instance}!{id}"),
        };
        match &self.face {
            Face::Thread => name,
            Face::Mcp(request) => format!("{name}#mcp:{request}"),
            Face::A2a(request) => format!("{name}#a2a:{request}"),
            Face::Acp(request) => format!("{name}#acp:{request}"),
        }
    }

    /// The feed of a name.
    pub fn parse(name: &str) -> Option<Self> {
        let (name, face) = match name.split_once('#') {
            None => (name, Face::Thread),
            Some((name, face)) => match face.split_once(':')? {
                ("mcp", request) => (name, Face::Mcp(request.to_owned())),
                ("a2a", request) => (name, Face::A2a(request.to_owned())),
                ("acp", request) => (name, Face::Acp(request.to_owned())),
                _ => return None,
            },
        };
        let (instance, what) = match name.find(['?', '!']) {
            None => (name, What::Thread),
            Some(at) => {
                let id = name[at + 1..].to_owned();
                (&name[..at], if name[at..].starts_with('?') { What::Submission(id) } else { What::Outcome(id) })
            }
        };
        Some(Self { place: Place::parse(instance)?, what, face })
    }

    fn shows(&self, event: &Value) -> bool {
        match &self.what {
            What::Thread => true,
            What::Submission(id) | What::Outcome(id) => event["submission"] == id.as_str(),
        }
    }
}

/// Events after a number.
#[derive(Debug, Default)]
pub struct Page {
    /// Numbers and events.
    pub frames: Vec<(u64, Value)>,
    /// The number to go on after: events up to it were looked at.
    pub next: u64,
    /// Nothing will follow.
    pub end: bool,
    /// The first number that may still be there.
    pub first: u64,
}

/// A page of a feed after a number. What is missing is an event of its own, `gap`, with the place in the transcript from
/// which to read again; what is missing behind the newest event may still come.
pub fn follow(ports: &Ports, feed: &Feed, after: u64) -> Result<Page, Refusal> {
    if let What::Outcome(id) = &feed.what {
        return Ok(Page {
            end: view::record(ports, id)?.is_none_or(|r| r.is_settled()),
            next: after,
            ..Page::default()
        });
    }
    let events_max = if feed.face == Face::Thread { EVENTS_MAX } else { EVENTS_TOLD_MAX };
    let mut page = Page { next: after, ..Page::default() };
    let (mut at, mut size, mut lost, mut was_settled) = (after, 0, None, None);
    for _ in 0..=RING / CHUNK {
        let chunk = Chunk::read(ports, feed, at)?;
        let was_settled = *was_settled.get_or_insert(chunk.settled.is_some());
        let (low, high) = chunk.span;
        page.first = low + 1;
        if at < low {
            lost = lost.or(Some(at + 1));
            at = low;
        }
        while at < high && at < chunk.end {
            at += 1;
            let Some(event) = chunk.events.get(&at) else {
                lost = lost.or(Some(at));
                continue;
            };
            page.next = at;
            if let Some(from) = lost.take() {
                let gap = json!({"type": "gap", "from": from, "to": at - 1, "messages": event.at});
                page.frames.push((at - 1, gap));
            }
            if feed.shows(&event.event) {
                let shown = whole(ports, &feed.place, &event.event)?;
                size += shown.to_string().len();
                page.end = feed.what != What::Thread && shown["type"] == "settled";
                page.frames.push((at, shown));
            }
            if page.end || size > PAGE_BYTES || page.frames.len() + 2 > events_max {
                return Ok(page);
            }
        }
        if at >= high {
            // The outcome is a fact of the record: it is told even when the journal has forgotten it. One that came between
            // two of these reads brought events along, where the first has seen nothing yet: the next page has them.
            if let Some(settled) = chunk.settled.filter(|_| was_settled) {
                page.next = page.next.max(chunk.used);
                page.frames.push((page.next, settled));
                page.end = true;
            }
            break;
        }
    }
    Ok(page)
}

/// One snapshot of the head, of slots after a number, and of the outcome that ends the feed.
struct Chunk {
    /// Above the first of the pair, up to the second, something may be there.
    span: (u64, u64),
    /// The last number that was asked for.
    end: u64,
    /// The last number that was used when the head was committed: behind it come pieces alone.
    used: u64,
    events: BTreeMap<u64, Event>,
    settled: Option<Value>,
}

impl Chunk {
    fn read(ports: &Ports, feed: &Feed, after: u64) -> Result<Self, Refusal> {
        let place = &feed.place;
        // Where the ring begins is not known before the head is read; a far cursor costs a second read.
        let mut from = after;
        loop {
            let end = from.saturating_add(CHUNK);
            let mut wanted = vec![place.head(), place.inbox()];
            wanted.extend((from..end).map(|n| place.ring(n + 1)));
            if let What::Submission(id) = &feed.what {
                wanted.push(keys::sub(id));
            }
            let mut values = read_many(ports.store, &wanted)?;
            let settled = match &feed.what {
                What::Submission(id) => {
                    let record: Option<Submission> = decode_opt(&keys::sub(id), &values.pop().flatten())?;
                    match record {
                        None => Some(json!({"type": "gone", "submission": id})),
                        Some(record) => record.is_settled().then(|| settled_event(id, &record)),
                    }
                }
                _ => None,
            };
            let head: Option<Head> = decode_opt(&wanted[0], &values[0])?;
            let inbox: Inbox = decode_opt(&wanted[1], &values[1])?.unwrap_or_default();
            let live = head.filter(|h| h.stage == Stage::Live && inbox.closed.is_none());
            let Some(head) = live else {
                // A copy that is not published, or a thread that goes: there is nothing but the outcome.
                return match feed.what {
                    What::Thread => Err(Problem::not_found().into()),
                    _ => Ok(Self { span: (after, after), end: after, used: after, events: BTreeMap::new(), settled }),
                };
            };
            let mut span = span(&head);
            if from < span.0 {
                from = span.0;
                continue;
            }
            let mut events = BTreeMap::new();
            for ((n, key), value) in (from + 1..).zip(&wanted[2..]).zip(values.into_iter().skip(2)) {
                let event: Option<Event> = value.map(|bytes| decode(key, &bytes)).transpose()?;
                if let Some(event) = event.filter(|e| e.n == n && e.born == head.born && n <= span.1) {
                    events.insert(n, event);
                }
            }
            if from >= head.jused && events.is_empty() {
                // Pieces come in order, so there is nothing behind so many that are missing; or a commit tells of it.
                span.1 = from;
            }
            return Ok(Self { span, end, used: head.jused, events, settled });
        }
    }
}

/// An event with the messages that it names, as far as they fit a page; a question with the arguments of its calls.
fn whole(ports: &Ports, place: &Place, event: &Value) -> Result<Value, Error> {
    if event["type"] == "question" {
        return asked(ports, place, event);
    }
    if event["type"] != "messages" {
        return Ok(event.clone());
    }
    let numbers: Vec<u64> = event["numbers"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let mut messages = Vec::new();
    let mut size = 0;
    for n in numbers {
        let mut shown = json!({"number": n});
        if size < PAGE_BYTES
            && let Some(message) = read_messages(ports, place, n, n + 1)?.pop()
        {
            let message = serde_json::to_value(&message).unwrap_or_default();
            size += message.to_string().len();
            shown["role"] = message["role"].clone();
            shown["message"] = message;
        }
        messages.push(shown);
    }
    Ok(json!({"type": "messages", "submission": event["submission"], "messages": messages}))
}

/// Questions, each with the arguments of its call.
fn asked(ports: &Ports, place: &Place, event: &Value) -> Result<Value, Error> {
    let mut event = event.clone();
    let name = event["questions"][0]["call"].as_str().unwrap_or_default().to_owned();
    let number = name.split_once('.').and_then(|(number, _)| number.parse::<u64>().ok());
    let Some(number) = number else { return Ok(event) };
    let message = read_messages(ports, place, number, number + 1)?.pop();
    let calls = message.as_ref().map(|m| m.calls()).unwrap_or_default();
    for question in event["questions"].as_array_mut().into_iter().flatten() {
        let place = question["call"].as_str().and_then(|call| call.split_once('.')?.1.parse::<usize>().ok());
        if let Some(call) = place.and_then(|i| calls.get(i)) {
            question["arguments"] = call.arguments.clone();
        }
    }
    Ok(event)
}
