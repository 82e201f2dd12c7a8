//! Names of spans and attributes.
//!
//! Those that begin with `gen_ai.` and `error.` are of OpenTelemetry's semantic conventions, version 1.41.0. All `gen_ai`
//! names are in development there, and have moved to a repository of their own since: they may change, and change here
//! only. `gen_ai.provider.name` is left out, since the host does not know who stands behind a model.

/// What is done.
pub(super) const OPERATION: &str = "gen_ai.operation.name";
/// An attempt at a submission.
pub(super) const INVOKE_AGENT: &str = "invoke_agent";
/// An answer of a model.
pub(super) const CHAT: &str = "chat";
/// A call of a tool.
pub(super) const EXECUTE_TOOL: &str = "execute_tool";

/// The agent's name.
pub(super) const AGENT_NAME: &str = "gen_ai.agent.name";
/// The thread, by the name that the component gives it.
pub(super) const CONVERSATION: &str = "gen_ai.conversation.id";
/// The model that was asked.
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
/// Why the answer ended: a list of one.
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// Tokens read.
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Tokens written.
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The tool's name.
pub(super) const TOOL_NAME: &str = "gen_ai.tool.name";
/// The provider's id of the call.
pub(super) const TOOL_CALL: &str = "gen_ai.tool.call.id";
/// The kind of an error.
pub(super) const ERROR_TYPE: &str = "error.type";

/// The submission: in every span.
pub(super) const SUBMISSION: &str = "writ.submission";
/// The attempt's number.
pub(super) const ATTEMPT: &str = "writ.attempt";
/// How it ended: `completed`, `failed`, `aborted`, or `interrupted` for an attempt that another may follow.
pub(super) const OUTCOME: &str = "writ.outcome";
/// What a model was asked for: `turn` or `summary`.
pub(super) const PURPOSE: &str = "writ.purpose";

/// Where the names come from.
pub(super) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";
