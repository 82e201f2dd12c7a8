//! A question of a task that waits: how it is asked, and how it is answered.

use super::message::Part;
use crate::approval::{Decision, Question};
use crate::prelude::*;
use serde_json::{Value, json};

/// What says yes.
const YES: [&str; 6] = ["approve", "approved", "yes", "y", "ok", "allow"];
/// What says no.
const NO: [&str; 6] = ["deny", "denied", "no", "n", "reject", "refuse"];

/// How to answer.
pub(super) const HOW: &str = "Send a message with this taskId: the text \"approve\" or \"deny\", or a data part \
                              {\"approve\": true or false, \"reason\": …, \"call\": …, \"hash\": …}. With several \
                              questions, name the call.";

/// The message that asks.
pub(super) fn message(id: &str, context: &str, questions: &[Question]) -> Value {
    let shown: Vec<Value> = questions
        .iter()
        .map(
            |q| json!({"call": q.call, "tool": q.tool, "arguments": q.arguments, "hash": q.hash, "expires": q.expires}),
        )
        .collect();
    asked(id, context, &shown)
}

/// The message that asks, from the questions as they are shown.
pub(super) fn asked(id: &str, context: &str, questions: &[Value]) -> Value {
    let tools: Vec<&str> = questions.iter().filter_map(|q| q["tool"].as_str()).collect();
    let calls: Vec<&str> = questions.iter().filter_map(|q| q["call"].as_str()).collect();
    let text = format!("May {} run? {HOW}", tools.join(", "));
    json!({
        "messageId": format!("{id}/question-{}", calls.join("-")), "contextId": context, "taskId": id,
        "role": "ROLE_AGENT",
        "parts": [{"text": text}, {"data": {"questions": questions}, "mediaType": "application/json"}],
    })
}

/// What a message says to a question.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    /// The call that it names.
    pub call: Option<String>,
    /// The hash that it names.
    pub hash: Option<String>,
    /// Yes or no.
    pub decision: Decision,
}

/// The verdict in a message's parts; `None`: they say neither yes nor no.
pub(super) fn verdict(parts: &[Part]) -> Option<Verdict> {
    for part in parts {
        match part {
            Part::Data(data) if data.get("approve").is_some() => {
                let text = |name: &str| data[name].as_str().map(str::to_owned);
                let decision =
                    if data["approve"].as_bool()? { Decision::Approve } else { Decision::Deny(text("reason")) };
                return Some(Verdict { call: text("call"), hash: text("hash"), decision });
            }
            Part::Text(text) => {
                let word = text.trim().trim_end_matches(['.', '!']).to_ascii_lowercase();
                let decision = match word.as_str() {
                    word if YES.contains(&word) => Decision::Approve,
                    word if NO.contains(&word) => Decision::Deny(None),
                    _ => continue,
                };
                return Some(Verdict { call: None, hash: None, decision });
            }
            Part::Data(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_values_answer() {
        let said = |call: Option<&str>, decision| Some(Verdict { call: call.map(str::to_owned), hash: None, decision });
        let text = |text: &str| verdict(&[Part::Text(text.into())]);
        assert_eq!(text(" Yes. "), said(None, Decision::Approve));
        assert_eq!(text("deny"), said(None, Decision::Deny(None)));
        assert_eq!(text("yes, but later"), None);
        let data = |data: Value| verdict(&[Part::Data(data)]);
        assert_eq!(data(json!({"approve": true, "call": "1.1"})), said(Some("1.1"), Decision::Approve));
        let no = Decision::Deny(Some("not now".into()));
        assert_eq!(data(json!({"approve": false, "reason": "not now"})), said(None, no));
        assert_eq!(data(json!({"approve": "true"})), None);
    }
}
