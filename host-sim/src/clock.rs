//! Clocks: the real one, and a scripted one that only moves when somebody waits.

use async_trait::async_trait;

/// Time as the component sees it.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Unix time in milliseconds.
    fn now(&self) -> u64;
    /// Waits until a time has come.
    async fn wait_until(&self, until: u64);
}
