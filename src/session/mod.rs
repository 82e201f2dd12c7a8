//! A session: a thread's head, its numbered messages, and the commits that move it on.

pub mod delete;
pub mod fork;
pub mod import;
pub mod message;

use crate::error::Error;
use crate::id::Place;
use crate::journal::Journal;
use crate::keys;
use crate::notice::SETTLED;
use crate::ports::{Bytes, Guard, Ports, Write};
use crate::prelude::*;
use crate::record::{Head, Kind, Notice, Outcome, Submission, decode, encode, nonce};
use crate::store::{Stop, commit_surely, del, put};
pub use message::{Message, Role};
use serde_json::{Value, json};

/// Why a submission is aborted that goes with its thread.
const DELETED: &str = "deleted";

/// A session that this run may write: the head as it knows it, and the exact bytes that guard it.
pub struct Session<'a> {
    /// The handles.
    pub ports: Ports<'a>,
    /// Where it is.
    pub place: Place,
    /// Its head: change it, then [`Session::commit`].
    pub head: Head,
    pub(crate) journal: Journal,
    stored: Bytes,
}

impl<'a> Session<'a> {
    /// A session from the stored head.
    pub fn open(ports: Ports<'a>, place: Place, stored: Bytes) -> Result<Self, Error> {
        let head = decode(&place.head(), &stored)?;
        Ok(Self { ports, place, journal: Journal::open(&head), head, stored })
    }

    /// Commits writes together with the head as it is now, under the head as it was, with the events that tell of it.
    /// After an error the session is not to be used any more: nothing may be done on doubt (I9).
    pub fn commit(&mut self, mut writes: Vec<Write>) -> Result<(), Stop> {
        let shown = self.journal_writes(&mut writes);
        self.head.nonce = nonce(self.ports.clock);
        let new = encode(&self.head);
        let guard = Guard { key: self.place.head(), expect: Some(self.stored.clone()) };
        writes.push(Write { key: self.place.head(), value: Some(new.clone()) });
        commit_surely(&self.ports, &guard, &writes, &new)?;
        self.stored = new;
        for (n, event) in shown {
            self.ports.host.publish(&self.place.head(), n, event);
        }
        Ok(())
    }

    /// Gives a submission its outcome in the next commit: the writes, and the event that tells of it.
    pub fn settle(&mut self, id: &str, sub: &Submission, moved: Option<u64>, writes: &mut Vec<Write>) {
        settle_writes(id, sub, moved, self.place.partition, writes);
        self.tell(settled_event(id, sub));
    }

    /// Adds a message at the end: its writes, and the count. One that does not fit becomes an error text in its place,
    /// so that delivery can't fail.
    pub fn append(&mut self, message: &Message, writes: &mut Vec<Write>) {
        self.place_at(self.head.count, message, writes);
        self.head.count += 1;
    }

    /// The writes of a message at a reserved number.
    pub fn place_at(&mut self, n: u64, message: &Message, writes: &mut Vec<Write>) {
        self.tell_message(n, message);
        match message.writes(&self.place, n) {
            Ok(mut w) => writes.append(&mut w),
            Err(why) => {
                let mut short = message.clone();
                short.content = vec![message::text_block(&format!("[not stored: {why}]"))];
                short.is_error = short.is_error.map(|_| true);
                writes.extend(short.writes(&self.place, n).unwrap_or_default());
            }
        }
    }
}

/// The writes that give a submission its outcome and free what belongs to it: its slot, its delivery and its marks.
/// `moved` is the slot that maintenance gave it, if it was moved.
pub fn settle_writes(id: &str, sub: &Submission, moved: Option<u64>, partition: u8, writes: &mut Vec<Write>) {
    debug_assert!(sub.is_settled() && sub.outcome.is_some(), "a settled submission has its outcome (I3)");
    writes.push(put(keys::sub(id), sub));
    // Nobody is told of what goes with its thread: who deletes one knows.
    let goes = matches!(&sub.outcome, Some(Outcome::Aborted { reason }) if reason == DELETED);
    if goes || sub.notify.is_empty() {
        writes.push(del(keys::slot(partition, moved.unwrap_or(sub.n))));
        if moved.is_some() {
            writes.push(del(keys::moved(id)));
        }
    } else {
        // The slot stays until everybody was told.
        let notice = Notice { at: sub.settled.unwrap_or_default(), reason: None };
        writes.push(put(keys::notice(id, SETTLED), &notice));
    }
    if sub.kind == Kind::Run {
        writes.push(del(keys::start(id)));
        writes.push(del(keys::pause(id)));
    }
    writes.push(del(keys::cancel(id)));
}

/// The terminal event of a settled submission.
pub fn settled_event(id: &str, sub: &Submission) -> Value {
    let mut event = json!({"type": "settled", "submission": id});
    match &sub.outcome {
        Some(Outcome::Completed { message, .. }) => {
            event["status"] = json!("completed");
            event["message"] = json!(message);
        }
        Some(Outcome::Failed { error }) => {
            event["status"] = json!("failed");
            event["error"] = json!(error);
        }
        Some(Outcome::Aborted { reason }) => {
            event["status"] = json!("aborted");
            event["reason"] = json!(reason);
        }
        None => {}
    }
    event
}
