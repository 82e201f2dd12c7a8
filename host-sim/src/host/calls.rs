//! Calls of the component's exports: each waits for a place in the pool, then gets an instance of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use crate::data::{AuditPage, FeedPage, PendingPage, Request, Response, RunReport, Work};
use crate::engine::{Call, Engine, Handles, Permit, Signals};
use crate::error::HostError;
use crate::scheduler::Runner;

/// A component with all that its calls are given.
pub(super) struct Calls {
    engine: Engine,
    handles: Handles,
    closed: AtomicBool,
}

impl Calls {
    pub(super) fn new(engine: Engine, handles: Handles) -> Self {
        Self { engine, handles, closed: false.into() }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn handles(&self) -> &Handles {
        &self.handles
    }

    /// From now on, every call is refused. Calls under way are not touched.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// The response, and whether a commit of the call ended as unknown.
    pub(super) async fn respond(&self, request: Request) -> Result<(Response, bool), HostError> {
        let _place = self.place().await?;
        let call = self.call(Arc::default());
        let response = self.engine.respond(&call, request).await?;
        Ok((response, call.uncertain.load(Ordering::Relaxed)))
    }

    pub(super) async fn follow(&self, feed: &str, after: u64) -> Result<FeedPage, HostError> {
        let _place = self.place().await?;
        self.engine.follow(&self.call(Arc::default()), feed, after).await
    }

    pub(super) async fn audit(&self, page: Option<String>) -> Result<AuditPage, HostError> {
        let _place = self.place().await?;
        self.engine.audit(&self.call(Arc::default()), page).await
    }

    async fn place(&self) -> Result<Permit, HostError> {
        let place = self.engine.place().await;
        self.open(place)
    }

    fn open<T>(&self, place: T) -> Result<T, HostError> {
        if self.closed.load(Ordering::SeqCst) { Err(HostError::Closed) } else { Ok(place) }
    }

    fn call(&self, signals: Arc<Signals>) -> Call {
        Call::new(self.handles.clone(), signals)
    }
}

#[async_trait]
impl Runner for Calls {
    async fn run(&self, work: Work, signals: Arc<Signals>) -> Result<RunReport, HostError> {
        let place = self.engine.place_for_run().await;
        let _place = self.open(place)?;
        let call = Call { thread: Some(work.instance.clone()), ..self.call(signals) };
        self.engine.run(&call, work).await
    }

    async fn pending(&self, page: Option<String>) -> Result<PendingPage, HostError> {
        let _place = self.place().await?;
        self.engine.pending(&self.call(Arc::default()), page).await
    }
}
