//! Messages as text for a terminal. What a tool or a model wrote is made safe first.

use serde_json::Value;

use super::out::BAD;
use super::out::BOLD;
use super::out::DIM;
use super::out::WARN;
use super::out::clip;
use super::out::safe;
use super::out::styled;
use super::time;

/// Longest line of an argument or a result when messages are shown in short.
const SHORT_CHARS_MAX: usize = 160;

/// How much of a message is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Detail {
    /// Everything.
    Full,
    /// Results and arguments cut to a line.
    Short,
}

/// One message with its number, as lines.
pub fn message(number: u64, message: &Value, detail: Detail) -> String {
    let mut lines = vec![heading(number, message)];
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let result = message["role"] == "toolResult";
    for (index, block) in blocks.iter().enumerate() {
        match block["type"].as_str() {
            Some("text") => lines.extend(text(&string(&block["text"]), if result { detail } else { Detail::Full })),
            Some("toolCall") => lines.push(call(number, index_of_call(blocks, index), block, detail)),
            Some(other) => lines.push(format!("    {}", styled(DIM, &format!("({})", safe(other))))),
            None => {}
        }
    }
    if let Some(content) = message["content"].as_str() {
        lines.extend(text(content, detail));
    }
    if let Some(error) = message["errorMessage"].as_str() {
        lines.push(format!("    {}", styled(BAD, &safe(error))));
    }
    lines.join("\n")
}

/// What a tool call is about, in a line: its name and its arguments.
pub fn call_line(name: &str, arguments: &Value) -> String {
    let arguments = match arguments {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("{} {}", safe(name), safe(&clip(&arguments, SHORT_CHARS_MAX)))
}

/// All text blocks of a message.
pub fn plain_text(message: &Value) -> String {
    if let Some(text) = message["content"].as_str() {
        return text.into();
    }
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter(|b| b["type"] == "text").filter_map(|b| b["text"].as_str()).collect();
    texts.join("\n")
}

fn heading(number: u64, message: &Value) -> String {
    let role = string(&message["role"]);
    let mut facts = Vec::new();
    let mut style = BOLD;
    let title = match role.as_str() {
        "toolResult" => {
            let name = string(&message["toolName"]);
            let call = message["call"].as_str().map(|c| format!(" [{c}]")).unwrap_or_default();
            match message["outcome"].as_str() {
                Some("interrupted") => {
                    style = WARN;
                    facts.push("interrupted: the outcome is unknown, it may still happen".to_string());
                }
                Some(outcome) => facts.push(outcome.to_string()),
                None if message["isError"] == true => facts.push("error".to_string()),
                None => {}
            }
            format!("result of {}{call}", safe(&name))
        }
        "notice" => {
            style = WARN;
            let attempt = message["attempt"].as_u64().map(|a| format!("attempt {a} ended")).unwrap_or(role);
            format!("{attempt}: {}", safe(message["reason"].as_str().unwrap_or("no reason was stored")))
        }
        _ => safe(&role),
    };
    if let Some(kind) = message["kind"].as_str().filter(|k| *k == "steer") {
        facts.push(kind.into());
    }
    if let Some(model) = message["model"].as_str() {
        facts.push(safe(model));
    }
    if let Some(stop) = message["stopReason"].as_str().filter(|s| !matches!(*s, "stop" | "toolUse")) {
        facts.push(format!("ended by {}", safe(stop)));
    }
    if let Some(time) = message["timestamp"].as_u64() {
        facts.push(time::stamp(time));
    }
    format!("{:>4} {}  {}", number, styled(style, &title), styled(DIM, &facts.join(", ")))
}

fn text(text: &str, detail: Detail) -> Vec<String> {
    let text = safe(text);
    match detail {
        Detail::Full => text.lines().map(|line| format!("    {line}")).collect(),
        Detail::Short if text.trim().is_empty() => Vec::new(),
        Detail::Short => vec![format!("    {}", clip(&text, SHORT_CHARS_MAX))],
    }
}

fn call(number: u64, index: usize, block: &Value, detail: Detail) -> String {
    let name = string(&block["name"]);
    let line = match detail {
        Detail::Short => call_line(&name, &block["arguments"]),
        Detail::Full => format!("{} {}", safe(&name), safe(&block["arguments"].to_string())),
    };
    format!("    calls {line} {}", styled(DIM, &format!("[{number}.{index}]")))
}

/// The number of a call among the calls of its message.
fn index_of_call(blocks: &[Value], at: usize) -> usize {
    blocks.iter().take(at).filter(|b| b["type"] == "toolCall").count()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plain(number: u64, value: &Value, detail: Detail) -> String {
        anstream::adapter::strip_str(&message(number, value, detail)).to_string()
    }

    #[test]
    fn an_interrupted_call_says_so() {
        let value = json!({"role": "toolResult", "toolName": "send", "call": "1.0", "isError": true,
            "outcome": "interrupted", "content": [{"type": "text", "text": "unknown\nmore"}]});
        let text = plain(2, &value, Detail::Short);
        assert!(text.contains("result of send [1.0]"), "{text}");
        assert!(text.contains("it may still happen"), "{text}");
        assert!(text.ends_with("    unknown…"), "{text}");
    }

    #[test]
    fn calls_are_numbered_among_calls() {
        let value = json!({"role": "assistant", "stopReason": "toolUse", "content": [
            {"type": "text", "text": "ok"},
            {"type": "toolCall", "id": "a", "name": "x", "arguments": {"k": 1}},
            {"type": "thinking"},
            {"type": "toolCall", "id": "a", "name": "y", "arguments": "not\u{1b}json"}]});
        let text = plain(5, &value, Detail::Short);
        assert!(text.contains("calls x {\"k\":1} [5.0]"), "{text}");
        assert!(text.contains("calls y not\u{fffd}json [5.1]"), "{text}");
    }

    #[test]
    fn odd_messages_are_shown_without_fuss() {
        for value in [json!(null), json!({"role": 1, "content": [1, {"type": 3}]}), json!({"content": "x"})] {
            assert!(plain(0, &value, Detail::Full).starts_with("   0"));
        }
        let notice = json!({"role": "notice", "kind": "attempt-ended", "reason": "interrupted", "attempt": 1});
        assert!(plain(3, &notice, Detail::Full).contains("attempt 1 ended: interrupted"));
    }
}
