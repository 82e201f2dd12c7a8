//! Tools for sessions and submissions.

use super::call::{self, Seen};
use super::envelope::Asked;
use super::fail::Fail;
use super::results;
use crate::admission::{self, Cancelled};
use crate::error::Problem;
use crate::faces::answer::{Response, Work};
use crate::faces::{session, thread};
use crate::id::Address;
use crate::prelude::*;
use crate::session::fork as forks;
use crate::view;
use serde_json::{Map, Value, json};

/// Copies a session.
pub const FORK: &str = "session_fork";
/// Reads a transcript.
pub const READ: &str = "session_read";
/// Stops a submission.
pub const INTERRUPT: &str = "submission_interrupt";

/// Bytes of messages in one result, about: a model has to read them.
const READ_BYTES: usize = 256 * 1024;

/// Their declarations.
pub fn tools() -> Vec<Value> {
    let session = json!({"type": "string", "description": "As a result has named it: AGENT/NAME."});
    let number = |text: &str| json!({"type": "integer", "minimum": 0, "description": text});
    vec![
        json!({
            "name": FORK,
            "description": "Copies a conversation, whole or up to a message, into a new one. The first one stays as it is.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "session_id": session,
                    "at": number("How many messages to copy; all without it."),
                },
                "required": ["session_id"],
                "additionalProperties": false,
            },
            "outputSchema": results::output_schema(),
        }),
        json!({
            "name": READ,
            "description": "Reads the messages of a conversation, in order.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "session_id": session,
                    "after": number("From which message on; 0 without it."),
                    "limit": {"type": "integer", "minimum": 1, "maximum": 256, "description": "How many at most; 50 without it."},
                },
                "required": ["session_id"],
                "additionalProperties": false,
            },
            "annotations": {"readOnlyHint": true},
        }),
        json!({
            "name": INTERRUPT,
            "description": "Asks to stop a piece of work. What has its outcome already keeps it.",
            "inputSchema": {
                "type": "object",
                "properties": {"submission_id": {"type": "string", "description": "As a result has named it."}},
                "required": ["submission_id"],
                "additionalProperties": false,
            },
            "annotations": {"idempotentHint": true},
        }),
    ]
}

/// Copies a session into a new one.
pub fn fork(asked: &Asked, arguments: &Map<String, Value>) -> Result<Response, Fail> {
    known(arguments, &["session_id", "at"])?;
    let source = address(asked, arguments)?;
    let at = number(arguments, "at")?;
    let ports = asked.call.ports;
    let to = session::minted(&ports, &source.owner, &source.agent, None);
    let accepted = forks::fork(ports, source, None, &to.thread, at)?;
    call::later(asked, accepted, Seen::default())
}

/// A page of a transcript.
pub fn read(asked: &Asked, arguments: &Map<String, Value>) -> Result<Response, Fail> {
    known(arguments, &["session_id", "after", "limit"])?;
    let address = address(asked, arguments)?;
    let (after, limit) = (number(arguments, "after")?.unwrap_or(0), number(arguments, "limit")?.unwrap_or(50));
    let ports = &asked.call.ports;
    let (place, head, _) = view::find_thread(ports, &address)?;
    let mut page = thread::page(ports, &place, &head, (after, limit.clamp(1, 256)), READ_BYTES)?;
    page["session_id"] = json!(session::name(&address));
    Ok(asked.result(results::structured(page)))
}

/// Asks to stop a submission.
pub fn interrupt(asked: &Asked, arguments: &Map<String, Value>) -> Result<Response, Fail> {
    known(arguments, &["submission_id"])?;
    let id = text(arguments, "submission_id")?;
    let (cancelled, accepted) = admission::cancel(asked.call.ports, &asked.call.owner, id)?;
    let told = |status: &str| json!({"submission_id": id, "session_id": session::name(&accepted.sub.address), "status": status});
    Ok(match cancelled {
        Cancelled::Settled => asked.result(results::structured(told("settled"))),
        Cancelled::Noted => {
            asked.result(results::structured(told("interrupting"))).with_work(Work::cancel(&accepted.place))
        }
    })
}

fn known(arguments: &Map<String, Value>, names: &[&str]) -> Result<(), Problem> {
    match arguments.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let shown: String = name.chars().take(64).collect();
            let text = format!("There is no argument {shown:?}; known are {}.", names.join(", "));
            Err(Problem::field(&shown, text))
        }
    }
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<&'a str, Problem> {
    let text = arguments.get(name).and_then(Value::as_str);
    text.ok_or_else(|| Problem::field(name, format!("`{name}` is missing, or no text.")))
}

fn number(arguments: &Map<String, Value>, name: &str) -> Result<Option<u64>, Problem> {
    let whole =
        |value: &Value| value.as_u64().ok_or_else(|| Problem::field(name, format!("`{name}` is no whole number.")));
    arguments.get(name).filter(|value| !value.is_null()).map(whole).transpose()
}

fn address(asked: &Asked, arguments: &Map<String, Value>) -> Result<Address, Problem> {
    let name = text(arguments, "session_id")?;
    let bad = || Problem::field("session_id", "`session_id` is no name of a session: it is AGENT/NAME.");
    session::address(&asked.call.owner, name).ok_or_else(bad)
}
