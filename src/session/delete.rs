//! Deletion of a thread in three steps: close the inbox under Q, take over and delete under H, the last keys under Q
//! (C18–C21). Without a scan: everything is found from the head, the messages and the inbox.

use super::message::{PARTS_MAX, join, part_count};
use super::{DELETED, Message, Session, settle_writes};
use crate::error::{Error, Problem, Refusal};
use crate::id::{Address, Place};
use crate::journal;
use crate::keys::{self, List};
use crate::notice::SUBJECTS;
use crate::ports::{Guard, Ports, Write};
use crate::prelude::*;
use crate::record::*;
use crate::run::plan::Snapshot;
use crate::run::{self, journal_guard, rest, settled};
use crate::store::{self, READ_MAX, Sent, Stop, del, put, read, read_format, read_many};

/// Deletes of one page, below the limit of a commit.
const PAGE: usize = 56;

/// Most writes that the deletion of one inbox entry costs.
const ENTRY_WRITES: u64 = 12;

/// Submissions that one commit settles.
const SETTLES: usize = 8;

/// Closes a thread for good: nothing is admitted any more, and a run deletes it.
pub fn close(ports: Ports, address: &Address) -> Result<Place, Refusal> {
    let place = address.place(read_format(&ports)?.partitions);
    for _ in 0..64 {
        let wanted = [keys::queue(place.partition), place.inbox(), place.head()];
        let [queue, inbox, head] = read(ports.store, wanted.clone())?;
        let head: Head = decode_opt(&wanted[2], &head)?.ok_or_else(Problem::not_found)?;
        let mut inbox: Inbox = decode_opt(&wanted[1], &inbox)?.unwrap_or_default();
        match head.stage {
            _ if inbox.closed.is_some() => return Ok(place),
            Stage::Deleting { .. } => return Ok(place),
            Stage::Staged(_) => {
                let text = "A copy into this thread is under way. Delete it when that is done.";
                return Err(Problem::new(409, "forking", text).into());
            }
            Stage::Live => {}
        }
        let mut new: Queue = decode_opt(&wanted[0], &queue)?.unwrap_or_default();
        new.nonce = nonce(ports.clock);
        inbox.closed = Some(new.next);
        let slot = put(keys::slot(place.partition, new.next), &Slot::Delete { tag: place.tag.clone() });
        new.next += 1;
        let writes = [put(keys::queue(place.partition), &new), slot, put(place.inbox(), &inbox)];
        let guard = Guard { key: keys::queue(place.partition), expect: queue };
        if store::commit(ports.store, guard, &writes)? == Sent::Committed {
            return Ok(place);
        }
    }
    Err(Problem::new(503, "try-again", "The store is too busy. Delete again.").into())
}

/// One step of a deletion.
pub(crate) fn step(session: Session, snapshot: &Snapshot) -> Result<(), Stop> {
    match session.head.stage.clone() {
        Stage::Deleting { last: true, failed, .. } => last(&session, failed),
        Stage::Deleting { done, failed, .. } => page(session, snapshot, done, failed),
        _ => take(session, snapshot),
    }
}

/// Takes over from whoever runs here, and ends all that was accepted (C19).
fn take(mut session: Session, snapshot: &Snapshot) -> Result<(), Stop> {
    let now = session.ports.clock.now();
    if let Some(mut op) = session.head.op.take() {
        return rest_first(session, snapshot, &mut op);
    }
    let open: Vec<&String> = snapshot.records.iter().filter(|(_, r)| !r.is_settled()).map(|(id, _)| id).collect();
    let moved_keys: Vec<String> = open.iter().take(SETTLES).map(|id| keys::moved(id)).collect();
    let moved = read_many(session.ports.store, &moved_keys)?;
    let mut writes = Vec::new();
    for (id, (key, moved)) in open.iter().zip(moved_keys.iter().zip(moved)) {
        let record = settled(&snapshot.records[*id], Outcome::aborted(DELETED), now);
        session.settle(id, &record, decode_opt(key, &moved)?, &mut writes);
    }
    session.head.epoch += 1;
    writes.push(journal_guard(&session));
    if open.len() <= SETTLES {
        session.head.stage = Stage::Deleting { done: 0, last: false, failed: None };
    }
    session.commit(writes)
}

/// The submission under way: brought to rest and settled in one commit, so that its steps can be found by its results.
fn rest_first(mut session: Session, snapshot: &Snapshot, op: &mut Op) -> Result<(), Stop> {
    let id = op.sub.clone();
    let record = snapshot.records.get(&id).ok_or_else(|| Error::Corrupt {
        key: keys::sub(&id),
        why: "the record of an open submission is missing".into(),
    })?;
    let key = keys::moved(&id);
    let [moved] = read(session.ports.store, [key.clone()])?;
    let mut writes = rest::close(&mut session, op, &id, record.attempt, rest::Why::Ended, false);
    rest::close_batch(&mut session, op, &id, &mut writes);
    let record = settled(record, Outcome::aborted(DELETED), session.ports.clock.now());
    session.settle(&id, &record, decode_opt(&key, &moved)?, &mut writes);
    session.head.epoch += 1;
    writes.push(journal_guard(&session));
    session.commit(writes)
}

/// Deletes the next messages, then inbox entries with what they name, then the journal (C20).
fn page(mut session: Session, snapshot: &Snapshot, done: u64, failed: Option<(String, Failure)>) -> Result<(), Stop> {
    let (ports, place, count) = (session.ports, session.place.clone(), session.head.count);
    let mut writes: Vec<Write> = Vec::new();
    let mut now = done;
    if now < count {
        let end = count.min(now + PAGE as u64);
        let message_keys: Vec<String> = (now..end).map(|n| place.message(n)).collect();
        let values = read_many(ports.store, &message_keys)?;
        for (n, value) in (now..end).zip(values) {
            // A reserved number may hold nothing; a half deletion that is taken up again finds holes.
            let Some(value) = value else {
                now = n + 1;
                continue;
            };
            let parts = part_count(&value);
            let steps = steps_of(&join(&ports, &place, n, Some(value))?);
            let apart = steps.len() > PAGE - 1 - PARTS_MAX;
            let with_it = if apart { 0 } else { steps.len() };
            if writes.len() + 1 + parts as usize + with_it > PAGE && !writes.is_empty() {
                break;
            }
            // More steps than fit beside it go first, in commits of their own; the message still names them until then.
            for chunk in steps.chunks(PAGE) {
                if apart {
                    session.head.epoch += 1;
                    session.commit(chunk.iter().cloned().map(del).collect())?;
                } else {
                    writes.extend(chunk.iter().cloned().map(del));
                }
            }
            writes.extend((0..parts).map(|i| del(place.part(n, i))));
            writes.push(del(place.message(n)));
            now = n + 1;
        }
    } else if now < count + snapshot.inbox.next {
        let from = now - count;
        let end = snapshot.inbox.next.min(from + PAGE as u64 / ENTRY_WRITES);
        entries(&ports, &place, from, end, failed.as_ref().map(|(id, _)| id.as_str()), &mut writes)?;
        now = count + end;
    } else {
        let (low, high) = journal::span(&session.head);
        let from = low + (now - count - snapshot.inbox.next);
        let numbers: Vec<u64> = (from + 1..=high.min(from + READ_MAX as u64)).collect();
        let slots: Vec<String> = numbers.into_iter().map(|n| place.ring(n)).collect();
        let values = read_many(ports.store, &slots)?;
        for (slot, value) in slots.into_iter().zip(values) {
            if value.is_some() && writes.len() == PAGE {
                break;
            }
            now += 1;
            writes.extend(value.map(|_| del(slot)));
        }
    }
    let (low, high) = journal::span(&session.head);
    let last = now >= count + snapshot.inbox.next + (high - low);
    session.head.epoch += 1;
    session.head.stage = Stage::Deleting { done: now, last, failed };
    session.commit(writes)
}

/// Deletes inbox entries of a range, with all keys of the submissions that they name; `keep` is spared.
fn entries(
    ports: &Ports,
    place: &Place,
    from: u64,
    end: u64,
    keep: Option<&str>,
    writes: &mut Vec<Write>,
) -> Result<(), Error> {
    let found = run::entries(ports, place, from, end)?;
    let submitted = found.iter().filter_map(|(_, entry)| match entry {
        Entry::Submit(id) if Some(id.as_str()) != keep => Some(id.clone()),
        _ => None,
    });
    let ids: Vec<String> = submitted.collect();
    let records = run::records(ports, ids.clone())?;
    let moved_keys: Vec<String> = ids.iter().map(|id| keys::moved(id)).collect();
    let moved = read_many(ports.store, &moved_keys)?;
    for (id, (key, moved)) in ids.iter().zip(moved_keys.iter().zip(moved)) {
        writes.extend([keys::sub(id), keys::start(id), keys::cancel(id), keys::pause(id)].map(del));
        // A task's entry is put once, by Q, and never again: so it may go from this side (R1).
        writes.extend(records.get(id).and_then(|record| {
            let list = List::Tasks(&record.address.owner);
            Some(del(keys::list_entry(place.partition, list, record.task?)))
        }));
        // What has settled had its slot freed, unless somebody was still to be told.
        if let Some(record) = records.get(id).filter(|r| !r.notify.is_empty()) {
            let n = decode_opt(key, &moved)?.unwrap_or(record.n);
            writes.extend([keys::slot(place.partition, n), keys::moved(id)].map(del));
            writes.extend(SUBJECTS.iter().flat_map(|s| [keys::notice(id, s), keys::sent(id, s)]).map(del));
        }
    }
    for (k, entry) in found {
        if let Entry::Answer { submission, call } = &entry {
            writes.push(del(keys::answer(submission, call)));
        }
        writes.push(del(place.entry(k)));
    }
    Ok(())
}

/// The last keys, under Q: the address is free afterwards (C21). Repeated or late, it changes nothing: it rests on the
/// deletion having reached its last phase, and that is for ever (R2, R6).
fn last(session: &Session, failed: Option<(String, Failure)>) -> Result<(), Stop> {
    let (ports, place) = (session.ports, &session.place);
    let p = place.partition;
    let owner = session.head.address.owner.as_str();
    for _ in 0..64 {
        let tasks = keys::list(p, List::Tasks(owner));
        let mut wanted = vec![keys::queue(p), place.head(), place.inbox(), place.meta(), tasks];
        wanted.extend(failed.iter().flat_map(|(id, _)| [keys::sub(id), keys::moved(id), keys::list(p, List::Orphans)]));
        let values = read_many(ports.store, &wanted)?;
        let head: Option<Head> = decode_opt(&wanted[1], &values[1])?;
        let Some(head) = head.filter(|h| h.born == session.head.born) else { return Ok(()) };
        let inbox: Inbox = decode_opt(&wanted[2], &values[2])?.unwrap_or_default();
        let meta: Meta = decode_opt(&wanted[3], &values[3])?.unwrap_or_default();
        let mut queue: Queue = decode_opt(&wanted[0], &values[0])?.unwrap_or_default();
        queue.nonce = nonce(ports.clock);
        queue.jfloor = queue.jfloor.max(head.jupto);
        let mut writes = vec![
            put(keys::queue(p), &queue),
            del(place.head()),
            del(place.inbox()),
            del(place.meta()),
            del(place.journal()),
            del(keys::list_entry(p, List::Owner(owner), meta.in_owner)),
            del(keys::list_entry(p, List::Births, meta.in_births)),
        ];
        writes.extend(inbox.closed.map(|n| del(keys::slot(p, n))));
        if inbox.tasks > 0 {
            let list: IndexHead = decode_opt(&wanted[4], &values[4])?.unwrap_or_default();
            writes.push(put(wanted[4].clone(), &IndexHead { gone: list.gone + inbox.tasks, ..list }));
        }
        if let Some((id, why)) = &failed {
            // With the head gone the record falls back to Q.
            let record: Option<Submission> = decode_opt(&wanted[5], &values[5])?;
            if let Some(record) = record.filter(|r| !r.is_settled()) {
                let outcome = Outcome::Failed { error: why.clone() };
                let moved = decode_opt(&wanted[6], &values[6])?;
                settle_writes(id, &settled(&record, outcome, ports.clock.now()), moved, p, &mut writes);
                // No thread names it any more: the list of orphans does, for the audit.
                let orphans: IndexHead = decode_opt(&wanted[7], &values[7])?.unwrap_or_default();
                writes.push(put(wanted[7].clone(), &IndexHead { next: orphans.next + 1, ..orphans }));
                writes.push(put(keys::list_entry(p, List::Orphans, orphans.next), id));
            }
        }
        let guard = Guard { key: keys::queue(p), expect: values[0].clone() };
        if store::commit(ports.store, guard, &writes)? == Sent::Committed {
            return Ok(());
        }
    }
    Err(Stop::Failed(Error::Unavailable("the store is too busy to finish a deletion".into())))
}

/// The keys of the steps that a result's call has recorded.
fn steps_of(message: &Message) -> Vec<String> {
    match (message.steps, &message.submission, &message.call) {
        (Some(n), Some(id), Some(call)) => (0..n).map(|i| keys::step(id, call, i)).collect(),
        _ => Vec::new(),
    }
}
