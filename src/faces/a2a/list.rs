//! `ListTasks`: an owner's tasks, the one that was accepted last first.
//!
//! The lists of all partitions, each in order of acceptance, are merged by the time of acceptance; a page token says how
//! far each was told. The order of status times can't be kept by one guard (trap 6), so it is not offered.

use super::errors::Fault;
use super::params::{Fields, Params};
use super::task::{self, Shown};
use crate::error::Error;
use crate::faces::call::Call;
use crate::faces::{session, time};
use crate::keys::{self, List};
use crate::prelude::*;
use crate::record::{Entry, Inbox, IndexHead, Submission, TaskEntry, decode_opt};
use crate::store::{READ_MAX, read_format, read_many};
use crate::{run, view};
use serde_json::{Value, json};

/// Tasks of one page.
const PAGE: u64 = 50;
/// Most tasks of one page.
const PAGE_MAX: u64 = 100;
/// Entries that one page looks at: a filter may leave few of them.
const LOOK_MAX: usize = 512;
/// Reads of lists for one page: where threads were deleted there are holes, and a page may end early.
const READS_MAX: u32 = 64;
/// Bytes of one page, about.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Longest page token, in bytes: a number of at most ten bytes for each partition, in hex.
const TOKEN_BYTES_MAX: usize = 6 * 1024;

/// What is asked for.
struct Asked<'a> {
    tenant: Option<&'a str>,
    context: Option<&'a str>,
    state: Option<&'a str>,
    since: Option<u64>,
    size: u64,
    token: Option<&'a str>,
    shown: Shown,
}

/// The states that can be asked for.
const STATES: [&str; 8] = [
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
];

impl<'a> Asked<'a> {
    fn read(params: &'a Params, tenant: Option<&'a str>) -> Result<Self, Fault> {
        let mut fields = Fields::of(params, "");
        let state = fields.text("status", 64).filter(|state| *state != "TASK_STATE_UNSPECIFIED");
        if state.is_some_and(|state| !STATES.contains(&state)) {
            fields.wrong("status", "is no state of a task");
        }
        let since = fields.text("statusTimestampAfter", 64);
        let parsed = since.map(time::parse);
        if parsed == Some(None) {
            fields.wrong("statusTimestampAfter", "is no time like 2025-01-31T12:00:00Z");
        }
        let asked = Self {
            tenant,
            context: fields.text("contextId", 512),
            state,
            since: parsed.flatten(),
            size: fields.number("pageSize", 1, PAGE_MAX).unwrap_or(PAGE),
            token: fields.text("pageToken", TOKEN_BYTES_MAX),
            shown: Shown {
                history: Some(fields.number("historyLength", 0, u64::from(u32::MAX)).unwrap_or(0)),
                artifacts: fields.flag("includeArtifacts"),
            },
        };
        fields.done()?;
        Ok(asked)
    }

    /// Whether a task is asked for, as far as its record tells.
    fn wants(&self, sub: &Submission) -> bool {
        self.tenant.is_none_or(|tenant| tenant == sub.address.agent)
    }

    /// Whether a task is asked for, as far as its status tells.
    fn wants_status(&self, status: &Value) -> bool {
        let late = |since: u64| status["timestamp"].as_str().and_then(time::parse).is_some_and(|at| at >= since);
        self.state.is_none_or(|state| status["state"] == state) && self.since.is_none_or(late)
    }
}

fn bad_token() -> Fault {
    Fault::field("pageToken", "`pageToken` is none that this server gave for this list: begin without one.")
}

/// The operation.
pub(super) fn list(call: &Call, params: &Params, tenant: Option<&str>) -> Result<Value, Fault> {
    let asked = Asked::read(params, tenant)?;
    match asked.context {
        Some(context) => of_context(call, &asked, context),
        None => of_owner(call, &asked),
    }
}

/// A page under way.
struct Page<'a, 'c> {
    call: &'a Call<'c>,
    asked: &'a Asked<'a>,
    tasks: Vec<Value>,
    size: usize,
}

impl Page<'_, '_> {
    fn full(&self) -> bool {
        self.tasks.len() as u64 >= self.asked.size || self.size >= PAGE_BYTES
    }

    fn add(&mut self, id: &str, sub: &Submission) -> Result<(), Error> {
        if !self.asked.wants(sub) {
            return Ok(());
        }
        let (task, _) = task::task(&self.call.ports, id, sub, self.asked.shown)?;
        if self.asked.wants_status(&task["status"]) {
            self.size += task.to_string().len();
            self.tasks.push(task);
        }
        Ok(())
    }

    fn done(self, next: Option<String>, total: u64) -> Value {
        json!({
            "tasks": self.tasks, "nextPageToken": next.unwrap_or_default(), "pageSize": self.asked.size,
            "totalSize": total.min(i32::MAX as u64),
        })
    }
}

/// The tasks of one context: its inbox, backwards. The token is the number of the entry before which to go on.
fn of_context(call: &Call, asked: &Asked, context: &str) -> Result<Value, Fault> {
    let mut page = Page { call, asked, tasks: Vec::new(), size: 0 };
    let token = match asked.token {
        None => None,
        Some(token) => Some(token.strip_prefix('k').and_then(|n| n.parse::<u64>().ok()).ok_or_else(bad_token)?),
    };
    // A context that is not there, or not the caller's, has no tasks: both look the same (I13).
    let Some(address) = session::address(&call.owner, context) else { return Ok(page.done(None, 0)) };
    let found = match view::find_thread(&call.ports, &address) {
        Ok(found) => found,
        Err(crate::error::Refusal::Problem(problem)) if problem.status == 404 => return Ok(page.done(None, 0)),
        Err(refusal) => return Err(refusal.into()),
    };
    let (place, _, inbox): (_, _, Inbox) = found;
    let mut before = token.unwrap_or(inbox.next);
    if before > inbox.next {
        return Err(bad_token());
    }
    let mut looked = 0;
    while before > 0 && looked < LOOK_MAX && !page.full() {
        let from = before.saturating_sub(asked.size.min(64));
        let entries = run::entries(&call.ports, &place, from, before)?;
        let named = |(k, entry): (u64, Entry)| match entry {
            Entry::Submit(id) => Some((k, id)),
            _ => None,
        };
        let ids: Vec<(u64, String)> = entries.into_iter().filter_map(named).collect();
        let records = run::records(&call.ports, ids.iter().map(|(_, id)| id.clone()).collect())?;
        looked += (before - from) as usize;
        before = from;
        for (k, id) in ids.iter().rev() {
            if page.full() {
                before = k + 1;
                break;
            }
            if let Some(sub) = records.get(id).filter(|sub| sub.task.is_some()) {
                page.add(id, sub)?;
            }
        }
    }
    Ok(page.done((before > 0).then(|| format!("k{before}")), inbox.tasks))
}

/// One partition's list, read backwards.
struct Source {
    partition: u8,
    /// Entries before this one are still to be read.
    before: u64,
    /// Those that were read and not told, the last first to be told. With their numbers.
    ready: Vec<(u64, TaskEntry)>,
    /// How many to read next.
    batch: u64,
}

impl Source {
    /// Entries before this one are still to be told.
    fn rest(&self) -> u64 {
        self.ready.last().map_or(self.before, |(n, _)| n + 1)
    }

    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.before > 0
    }
}

/// All tasks of the owner. The token says for each partition before which entry to go on.
fn of_owner(call: &Call, asked: &Asked) -> Result<Value, Fault> {
    let partitions = read_format(&call.ports)?.partitions;
    let owner = List::Tasks(&call.owner);
    let names: Vec<String> = (0..partitions).map(|p| keys::list(p as u8, owner)).collect();
    let mut heads = Vec::new();
    for (name, value) in names.iter().zip(read_many(call.ports.store, &names)?) {
        heads.push(decode_opt::<IndexHead>(name, &value)?.unwrap_or_default());
    }
    let before = match asked.token {
        None => heads.iter().map(|head| head.next).collect(),
        Some(token) => unpacked(token).filter(|t: &Vec<u64>| t.len() == heads.len()).ok_or_else(bad_token)?,
    };
    if before.iter().zip(&heads).any(|(before, head)| *before > head.next) {
        return Err(bad_token());
    }
    let total: u64 = heads.iter().map(|head| head.next.saturating_sub(head.gone)).sum();
    let used = before.iter().filter(|before| **before > 0).count().max(1);
    let batch = ((READ_MAX / used) as u64).clamp(1, asked.size + 1);
    let mut sources: Vec<Source> = (0..partitions)
        .zip(&before)
        .map(|(p, before)| Source { partition: p as u8, before: *before, ready: Vec::new(), batch })
        .collect();
    let mut page = Page { call, asked, tasks: Vec::new(), size: 0 };
    let (mut looked, mut reads) = (0, READS_MAX);
    while looked < LOOK_MAX && !page.full() {
        let wanted = (asked.size as usize - page.tasks.len()).min(LOOK_MAX - looked);
        let ids = newest(call, &mut sources, wanted, &mut reads)?;
        if ids.is_empty() {
            break;
        }
        looked += ids.len();
        let records = run::records(&call.ports, ids.iter().map(|(_, _, id)| id.clone()).collect())?;
        for (at, n, id) in ids {
            if page.full() {
                // It is told on the next page, with all that come after it.
                let source = &mut sources[at];
                source.before = source.before.max(n + 1);
                source.ready.clear();
                continue;
            }
            if let Some(sub) = records.get(&id).filter(|sub| sub.address.owner == call.owner) {
                page.add(&id, sub)?;
            }
        }
    }
    let rest: Vec<u64> = sources.iter().map(Source::rest).collect();
    let next = rest.iter().any(|rest| *rest > 0).then(|| packed(&rest));
    Ok(page.done(next, total))
}

/// Takes the newest entries, so many at most: each with its source and its number in it.
fn newest(
    call: &Call,
    sources: &mut [Source],
    most: usize,
    reads: &mut u32,
) -> Result<Vec<(usize, u64, String)>, Error> {
    let mut taken = Vec::new();
    while taken.len() < most && fill(call, sources, reads)? {
        let newest =
            sources.iter().enumerate().filter_map(|(at, source)| Some((source.ready.last()?.1.created, at))).max();
        let Some((_, at)) = newest else { break };
        if let Some((n, entry)) = sources[at].ready.pop() {
            taken.push((at, n, entry.id));
        }
    }
    Ok(taken)
}

/// Reads on where nothing is ready: each time twice as much, so that the reads of a page are few. False: the page has no
/// more of them, and can't tell which entry is the newest.
fn fill(call: &Call, sources: &mut [Source], reads: &mut u32) -> Result<bool, Error> {
    while sources.iter().any(Source::is_empty) {
        if *reads == 0 {
            return Ok(false);
        }
        *reads -= 1;
        let (mut wanted, mut whose) = (Vec::new(), Vec::new());
        for (at, source) in sources.iter_mut().enumerate().filter(|(_, source)| source.is_empty()) {
            let room = (READ_MAX - wanted.len()) as u64;
            let from = source.before.saturating_sub(source.batch.min(room));
            for n in from..source.before {
                wanted.push(keys::list_entry(source.partition, List::Tasks(&call.owner), n));
                whose.push((at, n));
            }
            source.batch = (source.batch * 2).min(64);
            source.before = from;
        }
        let values = read_many(call.ports.store, &wanted)?;
        for (((at, n), key), value) in whose.into_iter().zip(&wanted).zip(values) {
            if let Some(entry) = decode_opt::<TaskEntry>(key, &value)? {
                sources[at].ready.push((n, entry));
            }
        }
    }
    Ok(true)
}

/// Numbers as hex of bytes with seven bits each, the lowest first.
fn packed(numbers: &[u64]) -> String {
    let mut bytes = Vec::new();
    for number in numbers {
        let mut rest = *number;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    crate::id::hex(&bytes)
}

fn unpacked(text: &str) -> Option<Vec<u64>> {
    let hex = text.len().is_multiple_of(2) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let (mut numbers, mut number, mut shift) = (Vec::new(), 0u64, 0);
    for at in (0..text.len()).step_by(2).filter(|_| hex) {
        let byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte < 0x80 {
            numbers.push(core::mem::take(&mut number));
            shift = 0;
        }
    }
    (hex && shift == 0).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_token_reads_back() {
        for numbers in [vec![], vec![0, 1, 127, 128, 300, u64::MAX]] {
            assert_eq!(unpacked(&packed(&numbers)), Some(numbers));
        }
        let longest = packed(&[u64::MAX; 256]);
        assert!(longest.len() <= TOKEN_BYTES_MAX, "{}", longest.len());
        for bad in ["0", "8", "80", "zz", "ffffffffffffffffffffffff", "é0"] {
            assert_eq!(unpacked(bad), None, "{bad}");
        }
    }
}
