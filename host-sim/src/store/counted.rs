//! A store that counts what is asked of it, so that a test can assert on the cost of an operation.

use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use async_trait::async_trait;

use super::Guard;
use super::Outcome;
use super::Store;
use super::StoreError;
use super::Value;
use super::Write;

/// The calls that a [`CountedStore`] has seen. Subtract an earlier one to get the cost of what lies between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCalls {
    /// Calls of `get_many`, whatever their end.
    pub reads: u64,
    /// Keys asked for in them.
    pub keys_read: u64,
    /// Calls of `commit`, whatever their end.
    pub commits: u64,
    /// Commits that were applied.
    pub applied: u64,
    /// Commits that lost their guard.
    pub stale: u64,
    /// Writes of the applied commits, deletions included.
    pub writes: u64,
    /// Calls of `append_later`, whatever became of them.
    pub appends: u64,
}

impl Sub for StoreCalls {
    type Output = Self;

    /// The difference; a count that is smaller than the other's gives 0.
    fn sub(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            keys_read: self.keys_read.saturating_sub(earlier.keys_read),
            commits: self.commits.saturating_sub(earlier.commits),
            applied: self.applied.saturating_sub(earlier.applied),
            stale: self.stale.saturating_sub(earlier.stale),
            writes: self.writes.saturating_sub(earlier.writes),
            appends: self.appends.saturating_sub(earlier.appends),
        }
    }
}

/// Counts the calls and passes them on unchanged. `flush`, `dump` and `count` are not counted.
pub struct CountedStore {
    inner: Arc<dyn Store>,
    reads: AtomicU64,
    keys_read: AtomicU64,
    commits: AtomicU64,
    applied: AtomicU64,
    stale: AtomicU64,
    writes: AtomicU64,
    appends: AtomicU64,
}

impl CountedStore {
    /// Counts from zero what goes to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        let zero = AtomicU64::default;
        Self {
            inner,
            reads: zero(),
            keys_read: zero(),
            commits: zero(),
            applied: zero(),
            stale: zero(),
            writes: zero(),
            appends: zero(),
        }
    }

    /// The counts so far. Each is exact; calls in flight may be in one count and not yet in another.
    pub fn calls(&self) -> StoreCalls {
        let read = |count: &AtomicU64| count.load(Ordering::SeqCst);
        StoreCalls {
            reads: read(&self.reads),
            keys_read: read(&self.keys_read),
            commits: read(&self.commits),
            applied: read(&self.applied),
            stale: read(&self.stale),
            writes: read(&self.writes),
            appends: read(&self.appends),
        }
    }
}

#[async_trait]
impl Store for CountedStore {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        add(&self.reads, 1);
        add(&self.keys_read, keys.len());
        self.inner.get_many(keys).await
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        let written = writes.len();
        add(&self.commits, 1);
        let outcome = self.inner.commit(guard, writes).await?;
        match &outcome {
            Outcome::Committed => {
                add(&self.applied, 1);
                add(&self.writes, written);
            }
            Outcome::Stale(_) => add(&self.stale, 1),
        }
        Ok(outcome)
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        add(&self.appends, 1);
        self.inner.append_later(guard, writes, lost).await;
    }

    async fn flush(&self) {
        self.inner.flush().await;
    }

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        self.inner.dump().await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.inner.count().await
    }
}

fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(more as u64, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;

    #[tokio::test]
    async fn every_call_is_counted_once_and_in_its_place() {
        let store = CountedStore::new(Arc::new(MemoryStore::new()));
        let guard = |expect: Option<&[u8]>| Guard { key: "p/0/g".to_owned(), expect: expect.map(<[u8]>::to_vec) };
        let write = |key: &str| Write { key: key.to_owned(), value: Some(b"1".to_vec()) };
        let before = store.calls();
        assert_eq!(before, StoreCalls::default());

        store.get_many(vec!["p/0/g".to_owned(); 3]).await.unwrap();
        store.commit(guard(None), vec![write("p/0/g"), write("p/0/a")]).await.unwrap();
        store.commit(guard(None), vec![write("p/0/g")]).await.unwrap();
        store.commit(guard(None), vec![write("q/0/foreign")]).await.unwrap_err();
        store.append_later(guard(Some(b"1")), vec![write("p/0/b")], Arc::default()).await;
        let after = store.calls();
        let expected = StoreCalls { reads: 1, keys_read: 3, commits: 3, applied: 1, stale: 1, writes: 2, appends: 1 };
        assert_eq!(after - before, expected);
        assert_eq!(after - after, StoreCalls::default());
    }
}
