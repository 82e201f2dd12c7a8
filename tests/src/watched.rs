//! A model that remembers what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use host_sim::model::{Completion, Description, Model, ModelError, ModelRequest};
use serde_json::Value;
use tokio::sync::Semaphore;

/// The model.
pub struct WatchedModel {
    inner: Arc<dyn Model>,
    requests: Mutex<Vec<ModelRequest>>,
    failures: Mutex<VecDeque<ModelError>>,
    /// What a summary needs to begin.
    gate: Semaphore,
}

impl WatchedModel {
    /// Passes everything on to `inner`.
    pub fn new(inner: Arc<dyn Model>) -> Self {
        Self { inner, requests: Mutex::default(), failures: Mutex::default(), gate: Semaphore::new(1) }
    }

    /// From now on summaries wait, until [`Self::let_summaries_pass`].
    pub fn hold_summaries(&self) {
        self.gate.forget_permits(1);
    }

    /// Summaries wait no longer.
    pub fn let_summaries_pass(&self) {
        self.gate.add_permits(1);
    }

    /// How often it was asked, for answers and summaries.
    pub fn calls(&self) -> usize {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How often it was asked for a summary.
    pub fn summaries(&self) -> usize {
        self.summary_requests().len()
    }

    /// What it was asked to summarise: for each summary, the messages in short.
    pub fn summary_requests(&self) -> Vec<Vec<String>> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().filter(|r| is_summary(r)).map(context).collect()
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
        requests.last().map(context).unwrap_or_default()
    }
}

fn is_summary(request: &ModelRequest) -> bool {
    request.options.contains("\"summary\"")
}

fn context(request: &ModelRequest) -> Vec<String> {
    let messages: Vec<Value> = serde_json::from_str(&request.messages).expect("JSON");
    messages.iter().map(crate::line).collect()
}

#[async_trait]
impl Model for WatchedModel {
    async fn describe(&self, name: &str) -> Result<Description, ModelError> {
        self.inner.describe(name).await
    }

    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        let failure = if is_summary(&request) {
            drop(self.gate.acquire().await.expect("it is never closed"));
            None
        } else {
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
        };
        match failure {
            Some(error) => Err(error),
            None => self.inner.start(request).await,
        }
    }
}
