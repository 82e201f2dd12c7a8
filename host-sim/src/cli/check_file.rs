//! The check of an exported file: numbering, and that every call has exactly one result, adjacent and in order.

use serde_json::Value;

use super::recording::Exported;
use super::runtime::Finding;

/// What a file holds.
#[derive(Debug, Default, PartialEq)]
pub struct FileReport {
    /// What is wrong; `key` is the place, `line n`.
    pub findings: Vec<Finding>,
    /// Messages.
    pub messages: u64,
    /// Calls.
    pub calls: u64,
    /// Results.
    pub results: u64,
}

/// A call that waits for its result.
struct Open {
    line: usize,
    call: String,
    id: String,
}

/// Checks a file.
pub fn check(file: &Exported) -> FileReport {
    let mut report = FileReport::default();
    let mut open: Vec<Open> = Vec::new();
    for (number, (line, raw)) in file.messages.iter().enumerate() {
        let message: Value = serde_json::from_str(raw).unwrap_or(Value::Null);
        report.messages += 1;
        match message["role"].as_str() {
            Some("toolResult") => {
                report.results += 1;
                result(&mut report, &mut open, *line, &message);
                continue;
            }
            Some("assistant" | "notice" | "summary" | "user") => {}
            Some(other) => report.find("format", *line, format!("unknown role {other:?}")),
            None => report.find("format", *line, "a message without a role".into()),
        }
        report.close(&mut open);
        if message["role"] == "assistant" {
            open = calls(number, *line, &message);
            report.calls += open.len() as u64;
        }
    }
    report.close(&mut open);
    if file.session.is_none() {
        report.find("format", 1, "there is no session line".into());
    }
    report
}

impl FileReport {
    fn find(&mut self, invariant: &str, line: usize, text: String) {
        self.findings.push(Finding { invariant: invariant.into(), key: format!("line {line}"), text });
    }

    fn close(&mut self, open: &mut Vec<Open>) {
        for call in open.drain(..) {
            self.find("I5", call.line, format!("call {} ({}) has no result", call.call, call.id));
        }
    }
}

/// Compares a result with the call whose turn it is.
fn result(report: &mut FileReport, open: &mut Vec<Open>, line: usize, message: &Value) {
    let id = message["toolCallId"].as_str().unwrap_or_default();
    if open.is_empty() {
        return report.find("I5", line, format!("a result for {id:?}, and no call before it is open"));
    }
    let call = open.remove(0);
    if call.id != id {
        report.find("I5", line, format!("a result for {id:?} where call {} ({}) is due", call.call, call.id));
    }
    if let Some(named) = message["call"].as_str().filter(|named| *named != call.call) {
        report.find("I4", line, format!("the result is numbered {named}, its call is {}", call.call));
    }
}

fn calls(number: usize, line: usize, message: &Value) -> Vec<Open> {
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let calls = blocks.iter().filter(|block| block["type"] == "toolCall").enumerate();
    calls
        .map(|(index, block)| Open {
            line,
            call: format!("{number}.{index}"),
            id: block["id"].as_str().unwrap_or_default().into(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = r#"{"type":"session","format":"writ/1"}"#;

    fn findings(messages: &[&str]) -> Vec<String> {
        let mut text = format!("{SESSION}\n");
        for message in messages {
            text.push_str(&format!("{{\"type\":\"message\",\"message\":{message}}}\n"));
        }
        let report = check(&Exported::parse(&text).unwrap());
        report.findings.iter().map(|f| format!("{} {} {}", f.invariant, f.key, f.text)).collect()
    }

    const USER: &str = r#"{"role":"user","content":[]}"#;
    const CALLS: &str = r#"{"role":"assistant","content":[{"type":"toolCall","id":"a","name":"x","arguments":{}},
        {"type":"text","text":""},{"type":"toolCall","id":"a","name":"x","arguments":{}}]}"#;

    fn result(call: &str) -> String {
        format!(r#"{{"role":"toolResult","toolCallId":"a","call":"{call}","content":[]}}"#)
    }

    #[test]
    fn a_good_file_has_no_finding() {
        let calls = CALLS.replace('\n', " ");
        assert!(findings(&[USER, &calls, &result("1.0"), &result("1.1"), USER]).is_empty());
    }

    #[test]
    fn holes_are_named_with_their_line() {
        let calls = CALLS.replace('\n', " ");
        let one = findings(&[USER, &calls, &result("1.0"), USER]);
        assert_eq!(one, ["I5 line 3 call 1.1 (a) has no result"]);
        let three = findings(&[USER, &calls, &result("1.0"), &result("1.1"), &result("1.2")]);
        assert!(three[0].starts_with("I5 line 6"), "{three:?}");
        let misnumbered = findings(&[USER, &calls, &result("1.1"), &result("1.1")]);
        assert!(misnumbered[0].starts_with("I4 line 4"), "{misnumbered:?}");
        let apart = findings(&[&calls, USER, &result("0.0"), &result("0.1")]);
        assert_eq!(apart.len(), 4, "{apart:?}");
        assert!(findings(&[r#"{"role":"boss"}"#])[0].contains("boss"));
    }
}
