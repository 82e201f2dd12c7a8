//! A question of a task that waits: how it is asked, and how it is answered.

use super::errors::Fault;
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
                              {\"approve\": true or false, \"reason\": …, \"call\": …, \"hash\": …}.";

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

/// An answer.
pub(super) struct Answer {
    /// The call; the first that is open if none is named.
    pub call: String,
    /// The hash that was named.
    pub hash: Option<String>,
    /// Yes or no.
    pub decision: Decision,
}

/// The answer that a message's parts give to open questions; `None`: they say neither yes nor no.
pub(super) fn answer(parts: &[Part], questions: &[Question]) -> Result<Option<Answer>, Fault> {
    let Some(first) = questions.first() else { return Ok(None) };
    for part in parts {
        match part {
            Part::Data(data) if data.get("approve").is_some() => {
                let Some(approve) = data["approve"].as_bool() else { return Ok(None) };
                let text = |name: &str| data[name].as_str().map(str::to_owned);
                let call = text("call").unwrap_or_else(|| first.call.clone());
                if !questions.iter().any(|q| q.call == call) {
                    let why = "`call` is none of the calls that wait for an answer.";
                    return Err(Fault::field("message.parts", why));
                }
                let decision = if approve { Decision::Approve } else { Decision::Deny(text("reason")) };
                return Ok(Some(Answer { call, hash: text("hash"), decision }));
            }
            Part::Text(text) => {
                let word = text.trim().trim_end_matches(['.', '!']).to_ascii_lowercase();
                let decision = match word.as_str() {
                    word if YES.contains(&word) => Decision::Approve,
                    word if NO.contains(&word) => Decision::Deny(None),
                    _ => continue,
                };
                return Ok(Some(Answer { call: first.call.clone(), hash: None, decision }));
            }
            Part::Data(_) => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(call: &str) -> Question {
        Question { call: call.into(), tool: "t".into(), arguments: json!({}), hash: "h".into(), asked: 0, expires: 1 }
    }

    #[test]
    fn words_and_values_answer() {
        let two = [question("1.0"), question("1.1")];
        let said = |part: Part| answer(&[part], &two).map(|a| a.map(|a| (a.call, a.decision)));
        let text = |text: &str| said(Part::Text(text.into()));
        assert_eq!(text(" Yes. "), Ok(Some(("1.0".into(), Decision::Approve))));
        assert_eq!(text("deny"), Ok(Some(("1.0".into(), Decision::Deny(None)))));
        assert_eq!(text("yes, but later"), Ok(None));
        let data = |data: Value| said(Part::Data(data));
        assert_eq!(data(json!({"approve": true, "call": "1.1"})), Ok(Some(("1.1".into(), Decision::Approve))));
        let no = Decision::Deny(Some("not now".into()));
        assert_eq!(data(json!({"approve": false, "reason": "not now"})), Ok(Some(("1.0".into(), no))));
        assert_eq!(data(json!({"approve": "true"})), Ok(None));
        assert!(data(json!({"approve": true, "call": "9.9"})).is_err());
        assert!(answer(&[Part::Text("yes".into())], &[]).is_ok_and(|a| a.is_none()));
    }
}
