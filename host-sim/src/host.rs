//! The host: a component, what it is given, and the scheduler that runs what it hands out.

mod calls;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::broadcast;

use self::calls::Calls;
use crate::clock::Clock;
use crate::data::{AuditPage, AuditReport, FeedPage, Level, LogLine, PendingPage, Published, Request, Response};
use crate::engine::{ComponentSource, Engine, EngineError, Handles, Hook};
use crate::error::HostError;
use crate::limits::HostLimits;
use crate::model::Model;
use crate::scheduler::{Runner, Scheduler};
use crate::store::Store;
use crate::tools::Tools;

/// Events and log lines that a slow reader may be behind; then it loses the oldest.
const BACKLOG: usize = 4096;
/// Most pages of one audit. An audit that doesn't end is a fault of the component.
const AUDIT_PAGES_MAX: u64 = 10_000_000;

/// What a host is made of.
#[derive(Clone)]
pub struct Parts {
    /// The component.
    pub component: ComponentSource,
    /// Where it stores.
    pub store: Arc<dyn Store>,
    /// Its models.
    pub model: Arc<dyn Model>,
    /// Its tools.
    pub tools: Arc<dyn Tools>,
    /// Its time.
    pub clock: Arc<dyn Clock>,
    /// Its settings: names and JSON text (`wit/settings.wit`).
    pub settings: BTreeMap<String, String>,
    /// Its caps.
    pub limits: HostLimits,
}

/// A running host. Cheap to clone; all clones are the same host. It must live on a tokio runtime.
///
/// A host that is made runs nothing yet: call [`Host::sweep`] once to take up what an earlier one left. Dropping the
/// last clone drops all runs, as a crash would; that is safe.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    calls: Arc<Calls>,
    scheduler: Scheduler,
}

impl Host {
    /// Loads the component and makes a host of it.
    pub async fn new(parts: Parts) -> Result<Self, HostError> {
        let (source, limits) = (parts.component.clone(), parts.limits.clone());
        let engine = tokio::task::spawn_blocking(move || Engine::load(&source, &limits))
            .await
            .map_err(|error| EngineError::Setup(error.to_string()))??;
        Ok(Self::with_engine(engine, parts))
    }

    /// A host with a component that is loaded already. Hosts with the same engine share its pool of sessions.
    pub fn with_engine(engine: Engine, parts: Parts) -> Self {
        Self::assemble(engine, parts, None)
    }

    /// A host whose component is watched, and stopped, by a hook: for tests of crashes.
    pub fn with_hook(engine: Engine, parts: Parts, hook: Arc<dyn Hook>) -> Self {
        Self::assemble(engine, parts, Some(hook))
    }

    fn assemble(engine: Engine, parts: Parts, hook: Option<Arc<dyn Hook>>) -> Self {
        let Parts { component: _, store, model, tools, clock, settings, limits } = parts;
        // Nobody watches a host that is there to be crashed, and thousands are made.
        let backlog = if hook.is_some() { 1 } else { BACKLOG };
        let (events, _) = broadcast::channel(backlog);
        let (log, _) = broadcast::channel(backlog);
        let (settings, limits) = (Arc::new(settings), Arc::new(limits));
        let handles = Handles { store, model, tools, clock, settings, events, log, limits, hook };
        let calls = Arc::new(Calls::new(engine, handles.clone()));
        let scheduler = Scheduler::new(calls.clone(), &handles);
        Self(Arc::new(Inner { calls, scheduler }))
    }

    /// Hands a request to the component, and what it says must run to the scheduler. Dropping the future drops the
    /// call: what it was about to store is stored or not, and the host sweeps.
    pub async fn respond(&self, request: Request) -> Result<Response, HostError> {
        let mut unsure = SweepOnDrop(Some(&self.0.scheduler));
        let (response, uncertain) = self.0.calls.respond(request).await?;
        if !uncertain {
            unsure.0 = None;
        }
        for work in &response.work {
            self.0.scheduler.submit(work.clone());
        }
        Ok(response)
    }

    /// A page of what a restart must run.
    pub async fn pending(&self, page: Option<String>) -> Result<PendingPage, HostError> {
        self.0.calls.pending(page).await
    }

    /// Frames of a feed after a number.
    pub async fn follow(&self, feed: &str, after: u64) -> Result<FeedPage, HostError> {
        self.0.calls.follow(feed, after).await
    }

    /// A page of the audit.
    pub async fn audit(&self, page: Option<String>) -> Result<AuditPage, HostError> {
        self.0.calls.audit(page).await
    }

    /// The whole audit. `progress` sees each page.
    pub async fn audit_all(&self, mut progress: impl FnMut(&AuditPage)) -> Result<AuditReport, HostError> {
        let mut report = AuditReport::default();
        let mut page = None;
        while report.pages < AUDIT_PAGES_MAX {
            let found = self.audit(page).await?;
            progress(&found);
            page = found.next.clone();
            report.add(found);
            if page.is_none() {
                return Ok(report);
            }
        }
        Err(HostError::Broken { export: "audit", text: format!("more than {AUDIT_PAGES_MAX} pages") })
    }

    /// Runs everything that is pending in the store and not running here; returns how many pieces of work it found.
    pub async fn sweep(&self) -> Result<usize, HostError> {
        self.0.scheduler.sweep().await
    }

    /// What is published to live viewers from now on.
    pub fn watch(&self) -> broadcast::Receiver<Published> {
        self.0.calls.handles().events.subscribe()
    }

    /// The store that the component has.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        self.0.calls.handles().store.clone()
    }

    /// Logs a warning of the host's own.
    pub(crate) fn warn(&self, text: String) {
        let _ = self.0.calls.handles().log.send(LogLine { level: Level::Warn, text });
    }

    /// What is logged from now on, by the component and by the host about it.
    pub fn log(&self) -> broadcast::Receiver<LogLine> {
        self.0.calls.handles().log.subscribe()
    }

    /// Waits until no run and no sweep is active and none is due now: for tests and the demo.
    ///
    /// On a virtual clock, *now* is all that the clock would jump to by itself: retries are waited for, the expiry of
    /// a question is not. An instance that failed many times in a row is not waited for on any clock.
    pub async fn settled(&self) {
        self.0.scheduler.settled().await;
    }

    /// The names of everything that the component imports.
    pub fn imports(&self) -> Vec<String> {
        self.0.calls.engine().imports()
    }

    /// Stops scheduling, drops all runs, and waits until they are gone. Calls on other clones answer
    /// [`HostError::Closed`] from now on.
    pub async fn shutdown(self) {
        self.0.calls.close();
        self.0.scheduler.close();
        self.0.scheduler.gone().await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.calls.close();
        self.scheduler.close();
    }
}

/// Asks for a sweep unless it is told that the call ended surely: trapped, uncertain and dropped calls alike.
struct SweepOnDrop<'a>(Option<&'a Scheduler>);

impl Drop for SweepOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(scheduler) = self.0 {
            scheduler.sweep_soon();
        }
    }
}
