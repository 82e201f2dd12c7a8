//! Compares two messages.

use serde_json::Value;

use crate::recording::Block;
use crate::recording::Message;
use crate::recording::Role;

/// Length to which texts in a report are cut, in characters.
const SHOWN_CHARS_MAX: usize = 120;

/// Nothing differs, or the stored one is an interrupted result in the place of the recorded one.
pub(super) fn alike(got: &Message, expected: &Message) -> bool {
    let interrupted = got.outcome.as_deref() == Some("interrupted") && same_place(got, expected);
    interrupted || differences(got, expected).is_empty()
}

/// They stand in the same place, whatever they say: two answers, or two results of one call.
pub(super) fn same_place(got: &Message, expected: &Message) -> bool {
    match (got.role, expected.role) {
        (Role::Assistant, Role::Assistant) => true,
        (Role::ToolResult, Role::ToolResult) => {
            got.tool_call_id == expected.tool_call_id && got.tool_name == expected.tool_name
        }
        _ => false,
    }
}

/// Field, recorded value and stored value of each difference.
pub(super) fn differences(got: &Message, expected: &Message) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut check = |field: &str, expected: String, got: String| {
        if expected != got {
            found.push((field.to_owned(), expected, got));
        }
    };
    check("role", format!("{:?}", expected.role), format!("{:?}", got.role));
    if got.role == Role::ToolResult && expected.role == Role::ToolResult {
        check("toolCallId", expected.tool_call_id.clone(), got.tool_call_id.clone());
        check("toolName", expected.tool_name.clone(), got.tool_name.clone());
        check("isError", expected.is_error.to_string(), got.is_error.to_string());
        check("outcome", outcome(expected), outcome(got));
    }
    let (expected, got) = (normal(expected), normal(got));
    for index in 0..expected.len().max(got.len()) {
        let (expected, got) = (expected.get(index), got.get(index));
        if let (Some(Part::Call(expected)), Some(Part::Call(got))) = (expected, got) {
            check(&format!("content[{index}].id"), expected.0.clone(), got.0.clone());
            check(&format!("content[{index}].name"), expected.1.clone(), got.1.clone());
            check(&format!("content[{index}].arguments"), expected.2.to_string(), got.2.to_string());
        } else if expected != got {
            found_block(&mut check, index, expected, got);
        }
    }
    found
}

/// Cut for a report, with a mark where it was cut.
pub(super) fn short(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

/// A content block in a form that can be compared.
#[derive(Debug, PartialEq)]
enum Part {
    Call((String, String, Value)),
    Other(Value),
    Text(String),
}

/// The blocks, adjacent texts as one and empty ones left out: a text that came in pieces is the same text.
fn normal(message: &Message) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Call { id, name, arguments } => {
                parts.push(Part::Call((id.clone(), name.clone(), arguments.clone())));
            }
            Block::Other(value) => parts.push(Part::Other(value.clone())),
            Block::Text(text) if text.is_empty() => {}
            Block::Text(text) => match parts.last_mut() {
                Some(Part::Text(before)) => before.push_str(text),
                _ => parts.push(Part::Text(text.clone())),
            },
        }
    }
    parts
}

fn outcome(message: &Message) -> String {
    message.outcome.clone().unwrap_or_else(|| "none".to_owned())
}

fn found_block(
    check: &mut impl FnMut(&str, String, String),
    index: usize,
    expected: Option<&Part>,
    got: Option<&Part>,
) {
    if let (Some(Part::Text(expected)), Some(Part::Text(got))) = (expected, got) {
        let (expected, got) = from_first_difference(expected, got);
        check(&format!("content[{index}].text"), expected, got);
        return;
    }
    let show = |part: Option<&Part>| match part {
        None => "nothing".to_owned(),
        Some(Part::Call((id, name, arguments))) => format!("call {id} of {name} with {arguments}"),
        Some(Part::Other(value)) => value.to_string(),
        Some(Part::Text(text)) => format!("text {text:?}"),
    };
    check(&format!("content[{index}]"), show(expected), show(got));
}

/// The ends of two texts, from shortly before they part: two long texts often begin alike.
fn from_first_difference(a: &str, b: &str) -> (String, String) {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let skip = same.saturating_sub(20);
    let mark = if skip > 0 { "…" } else { "" };
    let end = |text: &str| format!("{mark}{}", text.chars().skip(skip).collect::<String>());
    (end(a), end(b))
}
