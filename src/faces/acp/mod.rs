//! The Agent Client Protocol, version 1: for a client that starts this runtime as its agent and speaks to it over a
//! pipe, one message a line (docs/acp.md).
//!
//! A session is a thread, a prompt is a submission, an update is a translated event of the journal. What the protocol
//! makes a connection remember is an explicit value, which the transport brings with each message ([`Connection`]).

mod connection;
mod content;
mod feed;
mod live;
mod permission;
mod prompt;
mod sessions;
mod tell;

use self::connection::Connection;
use super::answer::Response;
use super::call::Call;
use super::rpc::{self, Fault, INTERNAL, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Message};
use crate::error::{Error, Problem, Refusal};
use crate::prelude::*;
use serde_json::{Map, Value, json};

pub(super) use feed::frames;

/// The one version that is spoken.
const VERSION: u64 = 1;
/// There is no such session.
const NOT_FOUND: i64 = -32002;
/// Says which transport a message came by; no network can send it.
const TRANSPORT: &str = "writ-transport";
/// Holds the connection.
const CONNECTION: &str = "writ-connection";
/// Names a session whose turns are told one after the other.
const LANE: &str = "writ-lane";
/// Names a request that has nothing more to tell: another one tells of its session.
const DROP: &str = "writ-drop";
/// In `_meta` of `session/new` and `session/prompt`: the caller's idempotency key.
const KEY: &str = "writ/idempotencyKey";

type Params = Map<String, Value>;

/// What a method gives: its answer, and what the connection remembers.
type Answer = Result<Response, Fault>;

/// A message of a client.
pub(super) fn answer(call: &Call) -> Result<Response, Refusal> {
    if call.request.header(TRANSPORT) != Some("stdio") {
        return Err(Problem::not_found().into());
    }
    let mut connection = Connection::read(call.request.header(CONNECTION));
    let mut response = match rpc::parse(&call.request.body) {
        Ok(Message::Request(id, method, params)) => {
            request(call, &mut connection, &id, &method, params).unwrap_or_else(|fault| line(&fault.response(&id)))
        }
        Ok(Message::Notification(method, params)) => {
            notification(call, &connection, &method, &params).unwrap_or_else(|fault| unheard(call, &fault))
        }
        Ok(Message::Response(id, outcome)) => {
            permission::answered(call, &id, outcome).unwrap_or_else(|fault| unheard(call, &fault))
        }
        Err((id, fault)) => line(&fault.response(&id)),
    };
    response.header(CONNECTION, connection.written());
    Ok(response)
}

fn request(call: &Call, connection: &mut Connection, id: &Value, method: &str, params: Params) -> Answer {
    let serve = match method {
        "initialize" => return initialize(connection, id, &params),
        "authenticate" => {
            let text = "There is nothing to authenticate with: `authMethods` is empty, and who started this is let in.";
            return Err(Fault::new(INVALID_PARAMS, text));
        }
        "session/new" => sessions::new,
        "session/load" => sessions::load,
        "session/resume" => sessions::resume,
        "session/list" => sessions::list,
        "session/close" => sessions::close,
        "session/delete" => sessions::delete,
        "session/prompt" => prompt::prompt,
        _ => return Err(Fault::new(METHOD_NOT_FOUND, format!("There is no method {:?}.", shown(method)))),
    };
    if !connection.is_open() {
        return Err(Fault::new(INVALID_REQUEST, "Send `initialize` first."));
    }
    serve(call, connection, id, &params)
}

/// Nobody is told what became of it, except by what it does.
fn notification(call: &Call, connection: &Connection, method: &str, params: &Params) -> Answer {
    match method {
        "session/cancel" => prompt::cancel(call, connection, params),
        "$/cancel_request" => prompt::cancel_request(call, connection, params),
        _ => Ok(nothing()),
    }
}

/// What went wrong with a message that nobody waits to be answered.
fn unheard(call: &Call, fault: &Fault) -> Response {
    if fault.code == INTERNAL {
        call.ports.host.warn(&format!("a message of an ACP client was not done: {}", fault.message));
    }
    nothing()
}

fn initialize(connection: &mut Connection, id: &Value, params: &Params) -> Answer {
    if !params.get("protocolVersion").is_some_and(Value::is_u64) {
        return Err(Fault::new(INVALID_PARAMS, "`protocolVersion` is missing, or no whole number."));
    }
    connection.open(params.get("clientCapabilities"));
    let result = json!({
        "protocolVersion": VERSION,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": false, "audio": false, "embeddedContext": true},
            "mcpCapabilities": {"http": false, "sse": false},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        },
        "authMethods": [],
        "agentInfo": {"name": "writ", "title": "Writ", "version": env!("CARGO_PKG_VERSION")},
    });
    Ok(line(&rpc::response(id, result)))
}

/// An answer of one message.
fn line(message: &Value) -> Response {
    Response::json(200, message)
}

/// No message.
fn nothing() -> Response {
    Response::bytes(200, "application/json", Vec::new())
}

/// What went wrong, in the protocol's codes. What is missing is a session, unless it is an agent.
fn fault(refusal: impl Into<Refusal>) -> Fault {
    let problem = match refusal.into() {
        Refusal::Problem(problem) => problem,
        Refusal::Error(Error::Unavailable(text)) => {
            let text = format!("{text}. What was accepted is safe: try again, with the same key if there was one.");
            return Fault::new(INTERNAL, text);
        }
        Refusal::Error(Error::Corrupt { key, why }) => {
            let text = format!("The stored value at {key} can't be read: {why}. Run `writ check`.");
            return Fault::new(INTERNAL, text);
        }
    };
    let code = match problem.status {
        404 if problem.code == "not-found" => return no_session(),
        404 | 409 | 413 | 422 => INVALID_PARAMS,
        _ => INTERNAL,
    };
    Fault::new(code, problem.detail.clone()).with(problem.document())
}

fn no_session() -> Fault {
    Fault::new(NOT_FOUND, "There is no such session, or it is not yours.")
}

/// A text of a caller's, short enough to be told.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// A text that must be there.
fn text<'a>(params: &'a Params, name: &str) -> Result<&'a str, Fault> {
    let missing = || Fault::new(INVALID_PARAMS, format!("`{name}` is missing, or no text."));
    params.get(name).and_then(Value::as_str).ok_or_else(missing)
}

/// The caller's key, if it gave one.
fn key(params: &Params) -> Result<Option<String>, Fault> {
    match params.get("_meta").and_then(|meta| meta.get(KEY)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(key)) if is_key(key) => Ok(Some(key.clone())),
        Some(_) => {
            let limit = crate::id::KEY_BYTES_MAX;
            Err(Fault::new(INVALID_PARAMS, format!("`_meta[\"{KEY}\"]` is 1 to {limit} visible ASCII characters.")))
        }
    }
}

fn is_key(key: &str) -> bool {
    (1..=crate::id::KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}
