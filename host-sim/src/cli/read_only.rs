//! A store that can't be written: what `inspect`, `explain`, `check` and `export` give to the component, so that looking
//! at a store can't change it, whatever the component does.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use async_trait::async_trait;

use crate::store::Guard;
use crate::store::Outcome;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Value;
use crate::store::Write;

/// Refuses every write.
pub struct ReadOnly(pub Arc<dyn Store>);

#[async_trait]
impl Store for ReadOnly {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        self.0.get_many(keys).await
    }

    async fn commit(&self, _: Guard, _: Vec<Write>) -> Result<Outcome, StoreError> {
        Err(StoreError::Unavailable("the store was opened to read only".into()))
    }

    async fn append_later(&self, _: Guard, _: Vec<Write>, lost: Arc<AtomicU32>) {
        lost.fetch_add(1, Ordering::Relaxed);
    }

    async fn flush(&self) {}

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        self.0.dump().await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.0.count().await
    }
}
