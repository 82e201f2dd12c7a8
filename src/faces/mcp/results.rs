//! The result of a tool call: what a submission has come to.

use super::fail::error_of;
use crate::approval::Question;
use crate::error::{Error, Problem};
use crate::faces::session;
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::{Kind, Outcome, Submission};
use crate::session::message::read_messages;
use crate::view::{self, Standing};
use serde_json::{Map, Value, json};

/// What a client may find in a block that it is shown.
const BLOCK_MEMBERS: [&str; 11] =
    ["annotations", "data", "description", "mimeType", "name", "resource", "size", "text", "title", "type", "uri"];

/// What stands in `structuredContent` of every result of an agent: the same for all.
pub fn output_schema() -> Value {
    json!({
        "type": "object",
        "required": ["session_id", "submission_id", "status"],
        "properties": {
            "session_id": {"type": "string", "description": "Pass it on to go on with this conversation."},
            "submission_id": {"type": "string", "description": "Names this piece of work."},
            "status": {"type": "string", "description": "completed, failed or aborted; otherwise it is not done yet."},
            "result": {"description": "The typed result, if a schema asked for one."},
            "error": {
                "type": "object",
                "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
            },
            "questions": {"type": "array", "description": "What it waits to be told by a person."},
        },
    })
}

/// A submission as the result of the tool call that made it.
pub fn tool_result(ports: &Ports, id: &str, sub: &Submission) -> Result<Value, Error> {
    let mut told = Map::new();
    told.insert("session_id".into(), json!(session::name(&sub.address)));
    told.insert("submission_id".into(), json!(id));
    let (status, content, is_error) = match &sub.outcome {
        Some(Outcome::Completed { message, result }) => {
            let mut content = match message {
                Some(n) => blocks(ports, id, sub, *n)?,
                None => Vec::new(),
            };
            if let Some(result) = result {
                told.insert("result".into(), result.clone());
                if content.is_empty() {
                    content.push(text(&result.to_string()));
                }
            }
            if sub.kind == Kind::Fork {
                content.push(text(&format!("The copy is the session {}.", session::name(&sub.address))));
            }
            ("completed".to_owned(), content, false)
        }
        Some(Outcome::Failed { error }) => {
            told.insert("error".into(), json!({"code": error.code, "message": error.message}));
            ("failed".into(), vec![text(&error.message)], true)
        }
        Some(Outcome::Aborted { reason }) => {
            told.insert("error".into(), json!({"code": "aborted", "message": format!("It was ended: {reason}.")}));
            ("aborted".into(), vec![text(&format!("It was ended before it had an answer: {reason}."))], true)
        }
        None => {
            let Standing { state, reason, questions } = view::standing(ports, id, sub)?;
            if !questions.is_empty() {
                let shown = |q: &Question| json!({"call": q.call, "tool": q.tool, "arguments": q.arguments});
                told.insert("questions".into(), questions.iter().map(shown).collect());
            }
            let detail = format!(
                "It is not done yet: {reason} It goes on. Read its resource submission://{id}, or stop it with \
                 submission_interrupt."
            );
            told.insert("error".into(), json!({"code": "not-done", "message": detail}));
            (state.to_owned(), vec![text(&detail)], true)
        }
    };
    told.insert("status".into(), json!(status));
    Ok(json!({"content": content, "structuredContent": told, "isError": is_error}))
}

/// A refusal as the result of a tool call, for the model to see and to do better.
pub fn refused(problem: &Problem) -> Value {
    let told = json!({"error": error_of(problem)});
    json!({"content": [text(&problem.detail)], "structuredContent": told, "isError": true})
}

/// A result that is JSON.
pub fn structured(value: Value) -> Value {
    json!({"content": [text(&value.to_string())], "structuredContent": value, "isError": false})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The blocks of a message that a client can show.
fn blocks(ports: &Ports, id: &str, sub: &Submission, n: u64) -> Result<Vec<Value>, Error> {
    let place = sub.place(id);
    let message = read_messages(ports, &place, n, n + 1)?.pop();
    Ok(message.map(|m| m.content.iter().filter_map(block).collect()).unwrap_or_default())
}

/// A block, if it has the shape that MCP gives blocks, without what is only ours.
fn block(block: &Value) -> Option<Value> {
    let has = |name: &str| block[name].is_string();
    let fit = match block["type"].as_str()? {
        "text" => has("text"),
        "image" | "audio" => has("data") && has("mimeType"),
        "resource" => {
            let resource = &block["resource"];
            resource["uri"].is_string() && (resource["text"].is_string() || resource["blob"].is_string())
        }
        "resource_link" => has("uri") && has("name"),
        _ => false,
    };
    let members = block.as_object().filter(|_| fit)?;
    let shown = members.iter().filter(|(name, _)| BLOCK_MEMBERS.contains(&name.as_str()));
    Some(Value::Object(shown.map(|(name, value)| (name.clone(), value.clone())).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_pass_when_they_have_the_shape() {
        for good in [
            json!({"type": "text", "text": "x"}),
            json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
            json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
            json!({"type": "resource", "resource": {"uri": "a://b", "text": "x"}}),
            json!({"type": "resource_link", "uri": "a://b", "name": "b"}),
        ] {
            assert_eq!(block(&good), Some(good));
        }
        for bad in [
            json!({"type": "thinking", "thinking": "x"}),
            json!({"type": "image", "source": {}}),
            json!({"type": "resource", "resource": {"uri": "a://b"}}),
            json!({"text": "x"}),
            json!(7),
        ] {
            assert_eq!(block(&bad), None, "{bad}");
        }
        let ours = json!({"type": "text", "text": "x", "signature": "s"});
        assert_eq!(block(&ours), Some(json!({"type": "text", "text": "x"})));
    }
}
