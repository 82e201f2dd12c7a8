//! A submission as a task: its state, its result as an artifact, its messages as history.

use super::question;
use crate::error::Error;
use crate::faces::{session, time};
use crate::keys;
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::{CancelMark, Head, Outcome, Start, State, Submission, decode_opt};
use crate::session::message::{each_message, read_messages};
use crate::session::{Message, Role};
use crate::store::read;
use crate::view::{self, Standing};
use serde_json::{Value, json};

/// Messages of a task's history at most.
const HISTORY_MAX: u64 = 100;

/// Messages that are looked at for it.
const HISTORY_LOOK: u64 = 1024;

/// Bytes of history at most, about.
const HISTORY_BYTES: usize = 1024 * 1024;

/// The id of the artifact that holds the result.
pub(super) const RESULT: &str = "result";

/// What of a task is shown besides its status.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// How many messages; `None`: as many as there may be.
    pub history: Option<u64>,
    /// The artifacts.
    pub artifacts: bool,
}

/// Where a task is, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// It goes on by itself.
    Open,
    /// It waits for its client.
    Interrupted,
    /// It has its outcome.
    Terminal,
}

/// A task.
pub(super) fn task(ports: &Ports, id: &str, sub: &Submission, shown: Shown) -> Result<(Value, Stand), Error> {
    let context = session::name(&sub.address);
    let (status, stand, cancel) = status(ports, id, sub, &context)?;
    let mut task = json!({"id": id, "contextId": context, "status": status, "metadata": {"attempt": sub.attempt}});
    if cancel {
        task["metadata"]["cancelRequested"] = json!(true);
    }
    if shown.artifacts
        && let Some(artifact) = artifact(ports, id, sub)?
    {
        task["artifacts"] = json!([artifact]);
    }
    if shown.history != Some(0) {
        let history = history(ports, id, sub, shown.history.unwrap_or(HISTORY_MAX).min(HISTORY_MAX))?;
        if !history.is_empty() {
            task["history"] = Value::Array(history);
        }
    }
    Ok((task, stand))
}

/// The status, where that is in short, and whether a cancel is noted.
fn status(ports: &Ports, id: &str, sub: &Submission, context: &str) -> Result<(Value, Stand, bool), Error> {
    if sub.is_settled() {
        return Ok((settled(id, sub), Stand::Terminal, false));
    }
    let [mark] = read(ports.store, [keys::cancel(id)])?;
    let cancel = decode_opt::<CancelMark>(&keys::cancel(id), &mark)?.is_some();
    if sub.state == State::Queued {
        return Ok((of_state("SUBMITTED", Some(sub.created), None), Stand::Open, cancel));
    }
    let Standing { state, reason, questions } = view::standing(ports, id, sub)?;
    if !questions.is_empty() {
        let asked = questions.iter().map(|q| q.asked).max();
        let message = question::message(id, context, &questions);
        return Ok((of_state("INPUT_REQUIRED", asked, Some(message)), Stand::Interrupted, cancel));
    }
    let message = match state {
        "retrying" | "waiting" | "paused" => Some(reason),
        _ => attempt_text(sub.attempt),
    };
    let message = message.map(|text| agent_message(id, context, &format!("attempt-{}", sub.attempt), &text));
    Ok((of_state("WORKING", sub.begun.or(Some(sub.created)), message), Stand::Open, cancel))
}

/// What is told of an attempt that is not the first.
pub(super) fn attempt_text(attempt: u64) -> Option<String> {
    (attempt > 1).then(|| format!("attempt {attempt}: the one before was interrupted"))
}

/// The status of a submission that has its outcome.
pub(super) fn settled(id: &str, sub: &Submission) -> Value {
    let context = session::name(&sub.address);
    let (state, text) = match &sub.outcome {
        Some(Outcome::Completed { .. }) => ("COMPLETED", None),
        Some(Outcome::Failed { error }) => (failed_state(error.kind.as_deref()), Some(error.message.clone())),
        Some(Outcome::Aborted { reason }) => ("CANCELED", Some(reason.clone())),
        None => ("FAILED", None),
    };
    of_state(state, sub.settled, text.map(|text| agent_message(id, &context, "outcome", &text)))
}

/// A failure's state: what the model refused, or took for no good, is rejected.
fn failed_state(kind: Option<&str>) -> &'static str {
    if matches!(kind, Some("refused" | "invalid")) { "REJECTED" } else { "FAILED" }
}

/// A status.
pub(super) fn of_state(state: &str, at: Option<u64>, message: Option<Value>) -> Value {
    let mut status = json!({"state": format!("TASK_STATE_{state}")});
    if let Some(at) = at {
        status["timestamp"] = json!(time::text(at));
    }
    if let Some(message) = message {
        status["message"] = message;
    }
    status
}

/// A message of the agent's side about a task.
pub(super) fn agent_message(id: &str, context: &str, name: &str, text: &str) -> Value {
    json!({
        "messageId": format!("{id}/{name}"), "contextId": context, "taskId": id, "role": "ROLE_AGENT",
        "parts": [{"text": text}],
    })
}

/// The result, if there is one.
pub(super) fn artifact(ports: &Ports, id: &str, sub: &Submission) -> Result<Option<Value>, Error> {
    let Some(Outcome::Completed { message, result }) = &sub.outcome else { return Ok(None) };
    let mut parts = Vec::new();
    if let Some(n) = message {
        let text = read_messages(ports, &sub.place(id), *n, n + 1)?.pop().map(|m| m.plain_text()).unwrap_or_default();
        parts.push(json!({"text": text, "mediaType": "text/plain"}));
    }
    if let Some(result) = result {
        parts.push(json!({"data": result, "mediaType": "application/json"}));
    }
    Ok((!parts.is_empty()).then(|| json!({"artifactId": RESULT, "name": RESULT, "parts": parts})))
}

/// The latest messages of a task, in order: what was handed over, and what the agent said before its result.
fn history(ports: &Ports, id: &str, sub: &Submission, most: u64) -> Result<Vec<Value>, Error> {
    let (place, context) = (sub.place(id), session::name(&sub.address));
    let Some(first) = sub.first else {
        // It has not begun: there is what was handed over.
        let [start] = read(ports.store, [keys::start(id)])?;
        let start: Option<Start> = decode_opt(&keys::start(id), &start)?;
        let shown = start.map(|start| {
            let mut message = Message::new(Role::User, start.content, sub.created);
            message.label = start.label;
            told(id, &context, 0, &message)
        });
        return Ok(shown.flatten().into_iter().collect());
    };
    let answer = match &sub.outcome {
        Some(Outcome::Completed { message, .. }) => *message,
        _ => None,
    };
    let [head] = read(ports.store, [place.head()])?;
    let head: Option<Head> = decode_opt(&place.head(), &head)?;
    let count = head.map_or(0, |h| h.count);
    let current = answer.unwrap_or(count).min(count);
    // Where it ends is known while it runs and once it is answered; otherwise the next one's first message tells.
    let known = answer.is_some() || !sub.is_settled();
    let from = if known { first.max(current.saturating_sub(HISTORY_LOOK)) } else { first };
    let (mut found, mut size) = (Vec::new(), 0);
    let end = current.min(from + HISTORY_LOOK);
    each_message(ports, &place, from, end, |n, message| {
        if n > first && message.role == Role::User && message.kind.is_none() {
            return Ok(false);
        }
        if let Some(value) = told(id, &context, n, &message) {
            size += value.to_string().len();
            found.push(value);
        }
        while (size > HISTORY_BYTES || found.len() as u64 > most) && found.len() > 1 {
            size -= found.remove(0).to_string().len();
        }
        Ok(true)
    })?;
    Ok(latest(found, most))
}

fn latest(mut found: Vec<Value>, most: u64) -> Vec<Value> {
    let over = (found.len() as u64).saturating_sub(most) as usize;
    found.split_off(over)
}

/// A message of the transcript, if it is one that was said to or by the agent.
fn told(id: &str, context: &str, n: u64, message: &Message) -> Option<Value> {
    let role = match message.role {
        Role::User => "ROLE_USER",
        Role::Assistant => "ROLE_AGENT",
        Role::Notice | Role::Summary | Role::ToolResult => return None,
    };
    let texts = message.content.iter().filter(|b| b["type"] == "text");
    let parts: Vec<Value> = texts.map(|b| json!({"text": b["text"], "mediaType": "text/plain"})).collect();
    let name = message.label.clone().unwrap_or_else(|| format!("{context}/{n}"));
    let shown = json!({"messageId": name, "contextId": context, "taskId": id, "role": role, "parts": parts});
    (!parts.is_empty()).then_some(shown)
}
