//! Script files: a scripted model and scripted tools in readable TOML.
//!
//! ```
//! let script = host_sim::script::Script::parse(r#"
//! [model]                        # optional, like everything in it
//! name = "scripted"              # without it, every name is known
//! context_window = 200000        # tokens
//! max_output = 8192              # tokens
//! repeat_last = false            # true: the last answer is given again when the script has run out
//!
//! [[answer]]
//! when = "refund"                # only if the last user message contains this
//! text = "Let me look."
//! chunks = 3                     # the text comes in so many pieces
//! delay_ms = 200                 # before each piece, on the clock
//! blocks = [ { type = "thinking", thinking = "hm" } ]            # given before the text
//! calls = [ { name = "lookup", arguments = { order = 7 } } ]     # optional id; a string is sent as it is
//! usage = { input = 10, output = 5, cost_microusd = 12 }
//! stop = "tool-use"              # the default with calls; without, "end"; also "length" and "pause"
//!
//! [[answer]]
//! text = "It is paid."
//! fail = { kind = "transient", retry_after_ms = 500, message = "429", times = 2, after_chunks = 1 }
//!
//! [summary]
//! text = "They talked about a refund."
//!
//! [[tool]]
//! name = "lookup"
//! description = "Looks an order up"
//! policy = "replay-safe"         # plain (the default), replay-safe, stepped, ask
//! parameters = { type = "object", required = ["order"] }         # default: any object
//! reply = "order {order} is paid"      # or replies = [...], by the number of the call
//! error = false
//! delay_ms = 0
//! "#)?;
//! assert_eq!(script.answers.len(), 2);
//! # Ok::<(), host_sim::script::ScriptError>(())
//! ```
//!
//! # Which answer is given
//!
//! Only what the request says decides, so that a new process gives the same answer as the one that was killed:
//! - If the last user message contains the `when` of some answer, the candidates are the first such answer, and all
//!   that follow it in the file and apply too (same rule, or no `when`). The one is taken whose number is that of the
//!   model answers since that user message.
//! - Otherwise the candidates are all answers without `when`, and the number is `turn`: the answers that the thread has
//!   stored so far.
//!
//! # Failures
//!
//! `fail` has either a `kind` (`transient`, `overflow`, `quota`, `refused`, `invalid`, `unauthorized`, `cancelled`,
//! `unknown`) or `cut = true`: the stream ends without its stop event. Without `after_chunks` a `kind` fails before the
//! stream begins and a cut comes after everything but the stop event; with it, both come after so many pieces of text.
//! `times` counts per request key, and only in this process; without it the answer fails every time.

mod parse;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::tools::Policy;

/// Largest script file, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 1024 * 1024;
/// Most answers of a script.
pub const ANSWERS_MAX: usize = 10_000;
/// Most tools of a script, as `wit/tools.wit` allows.
pub const TOOLS_MAX: usize = 256;
/// Most pieces of one answer's text.
pub const CHUNKS_MAX: u32 = 10_000;
/// Longest delay, in milliseconds: a day.
pub const DELAY_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// A script, checked.
#[derive(Clone, Debug)]
pub struct Script {
    /// The model that the script plays.
    pub model: ScriptModel,
    /// Its answers, in the order of the file.
    pub answers: Vec<Answer>,
    /// The answer to a request for a summary, if the script has one.
    pub summary: Option<String>,
    /// The tools, in the order of the file.
    pub tools: Vec<ScriptTool>,
}

impl Script {
    /// Reads and checks a script file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let mut text = String::new();
        File::open(path)
            .and_then(|script| {
                let limit = SCRIPT_BYTES_MAX as u64 + 1;
                script.take(limit).read_to_string(&mut text)
            })
            .map_err(|error| ScriptError::Read { file: file.clone(), reason: error.to_string() })?;
        parse::parse(&file, &text)
    }

    /// Checks a script's text. Errors name the file `script`.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        parse::parse("script", text)
    }
}

/// The `[model]` table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptModel {
    /// The only name that is known; `None`: every name is.
    pub name: Option<String>,
    /// In tokens.
    pub context_window: u32,
    /// Most tokens of one answer.
    pub max_output: u32,
    /// Give the last answer again when the script has run out.
    pub repeat_last: bool,
}

impl Default for ScriptModel {
    fn default() -> Self {
        Self { name: None, context_window: 200_000, max_output: 8192, repeat_last: false }
    }
}

/// An `[[answer]]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// Text that the last user message must contain.
    pub when: Option<String>,
    /// The answer's text; may be empty.
    pub text: String,
    /// Content blocks that are neither text nor call.
    #[serde(deserialize_with = "parse::json_list")]
    pub blocks: Vec<Value>,
    /// Tool calls.
    pub calls: Vec<ScriptCall>,
    /// Number of pieces of the text; `None` is one.
    pub chunks: Option<u32>,
    /// Delay before each piece, in milliseconds.
    pub delay_ms: u64,
    /// What it cost; absent numbers are unknown.
    pub usage: Option<ScriptUsage>,
    /// Why it ends; `None`: by whether there are calls.
    pub stop: Option<Stop>,
    /// How it fails.
    pub fail: Option<Fail>,
}

/// A call in an answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    /// The provider's id; `None`: `call-<turn>-<index>`.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments. A string is sent as it is, so that a script can send text that isn't JSON.
    #[serde(default = "parse::empty_object", deserialize_with = "parse::json")]
    pub arguments: Value,
}

/// Tokens and money of an answer.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptUsage {
    /// Tokens read.
    pub input: Option<u64>,
    /// Tokens written.
    pub output: Option<u64>,
    /// Millionths of a US dollar.
    pub cost_microusd: Option<u64>,
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// Complete.
    End,
    /// Cut at the output limit.
    Length,
    /// Wants to be asked again.
    Pause,
    /// Waits for results.
    ToolUse,
}

/// How an answer fails.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fail {
    /// The error; excludes `cut`.
    pub kind: Option<FailKind>,
    /// The stream ends without its stop event.
    pub cut: bool,
    /// The error's text.
    pub message: Option<String>,
    /// What a transient error asks for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// How often it fails before the answer is given; `None`: always.
    pub times: Option<u32>,
    /// Pieces of text before the failure.
    pub after_chunks: Option<u32>,
}

/// The errors of `wit/model.wit`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "documented as ModelError")]
pub enum FailKind {
    Cancelled,
    Invalid,
    Overflow,
    Quota,
    Refused,
    Transient,
    Unauthorized,
    Unknown,
}

/// A `[[tool]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptTool {
    /// 1 to 64 of `A–Z a–z 0–9 _ -`.
    pub name: String,
    /// For the model.
    #[serde(default)]
    pub description: String,
    /// What a restart does with an open call.
    #[serde(default = "parse::plain")]
    pub policy: Policy,
    /// JSON Schema of the arguments.
    #[serde(default = "parse::any_object", deserialize_with = "parse::json")]
    pub parameters: Value,
    /// The reply of every call; `{name}` becomes the argument of that name.
    pub reply: Option<String>,
    /// One reply a call, the last one again and again; excludes `reply`.
    #[serde(default)]
    pub replies: Vec<String>,
    /// The tool says that it failed.
    #[serde(default)]
    pub error: bool,
    /// How long a call takes, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
}

/// Why a script can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The text is not a script.
    #[error("{file}:{line}:{column}: {message}")]
    Invalid {
        /// The file, as given.
        file: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// The file can't be read.
    #[error("{file}: can't be read: {reason}")]
    Read {
        /// The file, as given.
        file: String,
        /// As the system says.
        reason: String,
    },
}

impl ScriptError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "script-invalid",
            Self::Read { .. } => "script-unreadable",
        }
    }
}
