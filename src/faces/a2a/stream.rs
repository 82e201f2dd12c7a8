//! The frames of a task's stream: the task as it is, then what the journal tells of it, up to its end.
//!
//! A frame's number is the journal's, plus one; before all of them, at 0, comes the task. It is read together with the
//! head, which says where the journal stood then: so nothing is missed, and nothing is told twice unless the task moves
//! faster than it is read.

use super::question;
use super::task::{self, RESULT, Shown, Stand, attempt_text, of_state};
use crate::error::Refusal;
use crate::faces::frames::{Frame, Frames};
use crate::faces::rpc;
use crate::follow::{Feed, What, follow};
use crate::keys;
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::{Head, Submission, decode_opt};
use crate::store::read;
use crate::view;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How often a thread that changes meanwhile is read again for its snapshot.
const TRIES: u32 = 4;

/// How far a stream, or a wait, goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Until {
    /// To the outcome.
    Terminal,
    /// To the outcome, or to a question.
    Interrupted,
}

/// What a feed has to know of its request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Telling {
    /// The JSON-RPC id; `None`: it is told bare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc: Option<Value>,
    /// The task's context: known even when the record has gone.
    pub context: String,
    /// How far.
    pub until: Until,
    /// Messages of history that the first frame may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<u64>,
}

impl Telling {
    /// As it stands in the feed's name.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    fn wrap(&self, event: Value) -> Value {
        match &self.rpc {
            Some(id) => rpc::response(id, event),
            None => event,
        }
    }
}

/// Frames of a feed of this face.
pub(in crate::faces) fn frames(ports: &Ports, feed: &Feed, request: &str, after: u64) -> Result<Frames, Refusal> {
    let Ok(telling) = serde_json::from_str::<Telling>(request) else {
        // Nobody but this face names its feeds.
        return Ok(Frames { next: after, end: true, ..Frames::default() });
    };
    match &feed.what {
        What::Outcome(id) => wait(ports, feed, &telling, id, after),
        What::Submission(id) if after == 0 => first(ports, feed, &telling, id),
        What::Submission(id) => rest(ports, feed, &telling, id, after),
        What::Thread => Ok(Frames { next: after, end: true, ..Frames::default() }),
    }
}

/// No frames: it ends with the outcome, or with a question.
fn wait(ports: &Ports, feed: &Feed, telling: &Telling, id: &str, after: u64) -> Result<Frames, Refusal> {
    let end = match telling.until {
        Until::Terminal => follow(ports, feed, after)?.end,
        Until::Interrupted => view::is_due(ports, id)?,
    };
    Ok(Frames { next: after, end, ..Frames::default() })
}

/// The task, and where the journal stood then.
fn first(ports: &Ports, feed: &Feed, telling: &Telling, id: &str) -> Result<Frames, Refusal> {
    let names = [keys::sub(id), feed.place.head()];
    let mut before = read(ports.store, names.clone())?;
    let mut tries = TRIES;
    loop {
        let sub: Option<Submission> = decode_opt(&names[0], &before[0])?;
        let head: Option<Head> = decode_opt(&names[1], &before[1])?;
        let number = head.map_or(0, |head| head.jused);
        let Some(sub) = sub else {
            let frames = vec![frame(telling, 1, &gone(telling, id))];
            return Ok(Frames { frames, next: number + 1, end: true });
        };
        let shown = Shown { history: telling.history, artifacts: true };
        let (task, stand) = task::task(ports, id, &sub, shown)?;
        let now = read(ports.store, names.clone())?;
        // What the task rests on has moved: look again, or the journal would tell it once more.
        tries -= 1;
        if now != before && tries > 0 {
            before = now;
            continue;
        }
        let end = stand == Stand::Terminal || (stand == Stand::Interrupted && telling.until == Until::Interrupted);
        let frames = vec![frame(telling, number + 1, &json!({"task": task}))];
        return Ok(Frames { frames, next: number + 1, end });
    }
}

/// What the journal tells after a frame.
fn rest(ports: &Ports, feed: &Feed, telling: &Telling, id: &str, after: u64) -> Result<Frames, Refusal> {
    let page = follow(ports, feed, after - 1)?;
    let mut told = Frames { next: page.next + 1, end: page.end, ..Frames::default() };
    for (n, event) in page.frames {
        for event in events(ports, telling, id, &event)? {
            told.frames.push(frame(telling, n + 1, &event));
        }
        if event["type"] == "question" && telling.until == Until::Interrupted {
            told.next = n + 1;
            told.end = true;
            break;
        }
    }
    Ok(told)
}

fn frame(telling: &Telling, number: u64, event: &Value) -> Frame {
    Frame { number, name: None, event: telling.wrap(event.clone()) }
}

/// An event of the journal as A2A tells it: nothing, one update, or two.
fn events(ports: &Ports, telling: &Telling, id: &str, event: &Value) -> Result<Vec<Value>, Refusal> {
    let context = telling.context.as_str();
    let message = |name: &str, text: &str| Some(task::agent_message(id, context, name, text));
    let working = |message: Option<Value>, metadata: Value| {
        vec![status(telling, id, of_state("WORKING", None, message), metadata)]
    };
    Ok(match event["type"].as_str().unwrap_or_default() {
        "attempt" => {
            let attempt = event["attempt"].as_u64().unwrap_or(1);
            let text = attempt_text(attempt).and_then(|text| message(&format!("attempt-{attempt}"), &text));
            working(text, json!({"attempt": attempt}))
        }
        "text" => vec![piece(telling, id, event)],
        "messages" => said(telling, id, event),
        "retrying" => {
            let text = format!("The model failed ({}); it is asked again.", text_of(event, "reason"));
            working(message("retrying", &text), json!({"retry": {"count": event["count"], "due": event["due"]}}))
        }
        "waiting" => working(message("waiting", &text_of(event, "reason")), json!({"due": event["due"]})),
        "paused" => working(message("paused", "It is paused."), Value::Null),
        "resumed" => working(None, Value::Null),
        "question" => {
            let questions = event["questions"].as_array().cloned().unwrap_or_default();
            let message = question::asked(id, context, &questions);
            vec![status(telling, id, of_state("INPUT_REQUIRED", None, Some(message)), Value::Null)]
        }
        "answered" => {
            let metadata = json!({"answered": {"call": event["call"], "decision": event["decision"]}});
            let state = if event["open"].as_u64().unwrap_or(0) > 0 { "INPUT_REQUIRED" } else { "WORKING" };
            vec![status(telling, id, of_state(state, None, None), metadata)]
        }
        "settled" => settled(ports, telling, id)?,
        "gone" => vec![gone(telling, id)],
        _ => Vec::new(),
    })
}

fn text_of(event: &Value, name: &str) -> String {
    event[name].as_str().unwrap_or_default().to_owned()
}

/// A status update.
fn status(telling: &Telling, id: &str, status: Value, metadata: Value) -> Value {
    let mut update = json!({"taskId": id, "contextId": telling.context, "status": status});
    if !metadata.is_null() {
        update["metadata"] = metadata;
    }
    json!({"statusUpdate": update})
}

/// A piece of an answer that grows: appended, or the first of a new text.
fn piece(telling: &Telling, id: &str, event: &Value) -> Value {
    let offset = event["offset"].as_u64().unwrap_or(0);
    json!({"artifactUpdate": {
        "taskId": id, "contextId": telling.context, "append": offset > 0, "lastChunk": false,
        "artifact": {"artifactId": RESULT, "name": RESULT, "parts": [{"text": event["text"], "mediaType": "text/plain"}]},
        "metadata": {"attempt": event["attempt"], "message": event["number"], "offset": offset},
    }})
}

/// What was stored of a turn that goes on: what the agent said and called, and what came of its calls.
fn said(telling: &Telling, id: &str, event: &Value) -> Vec<Value> {
    let (mut texts, mut calls, mut results, mut last) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for entry in event["messages"].as_array().into_iter().flatten() {
        let message = &entry["message"];
        last = entry["number"].as_u64().unwrap_or(0);
        match entry["role"].as_str() {
            Some("assistant") => {
                for block in message["content"].as_array().into_iter().flatten() {
                    match block["type"].as_str() {
                        Some("text") => texts.extend(block["text"].as_str()),
                        Some("toolCall") => calls.push(json!({"id": block["id"], "name": block["name"]})),
                        _ => {}
                    }
                }
            }
            Some("toolResult") => {
                let mut result = json!({"call": message["call"], "name": message["toolName"]});
                for name in ["isError", "outcome"] {
                    if !message[name].is_null() {
                        result[name] = message[name].clone();
                    }
                }
                results.push(result);
            }
            _ => {}
        }
    }
    if calls.is_empty() && results.is_empty() {
        // An answer without calls is the result, which comes with the outcome.
        return Vec::new();
    }
    let text = texts.join("\n");
    let name = format!("message-{last}");
    let message = (!text.is_empty()).then(|| task::agent_message(id, &telling.context, &name, &text));
    let mut metadata = json!({});
    for (name, list) in [("toolCalls", calls), ("toolResults", results)] {
        if !list.is_empty() {
            metadata[name] = Value::Array(list);
        }
    }
    vec![status(telling, id, of_state("WORKING", None, message), metadata)]
}

/// The end, from the record: the result as a whole, in the place of its pieces, and the status.
fn settled(ports: &Ports, telling: &Telling, id: &str) -> Result<Vec<Value>, Refusal> {
    let Some(sub) = view::record(ports, id)?.filter(Submission::is_settled) else { return Ok(vec![gone(telling, id)]) };
    let mut told = Vec::new();
    if let Some(artifact) = task::artifact(ports, id, &sub)? {
        told.push(json!({"artifactUpdate": {
            "taskId": id, "contextId": telling.context, "artifact": artifact, "append": false, "lastChunk": true,
        }}));
    }
    told.push(status(telling, id, task::settled(id, &sub), Value::Null));
    Ok(told)
}

/// It was deleted with its context.
fn gone(telling: &Telling, id: &str) -> Value {
    let message = task::agent_message(id, &telling.context, "gone", "deleted");
    status(telling, id, of_state("CANCELED", None, Some(message)), Value::Null)
}
