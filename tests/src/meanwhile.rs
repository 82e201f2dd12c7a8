//! A store before one of whose reads something else happens: what was read earlier in the same request is over by then.

use std::pin::Pin;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use host_sim::store::{Guard, Outcome, Store, StoreError, Value, Write};

type Happening = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The store.
pub struct MeanwhileStore {
    inner: Arc<dyn Store>,
    next: Mutex<Option<(String, Happening)>>,
}

impl MeanwhileStore {
    /// On `inner`, where nothing happens yet.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, next: Mutex::new(None) }
    }

    /// Something that happens once, before the next read of a key that ends so.
    pub fn before(&self, end: impl Into<String>, happening: impl Future<Output = ()> + Send + 'static) {
        *self.next.lock().expect("nobody panics with it") = Some((end.into(), Box::pin(happening)));
    }

    /// The end of a wait: until a submission has its outcome in this store.
    pub fn until_settled(&self, id: &str) -> impl Future<Output = ()> + Send + 'static {
        let (inner, end) = (self.inner.clone(), format!("/sub/{id}"));
        async move {
            loop {
                let all = inner.dump().await.expect("a dump");
                let record = all.iter().find(|(key, _)| key.ends_with(&end));
                if record.is_some_and(|(_, value)| String::from_utf8_lossy(value).contains("\"outcome\"")) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        }
    }

    fn due(&self, keys: &[String]) -> Option<Happening> {
        let mut next = self.next.lock().expect("nobody panics with it");
        let is_due = next.as_ref().is_some_and(|(end, _)| keys.iter().any(|key| key.ends_with(end.as_str())));
        next.take_if(|_| is_due).map(|(_, happening)| happening)
    }
}

#[async_trait]
impl Store for MeanwhileStore {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        if let Some(happening) = self.due(&keys) {
            happening.await;
        }
        self.inner.get_many(keys).await
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
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
