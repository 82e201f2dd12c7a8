//! Raises the engine's epoch, so that a component that computes for ever is noticed.

use std::io;
use std::thread;
use std::time::Duration;

use wasmtime::Engine;

/// Between two ticks, in milliseconds.
pub(super) const TICK_MS: u64 = 10;

/// Starts the ticker of an engine; it ends with the engine. A thread of its own, not a task: a component that loops
/// keeps a worker of the async runtime busy, and with it the task that should stop it.
pub(super) fn start(engine: &Engine) -> io::Result<()> {
    let engine = engine.weak();
    let tick = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            thread::sleep(Duration::from_millis(TICK_MS));
        }
    };
    thread::Builder::new().name("writ-epoch".into()).spawn(tick).map(drop)
}
