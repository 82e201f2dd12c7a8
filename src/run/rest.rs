//! Bringing a session to rest: every call of the open batch gets its result, on every ending (C5, C6 of docs/faults.md).

use crate::id;
use crate::mutation;
use crate::ports::{Policy, Write};
use crate::prelude::*;
use crate::record::{Call, Op, Phase};
use crate::session::{Message, Role, Session};

/// Why a call has a result that no tool gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The host ended in the middle of it.
    Interrupted,
    /// The submission ended in the middle of it.
    Ended,
    /// Today's tool is not what the call was made for.
    Changed,
}

/// Closes the open calls that may not go on, in the open batch of `op`: all of them, or (`replay`) only those whose
/// policy forbids to run them again; what waits for a person goes on waiting then (trap 3). Returns the writes; `op.calls`
/// says what is done.
pub fn close(session: &mut Session, op: &mut Op, submission: &str, attempt: u64, why: Why, replay: bool) -> Vec<Write> {
    let mut writes = Vec::new();
    for i in 0..op.calls.len() {
        let again = replay
            && (matches!(op.calls[i].policy, Policy::ReplaySafe | Policy::Stepped)
                || mutation::is(session.ports.host, "run-plain-again"));
        let asked = op.calls[i].asked.is_some();
        if op.calls[i].done || again || (replay && asked) {
            continue;
        }
        let result = match asked {
            true => not_run(session, op, i, submission, attempt),
            false => unknown(session, op, i, submission, attempt, why),
        };
        session.place_at(op.base + i as u64, &result, &mut writes);
        op.calls[i].done = true;
    }
    writes
}

/// If every call of the batch is done, counts the results in and tells the ends of attempts. Otherwise the batch stays
/// open and they wait for its end, so that results stay next to their calls (I5).
pub fn close_batch(session: &mut Session, op: &mut Op, submission: &str, writes: &mut Vec<Write>) -> bool {
    if op.calls.iter().any(|c| !c.done) {
        // What waits for a person is not in flight: a restart neither answers it nor costs it an attempt.
        let due = op.asked().map(|(_, _, asked)| asked.expires).min().unwrap_or_default();
        let in_flight = op.calls.iter().any(Call::is_open);
        op.phase = if in_flight { Phase::Calling } else { Phase::Parked { due } };
        return false;
    }
    if !op.calls.is_empty() {
        session.head.count = op.base + op.calls.len() as u64;
        op.calls.clear();
    }
    op.phase = Phase::Running;
    // One notice however many they are, so that a commit never outgrows its limit.
    let ended = core::mem::take(&mut op.ended);
    if let (Some(first), Some(last)) = (ended.first(), ended.last()) {
        let text = match ended.len() {
            1 => format!("Attempt {last} was interrupted; its work so far is kept."),
            _ => format!("Attempts {first} to {last} were interrupted; their work so far is kept."),
        };
        let mut notice = Message::text(Role::Notice, &text, session.ports.clock.now());
        notice.kind = Some("attempt-ended".into());
        notice.reason = Some("interrupted".into());
        notice.submission = Some(submission.to_owned());
        notice.attempt = Some(*last);
        session.append(&notice, writes);
    }
    true
}

/// The effect key of a call, or of a step in it.
pub fn effect_key(session: &Session, op: &Op, i: usize, step: Option<&str>) -> String {
    id::effect_key(&session.place.tag, session.head.born, &op.sub, &op.call_name(i), step)
}

/// The result of a call.
pub fn result(call: &Call, name: String, submission: &str, attempt: u64, text: &str, now: u64) -> Message {
    let mut message = Message::text(Role::ToolResult, text, now);
    message.submission = Some(submission.to_owned());
    message.attempt = Some(attempt);
    message.tool_call_id = Some(call.id.clone());
    message.tool_name = Some(call.name.clone());
    message.call = Some(name);
    message.is_error = Some(true);
    message.steps = (call.steps > 0).then_some(call.steps);
    message.approval = call.approval.clone();
    message
}

/// The result of a call that waited for a person when its submission ended: it surely was not run.
fn not_run(session: &Session, op: &Op, i: usize, submission: &str, attempt: u64) -> Message {
    let text = "The submission ended before anybody had approved this call: it was not run.";
    let now = session.ports.clock.now();
    let mut message = result(&op.calls[i], op.call_name(i), submission, attempt, text, now);
    message.outcome = Some("notRun".into());
    message
}

/// The result of a call whose answer was not recorded: never guessed (B4), and it says that it may still happen (A43).
fn unknown(session: &Session, op: &Op, i: usize, submission: &str, attempt: u64, why: Why) -> Message {
    let cause = match why {
        Why::Interrupted => "The runtime was interrupted while this call was open",
        Why::Ended => "The submission ended while this call was open",
        Why::Changed => "The runtime was interrupted while this call was open, and the tool has changed since",
    };
    let key = effect_key(session, op, i, None);
    let text = format!(
        "{cause}: no result was recorded. Its outcome is unknown: the effect may have happened, and may still happen. \
         It was not run again. Check before you repeat it. (effect key {key})"
    );
    let now = session.ports.clock.now();
    let mut message = result(&op.calls[i], op.call_name(i), submission, attempt, &text, now);
    message.outcome = Some("interrupted".into());
    message
}
