//! A model that remembers what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use host_sim::model::{Completion, Description, Model, ModelError, ModelRequest};
use serde_json::Value;

/// The model.
pub struct WatchedModel {
    inner: Arc<dyn Model>,
    requests: Mutex<Vec<ModelRequest>>,
    failures: Mutex<VecDeque<ModelError>>,
}

impl WatchedModel {
    /// Passes everything on to `inner`.
    pub fn new(inner: Arc<dyn Model>) -> Self {
        Self { inner, requests: Mutex::default(), failures: Mutex::default() }
    }

    /// How often it was asked, for answers and summaries.
    pub fn calls(&self) -> usize {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How often it was asked for a summary.
    pub fn summaries(&self) -> usize {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().filter(|r| r.options.contains("\"summary\"")).count()
    }

    /// The keys of all requests, in order.
    pub fn keys(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().map(|r| r.key.clone()).collect()
    }

    /// The next answer fails with this.
    pub fn fail_next(&self, error: ModelError) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push_back(error);
    }

    /// The last request's messages, in short: role and first text.
    pub fn last_context(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let messages: Vec<Value> =
            requests.last().map(|r| serde_json::from_str(&r.messages).expect("JSON")).unwrap_or_default();
        messages.iter().map(crate::line).collect()
    }
}

#[async_trait]
impl Model for WatchedModel {
    async fn describe(&self, name: &str) -> Result<Description, ModelError> {
        self.inner.describe(name).await
    }

    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        let failure = match request.options.contains("\"summary\"") {
            true => None,
            false => self.failures.lock().unwrap_or_else(PoisonError::into_inner).pop_front(),
        };
        match failure {
            Some(error) => Err(error),
            None => self.inner.start(request).await,
        }
    }
}
