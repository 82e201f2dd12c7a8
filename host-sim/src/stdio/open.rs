//! The answers that are under way, by the ids of their requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;
use tokio::task::AbortHandle;

/// An answer under way.
struct Answer {
    serial: u64,
    /// Set once its task has started.
    task: Option<AbortHandle>,
    /// What to post if its caller does not want it any more.
    left: Option<String>,
    /// Whether what was asked for has been said, and what follows is more than that.
    answered: Arc<AtomicBool>,
}

/// An answer that was dropped.
pub(super) struct Dropped {
    /// What to post then.
    pub(super) left: Option<String>,
    /// Whether its caller has what it asked for.
    pub(super) answered: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Open {
    answers: Mutex<Answers>,
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Answers {
    serial: u64,
    by_id: HashMap<String, Answer>,
    stopped: bool,
}

impl Open {
    /// Takes a place for the answer of an id; its serial, or `None` if `max` are taken. An older one of the same id goes
    /// on, and can't be dropped any more.
    pub(super) fn enter(&self, id: String, left: Option<String>, max: usize, answered: Arc<AtomicBool>) -> Option<u64> {
        let mut answers = self.lock();
        if answers.stopped || *self.count.borrow() >= max {
            return None;
        }
        answers.serial += 1;
        let serial = answers.serial;
        answers.by_id.insert(id, Answer { serial, task: None, left, answered });
        self.count.send_modify(|count| *count += 1);
        Some(serial)
    }

    /// Names the task of an answer; it ends at once if the answer is not wanted any more.
    pub(super) fn started(&self, id: &str, serial: u64, task: AbortHandle) {
        let mut answers = self.lock();
        let stopped = answers.stopped;
        match answers.by_id.get_mut(id).filter(|answer| answer.serial == serial && !stopped) {
            Some(answer) => answer.task = Some(task),
            None if stopped => task.abort(),
            // It has ended already.
            None => {}
        }
    }

    /// An answer is over.
    pub(super) fn leave(&self, id: &str, serial: u64) {
        let mut answers = self.lock();
        if answers.by_id.get(id).is_some_and(|answer| answer.serial == serial) {
            answers.by_id.remove(id);
        }
        self.count.send_modify(|count| *count = count.saturating_sub(1));
    }

    /// Drops the answer of an id. `None`: there is none under way.
    pub(super) fn drop_answer(&self, id: &str) -> Option<Dropped> {
        let answer = self.lock().by_id.remove(id)?;
        if let Some(task) = answer.task {
            task.abort();
        }
        Some(Dropped { left: answer.left, answered: answer.answered.load(Ordering::SeqCst) })
    }

    /// Drops them all, and takes no more.
    pub(super) fn stop(&self) {
        let mut answers = self.lock();
        answers.stopped = true;
        for (_, answer) in answers.by_id.drain() {
            if let Some(task) = answer.task {
                task.abort();
            }
        }
    }

    /// Waits until none is under way.
    pub(super) async fn done(&self) {
        // The sender is this very value.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    // Whole after every step.
    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
