//! The audit: the invariants of the design, checked over a whole store, page by page. Reads only.
//!
//! Without a scan everything is reached from the partitions: queues and their slots, the lists of owners and births, and
//! from each thread's head its messages, its inbox and the submissions that this names. Each page also counts the keys
//! that it accounts for, so that a host which can count its keys finds leaked ones.

mod thread;

use crate::error::Error;
use crate::id::Place;
use crate::keys::{self, List};
use crate::ports::{Bytes, Ports};
use crate::prelude::*;
use crate::record::*;
use crate::store::{read, read_many};
use serde::de::DeserializeOwned;

/// Slots, owners or inbox entries of one page.
const PAGE: u64 = 100;

/// An invariant that is broken, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `I1` to `I16`, or `format`.
    pub invariant: &'static str,
    /// The key.
    pub key: String,
    /// What is wrong.
    pub text: String,
}

/// What a page found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// What is broken.
    pub findings: Vec<Finding>,
    /// Threads looked at.
    pub threads: u32,
    /// Submissions looked at.
    pub submissions: u32,
    /// Messages looked at.
    pub messages: u64,
    /// Keys accounted for.
    pub keys: u64,
    /// Where to go on.
    pub next: Option<String>,
}

impl Page {
    pub(crate) fn find(&mut self, invariant: &'static str, key: &str, text: impl Into<String>) {
        self.findings.push(Finding { invariant, key: key.to_owned(), text: text.into() });
    }

    /// Counts a key that is there, and reads its value; one that can't be read is a finding.
    pub(crate) fn value<T: DeserializeOwned>(&mut self, key: &str, value: &Option<Bytes>) -> Option<T> {
        let bytes = value.as_ref()?;
        self.keys += 1;
        match decode(key, bytes) {
            Ok(value) => Some(value),
            Err(error) => {
                let text = match error {
                    Error::Corrupt { why, .. } | Error::Unavailable(why) => why,
                };
                self.find("format", key, text);
                None
            }
        }
    }
}

/// Where a page begins: a partition, one of its parts, and two numbers that the part understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    partition: u16,
    part: u8,
    n: u64,
    m: u64,
}

impl Cursor {
    fn parse(text: Option<&str>) -> Self {
        let numbers: Vec<u64> = text.unwrap_or_default().split('.').filter_map(|n| n.parse().ok()).collect();
        match numbers[..] {
            [p, part, n, m] => Self { partition: p.min(256) as u16, part: part.min(9) as u8, n, m },
            _ => Self { partition: 0, part: 0, n: 0, m: 0 },
        }
    }

    fn text(self) -> String {
        format!("{}.{}.{}.{}", self.partition, self.part, self.n, self.m)
    }

    fn part(self, part: u8) -> Self {
        Self { part, n: 0, m: 0, ..self }
    }
}

/// One page of the audit; `None` starts.
pub fn page(ports: &Ports, cursor: Option<&str>) -> Result<Page, Error> {
    let mut page = Page::default();
    let [format, paused] = read(ports.store, [keys::FORMAT.into(), keys::PAUSED.into()])?;
    if format.is_none() {
        return Ok(page);
    }
    let Some(format) = crate::store::format(ports, &format)? else { return Ok(page) };
    if cursor.is_none() {
        page.keys += 1;
        let _: Option<Paused> = page.value(keys::PAUSED, &paused);
    }
    let at = skip_empty(ports, Cursor::parse(cursor), format.partitions)?;
    if at.partition >= format.partitions {
        return Ok(page);
    }
    let next = match at.part {
        0 => slots(ports, at, &mut page)?,
        1 => {
            let list = |owner: &str| keys::list(at.partition as u8, List::Owner(owner));
            // An owner that has only copied has no tasks.
            let tasks = |owner: &str| Some(keys::list(at.partition as u8, List::Tasks(owner)));
            named::<IndexHead>(ports, at, &mut page, List::Owners, list, tasks)?
        }
        2 => named::<Submission>(ports, at, &mut page, List::Orphans, keys::sub, |_| None)?,
        _ => births(ports, at, &mut page)?,
    };
    page.next = (next.partition < format.partitions).then(|| next.text());
    Ok(page)
}

/// The first partition from the cursor on that has a queue: nothing is anywhere else.
fn skip_empty(ports: &Ports, at: Cursor, partitions: u16) -> Result<Cursor, Error> {
    if at.part > 0 || at.n > 0 || at.partition >= partitions {
        return Ok(at);
    }
    let queues: Vec<String> = (at.partition..partitions).map(|p| keys::queue(p as u8)).collect();
    let used = read_many(ports.store, &queues)?.iter().position(Option::is_some);
    let partition = used.map_or(partitions, |i| at.partition + i as u16);
    Ok(Cursor { partition, ..at.part(0) })
}

/// A partition's queue and its slots.
fn slots(ports: &Ports, at: Cursor, page: &mut Page) -> Result<Cursor, Error> {
    let p = at.partition as u8;
    let key = keys::queue(p);
    let [value] = read(ports.store, [key.clone()])?;
    let mut own = Page::default();
    let Some(queue) = own.value::<Queue>(&key, &value) else {
        page.findings.append(&mut own.findings);
        return Ok(at.part(1));
    };
    if at.n == 0 {
        page.keys += own.keys;
    }
    let from = at.n.max(queue.first);
    let end = queue.next.min(from + PAGE);
    let names: Vec<String> = (from..end).map(|n| keys::slot(p, n)).collect();
    for (name, value) in names.iter().zip(read_many(ports.store, &names)?) {
        if let Some(Slot::Submission { id, tag, .. }) = page.value::<Slot>(name, &value) {
            let named = Place { partition: p, tag };
            if crate::id::partition_of_id(&id) != Some(p) {
                page.find("I14", name, format!("names {id}, of another partition than {}", named.head()));
            }
        }
    }
    Ok(if end < queue.next { Cursor { n: end, ..at } } else { at.part(1) })
}

/// A list whose entries each name one more key, and perhaps another: that of owners, their lists; that of orphans, their
/// records.
fn named<T: DeserializeOwned>(
    ports: &Ports,
    at: Cursor,
    page: &mut Page,
    list: List,
    target: impl Fn(&str) -> String,
    optional: impl Fn(&str) -> Option<String>,
) -> Result<Cursor, Error> {
    let p = at.partition as u8;
    let key = keys::list(p, list);
    let [value] = read(ports.store, [key.clone()])?;
    let mut own = Page::default();
    let head: IndexHead = own.value(&key, &value).unwrap_or_default();
    if at.n == 0 {
        page.keys += own.keys;
        page.findings.append(&mut own.findings);
    }
    let end = head.next.min(at.n + PAGE);
    let names: Vec<String> = (at.n..end).map(|n| keys::list_entry(p, list, n)).collect();
    let (mut targets, mut optionals) = (Vec::new(), Vec::new());
    for (name, value) in names.iter().zip(read_many(ports.store, &names)?) {
        match page.value::<String>(name, &value) {
            Some(entry) => {
                targets.push(target(&entry));
                optionals.extend(optional(&entry));
            }
            None => page.find("I15", name, "an entry of a list is missing"),
        }
    }
    for (name, value) in targets.iter().zip(read_many(ports.store, &targets)?) {
        if page.value::<T>(name, &value).is_none() {
            page.find("I15", name, "a list names it, and it is missing");
        }
    }
    for (name, value) in optionals.iter().zip(read_many(ports.store, &optionals)?) {
        let _: Option<T> = page.value(name, &value);
    }
    Ok(if end < head.next { Cursor { n: end, ..at } } else { at.part(at.part + 1) })
}

/// The next thread of a partition, or the next page of it.
fn births(ports: &Ports, at: Cursor, page: &mut Page) -> Result<Cursor, Error> {
    let p = at.partition as u8;
    let head = keys::list(p, List::Births);
    let [value] = read(ports.store, [head.clone()])?;
    let list: IndexHead = match at.n + at.m {
        0 => page.value(&head, &value).unwrap_or_default(),
        _ => decode_opt(&head, &value)?.unwrap_or_default(),
    };
    let end = list.next.min(at.n + PAGE);
    let names: Vec<String> = (at.n..end).map(|n| keys::list_entry(p, List::Births, n)).collect();
    for ((n, name), value) in (at.n..end).zip(&names).zip(read_many(ports.store, &names)?) {
        // A deleted thread leaves a hole.
        let Some(bytes) = value else { continue };
        // The page of the thread counts the key.
        let mut entry = Page::default();
        let Some(tag) = entry.value(name, &Some(bytes)) else {
            page.findings.append(&mut entry.findings);
            continue;
        };
        let place = Place { partition: p, tag };
        let from = if n == at.n { at.m } else { 0 };
        return Ok(match thread::page(ports, &place, n, from, page)? {
            Some(m) => Cursor { n, m, ..at },
            None => Cursor { n: n + 1, m: 0, ..at },
        });
    }
    Ok(if end < list.next {
        Cursor { n: end, m: 0, ..at }
    } else {
        Cursor { partition: at.partition + 1, part: 0, n: 0, m: 0 }
    })
}
