//! MCP (docs/mcp.md): one endpoint for the modern era, 2026-07-28, and for the ones that begin with `initialize`; the body
//! says which.
//!
//! An agent is a tool, a task is a submission, a session is a thread. What a call waits for is told by the journal.

mod ask;
mod base64;
mod call;
mod envelope;
mod fail;
mod listen;
mod progress;
mod questions;
mod resources;
mod results;
mod sessions;
mod settings;
mod tasks;
mod tools;

use super::answer::Response;
use super::call::Call;
use super::frames::Frames;
use super::rpc::{self, Message};
use crate::error::{Problem, Refusal};
use crate::follow::Feed;
use crate::ports::Ports;
use crate::prelude::*;
use ask::Ask;
use envelope::{Asked, Era};
use fail::Fail;
use serde_json::{Map, Value, json};

/// Names, as JSON, a request whose answer is not wanted any more: for transports that can't see that by themselves.
const LEFT: &str = "writ-left";

/// `POST /mcp`: one message.
pub(super) fn post(call: &Call) -> Result<Response, Refusal> {
    Ok(match rpc::parse(&call.request.body) {
        Err((id, fault)) => Fail::Fault(400, fault).response(&id),
        Ok(Message::Request(id, method, params)) => {
            let asked = envelope::read(call, id.clone(), method, params);
            asked.and_then(|asked| route(&asked)).unwrap_or_else(|fail| fail.response(&id))
        }
        Ok(Message::Notification(method, params)) => match envelope::check_notification(call, &method, &params) {
            Ok(()) => noted(call, &method, &params),
            Err(fail) => fail.response(&Value::Null),
        },
        Ok(Message::Response(id, _)) => {
            let text = "This server asks nothing by itself: send requests and notifications only.";
            Fail::fault(400, rpc::INVALID_REQUEST, text).response(&id)
        }
    })
}

/// A notification is not answered. Over HTTP a call is cancelled by leaving; a pipe has one connection only, and there the
/// transport is told which answer is not wanted any more.
fn noted(call: &Call, method: &str, params: &Map<String, Value>) -> Response {
    let mut response = Response { headers: Vec::new(), ..Response::bytes(202, "", Vec::new()) };
    let request = params.get("requestId").filter(|id| id.is_string() || id.is_number());
    if let Some(id) = request.filter(|_| method == "notifications/cancelled" && !envelope::has_headers(call)) {
        response.header(LEFT, id.to_string());
    }
    response
}

/// `GET /mcp/calls/{id}?ask=…`: what a call is answered when its submission has settled or asks something. For hosts: the
/// path stands in the `then` of a wait.
pub(super) fn later(call: &Call) -> Result<Response, Refusal> {
    let ask = Ask::taken(call, call.param(0))?;
    let ask = ask.ok_or_else(|| Problem::field("ask", "`ask` is not what a wait of this face has given."))?;
    Ok(match ask.answer(&call.ports, Some(&call.owner), call.param(0)) {
        Ok(message) => Response::json(200, &message),
        Err(refusal) => Fail::from(refusal).response(&ask.id),
    })
}

/// Frames of a feed of this face, by what its request says.
pub(super) fn frames(ports: &Ports, feed: &Feed, request: &str, after: u64) -> Result<Frames, Refusal> {
    match request.split_once(' ') {
        Some(("call", ask)) => progress::frames(ports, feed, ask, after),
        Some(("listen", listen)) => listen::frames(ports, feed, listen, after),
        _ => Err(Problem::not_found().into()),
    }
}

fn route(asked: &Asked) -> Result<Response, Fail> {
    match (asked.era, asked.method.as_str()) {
        (_, "tools/list") => tools::list(asked),
        (_, "tools/call") => tools::call(asked),
        (_, "resources/list") => resources::list(asked),
        (_, "resources/templates/list") => resources::templates(asked),
        (_, "resources/read") => resources::read(asked),
        (_, "prompts/list") => {
            asked.no_cursor()?;
            Ok(asked.listed(json!({"prompts": []}), LIST_TTL_MS))
        }
        (_, "prompts/get") => Err(Fail::params("There is no such prompt: this server has none.")),
        (Era::Modern, "server/discover") => Ok(asked.listed(discover(), LIST_TTL_MS)),
        (Era::Modern, "subscriptions/listen") => listen::listen(asked),
        (Era::Modern, "tasks/get") => tasks::get(asked),
        (Era::Modern, "tasks/update") => tasks::update(asked),
        (Era::Modern, "tasks/cancel") => tasks::cancel(asked),
        (Era::Legacy, "initialize") => Ok(initialize(asked)),
        (Era::Legacy, "ping") => Ok(asked.result(json!({}))),
        (era, method) => {
            let shown: String = method.chars().take(64).collect();
            let status = if era == Era::Modern { 404 } else { 200 };
            Err(Fail::fault(status, rpc::METHOD_NOT_FOUND, format!("There is no method {shown:?} in this era.")))
        }
    }
}

/// How long a list that changes with the deployment only may be kept, in milliseconds.
const LIST_TTL_MS: u64 = 60_000;

/// For the model of a client, about all tools.
const INSTRUCTIONS: &str = "Each tool that is named after an agent hands it a message and gives its answer. A result names its \
                            session_id: pass it on to go on with that conversation. Repeat a call that got lost with the same \
                            idempotency_key, and it is not done twice.";

fn discover() -> Value {
    json!({
        "supportedVersions": envelope::versions(),
        "capabilities": {
            "tools": {},
            "prompts": {},
            "resources": {"subscribe": true},
            "extensions": {tasks::EXTENSION: {}},
        },
        "instructions": INSTRUCTIONS,
    })
}

fn initialize(asked: &Asked) -> Response {
    let wanted = asked.params.get("protocolVersion").and_then(Value::as_str);
    asked.result(json!({
        "protocolVersion": envelope::legacy_version(wanted),
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        "serverInfo": envelope::server_info(),
        "instructions": INSTRUCTIONS,
    }))
}
