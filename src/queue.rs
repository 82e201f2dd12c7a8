//! The partitioned queue: slots that a restart reads, and the maintenance that keeps them few (protocol §5a).

use crate::error::Error;
use crate::id::Place;
use crate::keys;
use crate::notice::{self, SETTLED};
use crate::ports::{Ports, Write};
use crate::prelude::*;
use crate::record::{Queue, Slot, Submission, decode, decode_opt};
use crate::store::{READ_MAX, del, put, read_format, read_many};
use crate::view::parse_cursor;

/// Maintenance rides in the accept whose slot number is a multiple of this.
const EVERY: u64 = 16;
/// It does nothing below so many numbers between the first slot and the next.
const SPAN_MIN: u64 = 64;
/// A plain backlog is left alone below so many.
const SPAN_BACKLOG: u64 = 256;
/// Slots that one maintenance looks at.
const LOOK: u64 = 32;
/// Live slots that one maintenance moves at most.
const MOVES_MAX: usize = 16;
/// Pieces of work of a page of `pending` at most, as `wit/runtime.wit` says.
const PENDING_MAX: usize = 256;
/// Slots that are worth a read.
const SLOTS_MIN: u64 = 64;
/// Writes of one maintenance at most.
pub const WRITES_MAX: usize = 48;

/// Drops what has settled from the front of the queue and moves what lives to its tail. Changes `queue`, which the
/// caller commits with the writes. Records are never written here: ownership has passed to the session (R1).
pub fn maintain(ports: &Ports, partition: u8, queue: &mut Queue) -> Result<Vec<Write>, Error> {
    let span = queue.next.saturating_sub(queue.first);
    if !queue.next.is_multiple_of(EVERY) || span < SPAN_MIN {
        return Ok(Vec::new());
    }
    let numbers: Vec<u64> = (queue.first..queue.first + LOOK.min(span)).collect();
    let slot_keys: Vec<String> = numbers.iter().map(|n| keys::slot(partition, *n)).collect();
    let slots: Vec<Option<Slot>> = slot_keys
        .iter()
        .zip(read_many(ports.store, &slot_keys)?)
        .map(|(key, value)| decode_opt(key, &value))
        .collect::<Result<_, _>>()?;
    let ids: Vec<&str> = slots
        .iter()
        .filter_map(|s| match s {
            Some(Slot::Submission { id, .. }) => Some(id.as_str()),
            _ => None,
        })
        .collect();
    let record_keys: Vec<String> = ids.iter().flat_map(|id| [keys::sub(id), keys::notice(id, SETTLED)]).collect();
    let mut live = BTreeMap::new();
    let values = read_many(ports.store, &record_keys)?;
    for ((id, keys), values) in ids.iter().zip(record_keys.chunks(2)).zip(values.chunks(2)) {
        let record: Option<Submission> = decode_opt(&keys[0], &values[0])?;
        // What has settled stays while somebody is still to be told.
        live.insert((*id).to_owned(), record.is_some_and(|r| !r.is_settled()) || values[1].is_some());
    }
    if live.values().filter(|l| **l).count() > MOVES_MAX && span < SPAN_BACKLOG {
        return Ok(Vec::new());
    }
    let mut writes = Vec::new();
    let mut moves = 0;
    let mut met: Vec<String> = Vec::new();
    for (n, slot) in numbers.into_iter().zip(slots) {
        match slot {
            None => {}
            Some(Slot::Delete { .. }) => break,
            // A slot that a race left behind and a later slot of the same id: one of them is enough, and `moved` can
            // stand in a commit only once.
            Some(Slot::Submission { id, .. }) if met.contains(&id) => {
                if writes.len() + 1 > WRITES_MAX {
                    break;
                }
                writes.push(del(keys::slot(partition, n)));
            }
            Some(Slot::Submission { id, tag, notify }) if live[&id] => {
                if moves == MOVES_MAX || writes.len() + 3 > WRITES_MAX {
                    break;
                }
                moves += 1;
                met.push(id.clone());
                writes.push(del(keys::slot(partition, n)));
                writes.push(put(keys::moved(&id), &queue.next));
                writes.push(put(keys::slot(partition, queue.next), &Slot::Submission { id, tag, notify }));
                queue.next += 1;
            }
            Some(Slot::Submission { id, .. }) => {
                if writes.len() + 2 > WRITES_MAX {
                    break;
                }
                writes.push(del(keys::slot(partition, n)));
                writes.push(del(keys::moved(&id)));
                met.push(id);
            }
        }
        queue.first = n + 1;
    }
    Ok(writes)
}

/// A page of what a restart must run: instances, each with the submission that names it.
pub struct Pending {
    /// Instance and submission.
    pub work: Vec<(String, Option<String>)>,
    /// Where to go on.
    pub next: Option<String>,
}

/// Pages the slots of all partitions. It reads no record: `run` decides. The cursor is `<partition>.<slot>`; a partition
/// ends at the `next` that was read with its last slots, so a slot that is moved meanwhile is not missed.
pub fn pending(ports: &Ports, cursor: Option<&str>) -> Result<Pending, Error> {
    let (partition, from) = parse_cursor(cursor);
    let format = read_format(ports)?;
    // One read tells which partitions have anything at all.
    let queue_keys: Vec<String> = (0..format.partitions).map(|p| keys::queue(p as u8)).collect();
    let queues = read_many(ports.store, &queue_keys)?;
    let mut work = Vec::new();
    for p in partition..format.partitions {
        let mut from = if p == partition { from } else { 0 };
        let Some(queue) = decode_opt::<Queue>(&queue_keys[usize::from(p)], &queues[usize::from(p)])? else { continue };
        let mut next = queue.next;
        loop {
            from = from.max(queue.first);
            if from >= next {
                break;
            }
            // What has settled costs no page of its own: a page ends only when it is nearly full.
            let slots = PENDING_MAX.saturating_sub(work.len()).min(READ_MAX - 1) as u64;
            if slots < SLOTS_MIN {
                return Ok(Pending { work, next: Some(format!("{p}.{from}")) });
            }
            let mut keys = vec![keys::queue(p as u8)];
            keys.extend((from..from + slots).map(|n| keys::slot(p as u8, n)));
            let values = read_many(ports.store, &keys)?;
            let Some(now) = &values[0] else { break };
            next = decode::<Queue>(&keys[0], now)?.next;
            for ((n, key), value) in (from..).zip(&keys[1..]).zip(values.into_iter().skip(1)) {
                // A slot that can't be read must not stop the others: it is told here, and named by the audit (A31).
                let slot = decode_opt::<Slot>(key, &value).unwrap_or_else(|error| {
                    ports.host.warn(&format!("a queue slot is passed over: {error:?}"));
                    None
                });
                let (tag, id) = match slot {
                    None => continue,
                    Some(Slot::Submission { id, tag, notify }) => {
                        if work.len() + 2 > PENDING_MAX {
                            return Ok(Pending { work, next: Some(format!("{p}.{n}")) });
                        }
                        if notify {
                            work.push((notice::instance(&id), None));
                        }
                        (tag, Some(id))
                    }
                    Some(Slot::Delete { tag }) => (tag, None),
                };
                work.push((Place { partition: p as u8, tag }.head(), id));
            }
            from += slots;
        }
    }
    Ok(Pending { work, next: None })
}
