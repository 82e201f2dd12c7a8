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

use std::path::Path;

use serde::Deserialize;
use serde::Deserializer;
use serde_json::Value;
use toml::Spanned;

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
        let text = std::fs::read_to_string(path).map_err(|error| ScriptError::Read {
            file: file.clone(),
            reason: error.to_string(),
        })?;
        parse(&file, &text)
    }

    /// Checks a script's text. Errors name the file `script`.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        parse("script", text)
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
        Self {
            name: None,
            context_window: 200_000,
            max_output: 8192,
            repeat_last: false,
        }
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
    #[serde(deserialize_with = "json_list")]
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
    #[serde(default = "empty_object", deserialize_with = "json")]
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
    #[serde(default = "plain")]
    pub policy: Policy,
    /// JSON Schema of the arguments.
    #[serde(default = "any_object", deserialize_with = "json")]
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    model: ScriptModel,
    #[serde(default)]
    answer: Vec<Spanned<Answer>>,
    summary: Option<Spanned<Summary>>,
    #[serde(default)]
    tool: Vec<Spanned<ScriptTool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Summary {
    text: String,
}

fn parse(file: &str, text: &str) -> Result<Script, ScriptError> {
    let invalid = |at: usize, message: String| {
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        ScriptError::Invalid {
            file: file.to_owned(),
            line,
            column,
            message,
        }
    };
    if text.len() > SCRIPT_BYTES_MAX {
        return Err(invalid(
            0,
            format!(
                "{} bytes; a script has at most {SCRIPT_BYTES_MAX}",
                text.len()
            ),
        ));
    }
    let raw: Raw = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        invalid(at, error.message().replace('\n', " "))
    })?;
    if raw.answer.len() > ANSWERS_MAX {
        return Err(invalid(
            0,
            format!(
                "{} answers; a script has at most {ANSWERS_MAX}",
                raw.answer.len()
            ),
        ));
    }
    if raw.tool.len() > TOOLS_MAX {
        return Err(invalid(
            0,
            format!("{} tools; a script has at most {TOOLS_MAX}", raw.tool.len()),
        ));
    }
    for answer in &raw.answer {
        check_answer(answer.get_ref()).map_err(|message| invalid(answer.span().start, message))?;
    }
    let mut names = std::collections::BTreeSet::new();
    for tool in &raw.tool {
        let at = tool.span().start;
        check_tool(tool.get_ref()).map_err(|message| invalid(at, message))?;
        if !names.insert(tool.get_ref().name.as_str()) {
            return Err(invalid(
                at,
                format!(
                    "a tool named `{}` stands above already",
                    tool.get_ref().name
                ),
            ));
        }
    }
    if let Some(summary) = raw
        .summary
        .as_ref()
        .filter(|summary| summary.get_ref().text.trim().is_empty())
    {
        return Err(invalid(
            summary.span().start,
            "`text` of the summary must not be empty".to_owned(),
        ));
    }
    Ok(Script {
        model: raw.model,
        answers: raw.answer.into_iter().map(Spanned::into_inner).collect(),
        summary: raw.summary.map(|summary| summary.into_inner().text),
        tools: raw.tool.into_iter().map(Spanned::into_inner).collect(),
    })
}

fn check_answer(answer: &Answer) -> Result<(), String> {
    if answer.when.as_deref() == Some("") {
        return Err("`when` must not be empty; leave it out for an answer to anything".to_owned());
    }
    if let Some(chunks) = answer
        .chunks
        .filter(|chunks| !(1..=CHUNKS_MAX).contains(chunks))
    {
        return Err(format!(
            "`chunks` is {chunks}; allowed are 1 to {CHUNKS_MAX}"
        ));
    }
    check_delay(answer.delay_ms)?;
    if answer
        .blocks
        .iter()
        .any(|block| !block.get("type").is_some_and(Value::is_string))
    {
        return Err("each of `blocks` must be a table with a `type`".to_owned());
    }
    let Some(fail) = &answer.fail else {
        return Ok(());
    };
    if fail.kind.is_some() == fail.cut {
        return Err("`fail` must have either `kind` or `cut = true`".to_owned());
    }
    if fail.retry_after_ms.is_some() && fail.kind != Some(FailKind::Transient) {
        return Err("`retry_after_ms` belongs to `kind = \"transient\"` only".to_owned());
    }
    if fail.cut && fail.message.is_some() {
        return Err("a `cut` has no `message`: the stream just ends".to_owned());
    }
    if fail.times == Some(0) {
        return Err("`times` must be at least 1; leave it out to fail every time".to_owned());
    }
    Ok(())
}

fn check_tool(tool: &ScriptTool) -> Result<(), String> {
    crate::tools::toolbox::check_name(&tool.name)?;
    check_delay(tool.delay_ms)?;
    match (&tool.reply, tool.replies.is_empty()) {
        (Some(_), false) => Err("a tool has either `reply` or `replies`, not both".to_owned()),
        (None, true) => Err(format!(
            "tool `{}` needs `reply = \"…\"` or `replies = [\"…\", …]`",
            tool.name
        )),
        _ => Ok(()),
    }
}

fn check_delay(delay_ms: u64) -> Result<(), String> {
    if delay_ms > DELAY_MS_MAX {
        return Err(format!("`delay_ms` is {delay_ms}; at most {DELAY_MS_MAX}"));
    }
    Ok(())
}

fn plain() -> Policy {
    Policy::Plain
}

fn empty_object() -> Value {
    serde_json::json!({})
}

fn any_object() -> Value {
    serde_json::json!({"type": "object"})
}

fn json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    to_json(toml::Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn json_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    let values = Vec::<toml::Value>::deserialize(deserializer)?;
    values
        .into_iter()
        .map(|value| to_json(value).map_err(serde::de::Error::custom))
        .collect()
}

/// JSON has no dates and no infinite numbers: the first become text, the second are refused.
fn to_json(value: toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::Array(values) => {
            Value::Array(values.into_iter().map(to_json).collect::<Result<_, _>>()?)
        }
        toml::Value::Boolean(value) => value.into(),
        toml::Value::Datetime(value) => value.to_string().into(),
        toml::Value::Float(value) => serde_json::Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| format!("{value} has no form in JSON; give a finite number"))?,
        toml::Value::Integer(value) => value.into(),
        toml::Value::String(value) => value.into(),
        toml::Value::Table(table) => Value::Object(
            table
                .into_iter()
                .map(|(key, value)| Ok((key, to_json(value)?)))
                .collect::<Result<_, String>>()?,
        ),
    })
}
