//! The HTTP+JSON binding, and the table of routes of this face. Every operation has two paths: with the tenant before it,
//! and without.

use super::answer::{Answered, Binding, later, written};
use super::errors::Fault;
use super::operations::Operation;
use super::params::Params;
use super::{EXTENSION, card, jsonrpc};
use crate::canon;
use crate::error::Refusal;
use crate::faces::answer::Response;
use crate::faces::call::Call;
use crate::faces::routes::{Access, Route};
use crate::prelude::*;
use serde_json::{Value, json};

type Answer = Result<Response, Refusal>;

/// The routes. Of two that fit the first one answers.
pub const ROUTES: &[Route] = &[
    route("GET", "/.well-known/agent-card.json", Access::Open, card::card),
    client("POST", "/a2a", jsonrpc::post),
    client("GET", "/a2a/answers/{id}", later),
    client("POST", "/a2a/message:send", send::<0>),
    client("POST", "/a2a/{tenant}/message:send", send::<1>),
    client("POST", "/a2a/message:stream", stream::<0>),
    client("POST", "/a2a/{tenant}/message:stream", stream::<1>),
    client("POST", "/a2a/tasks/{id}:cancel", cancel::<0>),
    client("POST", "/a2a/{tenant}/tasks/{id}:cancel", cancel::<1>),
    client("GET", "/a2a/tasks/{id}:subscribe", subscribe::<0>),
    client("GET", "/a2a/{tenant}/tasks/{id}:subscribe", subscribe::<1>),
    client("POST", "/a2a/tasks/{id}:subscribe", subscribe::<0>),
    client("POST", "/a2a/{tenant}/tasks/{id}:subscribe", subscribe::<1>),
    client("GET", "/a2a/tasks/{id}/pushNotificationConfigs", push),
    client("GET", "/a2a/{tenant}/tasks/{id}/pushNotificationConfigs", push),
    client("POST", "/a2a/tasks/{id}/pushNotificationConfigs", push),
    client("POST", "/a2a/{tenant}/tasks/{id}/pushNotificationConfigs", push),
    client("GET", "/a2a/tasks/{id}/pushNotificationConfigs/{config}", push),
    client("GET", "/a2a/{tenant}/tasks/{id}/pushNotificationConfigs/{config}", push),
    client("DELETE", "/a2a/tasks/{id}/pushNotificationConfigs/{config}", push),
    client("DELETE", "/a2a/{tenant}/tasks/{id}/pushNotificationConfigs/{config}", push),
    client("GET", "/a2a/extendedAgentCard", extended),
    client("GET", "/a2a/{tenant}/extendedAgentCard", extended),
    client("GET", "/a2a/tasks", tasks::<0>),
    client("GET", "/a2a/tasks/{id}", task::<0>),
    client("GET", "/a2a/{tenant}/tasks", tasks::<1>),
    client("GET", "/a2a/{tenant}/tasks/{id}", task::<1>),
];

const fn route(method: &'static str, path: &'static str, access: Access, answer: fn(&Call) -> Answer) -> Route {
    Route { method, path, access, answer }
}

const fn client(method: &'static str, path: &'static str, answer: fn(&Call) -> Answer) -> Route {
    route(method, path, Access::Client, answer)
}

/// Parameters of the query that an operation without a body takes.
const OF_QUERY: [&str; 7] =
    ["contextId", "status", "pageSize", "pageToken", "historyLength", "statusTimestampAfter", "includeArtifacts"];

fn send<const T: usize>(call: &Call) -> Answer {
    answer::<T>(call, Operation::SendMessage, None, body(call))
}

fn stream<const T: usize>(call: &Call) -> Answer {
    answer::<T>(call, Operation::SendStreamingMessage, None, body(call))
}

fn task<const T: usize>(call: &Call) -> Answer {
    answer::<T>(call, Operation::GetTask, Some(call.param(T)), Ok(query(call)))
}

fn tasks<const T: usize>(call: &Call) -> Answer {
    answer::<T>(call, Operation::ListTasks, None, Ok(query(call)))
}

fn cancel<const T: usize>(call: &Call) -> Answer {
    answer::<T>(call, Operation::CancelTask, Some(call.param(T)), body(call))
}

fn subscribe<const T: usize>(call: &Call) -> Answer {
    answer::<T>(call, Operation::SubscribeToTask, Some(call.param(T)), Ok(Params::new()))
}

fn push(call: &Call) -> Answer {
    answer::<0>(call, Operation::Push, None, Ok(Params::new()))
}

fn extended(call: &Call) -> Answer {
    answer::<0>(call, Operation::GetExtendedAgentCard, None, Ok(Params::new()))
}

/// Runs an operation whose parameters come from body or query; what stands in the path counts.
fn answer<const T: usize>(
    call: &Call,
    operation: Operation,
    id: Option<&str>,
    params: Result<Params, Fault>,
) -> Answer {
    let answered = params.and_then(|mut params| -> Result<Answered, Fault> {
        if T == 1 {
            params.insert("tenant".into(), json!(call.param(0)));
        }
        if let Some(id) = id {
            params.insert("id".into(), json!(id));
        }
        operation.run(call, &params)
    });
    Ok(marked(call, written(&Binding::Rest, answered)))
}

fn query(call: &Call) -> Params {
    let given = OF_QUERY.into_iter().filter_map(|name| Some((name.to_owned(), json!(call.path.query(name)?))));
    let mut params: Params = given.collect();
    if let Some(tenant) = call.path.query("tenant") {
        params.insert("tenant".into(), json!(tenant));
    }
    params
}

/// The body: an object, or nothing at all.
fn body(call: &Call) -> Result<Params, Fault> {
    if call.request.body.is_empty() {
        return Ok(Params::new());
    }
    match canon::parse(&call.request.body).map_err(|why| Fault::not_json(&why))? {
        Value::Object(params) => Ok(params),
        _ => Err(Fault::field("", "The body is no object.")),
    }
}

/// Says which extension was asked for and is there.
pub(super) fn marked(call: &Call, mut response: Response) -> Response {
    let asked = call.request.headers.iter().filter(|(name, _)| name == "a2a-extensions");
    if asked.flat_map(|(_, value)| value.split(',')).any(|uri| uri.trim() == EXTENSION) {
        response.header("a2a-extensions", EXTENSION);
    }
    response
}
