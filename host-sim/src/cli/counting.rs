//! A model that counts how often it is asked.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use async_trait::async_trait;

use crate::model::Completion;
use crate::model::Description;
use crate::model::Model;
use crate::model::ModelError;
use crate::model::ModelRequest;

/// Counts completions.
pub struct Counting {
    model: Arc<dyn Model>,
    started: AtomicU64,
}

impl Counting {
    /// Over a model.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self { model, started: AtomicU64::new(0) }
    }

    /// Completions so far.
    pub fn count(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Model for Counting {
    async fn describe(&self, name: &str) -> Result<Description, ModelError> {
        self.model.describe(name).await
    }

    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        self.started.fetch_add(1, Ordering::Relaxed);
        self.model.start(request).await
    }
}
