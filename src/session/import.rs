//! Imports: a thread that a caller hands over page by page. Staged like a fork, published with the last message.
//!
//! The caller's pages are committed under the thread's own head, so two callers can't mix: the second finds the head
//! moved, and reads how far the import is.

use super::fork::{advance, copied, record};
use crate::admission::{Accepted, Admission, Birth};
use crate::agent::Agents;
use crate::delivery::{identity, too_large};
use crate::error::{Error, Problem, Refusal};
use crate::id::{Address, Place};
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::*;
use crate::session::{Message, Role, Session};
use crate::store::{Stop, read, read_format};
use serde::Deserialize;
use serde_json::{Value, json};

/// Messages of an import at most.
const MESSAGES_MAX: u64 = 1_000_000;

/// Messages of one page at most.
const PAGE_MAX: usize = 48;

/// How long an import may take, in milliseconds: a day.
const TIME_MS: u64 = 24 * 60 * 60 * 1000;

/// What begins an import.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    session: SessionLine,
    count: u64,
    digest: String,
}

/// The session line of an exported file; what it does not know it passes over.
#[derive(Deserialize)]
struct SessionLine {
    boundary: Option<u64>,
    #[serde(default)]
    state: BTreeMap<String, Value>,
}

/// Begins an import into a new thread.
pub fn begin(
    ports: Ports,
    agents: &dyn Agents,
    address: Address,
    key: Option<String>,
    opening: Opening,
) -> Result<Accepted, Refusal> {
    let Opening { session, count, digest } = opening;
    if count > MESSAGES_MAX {
        let text = format!("`count` is {count}; a thread of at most {MESSAGES_MAX} messages can be imported.");
        return Err(Problem::field("count", text).with("limit", MESSAGES_MAX).into());
    }
    let fields = json!({"boundary": session.boundary, "count": count, "digest": digest, "state": session.state});
    let identity = identity(&address, "import", fields);
    let admission = Admission { ports, address, key, kind: Kind::Import, steer: false, identity };
    admission.run(|snapshot| {
        if snapshot.head.is_some() {
            return Err(Problem::new(409, "exists", "This thread exists already. Import into a new name."));
        }
        admission.agent_limits(agents)?;
        let size = encode(&session.state).len();
        if size > STATE_BYTES_MAX {
            return Err(too_large("The thread's `state`", size, STATE_BYTES_MAX));
        }
        if let Some(boundary) = session.boundary.filter(|b| *b >= count) {
            let text = format!("`boundary` is {boundary}, but there are {count} messages.");
            return Err(Problem::field("session.boundary", text).with("limit", count - 1));
        }
        let staged = Staged { id: String::new(), source: None, born: 0, point: count, done: 0, open: Vec::new() };
        Ok(Birth {
            stage: if count == 0 { Stage::Live } else { Stage::Staged(staged) },
            messages: Vec::new(),
            outcome: (count == 0).then_some(Outcome::Completed { message: None, result: None }),
            start: None,
            boundary: session.boundary,
            state: session.state.clone(),
            deadline_ms: TIME_MS,
            notify: Vec::new(),
        })
    })
}

/// Takes the messages from number `from` on. Returns how many there are now, and whether that is all.
pub fn page(ports: Ports, address: &Address, from: u64, messages: Vec<Value>) -> Result<(u64, bool), Refusal> {
    let place: Place = address.place(read_format(&ports)?.partitions);
    let [stored] = read(ports.store, [place.head()])?;
    let stored = stored.ok_or_else(Problem::not_found)?;
    let mut session = Session::open(ports, place, stored)?;
    let staged = match session.head.stage.clone() {
        Stage::Staged(staged) if staged.source.is_none() => staged,
        Stage::Live => return Ok((session.head.count, true)),
        _ => return Err(Problem::not_found().into()),
    };
    if from != staged.done {
        // A repeated page was taken before; a page too far would leave a hole.
        let text = format!("{} messages are there; go on with message {}.", staged.done, staged.done);
        return match from < staged.done {
            true => Ok((staged.done, false)),
            false => Err(Problem::new(409, "gap", text).with("value", staged.done).into()),
        };
    }
    if messages.is_empty() || messages.len() > PAGE_MAX || staged.done + messages.len() as u64 > staged.point {
        let left = staged.point - staged.done;
        let text = format!("A page has 1 to {PAGE_MAX} messages; {left} are still to come.");
        return Err(Problem::field("messages", text).with("limit", PAGE_MAX).into());
    }
    let mut open = staged.open.clone();
    let mut writes = Vec::new();
    let mut done = staged.done;
    for value in messages {
        let message: Message = serde_json::from_value(value)
            .map_err(|e| Problem::field("messages", format!("Message {done} can't be read: {e}")))?;
        pair(&mut open, &message, done)?;
        if session.head.boundary == Some(done) {
            check_boundary(&message, done)?;
        }
        // It may name any submission: what is kept with another thread's record must not be deleted with this one.
        let message = copied(message);
        writes.extend(message.writes(&session.place, done).map_err(|e| Problem::new(413, "too-large", e))?);
        done += 1;
    }
    if done == staged.point && !open.is_empty() {
        let text = format!("The thread ends with calls that have no result: {}.", open.join(", "));
        return Err(Problem::field("messages", text).into());
    }
    let (record, moved) = record(&session, &staged.id)?;
    let whole = done == staged.point;
    advance(&mut session, Staged { done, open, ..staged }, &record, moved, &mut writes);
    match session.commit(writes) {
        Ok(()) => Ok((done, whole)),
        Err(Stop::Failed(error)) => Err(error.into()),
        Err(Stop::Fenced | Stop::Later(_)) => {
            Err(Error::Unavailable("another import of this thread came first; ask how far it is".into()).into())
        }
    }
}

/// The context begins with a summary, and goes on with a message before it.
fn check_boundary(message: &Message, n: u64) -> Result<(), Problem> {
    if message.role == Role::Summary && message.kept.is_none_or(|kept| kept <= n) {
        return Ok(());
    }
    let text = format!("`boundary` names message {n}, which is no `summary` with a `kept` of {n} at most.");
    Err(Problem::field("session.boundary", text))
}

/// Every call has one result, in the order of the calls, right after the message that made them (I5).
fn pair(open: &mut Vec<String>, message: &Message, n: u64) -> Result<(), Problem> {
    if message.role == Role::ToolResult {
        let id = message.tool_call_id.clone().unwrap_or_default();
        if open.first() != Some(&id) {
            return Err(Problem::field(
                "messages",
                format!("Message {n} is a result of {id:?}, which no open call waits for."),
            ));
        }
        open.remove(0);
        return Ok(());
    }
    if !open.is_empty() {
        let text =
            format!("Message {n} comes before the results of {}; each call needs its result first.", open.join(", "));
        return Err(Problem::field("messages", text));
    }
    *open = message.calls().iter().map(|c| c.id.to_owned()).collect();
    Ok(())
}
