//! Why a command could not do its work: one clear message, a stable code, an exit code, and what to do.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::exit;

/// A failed command.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The exit code.
    pub exit: u8,
    /// Stable, kebab-case.
    pub code: String,
    /// What was wrong, and which limit.
    pub message: String,
    /// What to do.
    pub advice: Option<String>,
    /// More facts, for `--json` and the end of the message.
    pub facts: Map<String, Value>,
}

impl Failure {
    /// A failure with a code and a message.
    pub fn new(exit: u8, code: &str, message: impl Into<String>) -> Self {
        Self { exit, code: code.into(), message: message.into(), advice: None, facts: Map::new() }
    }

    /// Bad input.
    pub fn refused(code: &str, message: impl Into<String>) -> Self {
        Self::new(exit::REFUSED, code, message)
    }

    /// A fault of the host or the component.
    pub fn internal(code: &str, message: impl Into<String>) -> Self {
        Self::new(exit::INTERNAL, code, message)
    }

    /// A file that can't be read or written.
    pub fn file(path: &std::path::Path, what: &str, error: &std::io::Error) -> Self {
        Self::refused("file", format!("{} can't be {what}: {error}", path.display()))
    }

    /// With what to do about it.
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// With one more fact.
    pub fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.into(), value.into());
        self
    }

    /// From an answer of the component that is not a success.
    pub fn of_answer(status: u16, body: &[u8]) -> Self {
        let problem: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let text = |name: &str| problem.get(name).and_then(Value::as_str);
        let code = text("code").unwrap_or("unexplained").to_string();
        let message = match text("detail").or_else(|| text("title")) {
            Some(detail) => detail.to_string(),
            None => format!("the component answered with status {status} and no explanation"),
        };
        let exit = if code == "bad-settings" { exit::REFUSED } else { exit::of_status(status) };
        let mut failure = Self::new(exit, &code, message).fact("status", status);
        for name in ["field", "limit", "value"] {
            if let Some(value) = problem.get(name).filter(|v| !v.is_null()) {
                failure = failure.fact(name, value.clone());
            }
        }
        failure.advice = advice(status, &code).map(Into::into);
        failure
    }

    /// As text for people: what, which limit, what to do.
    pub fn text(&self) -> String {
        let mut text = format!("writ: {}", self.message);
        // A list is for machines: the message says the same.
        let short = self.facts.iter().filter(|(_, value)| !value.is_array());
        let facts: Vec<String> = short.map(|(name, value)| format!("{name} {}", plain(value))).collect();
        text.push_str(&format!(" [{}{}]", self.code, facts.iter().map(|f| format!(", {f}")).collect::<String>()));
        if let Some(advice) = &self.advice {
            text.push_str(&format!("\n      {advice}"));
        }
        text
    }

    /// As a JSON object.
    pub fn json(&self) -> Value {
        let mut object = json!({"error": self.code, "message": self.message, "exit": self.exit});
        if let (Some(map), Some(advice)) = (object.as_object_mut(), &self.advice) {
            map.insert("advice".into(), advice.clone().into());
        }
        if let Some(map) = object.as_object_mut() {
            map.extend(self.facts.clone());
        }
        object
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn advice(status: u16, code: &str) -> Option<&'static str> {
    Some(match (status, code) {
        (409, "conflict") => "Nothing was changed. Give the first message again, or another --id.",
        (409, _) => "Try again when the thread is in another state: `writ inspect thread AGENT/THREAD`.",
        (404, _) => "Look at what is there: `writ agents`, `writ inspect threads`, `writ inspect submissions`.",
        (429, _) => "Wait until some of what is queued has settled: `writ inspect submissions`.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_keeps_its_field_and_limit() {
        let body = br#"{"type":"about:blank","title":"Conflict","status":409,"detail":"message differs",
            "code":"conflict","field":"message"}"#;
        let failure = Failure::of_answer(409, body);
        assert_eq!(failure.exit, exit::CONFLICT);
        assert!(failure.text().starts_with("writ: message differs [conflict, field message, status 409]"));
        assert!(failure.text().contains("--id"));
        assert_eq!(failure.json()["field"], "message");
        assert_eq!(failure.json()["error"], "conflict");
    }

    #[test]
    fn a_body_that_is_no_problem_is_still_explained() {
        let failure = Failure::of_answer(500, b"\xff");
        assert_eq!(failure.exit, exit::INTERNAL);
        assert!(failure.message.contains("500"));
    }
}
