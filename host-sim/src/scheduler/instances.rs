//! Which instances run, which wait for a time, and what was asked for meanwhile. No tasks, no waiting: pure state.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::data::{RunOutcome, Work};
use crate::engine::Signals;
use crate::error::HostError;
use crate::limits::HostLimits;

/// Failures in a row after which an instance no longer counts as about to settle.
const SETTLING_FAILURES_MAX: u32 = 8;

/// All instances that run or wait.
#[derive(Default)]
pub(super) struct Instances {
    entries: HashMap<String, Entry>,
    tickets: u64,
}

/// Names one stay of an instance in here: a later stay of the same instance has another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    instance: String,
    number: u64,
}

/// What the task of an instance does after a run.
#[derive(Debug)]
pub(super) enum Next {
    /// It ends.
    Nothing,
    /// It runs this at once.
    Run(Work),
    /// It waits until this time, or until it is woken.
    Wait {
        /// When (Unix ms).
        due: u64,
        /// What wakes it.
        woken: Arc<Notify>,
    },
}

struct Entry {
    number: u64,
    task: Option<AbortHandle>,
    phase: Phase,
    /// What was asked for since the last run began.
    asked: Option<Work>,
    /// Runs that failed since the last one that didn't.
    failures: u32,
    /// Runs in a row that wanted to be run again at a time that had passed.
    hurried: u32,
}

enum Phase {
    Running { signals: Arc<Signals> },
    Waiting { due: u64, woken: Arc<Notify> },
}

impl Instances {
    /// Gives work to the task of its instance; false if it has none.
    pub(super) fn offer(&mut self, work: &Work) -> bool {
        let Some(entry) = self.entries.get_mut(&work.instance) else {
            return false;
        };
        entry.asked = Some(work.clone());
        match &entry.phase {
            Phase::Running { signals } => work.signal.into_iter().for_each(|signal| signals.push(signal)),
            Phase::Waiting { woken, .. } => woken.notify_one(),
        }
        true
    }

    /// Whether an instance runs now.
    pub(super) fn is_running(&self, instance: &str) -> bool {
        self.entries.get(instance).is_some_and(|entry| matches!(entry.phase, Phase::Running { .. }))
    }

    /// Begins a stay of an instance that has none. It counts as running; its task is to be set.
    pub(super) fn begin(&mut self, instance: &str) -> Ticket {
        self.tickets += 1;
        let number = self.tickets;
        let phase = Phase::Running { signals: Arc::default() };
        let entry = Entry { number, task: None, phase, asked: None, failures: 0, hurried: 0 };
        self.entries.insert(instance.to_owned(), entry);
        Ticket { instance: instance.to_owned(), number }
    }

    /// Sets the task of a stay, if it is not over yet.
    pub(super) fn set_task(&mut self, ticket: &Ticket, task: AbortHandle) {
        if let Some(entry) = self.find(ticket) {
            entry.task = Some(task);
        }
    }

    /// Ends a stay.
    pub(super) fn remove(&mut self, ticket: &Ticket) {
        if self.find(ticket).is_some() {
            self.entries.remove(&ticket.instance);
        }
    }

    /// A run begins: the signals to give it. `None` if the stay is over.
    pub(super) fn run(&mut self, ticket: &Ticket) -> Option<Arc<Signals>> {
        let entry = self.find(ticket)?;
        let signals = match &entry.phase {
            // Given already to a run that has not begun: it may hold signals.
            Phase::Running { signals } => signals.clone(),
            Phase::Waiting { .. } => Arc::default(),
        };
        entry.phase = Phase::Running { signals: signals.clone() };
        Some(signals)
    }

    /// A wait is over: what was asked for, if anything. From here on the instance counts as running.
    pub(super) fn asked(&mut self, ticket: &Ticket) -> Option<Work> {
        let entry = self.find(ticket)?;
        entry.phase = Phase::Running { signals: Arc::default() };
        entry.asked.take()
    }

    /// A run has ended: what next.
    pub(super) fn ended(
        &mut self,
        ticket: &Ticket,
        outcome: &Result<RunOutcome, HostError>,
        now: u64,
        limits: &HostLimits,
    ) -> Next {
        let Some(entry) = self.find(ticket) else {
            return Next::Nothing;
        };
        let failed = matches!(outcome, Err(_) | Ok(RunOutcome::Failed(_)));
        entry.failures = if failed { entry.failures.saturating_add(1) } else { 0 };
        let hurried = matches!(outcome, Ok(RunOutcome::Later(at)) if *at <= now);
        entry.hurried = if hurried { entry.hurried.saturating_add(1) } else { 0 };
        // What was asked for during the run gets its run, whatever this one says (a signal was for this one only).
        if let Some(work) = entry.asked.take() {
            entry.phase = Phase::Running { signals: Arc::default() };
            return Next::Run(Work { signal: None, ..work });
        }
        let due = match outcome {
            Ok(RunOutcome::Idle | RunOutcome::Fenced) | Err(HostError::Closed) => {
                // Here and now, so that work that comes next finds no task and starts one.
                self.entries.remove(&ticket.instance);
                return Next::Nothing;
            }
            // A first time that has passed is due now; an instance that always says so must not spin.
            Ok(RunOutcome::Later(at)) => {
                (*at).max(now.saturating_add(back_off(entry.hurried.saturating_sub(1), limits)))
            }
            Ok(RunOutcome::Failed(_)) | Err(_) => now.saturating_add(back_off(entry.failures, limits)),
        };
        let woken = Arc::new(Notify::new());
        entry.phase = Phase::Waiting { due, woken: woken.clone() };
        Next::Wait { due, woken }
    }

    /// Whether none runs, was asked for, or will be due at a time for which `is_due` says yes.
    pub(super) fn are_settled(&self, is_due: impl Fn(u64) -> bool) -> bool {
        self.entries.values().all(|entry| match entry.phase {
            Phase::Running { .. } => false,
            Phase::Waiting { due, .. } => {
                entry.asked.is_none() && (entry.failures > SETTLING_FAILURES_MAX || !is_due(due))
            }
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The tasks of all stays; an aborted one ends its own stay.
    pub(super) fn tasks(&self) -> impl Iterator<Item = AbortHandle> {
        self.entries.values().filter_map(|entry| entry.task.clone())
    }

    fn find(&mut self, ticket: &Ticket) -> Option<&mut Entry> {
        self.entries.get_mut(&ticket.instance).filter(|entry| entry.number == ticket.number)
    }
}

/// The delay after so many failures in a row: none, then the least, doubling up to the most.
pub(super) fn back_off(failures: u32, limits: &HostLimits) -> u64 {
    match failures {
        0 => 0,
        n => limits.retry_ms_min.saturating_mul(1 << (n - 1).min(32)).min(limits.retry_ms_max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_up_to_its_most() {
        let limits = HostLimits::default();
        let delays: Vec<_> = (0..10).map(|failures| back_off(failures, &limits)).collect();
        assert_eq!(delays, [0, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(back_off(u32::MAX, &limits), 30_000);
    }
}
