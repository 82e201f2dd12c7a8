//! What a run sees of its inbox: cancels, steering messages, cancels of what waits behind it.

use super::turn::Turn;
use super::{entries, records, settled};
use crate::admission::input_message;
use crate::keys;
use crate::prelude::*;
use crate::record::*;
use crate::store::{Stop, read, read_many};

/// Entries of an inbox, and the records that they name.
type Inputs = (Vec<(u64, Entry)>, BTreeMap<String, Submission>);

/// What the inbox says before a turn.
pub(super) enum Look {
    GoOn,
    Cancelled,
    Paused,
}

impl Turn<'_, '_> {
    /// Reads the inbox once a turn: a cancel of this submission, steering messages, cancels of what waits.
    pub(super) fn look(&mut self) -> Result<Look, Stop> {
        let ports = self.s.ports;
        let wanted = [
            self.s.place.inbox(),
            keys::cancel(&self.id),
            keys::moved(&self.id),
            keys::pause(&self.id),
            keys::PAUSED.to_owned(),
        ];
        let [inbox, cancel, moved, pause, paused] = read(ports.store, wanted.clone())?;
        self.moved = decode_opt(&wanted[2], &moved)?;
        if cancel.is_some() {
            return Ok(Look::Cancelled);
        }
        let inbox: Inbox = decode_opt(&wanted[0], &inbox)?.unwrap_or_default();
        if inbox.closed.is_some() {
            // The next decision deletes; this run must not go on.
            return Err(Stop::Later(ports.clock.now()));
        }
        if inbox.next > self.looked {
            let (entries, records) = self.entries_to(inbox.next)?;
            self.end_cancelled(&entries, &records)?;
            self.steer(&entries, &records)?;
            self.looked = inbox.next;
        }
        let address = &self.s.head.address;
        if pause.is_some() || Paused::read(&paused)?.has(&address.owner, &address.agent) {
            return Ok(Look::Paused);
        }
        Ok(Look::GoOn)
    }

    /// After a signal in the middle of a wait: ends what was cancelled while it waits behind this one (trap 13), and
    /// this run when the thread is to be deleted.
    pub fn look_for_cancels(&mut self) -> Result<(), Stop> {
        let key = self.s.place.inbox();
        let [inbox] = read(self.s.ports.store, [key.clone()])?;
        let inbox: Inbox = decode_opt(&key, &inbox)?.unwrap_or_default();
        if inbox.closed.is_some() {
            return Err(Stop::Later(self.s.ports.clock.now()));
        }
        if inbox.next > self.looked {
            let (entries, records) = self.entries_to(inbox.next)?;
            self.end_cancelled(&entries, &records)?;
        }
        Ok(())
    }

    /// The inbox's entries that were not looked at, and the records that they name.
    fn entries_to(&self, next: u64) -> Result<Inputs, Stop> {
        let ports = self.s.ports;
        let entries = entries(&ports, &self.s.place, self.looked, next)?;
        let mut ids: Vec<String> = Vec::new();
        for (_, entry) in &entries {
            let id = entry.submission();
            if !ids.iter().any(|known| known == id) {
                ids.push(id.to_owned());
            }
        }
        let records = records(&ports, ids)?;
        Ok((entries, records))
    }

    /// Settles cancelled submissions that wait, one commit each. Their entries are left to the next decision, which
    /// finds nothing left for them to do.
    fn end_cancelled(&mut self, entries: &[(u64, Entry)], records: &BTreeMap<String, Submission>) -> Result<(), Stop> {
        for (_, entry) in entries {
            let Entry::Cancel(id) = entry else { continue };
            let Some(record) = records.get(id).filter(|r| *id != self.id && !r.is_settled()) else { continue };
            let key = keys::moved(id);
            let [moved] = read(self.s.ports.store, [key.clone()])?;
            let done = settled(record, Outcome::aborted("cancelled"), self.s.ports.clock.now());
            let mut writes = Vec::new();
            self.s.settle(id, &done, decode_opt(&key, &moved)?, &mut writes);
            self.commit(writes)?;
        }
        Ok(())
    }

    /// Delivers the steering messages that wait, one commit each (C6): rare, and each may be large.
    fn steer(&mut self, entries: &[(u64, Entry)], records: &BTreeMap<String, Submission>) -> Result<(), Stop> {
        for (_, entry) in entries {
            let Entry::Submit(id) = entry else { continue };
            let Some(record) = records.get(id).filter(|r| r.steer && !r.is_settled()) else { continue };
            let wanted = [keys::start(id), keys::moved(id), keys::cancel(id)];
            let values = read_many(self.s.ports.store, &wanted)?;
            let start: Option<Start> = decode_opt(&wanted[0], &values[0])?;
            // A cancelled one is left to the next decision, which settles it.
            let Some(start) = start.filter(|_| values[2].is_none()) else { continue };
            let now = self.s.ports.clock.now();
            let mut writes = Vec::new();
            let message = input_message(id, record, &start, now);
            self.append(message, &mut writes);
            let done = settled(record, Outcome::Completed { message: None, result: None }, now);
            self.s.settle(id, &done, decode_opt(&wanted[1], &values[1])?, &mut writes);
            self.commit(writes)?;
        }
        Ok(())
    }
}
