//! A store that crashes: at the *n*-th commit it applies or doesn't, answers or doesn't, and can stop the world.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use async_trait::async_trait;
use host_sim::store::{Guard, Outcome, Store, StoreError, Value, Write};
use tokio::sync::Notify;

/// What happens at a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not applied, and never answered: the host is killed before it.
    KillBefore,
    /// Applied, and never answered: the host is killed after it.
    KillAfter,
    /// Applied, and answered `unknown`.
    AppliedUnknown,
    /// Not applied, and answered `unknown`.
    LostUnknown,
    /// Not applied, and answered `unavailable`.
    Unavailable,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::KillBefore, Self::KillAfter, Self::AppliedUnknown, Self::LostUnknown, Self::Unavailable];

    /// Whether the host has to be started again.
    pub fn kills(self) -> bool {
        matches!(self, Self::KillBefore | Self::KillAfter)
    }
}

/// A store with one fault ahead.
pub struct CrashStore {
    inner: Arc<dyn Store>,
    left: AtomicI64,
    fault: Fault,
    killed: Notify,
}

impl CrashStore {
    /// A store whose commit number `at` (from 0) meets a fault.
    pub fn new(inner: Arc<dyn Store>, at: u32, fault: Fault) -> Self {
        Self { inner, left: AtomicI64::new(i64::from(at)), fault, killed: Notify::new() }
    }

    /// Waits until a killing fault has been met.
    pub async fn killed(&self) {
        self.killed.notified().await;
    }

    /// Whether the fault has been met.
    pub fn is_met(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }
}

#[async_trait]
impl Store for CrashStore {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        self.inner.get_many(keys).await
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        if self.is_met() && self.fault.kills() {
            return std::future::pending().await;
        }
        if self.left.fetch_sub(1, Ordering::SeqCst) != 0 {
            return self.inner.commit(guard, writes).await;
        }
        match self.fault {
            Fault::KillBefore => {}
            Fault::KillAfter => drop(self.inner.commit(guard, writes).await),
            Fault::AppliedUnknown => {
                self.inner.commit(guard, writes).await?;
                return Err(StoreError::Unknown("the answer was lost".into()));
            }
            Fault::LostUnknown => return Err(StoreError::Unknown("the request was lost".into())),
            Fault::Unavailable => return Err(StoreError::Unavailable("not reached".into())),
        }
        self.killed.notify_one();
        std::future::pending().await
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        self.inner.append_later(guard, writes, lost).await;
    }

    async fn flush(&self) {
        self.inner.flush().await;
    }

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        self.inner.dump().await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.inner.count().await
    }
}
