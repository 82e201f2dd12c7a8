//! Models: one trait. See `wit/model.wit` for the contract in full.

mod context;
pub mod offline;
mod planned;
pub mod replay;
pub mod scripted;

use async_trait::async_trait;

/// What the host knows of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Context window, in tokens.
    pub context_window: u32,
    /// Most tokens of one answer.
    pub max_output: u32,
}

/// A request for a completion; `messages`, `tools` and `options` are JSON text.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The model's name.
    pub model: String,
    /// System instructions.
    pub system: String,
    /// JSON array of messages in the form of docs/transcript.md.
    pub messages: String,
    /// JSON array of tool declarations.
    pub tools: String,
    /// JSON object of options; `purpose` is `"turn"` or `"summary"`.
    pub options: String,
    /// The same on every try of this answer.
    pub key: String,
    /// How many answers this thread has stored so far.
    pub turn: u64,
    /// The thread that asks, opaque.
    pub thread: String,
}

/// Why a completion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Complete.
    End,
    /// Waits for the results of its calls.
    ToolUse,
    /// Cut at the output limit.
    Length,
    /// Wants to be asked again to go on.
    Pause,
}

/// Tokens and money; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// Millionths of a US dollar.
    pub cost_microusd: Option<u64>,
}

/// A piece of a completion.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// More text.
    Text(String),
    /// Another content block, as JSON text.
    Block(String),
    /// A whole tool call; `arguments` is JSON text.
    Call {
        /// The provider's id.
        id: String,
        /// The tool's name.
        name: String,
        /// JSON text.
        arguments: String,
    },
    /// What it cost.
    Usage(Usage),
    /// The end event.
    Stop(StopReason),
}

/// Why a model did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Ask again.
    #[error("transient: {message}")]
    Transient {
        /// As the provider asks.
        retry_after_ms: Option<u64>,
        /// For people.
        message: String,
    },
    /// Larger than the context window.
    #[error("overflow: {0}")]
    Overflow(String),
    /// No quota.
    #[error("quota: {0}")]
    Quota(String),
    /// Content refused.
    #[error("refused: {0}")]
    Refused(String),
    /// Malformed request or unknown model.
    #[error("invalid: {0}")]
    Invalid(String),
    /// Credentials not accepted.
    #[error("unauthorized: {0}")]
    Unauthorized(String),
    /// Cancelled from outside.
    #[error("cancelled: {0}")]
    Cancelled(String),
    /// Anything else.
    #[error("unknown: {0}")]
    Unknown(String),
}

/// A provider of models.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// What is known of a model; `Invalid` for an unknown name.
    async fn describe(&self, name: &str) -> Result<Description, ModelError>;
    /// Starts a completion.
    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError>;
}

/// A running completion. Dropping it cancels it.
#[async_trait]
pub trait Completion: Send + 'static {
    /// Waits for the next event, then takes up to `max` that are ready; empty is the end. Must be cancel-safe: a
    /// dropped future loses no event.
    async fn next(&mut self, max: u32) -> Result<Vec<Event>, ModelError>;
}
