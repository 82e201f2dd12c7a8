//! Sweeps: run all that is pending in the store and not running here. A lost hint costs one period at worst.

use std::sync::{Arc, Weak};

use tokio::task::AbortHandle;

use super::instances::back_off;
use super::{Inner, Scheduler};
use crate::engine::guard::caught;
use crate::error::HostError;

/// Most pages of one sweep. One that doesn't end is a fault of the component.
const PAGES_MAX: usize = 1_000_000;
/// Tries of a sweep that was asked for; the next period takes over.
const TRIES_MAX: u32 = 8;

/// Whether a sweep is asked for, and the tasks that make them.
#[derive(Default)]
pub(super) struct Sweeper {
    wanted: bool,
    active: bool,
    task: Option<AbortHandle>,
    periodic: Option<AbortHandle>,
}

impl Sweeper {
    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    pub(super) fn tasks(&self) -> impl Iterator<Item = AbortHandle> {
        self.task.iter().chain(&self.periodic).cloned()
    }
}

impl Scheduler {
    /// One sweep; returns how many pieces of work it found.
    pub(crate) async fn sweep(&self) -> Result<usize, HostError> {
        let mut found = 0;
        let mut page = None;
        for _ in 0..PAGES_MAX {
            let pending = self.0.runner.pending(page).await?;
            found += pending.work.len();
            for work in pending.work {
                // A run under way reads for itself what is there.
                let running = self.0.lock().instances.is_running(&work.instance);
                if !running {
                    self.submit(work);
                }
            }
            page = pending.next;
            if page.is_none() {
                return Ok(found);
            }
        }
        Err(HostError::Broken { export: "pending", text: format!("more than {PAGES_MAX} pages") })
    }

    /// Sweeps in the background. Asked for twice before it has begun, it is done once.
    pub(crate) fn sweep_soon(&self) {
        {
            let mut state = self.0.lock();
            if state.closed {
                return;
            }
            state.sweeper.wanted = true;
            if std::mem::replace(&mut state.sweeper.active, true) {
                return;
            }
        }
        // Not under the lock, for the reason given in `submit`.
        let end = End(self.0.clone());
        let sweep = sweep_while_wanted(self.clone(), end);
        let task = self.0.runtime.spawn(sweep).abort_handle();
        let closed = {
            let mut state = self.0.lock();
            state.sweeper.task = Some(task.clone());
            state.closed
        };
        if closed {
            task.abort();
        }
    }

    /// Starts the periodic sweeps, unless the clock is virtual: it would never stand still.
    pub(super) fn sweep_now_and_then(&self) {
        let Some(period_ms) = self.0.limits.sweep_ms.filter(|_| !self.0.clock.is_virtual()) else {
            return;
        };
        let task = self.0.runtime.spawn(sweep_each(period_ms.max(1), Arc::downgrade(&self.0)));
        self.0.lock().sweeper.periodic = Some(task.abort_handle());
    }
}

async fn sweep_each(period_ms: u64, scheduler: Weak<Inner>) {
    while let Some(clock) = scheduler.upgrade().map(|inner| inner.clock.clone()) {
        clock.wait_until(clock.now().saturating_add(period_ms)).await;
        let Some(inner) = scheduler.upgrade() else {
            return;
        };
        Scheduler(inner).sweep_soon();
    }
}

async fn sweep_while_wanted(scheduler: Scheduler, mut end: End) {
    let mut failures = 0;
    while end.goes_on() {
        match caught(scheduler.sweep()).await {
            Ok(Ok(_)) => failures = 0,
            Ok(Err(HostError::Closed)) => return,
            Ok(Err(error)) => failures = scheduler.failed(failures, &error.to_string()),
            Err(panic) => failures = scheduler.failed(failures, &panic),
        }
        if failures == TRIES_MAX {
            return;
        }
        if failures > 0 {
            scheduler.0.lock().sweeper.wanted = true;
            let due = scheduler.0.clock.now().saturating_add(back_off(failures, &scheduler.0.limits));
            scheduler.0.clock.wait_until(due).await;
        }
    }
}

impl Scheduler {
    fn failed(&self, failures: u32, why: &str) -> u32 {
        self.0.warn(None, format!("a sweep failed: {why}"));
        failures + 1
    }
}

/// Says that no sweep is active when the task ends, however it ends.
struct End(Arc<Inner>);

impl End {
    /// Takes what is wanted. If nothing is, the task counts as ended from this moment: who wants a sweep next starts
    /// another.
    fn goes_on(&mut self) -> bool {
        let mut state = self.0.lock();
        let wanted = std::mem::take(&mut state.sweeper.wanted);
        if !wanted {
            state.sweeper.active = false;
        }
        wanted
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.lock().sweeper.active = false;
        self.0.changed.send_replace(());
    }
}
