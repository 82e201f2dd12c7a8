//! The journal: a thread's numbered, lossy event log, for viewers that come back (protocol §5b, docs/events.md).
//!
//! Facts (messages, attempts, outcomes) put their event into their own commit, so they can't be lost; pieces of an answer
//! are queued behind it. Numbers come from a block that the head reserves in commits that happen anyway: after a crash
//! the rest of the block is never used, so that no number ever stands for two events (I12).

use crate::keys::RING;
use crate::ports::{Guard, Write};
use crate::prelude::*;
use crate::record::{Event, Head, JournalGuard, Phase, encode};
use crate::session::{Message, Session};
use crate::store::put;
use serde_json::{Value, json};

/// Numbers that a working head reserves.
pub const BLOCK: u64 = 2048;

/// A working head with fewer numbers left reserves a new block in its next commit, so an answer begins with so many.
const BLOCK_LEAST: u64 = 1024;

/// Largest event for live viewers, in bytes (`wit/events.wit`): beyond it, messages are named and not shown.
const SHOWN_BYTES_MAX: usize = 64 * 1024;

/// Longest text of one event, in bytes: with escapes it stays far below the limit of an event.
pub const TEXT_BYTES_MAX: usize = 8 * 1024;

/// Between two pieces of an answer, in milliseconds, once half of its numbers are used; four times as long with each
/// further halving.
const HOLD_MS: u64 = 200;

/// What a session has still to tell.
#[derive(Default)]
pub struct Journal {
    /// The next number.
    next: u64,
    /// Whose messages they are; `None`: messages are not told (a copy, a deletion).
    submission: Option<String>,
    /// Events of the commit under way.
    facts: Vec<Fact>,
    /// Whether pieces were queued since the last flush.
    queued: bool,
}

enum Fact {
    Event(Value),
    /// Messages, by number, with what live viewers see of them.
    Messages(Vec<(u64, Value)>),
}

impl Journal {
    /// The journal of a session that was just read.
    pub fn open(head: &Head) -> Self {
        Self { next: head.jupto.saturating_add(1), ..Self::default() }
    }
}

impl Session<'_> {
    /// From here on, messages are told, as those of this submission.
    pub fn tell_messages_of(&mut self, submission: &str) {
        self.journal.submission = Some(submission.to_owned());
    }

    /// Puts an event into the next commit.
    pub fn tell(&mut self, event: Value) {
        self.journal.facts.push(Fact::Event(event));
    }

    pub(super) fn tell_message(&mut self, n: u64, message: &Message) {
        if self.journal.submission.is_none() {
            return;
        }
        let shown = json!({"number": n, "role": message.role, "message": message});
        match self.journal.facts.last_mut() {
            Some(Fact::Messages(numbers)) => numbers.push((n, shown)),
            _ => self.journal.facts.push(Fact::Messages(vec![(n, shown)])),
        }
    }

    /// Gives the events of a commit their numbers and their slots; returns what to show once it is committed.
    pub(super) fn journal_writes(&mut self, writes: &mut Vec<Write>) -> Vec<(u64, String)> {
        let mut shown = Vec::new();
        for fact in core::mem::take(&mut self.journal.facts) {
            let (event, show) = match fact {
                Fact::Event(event) => (event.clone(), event.to_string()),
                Fact::Messages(messages) => {
                    let numbers: Vec<u64> = messages.iter().map(|(n, _)| *n).collect();
                    let of = &self.journal.submission;
                    let event = json!({"type": "messages", "submission": of, "numbers": numbers});
                    (event, live(of.as_deref(), messages.into_iter().map(|(_, m)| m).collect()))
                }
            };
            let n = self.number();
            writes.push(put(self.place.ring(n), &self.event(n, event)));
            shown.push((n, show));
        }
        let used = self.journal.next - 1;
        self.head.jused = used;
        let works = self.head.op.as_ref().is_some_and(|op| !matches!(op.phase, Phase::Parked { .. }));
        self.head.jupto = match works {
            // Nothing is under way: what was not used is given back.
            false => used,
            true if self.head.jupto < used.saturating_add(BLOCK_LEAST) => used.saturating_add(BLOCK),
            true => self.head.jupto,
        };
        shown
    }

    /// What guards the pieces of this epoch: who begins one writes it, and only while it stands are pieces taken.
    pub fn journal_guard(&self) -> JournalGuard {
        JournalGuard { born: self.head.born, epoch: self.head.epoch }
    }

    /// Queues a piece of an answer and shows it. False: no number is left until the next commit.
    pub fn tell_later(&mut self, event: Value) -> bool {
        if self.journal.next > self.head.jupto {
            return false;
        }
        let n = self.number();
        let guard = Guard { key: self.place.journal(), expect: Some(encode(&self.journal_guard())) };
        let write = put(self.place.ring(n), &self.event(n, event.clone()));
        self.ports.store.append_later(&guard, &[write]);
        self.journal.queued = true;
        self.ports.host.publish(&self.place.head(), n, event.to_string());
        true
    }

    /// How long to hold a piece of an answer back, in milliseconds; `None`: for the whole rest of the answer.
    pub fn hold_ms(&self) -> Option<u64> {
        hold_ms(self.head.jupto.saturating_add(1).saturating_sub(self.journal.next))
    }

    /// Waits for what was queued. What is lost, is lost for those who come back later; the turn goes on (I12).
    pub fn flush_journal(&mut self) {
        if core::mem::take(&mut self.journal.queued) {
            let lost = self.ports.store.flush();
            if lost > 0 {
                let text = format!("{lost} journal writes of {} were lost: viewers see a gap", self.place.head());
                self.ports.host.warn(&text);
            }
        }
    }

    fn number(&mut self) -> u64 {
        let n = self.journal.next;
        self.journal.next = n.saturating_add(1);
        n
    }

    fn event(&self, n: u64, event: Value) -> Event {
        Event { n, born: self.head.born, at: self.head.count, event }
    }
}

/// What live viewers get of messages: themselves, or only which they are.
fn live(submission: Option<&str>, mut messages: Vec<Value>) -> String {
    let text =
        |messages: &[Value]| json!({"type": "messages", "submission": submission, "messages": messages}).to_string();
    let whole = text(&messages);
    if whole.len() <= SHOWN_BYTES_MAX {
        return whole;
    }
    for message in messages.iter_mut().filter_map(Value::as_object_mut) {
        message.remove("message");
    }
    text(&messages)
}

/// How long to hold a piece back, so that so many numbers last for an answer of any length.
fn hold_ms(left: u64) -> Option<u64> {
    match BLOCK_LEAST / 2 {
        half if left >= half => Some(0),
        half => half.checked_div(left).map(|halved| HOLD_MS << (2 * halved.ilog2())),
    }
}

/// The numbers whose slots may be there: above the first of the pair, up to the second.
pub fn span(head: &Head) -> (u64, u64) {
    let low = head.jfrom.max(head.jupto.saturating_sub(RING));
    (low.min(head.jupto), head.jupto)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a piece every 50 ms, as a host gives them: half a minute of all of them, and an hour of some.
    #[test]
    fn a_long_answer_is_told_less_and_less_often() {
        let (mut left, mut ms, mut pieces) = (BLOCK_LEAST, 0, Vec::new());
        while let Some(hold) = hold_ms(left) {
            ms += hold.max(50);
            left -= 1;
            pieces.push(ms);
        }
        let by = |s: u64| pieces.iter().filter(|ms| **ms <= s * 1000).count();
        assert_eq!((by(25), by(60), by(600), by(3600)), (500, 684, 976, 1016));
    }
}
