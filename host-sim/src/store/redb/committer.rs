//! The committer thread: takes what waits, applies it in order in one transaction, flushes, answers.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use std::time::Instant;

use redb::Database;
use redb::Durability;
use redb::ReadableTable;
use redb::Table;
use redb::WriteTransaction;
use tokio::sync::oneshot;

use super::BATCH_BYTES_MAX;
use super::BATCH_REQUESTS_MAX;
use super::LATER_BYTES_MAX;
use super::LATER_CALLS_MAX;
use super::PAIRS;
use super::open::Opener;
use super::slot::Fault;
use super::slot::Slot;
use crate::store::Guard;
use crate::store::Outcome;
use crate::store::StoreError;
use crate::store::Write;
use crate::store::checks::commit_bytes;

/// How long a batch of nothing but appends waits for more. A commit or a flush ends the wait at once.
const LATER_LINGER: Duration = Duration::from_millis(20);

/// What the committer is asked. Commits and appends have passed the checks.
pub(super) enum Request {
    /// Apply, flush, answer.
    Commit { guard: Guard, writes: Vec<Write>, answer: oneshot::Sender<Result<Outcome, StoreError>> },
    /// Apply or lose, without an answer. `bytes` are what it holds of the backlog.
    Later { guard: Guard, writes: Vec<Write>, bytes: usize, lost: Arc<AtomicU32> },
    /// Answer when all that was sent before has been applied or lost.
    Flush(oneshot::Sender<()>),
    /// A reader met a failure of this generation of the database: open it again, and say how that went.
    Reopen { failed: u64, answer: oneshot::Sender<Result<(), StoreError>> },
}

/// What waits of `append_later`: it must not grow without bound while a disk is slow.
#[derive(Default)]
pub(super) struct Backlog {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

impl Backlog {
    /// Makes room for one call of this many bytes; false when there is none.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let calls = self.calls.fetch_add(1, Ordering::SeqCst);
        let held = self.bytes.fetch_add(bytes, Ordering::SeqCst);
        let fits = calls < LATER_CALLS_MAX && held + bytes <= LATER_BYTES_MAX;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.calls.fetch_sub(1, Ordering::SeqCst);
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// The state of the committer thread.
pub(super) struct Committer {
    pub(super) slot: Arc<Slot>,
    pub(super) backlog: Arc<Backlog>,
    pub(super) opener: Opener,
}

impl Committer {
    /// Serves until the store is dropped and all that it sent has been served.
    pub(super) fn run(mut self, queue: &Receiver<Request>) {
        while let Some(batch) = next_batch(queue) {
            let result = if batch.iter().any(Request::writes_something) { self.commit(&batch) } else { Ok(vec![]) };
            self.answer(batch, result);
        }
    }

    /// Applies and flushes a batch. A failure before anything could be stored is met with one reopening and one more
    /// try; after any failure the database has been opened again, or stays closed until the next request.
    fn commit(&mut self, batch: &[Request]) -> Result<Vec<Outcome>, StoreError> {
        let result = match self.slot.with(|database| apply(database, batch)) {
            Err((Failure::NotApplied(_), generation)) => {
                self.reopen(generation)?;
                self.slot.with(|database| apply(database, batch))
            }
            result => result,
        };
        result.map_err(|(failure, generation)| {
            // If it can't be opened, the next request tries again and reports it.
            let _ = self.reopen(generation);
            match failure {
                Failure::NotApplied(fault) => StoreError::Unavailable(fault.text),
                Failure::Flush(fault) => StoreError::Unknown(format!("the flush failed: {}", fault.text)),
            }
        })
    }

    fn reopen(&mut self, failed: u64) -> Result<(), StoreError> {
        let opener = &mut self.opener;
        let opened = self.slot.replace(failed, || opener().map_err(|error| error.to_string()));
        opened.map_err(|text| StoreError::Unavailable(format!("the database could not be opened again: {text}")))
    }

    /// Answers a batch; `result` has one outcome for each request that writes, in order.
    fn answer(&mut self, batch: Vec<Request>, result: Result<Vec<Outcome>, StoreError>) {
        let mut result = result.map(Vec::into_iter);
        let mut next = || match &mut result {
            Ok(outcomes) => outcomes.next().ok_or_else(|| StoreError::Unknown("no outcome was recorded".to_owned())),
            Err(error) => Err(error.clone()),
        };
        for request in batch {
            // A failed send means that nobody waits for the answer any more.
            match request {
                Request::Commit { answer, .. } => drop(answer.send(next())),
                Request::Later { bytes, lost, .. } => {
                    if next() != Ok(Outcome::Committed) {
                        lost.fetch_add(1, Ordering::SeqCst);
                    }
                    self.backlog.give_back(bytes);
                }
                Request::Flush(answer) => drop(answer.send(())),
                Request::Reopen { failed, answer } => drop(answer.send(self.reopen(failed))),
            }
        }
    }
}

impl Request {
    fn writes_something(&self) -> bool {
        self.change().is_some()
    }

    fn change(&self) -> Option<(&Guard, &[Write])> {
        match self {
            Self::Commit { guard, writes, .. } | Self::Later { guard, writes, .. } => Some((guard, writes)),
            Self::Flush(_) | Self::Reopen { .. } => None,
        }
    }

    /// Whether somebody waits for the answer.
    fn is_awaited(&self) -> bool {
        !matches!(self, Self::Later { .. })
    }

    fn bytes(&self) -> usize {
        self.change().map_or(0, |(_, writes)| commit_bytes(writes))
    }
}

/// Waits for a request, and takes what else waits, up to the limits of a batch. Appends alone wait for more, since
/// nobody waits for them: so that they share a flush. `None`: the store has been dropped.
fn next_batch(queue: &Receiver<Request>) -> Option<Vec<Request>> {
    let first = queue.recv().ok()?;
    let linger = Instant::now() + LATER_LINGER;
    let mut bytes = first.bytes();
    let mut awaited = first.is_awaited();
    let mut batch = vec![first];
    while batch.len() < BATCH_REQUESTS_MAX && bytes < BATCH_BYTES_MAX {
        let next = match awaited {
            true => queue.try_recv().ok(),
            false => queue.recv_timeout(linger.saturating_duration_since(Instant::now())).ok(),
        };
        let Some(request) = next else { break };
        bytes += request.bytes();
        awaited |= request.is_awaited();
        batch.push(request);
    }
    Some(batch)
}

/// Why a batch has no outcomes.
enum Failure {
    /// Nothing was applied and nothing will be.
    NotApplied(Fault),
    /// It may be stored, and may not.
    Flush(Fault),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::NotApplied(fault)
    }
}

/// Applies a batch in one transaction and flushes it. Gives one outcome for each request that writes, in order.
fn apply(database: &Database, batch: &[Request]) -> Result<Vec<Outcome>, Failure> {
    let (transaction, outcomes) = prepare(database, batch)?;
    if let Some(transaction) = transaction {
        transaction.commit().map_err(|error| Failure::Flush(error.into()))?;
    }
    Ok(outcomes)
}

/// Applies a batch to a transaction that is still to be committed.
///
/// Each guard is checked against what the requests before it in the batch have written. There is no transaction when
/// nothing was written: then there is nothing to flush, and every value that a guard lost to is flushed already.
fn prepare(database: &Database, batch: &[Request]) -> Result<(Option<WriteTransaction>, Vec<Outcome>), Fault> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    // Recovery after a crash then takes a moment, however large the file has grown.
    transaction.set_quick_repair(true);
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut written = false;
    {
        let mut table = transaction.open_table(PAIRS)?;
        for (guard, writes) in batch.iter().filter_map(Request::change) {
            let outcome = apply_one(&mut table, guard, writes)?;
            written |= outcome == Outcome::Committed && !writes.is_empty();
            outcomes.push(outcome);
        }
    }
    if written {
        return Ok((Some(transaction), outcomes));
    }
    transaction.abort()?;
    Ok((None, outcomes))
}

fn apply_one(table: &mut Table<'_, &str, &[u8]>, guard: &Guard, writes: &[Write]) -> Result<Outcome, Fault> {
    let current = table.get(guard.key.as_str())?.map(|found| found.value().to_vec());
    if current != guard.expect {
        return Ok(Outcome::Stale(current));
    }
    for write in writes {
        match &write.value {
            Some(value) => table.insert(write.key.as_str(), value.as_slice())?,
            None => table.remove(write.key.as_str())?,
        };
    }
    Ok(Outcome::Committed)
}
