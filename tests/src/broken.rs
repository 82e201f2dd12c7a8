//! A store that a test breaks and mends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use async_trait::async_trait;
use host_sim::store::{Guard, Outcome, Store, StoreError, Value, Write};

/// How a store is broken.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Broken {
    /// It is not.
    No,
    /// It is not reached.
    Gone,
    /// What is read is no value.
    Damaged,
    /// No commit finds its guard.
    Busy,
    /// What runs commit is refused.
    Idle,
}

/// The store.
pub struct BrokenStore {
    inner: Arc<dyn Store>,
    how: AtomicU8,
}

impl BrokenStore {
    /// On `inner`, sound.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, how: AtomicU8::new(Broken::No as u8) }
    }

    fn is(&self, how: Broken) -> bool {
        self.how.load(Ordering::SeqCst) == how as u8
    }

    /// Breaks it, or mends it.
    pub fn break_it(&self, how: Broken) {
        self.how.store(how as u8, Ordering::SeqCst);
    }
}

#[async_trait]
impl Store for BrokenStore {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        if self.is(Broken::Gone) {
            return Err(StoreError::Unavailable("not reached".into()));
        }
        let found = self.inner.get_many(keys).await?;
        let damaged = self.is(Broken::Damaged);
        Ok(found.into_iter().map(|value| if damaged { Some(b"{".to_vec()) } else { value }).collect())
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        if self.is(Broken::Busy) {
            return Ok(Outcome::Stale(None));
        }
        if self.is(Broken::Idle) && guard.key.contains("/ses/") {
            return Err(StoreError::Unavailable("not reached".into()));
        }
        self.inner.commit(guard, writes).await
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
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
