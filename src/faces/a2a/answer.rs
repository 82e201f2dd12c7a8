//! What an operation comes to, and how each binding writes it.

use super::errors::Fault;
use super::operations;
use super::stream::{Telling, Until};
use super::task::{self, Shown};
use crate::error::Refusal;
use crate::faces::answer::{Response, Tail, Wait, Work};
use crate::faces::call::Call;
use crate::faces::path::encode;
use crate::faces::rpc;
use crate::follow::{Face, Feed, What};
use crate::id::Place;
use crate::prelude::*;
use serde_json::{Value, json};

/// How a request came in, and how it is answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Binding {
    /// JSON-RPC: the request's id.
    Rpc(Value),
    /// HTTP+JSON.
    Rest,
}

impl Binding {
    /// A result.
    pub fn result(&self, result: Value) -> Value {
        match self {
            Self::Rpc(id) => rpc::response(id, result),
            Self::Rest => result,
        }
    }

    /// A fault.
    pub fn fault(&self, fault: &Fault) -> Response {
        match self {
            Self::Rpc(id) => fault.rpc(id),
            Self::Rest => fault.rest(),
        }
    }
}

/// A task to be answered with once it is terminal or interrupted.
pub(super) struct Awaited {
    pub place: Place,
    pub id: String,
    /// How long at most, in milliseconds.
    pub ms: u32,
    /// Whether it stands in a `{"task"}`.
    pub wrapped: bool,
    /// Messages of history.
    pub history: Option<u64>,
    /// Whether a question is not enough.
    pub terminal: bool,
}

/// What an operation comes to.
pub(super) enum Done {
    /// A result.
    Result(Value),
    /// A result for now, and a better one later.
    Wait(Value, Awaited),
    /// A stream.
    Stream(Place, String, Telling),
}

/// What an operation comes to, and what is to be run.
pub(super) struct Answered {
    pub done: Done,
    pub work: Vec<Work>,
}

impl Answered {
    /// A result, and nothing to run.
    pub fn result(value: Value) -> Self {
        Self { done: Done::Result(value), work: Vec::new() }
    }
}

/// Writes what came of an operation.
pub(super) fn written(binding: &Binding, answered: Result<Answered, Fault>) -> Response {
    let Answered { done, work } = match answered {
        Ok(answered) => answered,
        Err(fault) => return binding.fault(&fault),
    };
    let mut response = match done {
        Done::Result(value) => Response::json(200, &binding.result(value)),
        Done::Wait(now, awaited) => {
            let Awaited { place, id, ms, wrapped, history, terminal } = awaited;
            let until = if terminal { Until::Terminal } else { Until::Interrupted };
            let mut then = format!("/a2a/answers/{id}?wrapped={wrapped}");
            if let Binding::Rpc(rpc) = binding {
                then.push_str(&format!("&rpc={}", encode(&rpc.to_string())));
            }
            if let Some(history) = history {
                then.push_str(&format!("&historyLength={history}"));
            }
            let telling = Telling { rpc: None, context: String::new(), until, history: None };
            let feed = Feed { place, what: What::Outcome(id), face: Face::A2a(telling.text()) };
            let mut response = Response::json(200, &binding.result(now));
            response.wait = Some(Wait { tail: Tail { feed, after: 0 }, ms, then });
            response
        }
        Done::Stream(place, id, telling) => {
            let rpc = match binding {
                Binding::Rpc(id) => Some(id.clone()),
                Binding::Rest => None,
            };
            let face = Face::A2a(Telling { rpc, ..telling }.text());
            Response::stream(Tail { feed: Feed { place, what: What::Submission(id), face }, after: 0 })
        }
    };
    response.work = work;
    response
}

/// What a wait ends with: the task as it is then. It is asked by the host for its caller, and gives nobody more than
/// `GetTask` does.
pub(super) fn later(call: &Call) -> Result<Response, Refusal> {
    let rpc = call.path.query("rpc").and_then(|text| serde_json::from_str(text).ok());
    let binding = rpc.map_or(Binding::Rest, Binding::Rpc);
    let task = || -> Result<Value, Fault> {
        let id = call.param(0);
        let sub = operations::find(call, None, id)?;
        let history = call.number("historyLength")?;
        let (task, _) = task::task(&call.ports, id, &sub, Shown { history, artifacts: true })?;
        Ok(if call.path.query("wrapped") == Some("true") { json!({"task": task}) } else { task })
    };
    Ok(written(&binding, task().map(Answered::result)))
}
