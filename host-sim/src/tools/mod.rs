//! Tools: one trait. See `wit/tools.wit` for the contract in full.

pub mod replay;
pub mod scripted;
pub mod toolbox;
pub mod workspace;

use async_trait::async_trait;

/// The tool by which the runtime tells a target of the setting `webhooks` something. No box describes it, so no model can
/// call it; one that knows no targets answers with an error.
pub const WEBHOOK: &str = "writ-webhook";

/// What a restart does with a call whose result was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Never run again.
    Plain,
    /// Run again with the same effect key.
    ReplaySafe,
    /// Run again; recorded steps keep their value.
    Stepped,
    /// A person is asked first.
    Ask,
}

/// A tool as the agent sees it.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: serde_json::Value,
    /// What a restart does.
    pub policy: Policy,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Stable name of the effect.
    pub effect_key: String,
    /// The tool's name.
    pub name: String,
    /// JSON text of the arguments.
    pub arguments: String,
    /// The thread that calls, opaque.
    pub thread: String,
    /// The provider's id of the call.
    pub call_id: String,
}

/// How a call ended: content blocks, and whether the tool says that it failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// JSON array of content blocks.
    pub content: serde_json::Value,
    /// The tool says that it failed.
    pub is_error: bool,
}

impl Reply {
    /// A reply of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: serde_json::json!([{"type": "text", "text": text.into()}]), is_error: false }
    }

    /// An error of one text block.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

/// A box of tools.
#[async_trait]
pub trait Tools: Send + Sync + 'static {
    /// All tools in a stable order.
    fn describe(&self) -> Vec<Declaration>;
    /// Runs one call to its end. The future is dropped when the runtime gives it up.
    async fn run(&self, call: Call) -> Reply;
}
