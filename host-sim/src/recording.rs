//! Recorded sessions: JSON Lines in the form of docs/transcript.md, ours or another agent's.

use std::borrow::Cow;
use std::io::BufRead;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::model::Usage;

/// Longest line of a recording, in bytes.
pub const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most messages of a recording.
pub const MESSAGES_MAX: usize = 100_000;
/// Most lines of a recording, those included that are passed over.
pub const LINES_MAX: usize = 1_000_000;

/// A recorded session. Lines and messages of kinds unknown here are passed over; so are unknown fields.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Users', models' and tools' messages, in order.
    pub messages: Vec<Message>,
    /// `summary` and `notice` messages of our own exports: the number of messages before each, and the message.
    pub asides: Vec<(usize, Value)>,
    /// What came from outside, in order.
    pub inputs: Vec<Input>,
}

/// A user message, as an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Index into [`Recording::messages`].
    pub message: usize,
    /// It entered a running turn: there is nothing but user messages between it and a tool result, or it says so.
    pub steer: bool,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The content.
    pub blocks: Vec<Block>,
    /// `stopReason` of an answer.
    pub stop_reason: Option<String>,
    /// `errorMessage` of an answer.
    pub error_message: Option<String>,
    /// Cost of an answer.
    pub usage: Option<Usage>,
    /// `toolCallId` of a result.
    pub tool_call_id: String,
    /// `toolName` of a result.
    pub tool_name: String,
    /// `isError` of a result.
    pub is_error: bool,
    /// `outcome` of a result.
    pub outcome: Option<String>,
    /// `kind`, as in `"steer"`.
    pub kind: Option<String>,
    /// The content as it came.
    pub content: Value,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A model.
    Assistant,
    /// A tool.
    ToolResult,
    /// A caller.
    User,
}

/// A content block.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A tool call.
    Call {
        /// The provider's id.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments; a string holds what isn't JSON.
        arguments: Value,
    },
    /// Anything else, as it came.
    Other(Value),
    /// Text.
    Text(String),
}

/// Why a recording can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// A line is not what docs/transcript.md says.
    #[error("line {line}: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The file can't be read.
    #[error("the recording can't be read: {0}")]
    Read(String),
}

impl RecordingError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Line { .. } => "recording-invalid",
            Self::Read(_) => "recording-unreadable",
        }
    }
}

impl Recording {
    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let file =
            std::fs::File::open(path).map_err(|error| RecordingError::Read(format!("{}: {error}", path.display())))?;
        Self::read(std::io::BufReader::new(file))
    }

    /// Reads JSON Lines.
    pub fn read(mut lines: impl BufRead) -> Result<Self, RecordingError> {
        let mut recording = Self::default();
        let mut bytes = Vec::new();
        for line in 1.. {
            bytes.clear();
            let limit = LINE_BYTES_MAX as u64 + 2;
            let read = lines.by_ref().take(limit).read_until(b'\n', &mut bytes);
            if read.map_err(|error| RecordingError::Read(error.to_string()))? == 0 {
                break;
            }
            recording.add_line(line, &bytes).map_err(|reason| RecordingError::Line { line, reason })?;
        }
        recording.find_inputs();
        Ok(recording)
    }

    /// The distinct names of the tools that were called or answered, in order of appearance.
    pub fn tools(&self) -> Vec<String> {
        let mut seen = std::collections::BTreeSet::new();
        let mut names = Vec::new();
        for message in &self.messages {
            let calls = message.calls().map(|(_, name, _)| name);
            let answered = (message.role == Role::ToolResult).then_some(message.tool_name.as_str());
            for name in calls.chain(answered) {
                if seen.insert(name) {
                    names.push(name.to_owned());
                }
            }
        }
        names
    }

    fn add_line(&mut self, line: usize, bytes: &[u8]) -> Result<(), String> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        if bytes.len() > LINE_BYTES_MAX {
            return Err(format!("longer than {LINE_BYTES_MAX} bytes"));
        }
        if line > LINES_MAX {
            return Err(format!("a recording has at most {LINES_MAX} lines"));
        }
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            return Ok(());
        }
        let value: Value = serde_json::from_str(&mend_surrogates(text)).map_err(|error| error.to_string())?;
        let Value::Object(fields) = &value else {
            return Err("not a JSON object".to_owned());
        };
        if fields.get("type").and_then(Value::as_str) != Some("message") {
            return Ok(());
        }
        let message = fields.get("message").ok_or("a `message` line without `message`")?;
        match message.get("role").and_then(Value::as_str) {
            Some("summary" | "notice") => self.asides.push((self.messages.len(), message.clone())),
            _ => self.messages.extend(Message::parse(message)?),
        }
        if self.messages.len() > MESSAGES_MAX {
            return Err(format!("a recording has at most {MESSAGES_MAX} messages"));
        }
        Ok(())
    }

    fn find_inputs(&mut self) {
        let mut running = false;
        for (index, message) in self.messages.iter().enumerate() {
            match message.role {
                Role::Assistant => running = false,
                Role::ToolResult => running = true,
                Role::User => {
                    let steer = running || message.kind.as_deref() == Some("steer");
                    self.inputs.push(Input { message: index, steer });
                }
            }
        }
    }
}

impl Message {
    /// Reads a message; `None` for a role unknown here.
    pub fn parse(value: &Value) -> Result<Option<Self>, String> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let role = match value.get("role").and_then(Value::as_str) {
            Some("assistant") => Role::Assistant,
            Some("toolResult") => Role::ToolResult,
            Some("user") => Role::User,
            Some(_) => return Ok(None),
            None => return Err("a message without `role`".to_owned()),
        };
        let content = value.get("content").cloned().unwrap_or(Value::Null);
        let blocks = match &content {
            Value::String(text) => vec![Block::Text(text.clone())],
            Value::Array(blocks) => blocks.iter().map(Block::parse).collect::<Result<_, _>>()?,
            _ => return Err("`content` is neither an array of blocks nor a text".to_owned()),
        };
        let tool_call_id = text("toolCallId");
        if role == Role::ToolResult && tool_call_id.is_none() {
            return Err("a `toolResult` without `toolCallId`".to_owned());
        }
        Ok(Some(Self {
            role,
            blocks,
            stop_reason: text("stopReason"),
            error_message: text("errorMessage"),
            usage: value.get("usage").map(usage),
            tool_call_id: tool_call_id.unwrap_or_default(),
            tool_name: text("toolName").unwrap_or_default(),
            is_error: value.get("isError").and_then(Value::as_bool).unwrap_or(false),
            outcome: text("outcome"),
            kind: text("kind"),
            content,
        }))
    }

    /// Its text blocks, one a line.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Id, name and arguments of its calls.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Call { id, name, arguments } => Some((id.as_str(), name.as_str(), arguments)),
            _ => None,
        })
    }

    /// It ended in `aborted` or `error`: its calls, if any, were never run.
    pub fn ended_badly(&self) -> bool {
        matches!(self.stop_reason.as_deref(), Some("aborted" | "error"))
    }
}

impl Block {
    fn parse(value: &Value) -> Result<Self, String> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let need = |name: &str, kind: &str| text(name).ok_or_else(|| format!("a `{kind}` block without `{name}`"));
        match value.get("type").and_then(Value::as_str) {
            Some("text") => Ok(Self::Text(need("text", "text")?)),
            Some("toolCall") => Ok(Self::Call {
                id: need("id", "toolCall")?,
                name: need("name", "toolCall")?,
                arguments: value.get("arguments").cloned().unwrap_or_else(|| serde_json::json!({})),
            }),
            Some(_) => Ok(Self::Other(value.clone())),
            None => Err("a content block without `type`".to_owned()),
        }
    }
}

/// Ours, or with cached tokens apart and the cost in dollars.
fn usage(value: &Value) -> Usage {
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let cached = number("cacheRead").unwrap_or(0).saturating_add(number("cacheWrite").unwrap_or(0));
    let dollars = value.get("cost").and_then(|cost| cost.get("total")).and_then(Value::as_f64);
    Usage {
        input_tokens: number("input").map(|input| input.saturating_add(cached)),
        output_tokens: number("output"),
        cost_microusd: number("costMicrousd").or(dollars.map(|dollars| (dollars * 1e6).round() as u64)),
    }
}

/// Makes escapes of unpaired surrogates in JSON text the replacement character: they have no form in UTF-8, and one of
/// them must not cost a whole session.
pub(crate) fn mend_surrogates(json: &str) -> Cow<'_, str> {
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended: Option<String> = None;
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = json.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                let mended = mended.get_or_insert_default();
                mended.push_str(json.get(copied..at).unwrap_or_default());
                mended.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            // An escape is at least two bytes; its second byte may be a backslash.
            _ => at += 2,
        }
    }
    match mended {
        Some(mended) => Cow::Owned(mended + json.get(copied..).unwrap_or_default()),
        None => Cow::Borrowed(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows B40.
    #[test]
    fn unpaired_surrogates_are_mended_and_pairs_stay() {
        let cases = [
            (r#""\ud83d\ude00""#, "😀"),
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\ude00b""#, "\u{fffd}b"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\n\u00e9""#, "\né"),
        ];
        for (json, expected) in cases {
            assert_eq!(serde_json::from_str::<String>(&mend_surrogates(json)).unwrap(), expected, "{json}");
        }
    }

    #[test]
    fn costs_are_read_in_both_forms() {
        let ours = serde_json::json!({"input": 5, "output": 2, "costMicrousd": 9});
        assert_eq!(usage(&ours), Usage { input_tokens: Some(5), output_tokens: Some(2), cost_microusd: Some(9) });
        let other = serde_json::json!({"input": 5, "cacheRead": 10, "cacheWrite": 1, "cost": {"total": 0.009189}});
        assert_eq!(usage(&other), Usage { input_tokens: Some(16), output_tokens: None, cost_microusd: Some(9189) });
    }
}
