//! The hints that wait for one running instance.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::data::Signal;

/// Signals that are pending. A signal that is pending already is not put a second time: it only says "look now".
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pending: Mutex<Vec<Signal>>,
    arrived: Notify,
}

impl Signals {
    /// Adds a signal and wakes whoever waits.
    pub(crate) fn push(&self, signal: Signal) {
        let mut pending = self.lock();
        if !pending.contains(&signal) {
            pending.push(signal);
        }
        drop(pending);
        self.arrived.notify_waiters();
    }

    /// Takes all that are pending.
    pub(crate) fn take(&self) -> Vec<Signal> {
        std::mem::take(&mut *self.lock())
    }

    /// Waits until one is pending; it stays so until it is taken.
    pub(crate) async fn pending(&self) {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if !self.lock().is_empty() {
                return;
            }
            arrived.await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Signal>> {
        self.pending.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
