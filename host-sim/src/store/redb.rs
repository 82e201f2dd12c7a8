//! The embedded default: one redb file in a folder, one thread that commits, every flush shared by all who wait.
//!
//! Commits go to the committer thread over a channel. It takes all that wait, checks each guard in the order of
//! arrival inside one write transaction, flushes once, and only then answers everybody (I1). Reads are redb read
//! transactions: each is one snapshot of flushed state, and none waits for a flush in progress.
//!
//! A flush that fails makes its whole batch *unknown*. The database is then closed and opened again before anything
//! else is served, so what is read afterwards is what recovery found and flushed. One thing no program can mend: some
//! kernels forget that a page was dirty when its flush fails. A disk that fails flushes is to be replaced.

mod committer;
mod open;
mod slot;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::thread::JoinHandle;

use ::redb::Database;
use ::redb::ReadTransaction;
use ::redb::ReadableDatabase;
use ::redb::ReadableTableMetadata;
use ::redb::StorageBackend;
use ::redb::TableDefinition;
use async_trait::async_trait;
use tokio::sync::oneshot;

use self::committer::Backlog;
use self::committer::Committer;
use self::committer::Request;
use self::open::Opener;
use self::slot::Fault;
use self::slot::Slot;
use super::Guard;
use super::Outcome;
use super::Store;
use super::StoreError;
use super::Value;
use super::Write;
use super::checks::HOST_PREFIX;
use super::checks::check_commit;
use super::checks::check_get_many;
use super::checks::commit_bytes;
use super::checks::component_key_allowed;

pub use self::open::FORMAT_VERSION;
pub use self::open::OpenError;

/// Most requests that share one flush.
pub const BATCH_REQUESTS_MAX: usize = 256;
/// No more is taken into a batch once it holds this many bytes; the request that crosses the line is still in it.
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most `append_later` calls that wait at once; what comes on top is lost, and counted.
pub const LATER_CALLS_MAX: usize = 1024;
/// Most bytes of keys and values that wait in `append_later` calls; what comes on top is lost, and counted.
pub const LATER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Memory for cached pages, in bytes.
pub const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// The one table: every key and its value.
const PAIRS: TableDefinition<&str, &[u8]> = TableDefinition::new("kv");
/// The first text after all that begin with `host/`.
const HOST_END: &str = "host0";

/// A store in one redb file. Dropping it serves what is queued, ends the committer thread, and frees the folder.
///
/// Its methods need a tokio runtime.
pub struct RedbStore {
    slot: Arc<Slot>,
    backlog: Arc<Backlog>,
    /// `None` only while dropping.
    requests: Option<mpsc::Sender<Request>>,
    committer: Option<JoinHandle<()>>,
}

impl RedbStore {
    /// Opens the store in `dir`; makes the folder and the store if they are missing. Blocks for as long as recovery
    /// after a crash takes, which does not grow with the store.
    ///
    /// The folder holds `writ.redb` and `FORMAT`, and serves one process at a time.
    ///
    /// # Errors
    /// [`OpenError`], whose text says what is wrong and what to do. A folder with a newer format is left untouched.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        Self::start(open::folder(dir)?)
    }

    /// Opens a store on storage of the caller's own: for simulated disks and their faults.
    ///
    /// `factory` is called now, and again each time the store has closed the storage after a failure; it must give
    /// the same content each time. `cache_bytes` is the memory for cached pages; [`CACHE_BYTES`] is what `open` takes.
    ///
    /// # Errors
    /// What the factory or the first opening reports.
    pub fn with_backend<B, F>(factory: F, cache_bytes: usize) -> Result<Self, OpenError>
    where
        B: StorageBackend,
        F: FnMut() -> io::Result<B> + Send + 'static,
    {
        Self::start(open::backend(factory, cache_bytes))
    }

    fn start(mut opener: Opener) -> Result<Self, OpenError> {
        let slot = Arc::new(Slot::new(opener()?));
        let backlog = Arc::new(Backlog::default());
        let (requests, queue) = mpsc::channel();
        let committer = Committer { slot: slot.clone(), backlog: backlog.clone(), opener };
        let committer = thread::Builder::new()
            .name("writ-committer".to_owned())
            .spawn(move || committer.run(&queue))
            .map_err(OpenError::Thread)?;
        Ok(Self { slot, backlog, requests: Some(requests), committer: Some(committer) })
    }

    fn send(&self, request: Request) -> Result<(), StoreError> {
        let stopped = || StoreError::Unavailable("the store has stopped".to_owned());
        self.requests.as_ref().ok_or_else(stopped)?.send(request).map_err(|_| stopped())
    }

    /// Runs one read. When the database has failed, waits until it is open again, and reads once more.
    async fn read<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Database) -> Result<T, Fault> + Clone + Send + 'static,
    {
        let failed = match self.read_once(read.clone()).await? {
            Ok(value) => return Ok(value),
            Err((fault, _)) if !fault.reopening_helps => {
                return Err(StoreError::Unavailable(fault.text));
            }
            Err((_, generation)) => generation,
        };
        let (answer, answered) = oneshot::channel();
        self.send(Request::Reopen { failed, answer })?;
        answered.await.map_err(|_| StoreError::Unavailable("the store has stopped".to_owned()))??;
        self.read_once(read).await?.map_err(|(fault, _)| StoreError::Unavailable(fault.text))
    }

    async fn read_once<T, F>(&self, read: F) -> Result<Result<T, (Fault, u64)>, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Database) -> Result<T, Fault> + Send + 'static,
    {
        // A hop to the pool costs less than a page that has to come from the disk would cost everybody on this thread.
        let slot = self.slot.clone();
        let done = tokio::task::spawn_blocking(move || slot.with(read)).await;
        done.map_err(|_| StoreError::Unavailable("the read was broken off".to_owned()))
    }
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbStore").finish_non_exhaustive()
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        // The thread ends when it has served all that was sent before this.
        self.requests = None;
        if let Some(committer) = self.committer.take() {
            // It fails only if the thread panicked, and then there is nothing left to wait for.
            let _ = committer.join();
        }
        self.slot.close("the store has been closed");
    }
}

#[async_trait]
impl Store for RedbStore {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        check_get_many(&keys)?;
        let keys = Arc::new(keys);
        self.read(move |database| values(&database.begin_read()?, &keys)).await
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        check_commit(&guard, &writes)?;
        let (answer, answered) = oneshot::channel();
        self.send(Request::Commit { guard, writes, answer })?;
        answered.await.unwrap_or_else(|_| Err(StoreError::Unknown("the store stopped before it answered".to_owned())))
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        let bytes = commit_bytes(&writes);
        let fits = check_commit(&guard, &writes).is_ok() && self.backlog.take(bytes);
        if !fits || self.send(Request::Later { guard, writes, bytes, lost: lost.clone() }).is_err() {
            lost.fetch_add(1, Ordering::SeqCst);
        }
    }

    async fn flush(&self) {
        let (answer, answered) = oneshot::channel();
        if self.send(Request::Flush(answer)).is_ok() {
            // No answer: the store has stopped, and nothing is queued any more.
            let _ = answered.await;
        }
    }

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        self.read(|database| pairs(&database.begin_read()?)).await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.read(|database| count(&database.begin_read()?)).await
    }
}

fn values(snapshot: &ReadTransaction, keys: &[String]) -> Result<Vec<Option<Value>>, Fault> {
    let table = snapshot.open_table(PAIRS)?;
    let value = |key: &String| Ok(table.get(key.as_str())?.map(|found| found.value().to_vec()));
    keys.iter().map(value).collect()
}

fn pairs(snapshot: &ReadTransaction) -> Result<Vec<(String, Value)>, Fault> {
    let mut pairs = Vec::new();
    for pair in snapshot.open_table(PAIRS)?.range::<&str>(..)? {
        let (key, value) = pair?;
        if component_key_allowed(key.value()) {
            pairs.push((key.value().to_owned(), value.value().to_vec()));
        }
    }
    Ok(pairs)
}

fn count(snapshot: &ReadTransaction) -> Result<u64, Fault> {
    let table = snapshot.open_table(PAIRS)?;
    let mut host = 0;
    for pair in table.range(HOST_PREFIX..HOST_END)? {
        pair?;
        host += 1;
    }
    Ok(table.len()?.saturating_sub(host))
}
