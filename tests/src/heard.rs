//! A model that remembers what it was asked.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use host_sim::host::Parts;
use host_sim::model::{Completion, Description, Model, ModelError, ModelRequest};

use crate::{World, host};

/// Hands every request on to another model, and keeps it.
pub struct Heard {
    inner: Arc<dyn Model>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Heard {
    /// Puts itself between a world's host and its model.
    pub async fn listen(world: &mut World) -> Arc<Self> {
        let heard = Arc::new(Self { inner: world.parts.model.clone(), requests: Mutex::default() });
        world.parts = Parts { model: heard.clone(), ..world.parts.clone() };
        world.host = host(&world.parts).await;
        heard
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().expect("no panic holds it").clone()
    }

    /// The instructions of all requests so far.
    pub fn instructions(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.system).collect()
    }
}

#[async_trait]
impl Model for Heard {
    async fn describe(&self, name: &str) -> Result<Description, ModelError> {
        self.inner.describe(name).await
    }

    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        self.requests.lock().expect("no panic holds it").push(request.clone());
        self.inner.start(request).await
    }
}
