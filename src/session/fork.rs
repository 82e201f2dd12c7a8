//! Forks: a submission that copies another thread's beginning. A short one is one commit; a longer one is staged, copied
//! page by page, and published last (C15–C17).

use crate::admission::{Accepted, Admission, Birth};
use crate::delivery::identity;
use crate::error::{Error, Problem, Refusal};
use crate::id::{Address, Place, is_name};
use crate::keys;
use crate::ports::{Bytes, Ports, Write};
use crate::prelude::*;
use crate::record::*;
use crate::run::{CALLS_MAX, settled};
use crate::session::Session;
use crate::session::message::{Message, PART_BYTES, Role, join, read_messages};
use crate::store::{Stop, read_format, read_many};
use serde_json::json;

/// Messages that the claiming commit takes along.
const FIRST: usize = 48;
/// Messages that a later page takes.
const PAGE: usize = 58;
/// Bytes of messages in one commit: below its limit, with room for the rest.
const PAGE_BYTES: usize = 3 * 1024 * 1024;

/// Forks `source` at message `at` (`None`: as long as it is) into the thread `to` of the same agent.
pub fn fork(
    ports: Ports,
    source: Address,
    key: Option<String>,
    to: &str,
    at: Option<u64>,
) -> Result<Accepted, Refusal> {
    if !is_name(to) || to == source.thread {
        let text = "`to` must name another thread: 1 to 128 of A–Z a–z 0–9 . _ -, not starting with a dot.";
        return Err(Problem::field("to", text).into());
    }
    let target = Address { thread: to.to_owned(), ..source.clone() };
    let place = source.place(read_format(&ports)?.partitions);
    let mut wanted = vec![place.head(), place.inbox()];
    wanted.extend((0..FIRST as u64).map(|n| place.message(n)));
    let values = read_many(ports.store, &wanted)?;
    let head: Option<Head> = decode_opt(&wanted[0], &values[0])?;
    let inbox: Option<Inbox> = decode_opt(&wanted[1], &values[1])?;
    // A source that is gone refuses only what is new: a fork that was accepted keeps its answer (trap 21).
    let head = head.filter(|h| h.stage == Stage::Live && inbox.is_none_or(|i| i.closed.is_none()));
    let count = head.as_ref().map_or(0, |h| h.count);
    let mut first = Vec::new();
    for (n, value) in (0..count).zip(values.into_iter().skip(2)) {
        first.push(copied(join(&ports, &place, n, value)?));
    }
    // The point is hashed as asked: "latest" is the same request tomorrow (trap 19d).
    let identity = identity(&target, "fork", json!({"at": at, "source": source.thread}));
    let admission = Admission { ports, address: target, key, kind: Kind::Fork, steer: false, identity };
    let point = at.unwrap_or(count);
    let last = match point.checked_sub(1) {
        Some(n) if n < count => read_messages(&ports, &place, n, (n + 2).min(count))?,
        _ => Vec::new(),
    };
    admission.run(|snapshot| {
        let head = head.as_ref().ok_or_else(Problem::not_found)?;
        if snapshot.head.is_some() {
            return Err(Problem::new(
                409,
                "exists",
                format!("The thread {to:?} exists already. Fork into a new name."),
            ));
        }
        check_point(head, point, &last, || nearest(&ports, &place, head, point))?;
        let copied = prefix(&first, point as usize, FIRST, PAGE_BYTES);
        let whole = copied.len() as u64 == point;
        let staged = Staged {
            id: String::new(),
            source: Some(source.clone()),
            born: head.born,
            point,
            done: copied.len() as u64,
            open: Vec::new(),
        };
        Ok(Birth {
            stage: if whole { Stage::Live } else { Stage::Staged(staged) },
            messages: copied,
            outcome: whole.then_some(Outcome::Completed { message: None, result: None }),
            start: None,
            boundary: head.boundary.filter(|b| *b < point),
            state: head.state.clone(),
            deadline_ms: Limits::default().deadline_ms,
            notify: Vec::new(),
        })
    })
}

/// One page of a copy under way, or its end.
pub fn step(mut session: Session) -> Result<(), Stop> {
    let Stage::Staged(staged) = session.head.stage.clone() else { return Ok(()) };
    let ports = session.ports;
    let (record, moved) = record(&session, &staged.id)?;
    let Some(source) = &staged.source else {
        // A caller hands the messages over; when it stays away too long, what there is goes.
        if record.deadline > ports.clock.now() {
            return Err(Stop::Later(record.deadline));
        }
        let why = Failure::new("import-expired", "The import was not finished in time.");
        return give_up(session, staged, why);
    };
    let place = source.place(read_format(&ports)?.partitions);
    let end = staged.point.min(staged.done + PAGE as u64);
    let mut wanted = vec![place.head()];
    wanted.extend((staged.done..end).map(|n| place.message(n)));
    let values = read_many(ports.store, &wanted)?;
    let head: Option<Head> = decode_opt(&wanted[0], &values[0])?;
    // Each page is read with the source's head: a source that was deleted and born again must not mix in (trap 19a).
    if head.is_none_or(|h| h.born != staged.born || h.stage != Stage::Live) {
        let why = Failure::new("source-gone", "The thread that was copied is gone.");
        return give_up(session, staged, why);
    }
    let mut page = Vec::new();
    for (n, value) in (staged.done..).zip(values.into_iter().skip(1)) {
        page.push(copied(join(&ports, &place, n, value)?));
    }
    let page = prefix(&page, page.len(), PAGE, PAGE_BYTES);
    let mut writes = Vec::new();
    for (n, message) in (staged.done..).zip(&page) {
        session.place_at(n, message, &mut writes);
    }
    let done = staged.done + page.len() as u64;
    advance(&mut session, Staged { done, ..staged }, &record, moved, &mut writes);
    session.commit(writes)
}

/// Moves a copy on, or publishes it with its last message: the thread is live, the submission has its outcome.
pub(crate) fn advance(
    session: &mut Session,
    staged: Staged,
    record: &Submission,
    moved: Option<u64>,
    writes: &mut Vec<Write>,
) {
    session.head.epoch += 1;
    session.head.count = staged.done;
    if staged.done < staged.point {
        session.head.stage = Stage::Staged(staged);
        return;
    }
    session.head.stage = Stage::Live;
    let outcome = Outcome::Completed { message: None, result: None };
    let settled = settled(record, outcome, session.ports.clock.now());
    session.settle(&staged.id, &settled, moved, writes);
}

/// The record of the submission that makes a copy, and where its slot was moved to.
pub(crate) fn record(session: &Session, id: &str) -> Result<(Submission, Option<u64>), Error> {
    let wanted = [keys::sub(id), keys::moved(id)];
    let values: [Option<Bytes>; 2] = crate::store::read(session.ports.store, wanted.clone())?;
    let record: Option<Submission> = decode_opt(&wanted[0], &values[0])?;
    let missing = || Error::Corrupt { key: wanted[0].clone(), why: "the record of a copy under way is missing".into() };
    Ok((record.ok_or_else(missing)?, decode_opt(&wanted[1], &values[1])?))
}

/// A copy that can't be finished is deleted; its submission stays pending until that is done (trap 19f).
fn give_up(mut session: Session, staged: Staged, why: Failure) -> Result<(), Stop> {
    session.head.epoch += 1;
    session.head.count = staged.done;
    session.head.stage = Stage::Deleting { done: 0, last: false, failed: Some((staged.id, why)) };
    session.commit(Vec::new())
}

/// A fork must not part a call from its result (trap 19b).
fn check_point(head: &Head, point: u64, around: &[Message], nearest: impl Fn() -> String) -> Result<(), Problem> {
    if point > head.count {
        let text = format!("The thread has {} messages; `at` is {point}.", head.count);
        return Err(Problem::field("at", text).with("limit", head.count));
    }
    let open = around.first().is_some_and(|m| !m.calls().is_empty());
    let inside = around.get(1).is_some_and(|m| m.role == Role::ToolResult);
    if open || inside {
        let text = format!("`at` {point} lies between a call and its result. The nearest places are {}.", nearest());
        return Err(Problem::field("at", text));
    }
    Ok(())
}

/// A message as a copy holds it: recorded steps stay with the call that made them, and are deleted with it.
pub(crate) fn copied(message: Message) -> Message {
    Message { steps: None, ..message }
}

/// The places next to a point that part no pair: right before the call, and after its results if they are there.
fn nearest(ports: &Ports, place: &Place, head: &Head, point: u64) -> String {
    let from = point.saturating_sub(CALLS_MAX as u64 + 1);
    let to = head.count.min(point + CALLS_MAX as u64 + 1);
    let Ok(messages) = read_messages(ports, place, from, to) else {
        return "before the call, and after its results".into();
    };
    let is_result = |n: u64| messages.get((n - from) as usize).is_some_and(|m| m.role == Role::ToolResult);
    let before = (from..point).rev().find(|n| !is_result(*n)).unwrap_or(from);
    match (point..to).find(|n| !is_result(*n)) {
        Some(after) if after > point => format!("{before} and {after}"),
        None if to == head.count && head.op.is_none() => format!("{before} and {to}"),
        _ => before.to_string(),
    }
}

/// The first messages that fit one commit.
fn prefix(messages: &[Message], most: usize, writes_max: usize, bytes_max: usize) -> Vec<Message> {
    let (mut bytes, mut writes) = (0, 0);
    let fitting = messages.iter().take(most).take_while(|m| {
        let size = encode(m).len();
        bytes += size;
        writes += 1 + if size > PART_BYTES { size / PART_BYTES + 1 } else { 0 };
        writes <= writes_max && bytes <= bytes_max
    });
    fitting.cloned().collect()
}
