//! Places for calls: as many as the engine has instances, so that calls wait where the pool would refuse them.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One part in so many of the pool is kept free of runs.
const RESERVE: usize = 8;

/// The places of an engine.
#[derive(Clone)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    runs: Arc<Semaphore>,
}

/// A place, given back when dropped.
pub(crate) struct Permit {
    _all: Option<OwnedSemaphorePermit>,
    _run: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(super) fn new(sessions: usize) -> Self {
        let all = sessions.max(2);
        let runs = all - (all / RESERVE).max(1);
        Self { all: Arc::new(Semaphore::new(all)), runs: Arc::new(Semaphore::new(runs)) }
    }

    /// A place for anything but a run.
    pub(super) async fn any(&self) -> Permit {
        Permit { _all: take(&self.all).await, _run: None }
    }

    /// A place for a run: it first needs one of the runs' own, so the last places are never theirs.
    pub(super) async fn run(&self) -> Permit {
        let run = take(&self.runs).await;
        Permit { _all: take(&self.all).await, _run: run }
    }
}

/// `None` only if the semaphore were closed; nothing closes it.
async fn take(places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    places.clone().acquire_owned().await.ok()
}
