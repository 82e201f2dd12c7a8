//! A model whose answers grow by hand: each of their events waits until the test lets it go.

use std::sync::Arc;

use async_trait::async_trait;
use host_sim::host::Parts;
use host_sim::model::{Completion, Description, Event, Model, ModelError, ModelRequest};
use tokio::sync::Semaphore;

use crate::{World, host};

/// More events than any test has.
const ALL: usize = 1 << 20;

/// Holds back what another model says.
pub struct Gate {
    inner: Arc<dyn Model>,
    events: Arc<Semaphore>,
}

impl Gate {
    /// Puts itself between a world's host and its model. The world's `parts` stay without it.
    pub async fn close(world: &mut World) -> Arc<Self> {
        let gate = Arc::new(Self { inner: world.parts.model.clone(), events: Arc::new(Semaphore::new(0)) });
        world.host = host(&Parts { model: gate.clone(), ..world.parts.clone() }).await;
        gate
    }

    /// Lets events go. The end of an answer is two: why it stops, and that nothing follows.
    pub fn let_go(&self, events: usize) {
        self.events.add_permits(events);
    }

    /// Lets everything go.
    pub fn open(&self) {
        self.let_go(ALL);
    }
}

#[async_trait]
impl Model for Gate {
    async fn describe(&self, name: &str) -> Result<Description, ModelError> {
        self.inner.describe(name).await
    }

    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        let inner = self.inner.start(request).await?;
        Ok(Box::new(Gated { inner, events: self.events.clone() }))
    }
}

struct Gated {
    inner: Box<dyn Completion>,
    events: Arc<Semaphore>,
}

#[async_trait]
impl Completion for Gated {
    async fn next(&mut self, _: u32) -> Result<Vec<Event>, ModelError> {
        self.events.acquire().await.expect("nobody closes it").forget();
        self.inner.next(1).await
    }
}
