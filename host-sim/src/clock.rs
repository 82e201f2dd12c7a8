//! Clocks: the real one, and a scripted one that only moves when somebody waits.

mod virtual_clock;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

pub use virtual_clock::VirtualClock;

/// Time as the component sees it.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Unix time in milliseconds.
    fn now(&self) -> u64;

    /// Waits until a time has come.
    async fn wait_until(&self, until: u64);

    /// Whether this time has come, or will come with nothing more to do than to wait for it *now*: a virtual clock
    /// says yes to all that it would jump to. [`crate::host::Host::settled`] rests on it.
    fn reaches(&self, at: u64) -> bool {
        at <= self.now()
    }

    /// Whether the clock is scripted: then nothing periodic may run on it, since it would never stand still.
    fn is_virtual(&self) -> bool {
        false
    }
}

/// The clock of the machine. It may step back, as the machine's does.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Longest sleep before the machine's clock is read again, so that a step of it is noticed.
const SLEEP_MS_MAX: u64 = 30_000;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    async fn wait_until(&self, until: u64) {
        loop {
            let left = until.saturating_sub(self.now());
            if left == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(left.min(SLEEP_MS_MAX))).await;
        }
    }
}
