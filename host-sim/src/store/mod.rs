//! Stores: one trait, and what every store must do. See `wit/kv.wit` for the contract in full.

pub mod checks;
pub mod conformance;
pub mod counted;
pub mod fault;
pub mod memory;
pub mod redb;

use async_trait::async_trait;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// Largest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 256 * 1024;
/// Most keys in one `get_many`.
pub const READ_KEYS_MAX: usize = 256;
/// Most writes in one commit, the guard's included.
pub const COMMIT_WRITES_MAX: usize = 64;
/// Largest commit, in bytes: all keys and values of its writes.
pub const COMMIT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A value as stored.
pub type Value = Vec<u8>;

/// The condition of a commit: `key` holds exactly `expect` (`None`: is absent).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The guard key; it names the commit's partition.
    pub key: String,
    /// The value that it must hold.
    pub expect: Option<Value>,
}

/// One write: `None` deletes the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: String,
    /// Its new value.
    pub value: Option<Value>,
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Applied and flushed.
    Committed,
    /// Not applied: the guard key held this.
    Stale(Option<Value>),
}

/// Why a store did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Over a limit; nothing was applied.
    #[error("too large: {0}")]
    TooLarge(String),
    /// Outside the partition, a key given twice, or a reserved key; nothing was applied.
    #[error("denied: {0}")]
    Denied(String),
    /// Not reached; nothing was applied and nothing will be.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// May have been applied, and may still be.
    #[error("unknown: {0}")]
    Unknown(String),
}

/// The partition of a key: the text before its second `/`, or the whole key.
pub fn partition(key: &str) -> &str {
    match key.match_indices('/').nth(1) {
        Some((at, _)) => &key[..at],
        None => key,
    }
}

/// A store: point reads, guarded commits, and the journal's queued appends.
///
/// Keys that begin with `host/` are the host's own; the component can't reach them.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The values of up to [`READ_KEYS_MAX`] keys as one snapshot of flushed state, in the order asked.
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError>;

    /// Applies and flushes all writes, or none.
    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError>;

    /// Queues journal writes: applied in order while the guard holds, otherwise dropped. Never waits for the disk.
    /// `lost` is raised by one when they are dropped.
    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: std::sync::Arc<std::sync::atomic::AtomicU32>);

    /// Waits for all that `append_later` has queued before this call.
    async fn flush(&self);

    /// Every key and value outside `host/`, in key order: for tests and leak checks, never for serving.
    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError>;

    /// The number of keys outside `host/`.
    async fn count(&self) -> Result<u64, StoreError>;
}
