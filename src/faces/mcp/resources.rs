//! Resources: the transcript of a session, and a submission.

use super::LIST_TTL_MS;
use super::envelope::{Asked, bad_cursor};
use super::fail::Fail;
use crate::error::Refusal;
use crate::faces::answer::Response;
use crate::faces::path::Path;
use crate::faces::rpc::{self, Fault};
use crate::faces::{session, thread};
use crate::id::Address;
use crate::prelude::*;
use crate::view;
use serde_json::{Value, json};

/// Bytes of messages in one reading, about; the rest is read from `next` on.
const READ_BYTES: usize = 1024 * 1024;
/// Messages in one reading.
const MESSAGES_MAX: u64 = 256;

const JSON: &str = "application/json";

/// What a URI names.
pub enum Resource {
    /// A transcript from a message on.
    Session(Address, u64),
    /// A submission.
    Submission(String),
}

impl Resource {
    /// Reads a URI; `None` for what this server does not have.
    pub fn parse(owner: &str, uri: &str) -> Option<Self> {
        if let Some(id) = uri.strip_prefix("submission://") {
            return Some(Self::Submission(id.to_owned()));
        }
        let path = Path::parse(&format!("/{}", uri.strip_prefix("session://")?))?;
        let parts = path.matches("/{agent}/{thread}")?;
        let after = path.query("after").map_or(Some(0), |after| after.parse().ok())?;
        Some(Self::Session(session::address(owner, &parts.join("/"))?, after))
    }
}

/// `resources/list`: the client's sessions.
pub fn list(asked: &Asked) -> Result<Response, Fail> {
    let ports = &asked.call.ports;
    let cursor = asked.cursor()?;
    if !view::is_cursor(ports, cursor).map_err(Fail::from)? {
        return Err(bad_cursor());
    }
    let (threads, next) = view::threads(ports, &asked.call.owner, cursor)?;
    let shown = |thread: &Value| {
        let name = format!("{}/{}", thread["agent"].as_str().unwrap_or(""), thread["thread"].as_str().unwrap_or(""));
        json!({
            "uri": format!("session://{name}"),
            "name": name,
            "description": format!("A conversation of {} messages.", thread["messages"]),
            "mimeType": JSON,
        })
    };
    let mut page = json!({"resources": threads.iter().map(shown).collect::<Vec<_>>()});
    if let Some(next) = next {
        page["nextCursor"] = json!(next);
    }
    Ok(asked.listed(page, 0))
}

/// `resources/templates/list`.
pub fn templates(asked: &Asked) -> Result<Response, Fail> {
    asked.no_cursor()?;
    let templates = json!([
        {
            "uriTemplate": "session://{agent}/{name}{?after}",
            "name": "session",
            "description": "The transcript of a conversation, from message `after` on; `next` says where to go on.",
            "mimeType": JSON,
        },
        {
            "uriTemplate": "submission://{id}",
            "name": "submission",
            "description": "A piece of work: its state and why, and its outcome.",
            "mimeType": JSON,
        },
    ]);
    Ok(asked.listed(json!({"resourceTemplates": templates}), LIST_TTL_MS))
}

/// `resources/read`.
pub fn read(asked: &Asked) -> Result<Response, Fail> {
    let uri = asked.text("uri")?;
    let shown = contents(asked, uri).map_err(|refusal| match refusal {
        Fail::Refusal(Refusal::Problem(problem)) if problem.status < 500 => missing(uri),
        refusal => refusal,
    })?;
    let contents = json!([{"uri": uri, "mimeType": JSON, "text": shown.to_string()}]);
    Ok(asked.listed(json!({"contents": contents}), 0))
}

fn contents(asked: &Asked, uri: &str) -> Result<Value, Fail> {
    let (ports, owner) = (&asked.call.ports, asked.call.owner.as_str());
    match Resource::parse(owner, uri).ok_or_else(|| missing(uri))? {
        Resource::Submission(id) => {
            let sub = view::find(ports, owner, &id)?;
            Ok(view::submission(ports, &id, &sub)?)
        }
        Resource::Session(address, after) => {
            let (place, head, _) = view::find_thread(ports, &address)?;
            Ok(thread::page(ports, &place, &head, (after, MESSAGES_MAX), READ_BYTES)?)
        }
    }
}

/// A resource that is not there, or another's.
pub fn missing(uri: &str) -> Fail {
    let shown: String = uri.chars().take(1024).collect();
    let text = "There is no such resource, or it is not yours.";
    Fail::Fault(200, Fault::new(rpc::INVALID_PARAMS, text).with(json!({"uri": shown})))
}
