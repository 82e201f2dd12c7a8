//! Runs what the component says must run: one run an instance, and what arrives meanwhile once more afterwards.
//!
//! Nothing in here is a fact. It only holds hints and times that every sweep finds again in the store, so it may lose
//! all of them at any moment, and it never keeps the store's work from being run: a hint always gets its run.

mod instances;
mod sweeper;

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use tokio::runtime;
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

use self::instances::{Instances, Next, Ticket};
use self::sweeper::Sweeper;
use crate::clock::Clock;
use crate::data::{Level, LogLine, PendingPage, RunOutcome, RunReport, Work};
use crate::engine::guard::caught;
use crate::engine::{Handles, Observer, Seen, Signals};
use crate::error::HostError;
use crate::limits::HostLimits;

/// The exports that the scheduler needs.
#[async_trait]
pub(crate) trait Runner: Send + Sync + 'static {
    /// Drives one instance.
    async fn run(&self, work: Work, signals: Arc<Signals>) -> Result<RunReport, HostError>;
    /// A page of what a restart must run.
    async fn pending(&self, page: Option<String>) -> Result<PendingPage, HostError>;
}

/// The scheduler of a host. Clones are the same scheduler.
#[derive(Clone)]
pub(crate) struct Scheduler(Arc<Inner>);

struct Inner {
    runner: Arc<dyn Runner>,
    clock: Arc<dyn Clock>,
    limits: Arc<HostLimits>,
    log: broadcast::Sender<LogLine>,
    observer: Option<Arc<dyn Observer>>,
    runtime: runtime::Handle,
    /// Held for a few instructions only, never while a run is waited for.
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    instances: Instances,
    sweeper: Sweeper,
    closed: bool,
}

impl Scheduler {
    /// A scheduler on the current tokio runtime; it sweeps now and then if the limits say so.
    pub(crate) fn new(runner: Arc<dyn Runner>, handles: &Handles) -> Self {
        let scheduler = Self(Arc::new(Inner {
            runner,
            clock: handles.clock.clone(),
            limits: handles.limits.clone(),
            log: handles.log.clone(),
            observer: handles.observer.clone(),
            runtime: runtime::Handle::current(),
            state: Mutex::default(),
            changed: watch::Sender::new(()),
        }));
        scheduler.sweep_now_and_then();
        scheduler
    }

    /// Sees to it that an instance runs now, or once more after the run under way; that run is told the signal.
    pub(crate) fn submit(&self, work: Work) {
        let ticket = {
            let mut state = self.0.lock();
            if state.closed || state.instances.offer(&work) {
                return;
            }
            state.instances.begin(&work.instance)
        };
        // Not under the lock: on a runtime that is shutting down, a task is dropped where it is spawned, and its
        // place with it.
        let place = Place { inner: self.0.clone(), ticket: ticket.clone() };
        let task = self.0.runtime.spawn(drive(place, work)).abort_handle();
        let closed = {
            let mut state = self.0.lock();
            state.instances.set_task(&ticket, task.clone());
            state.closed
        };
        if closed {
            task.abort();
        }
    }

    /// Waits until nothing is active or due; see [`crate::host::Host::settled`].
    pub(crate) async fn settled(&self) {
        self.until(|inner, state| {
            !state.sweeper.is_active() && state.instances.are_settled(|due| inner.clock.reaches(due))
        })
        .await;
    }

    /// Drops all runs and starts no more.
    pub(crate) fn close(&self) {
        let tasks: Vec<_> = {
            let mut state = self.0.lock();
            state.closed = true;
            state.instances.tasks().chain(state.sweeper.tasks()).collect()
        };
        // Not under the lock: an aborted task may end right here, and give up its place.
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Waits until all runs are gone.
    pub(crate) async fn gone(&self) {
        self.until(|_, state| state.instances.is_empty() && !state.sweeper.is_active()).await;
    }

    async fn until(&self, reached: impl Fn(&Inner, &State) -> bool) {
        let mut changed = self.0.changed.subscribe();
        loop {
            if reached(&self.0, &self.0.lock()) {
                return;
            }
            // The sender lives as long as `self`.
            let _ = changed.changed().await;
        }
    }
}

/// The task of one instance: runs it until it has nothing left to do.
async fn drive(place: Place, mut work: Work) {
    let inner = &place.inner;
    loop {
        let Some(signals) = inner.lock().instances.run(&place.ticket) else {
            return;
        };
        let instance = work.instance.clone();
        let report = caught(inner.runner.run(work, signals)).await.unwrap_or_else(|text| {
            Err(HostError::Trapped { export: "run", reason: "the host panicked".into(), panic: Some(text) })
        });
        let outcome = report.map(|RunReport { outcome, work }| {
            work.into_iter().for_each(|work| Scheduler(inner.clone()).submit(work));
            outcome
        });
        inner.tell(&instance, &outcome);
        let next = inner.lock().instances.ended(&place.ticket, &outcome, inner.clock.now(), &inner.limits);
        inner.changed.send_replace(());
        work = match next {
            Next::Nothing => return,
            Next::Run(work) => work,
            Next::Wait { due, woken } => {
                tokio::select! {
                    () = inner.clock.wait_until(due) => {}
                    () = woken.notified() => {}
                }
                let asked = inner.lock().instances.asked(&place.ticket);
                asked.unwrap_or(Work { instance, submission: None, signal: None })
            }
        };
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn warn(&self, thread: Option<&str>, text: String) {
        if let Some(observer) = &self.observer {
            observer.see(0, &Seen::Logged { level: Level::Warn, thread, text: &text });
        }
        let _ = self.log.send(LogLine { level: Level::Warn, text });
    }

    fn tell(&self, instance: &str, outcome: &Result<RunOutcome, HostError>) {
        if let Some(observer) = &self.observer {
            observer.see(0, &Seen::Ran(name(outcome)));
        }
        match outcome {
            Ok(RunOutcome::Idle | RunOutcome::Later(_)) | Err(HostError::Closed) => {}
            Ok(RunOutcome::Fenced) => self.warn(Some(instance), format!("another run owns `{instance}`")),
            Ok(RunOutcome::Failed(why)) => self.warn(Some(instance), format!("the run of `{instance}` failed: {why}")),
            Err(why) => self.warn(Some(instance), format!("the run of `{instance}` was lost: {why}")),
        }
    }
}

/// How a run ended, for a label.
fn name(outcome: &Result<RunOutcome, HostError>) -> &'static str {
    match outcome {
        Ok(RunOutcome::Idle) => "idle",
        Ok(RunOutcome::Later(_)) => "later",
        Ok(RunOutcome::Fenced) => "fenced",
        Ok(RunOutcome::Failed(_)) => "failed",
        Err(_) => "lost",
    }
}

/// The place of an instance among those that run or wait; given up when its task ends, however it ends.
struct Place {
    inner: Arc<Inner>,
    ticket: Ticket,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.lock().instances.remove(&self.ticket);
        self.inner.changed.send_replace(());
    }
}
