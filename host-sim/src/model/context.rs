//! What a made-up model reads out of a request.

use serde_json::Value;

use super::ModelError;
use super::ModelRequest;

/// A request's messages, as far as made-up models need them.
pub(crate) struct Context {
    /// Role and text of each message.
    pub(crate) messages: Vec<(String, String)>,
    /// It is a summary that is asked for.
    pub(crate) summary: bool,
}

impl Context {
    /// Reads a request; `Invalid` when its JSON is not what docs/transcript.md says.
    pub(crate) fn read(request: &ModelRequest) -> Result<Self, ModelError> {
        let bad = |what: &str, reason: String| ModelError::Invalid(format!("`{what}` of the request: {reason}"));
        let messages: Vec<Value> =
            serde_json::from_str(&request.messages).map_err(|error| bad("messages", error.to_string()))?;
        let options: Value = match request.options.trim() {
            "" => Value::Null,
            text => serde_json::from_str(text).map_err(|error| bad("options", error.to_string()))?,
        };
        let messages = messages
            .iter()
            .map(|message| {
                let role = message.get("role").and_then(Value::as_str);
                let role = role.ok_or_else(|| bad("messages", "a message has no role".to_owned()))?;
                Ok((role.to_owned(), text_of(message.get("content").unwrap_or(&Value::Null))))
            })
            .collect::<Result<_, ModelError>>()?;
        Ok(Self { messages, summary: options.get("purpose").and_then(Value::as_str) == Some("summary") })
    }

    /// Text of the last user message.
    pub(crate) fn last_user(&self) -> Option<&str> {
        self.last_user_at().and_then(|at| self.messages.get(at)).map(|(_, text)| text.as_str())
    }

    /// The messages after the last user message.
    pub(crate) fn since_last_user(&self) -> &[(String, String)] {
        self.last_user_at().and_then(|at| self.messages.get(at + 1..)).unwrap_or(&[])
    }

    /// Texts of the user messages that come after everything else.
    pub(crate) fn trailing_users(&self) -> Vec<&str> {
        let others = self.messages.iter().rposition(|(role, _)| role != "user").map_or(0, |at| at + 1);
        self.messages.iter().skip(others).map(|(_, text)| text.as_str()).collect()
    }

    fn last_user_at(&self) -> Option<usize> {
        self.messages.iter().rposition(|(role, _)| role == "user")
    }
}

/// The text blocks of a content, one a line; a content may also be a plain text.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter(|block| block.get("type").and_then(Value::as_str) == Some("text"));
            texts.filter_map(|block| block.get("text").and_then(Value::as_str)).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
