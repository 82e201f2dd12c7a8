//! A store in memory: for tests and for trying things out. Nothing outlives the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use async_trait::async_trait;

use super::Guard;
use super::Outcome;
use super::Store;
use super::StoreError;
use super::Value;
use super::Write;
use super::checks::check_commit;
use super::checks::check_get_many;
use super::checks::component_key_allowed;

/// A store in memory. What is applied counts as flushed, and an `append_later` is applied during the call.
#[derive(Debug, Default)]
pub struct MemoryStore {
    pairs: Mutex<BTreeMap<String, Value>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    // The map is whole after every step, so a panic elsewhere leaves nothing to distrust.
    fn pairs(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, guard: &Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        check_commit(guard, &writes)?;
        let mut pairs = self.pairs();
        let current = pairs.get(&guard.key);
        if current != guard.expect.as_ref() {
            return Ok(Outcome::Stale(current.cloned()));
        }
        for write in writes {
            match write.value {
                Some(value) => pairs.insert(write.key, value),
                None => pairs.remove(&write.key),
            };
        }
        Ok(Outcome::Committed)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        check_get_many(&keys)?;
        let pairs = self.pairs();
        Ok(keys.iter().map(|key| pairs.get(key).cloned()).collect())
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        self.apply(&guard, writes)
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        if self.apply(&guard, writes) != Ok(Outcome::Committed) {
            lost.fetch_add(1, Ordering::SeqCst);
        }
    }

    async fn flush(&self) {}

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        let pairs = self.pairs();
        let shown = pairs.iter().filter(|(key, _)| component_key_allowed(key));
        Ok(shown.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    async fn count(&self) -> Result<u64, StoreError> {
        Ok(self.pairs().keys().filter(|key| component_key_allowed(key)).count() as u64)
    }
}
