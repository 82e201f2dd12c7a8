//! A store whose queued writes for the journal are lost, or late.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use host_sim::store::{Guard, Outcome, Store, StoreError, Value, Write};

/// What becomes of a queued write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appends {
    /// It is lost.
    Lost,
    /// Each second one is lost.
    HalfLost,
    /// It comes when the test says so.
    Late,
}

/// The store; its commits and reads are sound.
pub struct AppendsStore {
    inner: Arc<dyn Store>,
    fate: Appends,
    seen: AtomicU32,
    late: Mutex<Vec<(Guard, Vec<Write>)>>,
}

impl AppendsStore {
    /// On `inner`.
    pub fn new(inner: Arc<dyn Store>, fate: Appends) -> Self {
        Self { inner, fate, seen: AtomicU32::new(0), late: Mutex::default() }
    }

    /// The late writes come now, in order; how many calls they were, and how many were dropped.
    pub async fn come(&self) -> (u32, u32) {
        let late = std::mem::take(&mut *self.late.lock().unwrap_or_else(PoisonError::into_inner));
        let (calls, dropped) = (late.len() as u32, Arc::new(AtomicU32::new(0)));
        for (guard, writes) in late {
            self.inner.append_later(guard, writes, dropped.clone()).await;
        }
        self.inner.flush().await;
        (calls, dropped.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl Store for AppendsStore {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        self.inner.get_many(keys).await
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        self.inner.commit(guard, writes).await
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        let n = self.seen.fetch_add(1, Ordering::SeqCst);
        match self.fate {
            Appends::Late => self.late.lock().unwrap_or_else(PoisonError::into_inner).push((guard, writes)),
            Appends::HalfLost if n.is_multiple_of(2) => self.inner.append_later(guard, writes, lost).await,
            Appends::Lost | Appends::HalfLost => drop(lost.fetch_add(1, Ordering::SeqCst)),
        }
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
