//! Why a call of the component did not end well.

use crate::data::RuntimeError;
use crate::engine::EngineError;

/// Why the host could not answer. After `Trapped`, `TimedOut` and `Broken` nobody knows what was stored: the host
/// sweeps by itself, and the caller asks again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The component could not be loaded.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The component trapped; its instance is gone, the next call gets a fresh one.
    #[error("the component trapped in `{export}`: {reason}{}", panic_text(.panic))]
    Trapped {
        /// The export that was called.
        export: &'static str,
        /// What the engine says.
        reason: String,
        /// The text of the panic: what the component last logged as an error.
        panic: Option<String>,
    },
    /// The call took longer than its limit; its instance is gone.
    #[error("`{export}` took longer than {limit_ms} ms")]
    TimedOut {
        /// The export that was called.
        export: &'static str,
        /// The limit.
        limit_ms: u64,
    },
    /// The component gave back something that its contract rules out.
    #[error("the component broke its contract in `{export}`: {text}")]
    Broken {
        /// The export that was called.
        export: &'static str,
        /// What was wrong.
        text: String,
    },
    /// The component could not do its work.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The host was shut down.
    #[error("the host is shut down")]
    Closed,
}

fn panic_text(panic: &Option<String>) -> String {
    panic.as_ref().map(|text| format!(" ({text})")).unwrap_or_default()
}
