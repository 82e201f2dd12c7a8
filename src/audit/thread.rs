//! The audit of one thread: its messages, then its inbox and the submissions that this names, then its journal.

use super::{PAGE, Page};
use crate::error::Error;
use crate::id::Place;
use crate::journal;
use crate::keys::{self, List};
use crate::notice::{NEEDS_YOU, SETTLED};
use crate::ports::{Bytes, Ports};
use crate::prelude::*;
use crate::record::*;
use crate::session::message::part_count;
use crate::session::{Message, Role};
use crate::store::{read, read_many};

/// Messages of one page; an open batch at its end is left to the next.
const MESSAGES: u64 = 200;

/// From here on a position counts inbox entries: far above any number of messages, so that a thread may grow between two
/// pages and none begins somewhere else than where the one before has ended.
const ENTRIES: u64 = 1 << 62;

/// From here on it counts numbers of the journal.
const JOURNAL: u64 = 1 << 63;

/// Numbers of the journal of one page.
const RING_PAGE: u64 = 200;

/// How often a thread that changes meanwhile is looked at again.
const TRIES: u32 = 4;

struct Thread<'a> {
    ports: &'a Ports<'a>,
    place: &'a Place,
    head: Head,
    inbox: Inbox,
    /// Where reserved numbers end: the first that may hold nothing.
    reserved: u64,
}

/// One page: `from` counts messages, from [`ENTRIES`] on inbox entries, and from [`JOURNAL`] on numbers of the journal.
/// Returns where to go on in this thread. A finding counts only if the guards are the same after reading as before
/// (trap 33), and if the thread is still listed: one that was deleted since its place in the list was read is nothing to
/// look at.
pub(super) fn page(ports: &Ports, place: &Place, birth: u64, from: u64, page: &mut Page) -> Result<Option<u64>, Error> {
    let p = place.partition;
    let guards = [place.head(), keys::queue(p), keys::list_entry(p, List::Births, birth)];
    for attempt in 1.. {
        let before = read(ports.store, guards.clone())?;
        if before[2].is_none() {
            return Ok(None);
        }
        let mut found = Page::default();
        let next = look(ports, place, birth, from, &mut found)?;
        let still = found.findings.is_empty() || read(ports.store, guards.clone())? == before;
        if still || attempt == TRIES {
            if !still {
                found.findings.clear();
            }
            page.findings.append(&mut found.findings);
            page.threads += found.threads;
            page.submissions += found.submissions;
            page.messages += found.messages;
            page.keys += found.keys;
            return Ok(next);
        }
    }
    Ok(None)
}

fn look(ports: &Ports, place: &Place, birth: u64, from: u64, page: &mut Page) -> Result<Option<u64>, Error> {
    let names = [place.head(), place.inbox(), place.meta(), place.journal()];
    let values = read(ports.store, names.clone())?;
    let mut own = Page::default();
    let head: Option<Head> = own.value(&names[0], &values[0]);
    let inbox: Option<Inbox> = own.value(&names[1], &values[1]);
    let meta: Option<Meta> = own.value(&names[2], &values[2]);
    let journal: Option<JournalGuard> = own.value(&names[3], &values[3]);
    if from == 0 {
        page.keys += own.keys;
        page.threads += 1;
        page.findings.append(&mut own.findings);
    }
    let (Some(head), Some(inbox)) = (head, inbox) else {
        page.find("I15", &names[0], "the thread is listed, but its head or its inbox is missing");
        return Ok(None);
    };
    let reserved =
        head.op.as_ref().filter(|op| !op.calls.is_empty()).map_or(head.count, |op| op.base + op.calls.len() as u64);
    let thread = Thread { ports, place, head, inbox, reserved };
    if from == 0 {
        thread.listed(meta, birth, page)?;
        if journal.is_some_and(|j| j.born != thread.head.born || j.epoch > thread.head.epoch) {
            page.find("I7", &names[3], "the journal's guard is ahead of the head");
        }
        thread.head(page)?;
    }
    if from < thread.reserved {
        let next = thread.messages(from, page)?;
        return Ok(Some(if next < thread.reserved { next } else { ENTRIES }));
    }
    if from < JOURNAL {
        let k = from.saturating_sub(ENTRIES);
        let end = thread.inbox.next.min(k.saturating_add(PAGE / 2));
        thread.entries(k.min(end), end, page)?;
        if end < thread.inbox.next {
            return Ok(Some(ENTRIES + end));
        }
    }
    let (low, high) = journal::span(&thread.head);
    let at = low.max(from.saturating_sub(JOURNAL));
    let end = high.min(at.saturating_add(RING_PAGE));
    thread.ring(at.min(end), end, page)?;
    Ok((end < high).then_some(JOURNAL.saturating_add(end)))
}

impl Thread<'_> {
    /// The thread stands where its lists say.
    fn listed(&self, meta: Option<Meta>, birth: u64, page: &mut Page) -> Result<(), Error> {
        let Some(meta) = meta else {
            page.find("I15", &self.place.meta(), "the thread's meta record is missing");
            return Ok(());
        };
        let p = self.place.partition;
        let owner = List::Owner(&self.head.address.owner);
        let names = [keys::list_entry(p, owner, meta.in_owner), keys::list_entry(p, List::Births, meta.in_births)];
        let values = read(self.ports.store, names.clone())?;
        for (name, value) in names.iter().zip(&values) {
            if page.value::<String>(name, value).as_deref() != Some(&self.place.tag) {
                page.find("I15", name, format!("should list {}", self.place.head()));
            }
        }
        if meta.in_births != birth {
            page.find("I15", &self.place.meta(), "names another place in the list of births");
        }
        Ok(())
    }

    /// The head agrees with itself, and nothing lies beyond it.
    fn head(&self, page: &mut Page) -> Result<(), Error> {
        let (head, key) = (&self.head, self.place.head());
        if head.pos > self.inbox.next || head.seen > self.inbox.next {
            page.find("I8", &key, "the inbox position is beyond the inbox");
        }
        if let Some(op) = &head.op {
            let open = op.calls.iter().any(|c| !c.done);
            let in_flight = op.calls.iter().any(Call::is_open);
            let asks = open && !in_flight;
            let parked = matches!(op.phase, Phase::Parked { .. });
            // What waits for its agent to come back has nothing in flight, whatever was open.
            let waits = parked && op.retry.is_some();
            let fits = waits || in_flight == (op.phase == Phase::Calling) && (!asks || parked);
            if !fits || (open && op.base != head.count) {
                page.find("I5", &key, "the phase and the open calls disagree");
            }
            for (i, call) in op.calls.iter().enumerate() {
                let n = op.base + i as u64;
                let names: Vec<String> = (0..call.steps).map(|s| keys::step(&op.sub, &op.call_name(i), s)).collect();
                // Steps of a call that has its result are counted with the result.
                if !call.done {
                    self.steps(&names, page)?;
                    let [value] = read(self.ports.store, [self.place.message(n)])?;
                    if value.is_some() {
                        page.find("I4", &self.place.message(n), "an open call already has a result");
                    }
                }
            }
        }
        let deleting = matches!(head.stage, Stage::Deleting { .. });
        let beyond = self.place.message(self.reserved);
        let [value] = read(self.ports.store, [beyond.clone()])?;
        if value.is_some() && !deleting {
            page.find("I4", &beyond, "a message lies beyond the count");
        }
        Ok(())
    }

    fn steps(&self, names: &[String], page: &mut Page) -> Result<(), Error> {
        for chunk in names.chunks(crate::store::READ_MAX) {
            for (name, value) in chunk.iter().zip(read_many(self.ports.store, chunk)?) {
                if page.value::<Step>(name, &value).is_none() {
                    page.find("I10", name, "a recorded step is missing");
                }
            }
        }
        Ok(())
    }

    /// Messages from a number on: all there, readable, calls next to their results (I4, I5). Returns the next number.
    fn messages(&self, from: u64, page: &mut Page) -> Result<u64, Error> {
        let end = self.reserved.min(from + MESSAGES);
        let names: Vec<String> = (from..end).map(|n| self.place.message(n)).collect();
        let values = read_many(self.ports.store, &names)?;
        let mut messages = Vec::new();
        for (n, (name, value)) in (from..end).zip(names.iter().zip(values)) {
            messages.push((n, self.message(n, name, value, page)?));
        }
        // A batch that begins near the end goes to the next page, so that pairs are seen whole.
        let cut = messages
            .iter()
            .rposition(|(_, m)| m.as_ref().is_some_and(|m| m.0.role == Role::Assistant && !m.0.calls().is_empty()))
            .filter(|i| *i > 0 && end < self.reserved)
            .unwrap_or(messages.len());
        messages.truncate(cut);
        let mut open: Vec<(String, String)> = Vec::new();
        for (n, message) in &messages {
            let key = self.place.message(*n);
            let Some((message, keys)) = message else {
                let undone = self.head.op.as_ref().and_then(|op| op.calls.get((n.checked_sub(op.base)?) as usize));
                let hole = *n >= self.head.count && undone.is_some_and(|c| !c.done);
                if !hole && !matches!(self.head.stage, Stage::Deleting { .. }) {
                    page.find("I4", &key, "a message is missing");
                }
                if !open.is_empty() {
                    open.remove(0);
                }
                continue;
            };
            page.keys += keys;
            page.messages += 1;
            if let (Some(steps), Some(id), Some(call)) = (message.steps, &message.submission, &message.call) {
                let names: Vec<String> = (0..steps).map(|i| keys::step(id, call, i)).collect();
                self.steps(&names, page)?;
            }
            if message.role == Role::ToolResult {
                let id = message.tool_call_id.clone().unwrap_or_default();
                match open.first() {
                    Some((expected, _)) if *expected == id => drop(open.remove(0)),
                    _ => page.find("I5", &key, "a result without its call right before it"),
                }
                continue;
            }
            for (id, at) in open.drain(..) {
                page.find("I5", &at, format!("call {id} has no result"));
            }
            open = message.calls().iter().map(|c| (c.id.to_owned(), key.clone())).collect();
        }
        if self.reserved == messages.last().map_or(from, |(n, _)| n + 1) && self.head.op.is_none() {
            for (id, at) in open {
                page.find("I5", &at, format!("call {id} has no result, at rest"));
            }
        }
        Ok(messages.last().map_or(end, |(n, _)| n + 1))
    }

    /// A message and the number of its keys; `None`: absent, or unreadable, which is a finding.
    fn message(
        &self,
        n: u64,
        key: &str,
        value: Option<Bytes>,
        page: &mut Page,
    ) -> Result<Option<(Message, u64)>, Error> {
        let Some(value) = value else { return Ok(None) };
        let parts = u64::from(part_count(&value));
        match crate::session::message::join(self.ports, self.place, n, Some(value)) {
            Ok(message) => Ok(Some((message, 1 + parts))),
            Err(Error::Corrupt { key, why }) => {
                page.find("format", &key, why);
                Ok(None)
            }
            Err(error) => {
                page.find("format", key, "a message can't be read");
                Err(error)
            }
        }
    }

    /// Inbox entries and the submissions that they name.
    fn entries(&self, from: u64, end: u64, page: &mut Page) -> Result<(), Error> {
        let names: Vec<String> = (from..end).map(|k| self.place.entry(k)).collect();
        let values = read_many(self.ports.store, &names)?;
        for (k, (name, value)) in (from..end).zip(names.iter().zip(values)) {
            match page.value::<Entry>(name, &value) {
                Some(Entry::Submit(id)) => self.submission(k, &id, page)?,
                Some(Entry::Cancel(_)) if k < self.head.seen && self.head.op.is_none() => {
                    page.find("I8", name, "an input that took effect is still there");
                }
                Some(Entry::Cancel(_)) => {}
                Some(Entry::Answer { submission, call }) => {
                    let key = keys::answer(&submission, &call);
                    let [mark] = read(self.ports.store, [key.clone()])?;
                    if page.value::<Approval>(&key, &mark).is_none() {
                        page.find("I8", name, "an answer is announced that is not there");
                    }
                    if k < self.head.seen {
                        page.find("I8", name, "an answer that took effect is still there");
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Slots of the journal above a number up to another: each holds a number of its own (I12).
    fn ring(&self, low: u64, high: u64, page: &mut Page) -> Result<(), Error> {
        let names: Vec<String> = (low.saturating_add(1)..=high).map(|n| self.place.ring(n)).collect();
        let values = read_many(self.ports.store, &names)?;
        for (n, (name, value)) in (low.saturating_add(1)..=high).zip(names.iter().zip(values)) {
            let Some(event) = page.value::<Event>(name, &value) else { continue };
            let fits = event.n % keys::RING == n % keys::RING && event.n <= self.head.jupto;
            if !fits || event.n <= self.head.jfrom || event.born != self.head.born {
                page.find("I12", name, format!("holds event {}, which was never its to hold", event.n));
            }
        }
        Ok(())
    }

    fn submission(&self, k: u64, id: &str, page: &mut Page) -> Result<(), Error> {
        let names = [
            keys::sub(id),
            keys::start(id),
            keys::cancel(id),
            keys::moved(id),
            keys::pause(id),
            keys::notice(id, SETTLED),
            keys::notice(id, NEEDS_YOU),
            keys::sent(id, SETTLED),
            keys::sent(id, NEEDS_YOU),
        ];
        let values = read(self.ports.store, names.clone())?;
        let record: Option<Submission> = page.value(&names[0], &values[0]);
        let start: Option<Start> = page.value(&names[1], &values[1]);
        let cancel: Option<CancelMark> = page.value(&names[2], &values[2]);
        let moved: Option<u64> = page.value(&names[3], &values[3]);
        // One that came in a race with the outcome is left until the thread goes; it does nothing.
        let _: Option<PauseMark> = page.value(&names[4], &values[4]);
        let untold: Option<Notice> = page.value(&names[5], &values[5]);
        let _: Option<Notice> = page.value(&names[6], &values[6]);
        let _: Option<Sent> = page.value(&names[7], &values[7]);
        let _: Option<Sent> = page.value(&names[8], &values[8]);
        page.submissions += 1;
        let key = &names[0];
        let Some(record) = record else {
            if !matches!(self.head.stage, Stage::Deleting { .. }) {
                page.find("I2", key, "the inbox names a submission that has no record");
            }
            return Ok(());
        };
        if record.tag != self.place.tag || record.address != self.head.address || record.k != k {
            page.find("I2", key, "the record names another thread or another place in its inbox");
        }
        self.task(id, &record, page)?;
        let current = self.head.op.as_ref().is_some_and(|op| op.sub == id);
        if record.is_settled() {
            self.settled(key, &record, page);
            if start.is_some() || cancel.is_some() {
                page.find("I3", key, "it has its outcome, but its delivery or its cancel mark is still there");
            }
            if current {
                page.find("I3", key, "it has its outcome, but the head is busy with it");
            }
            if untold.is_some() {
                self.slot(id, moved.unwrap_or(record.n), page)?;
            }
            return Ok(());
        }
        if record.outcome.is_some() {
            page.find("I3", key, "it has an outcome, but is not settled");
        }
        if start.is_none() && record.kind == Kind::Run {
            page.find("I1", key, "it is accepted, but its delivery is missing");
        }
        if record.kind == Kind::Run && k < self.head.pos && !current {
            page.find("I8", key, "it is behind the inbox position, has no outcome, and nobody works on it");
        }
        if current && record.attempt == 0 {
            page.find("I6", key, "it is at work, but no attempt is counted");
        }
        self.slot(id, moved.unwrap_or(record.n), page)
    }

    /// A task stands in its owner's list where its record says.
    fn task(&self, id: &str, record: &Submission, page: &mut Page) -> Result<(), Error> {
        let Some(n) = record.task else { return Ok(()) };
        let name = keys::list_entry(self.place.partition, List::Tasks(&record.address.owner), n);
        let [value] = read(self.ports.store, [name.clone()])?;
        if page.value::<TaskEntry>(&name, &value).is_none_or(|entry| entry.id != id) {
            page.find("I15", &name, format!("should list {id}"));
        }
        Ok(())
    }

    /// A restart finds the submission by its slot.
    fn slot(&self, id: &str, n: u64, page: &mut Page) -> Result<(), Error> {
        let slot = keys::slot(self.place.partition, n);
        let queue = keys::queue(self.place.partition);
        let [slot_value, queue_value] = read(self.ports.store, [slot.clone(), queue.clone()])?;
        // Damaged ones are named where slots and queues are looked at for themselves.
        let slot_value: Option<Slot> = decode_opt(&slot, &slot_value).unwrap_or_default();
        let queue: Queue = decode_opt(&queue, &queue_value).unwrap_or_default().unwrap_or_default();
        let named = matches!(&slot_value, Some(Slot::Submission { id: named, .. }) if named == id);
        if !named || n < queue.first || n >= queue.next {
            page.find("I8", &slot, format!("a restart would not find submission {id} here"));
        }
        Ok(())
    }

    fn settled(&self, key: &str, record: &Submission, page: &mut Page) {
        match &record.outcome {
            None => page.find("I3", key, "it is settled without an outcome"),
            Some(Outcome::Completed { message: Some(n), .. }) if *n >= self.head.count => {
                page.find("I3", key, format!("its outcome names message {n}, which is not there"));
            }
            Some(_) => {}
        }
    }
}
