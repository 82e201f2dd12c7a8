//! The extension `io.modelcontextprotocol/tasks`: a task is a submission. It is announced when it is stored, and outlives
//! every connection.

use super::envelope::Asked;
use super::fail::Fail;
use super::questions;
use super::results;
use crate::admission::{self, Accepted, Cancelled};
use crate::error::{Error, Problem, Refusal};
use crate::faces::answer::{Response, Work};
use crate::faces::{rpc, time};
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::{Failure, Outcome, Submission};
use crate::view::{self, Standing};
use serde_json::{Map, Value, json};

/// The extension's name.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How often a client may look, in milliseconds.
const POLL_MS: u64 = 1000;

/// Failures of the machine: the agent has not answered. All others are its answer.
const FAULTS: [&str; 4] = ["retry-exhausted", "deadline", "unreadable", "compaction"];

/// Kinds of a model's errors that say something of what it was asked. All others are the machine's: the model was out of
/// reach, for want of a key, of money or of patience.
const ANSWERS: [&str; 3] = ["refused", "invalid", "overflow"];

/// The result that announces a task.
pub fn created(ports: &Ports, accepted: &Accepted) -> Result<Value, Error> {
    let mut task = detailed(ports, &accepted.id, &accepted.sub, true)?;
    if let Some(members) = task.as_object_mut() {
        for detail in ["result", "error", "inputRequests"] {
            members.remove(detail);
        }
        members.insert("resultType".into(), json!("task"));
    }
    Ok(task)
}

/// A task with all that there is to tell of it. `elicit`: whether the client can be asked something.
pub fn detailed(ports: &Ports, id: &str, sub: &Submission, elicit: bool) -> Result<Value, Error> {
    let mut more = Map::new();
    let (status, message, updated) = match &sub.outcome {
        Some(Outcome::Failed { error }) if is_fault(error) => {
            let data = json!({"code": error.code});
            more.insert("error".into(), json!({"code": rpc::INTERNAL, "message": error.message, "data": data}));
            ("failed", error.message.clone(), sub.settled)
        }
        Some(Outcome::Aborted { reason }) => ("cancelled", format!("It was ended: {reason}."), sub.settled),
        Some(_) => {
            more.insert("result".into(), results::tool_result(ports, id, sub)?);
            ("completed", "It has its outcome.".into(), sub.settled)
        }
        None => {
            let Standing { reason, questions, .. } = view::standing(ports, id, sub)?;
            let asked = questions.iter().map(|q| q.asked).max();
            match questions.is_empty() || !elicit {
                true => ("working", reason, asked),
                false => {
                    more.insert("inputRequests".into(), questions::requests(&questions));
                    ("input_required", reason, asked)
                }
            }
        }
    };
    more.insert("taskId".into(), json!(id));
    more.insert("status".into(), json!(status));
    more.insert("statusMessage".into(), json!(message));
    more.insert("createdAt".into(), json!(time::text(sub.created)));
    more.insert("lastUpdatedAt".into(), json!(time::text(updated.unwrap_or(sub.created))));
    // It is kept until its session is deleted.
    more.insert("ttlMs".into(), Value::Null);
    more.insert("pollIntervalMs".into(), json!(POLL_MS));
    Ok(Value::Object(more))
}

fn is_fault(error: &Failure) -> bool {
    FAULTS.contains(&error.code.as_str()) || error.kind.as_deref().is_some_and(|kind| !ANSWERS.contains(&kind))
}

/// A client that has not declared the extension is told to.
pub fn check_declared(asked: &Asked) -> Result<(), Fail> {
    match asked.knows_tasks() {
        true => Ok(()),
        false => {
            let text = format!("Tasks are for clients that declare the extension {EXTENSION}.");
            Err(Fail::capability(text, json!({"extensions": {EXTENSION: {}}})))
        }
    }
}

/// A task of this client's, by the id in the parameters.
fn task<'a>(asked: &'a Asked) -> Result<(&'a str, Submission), Fail> {
    check_declared(asked)?;
    let id = asked.text("taskId")?;
    Ok((id, find(&asked.call.ports, &asked.call.owner, id)?))
}

/// A task; unknown, foreign and gone all look the same (I13).
pub fn find(ports: &Ports, owner: &str, id: &str) -> Result<Submission, Fail> {
    view::find(ports, owner, id).map_err(|refusal| match refusal {
        Refusal::Problem(problem) if problem.status == 404 => missing(),
        refusal => refusal.into(),
    })
}

fn missing() -> Fail {
    Fail::params("There is no such task, or it is not yours.")
}

/// `tasks/get`.
pub fn get(asked: &Asked) -> Result<Response, Fail> {
    let (id, sub) = task(asked)?;
    Ok(asked.result(detailed(&asked.call.ports, id, &sub, asked.elicits())?))
}

/// `tasks/update`: answers to open questions.
pub fn update(asked: &Asked) -> Result<Response, Fail> {
    let (id, sub) = task(asked)?;
    let responses = asked.params.get("inputResponses").and_then(Value::as_object);
    let responses = responses.ok_or_else(|| Fail::params("`inputResponses` is missing, or no object."))?;
    let work = questions::answer(&asked.call.ports, id, &sub, responses)?;
    let mut response = asked.result(json!({}));
    response.work.extend(work);
    Ok(response)
}

/// `tasks/cancel`. What has settled is acknowledged all the same.
pub fn cancel(asked: &Asked) -> Result<Response, Fail> {
    check_declared(asked)?;
    let id = asked.text("taskId")?;
    let (cancelled, accepted) =
        admission::cancel(asked.call.ports, &asked.call.owner, id).map_err(|refusal| match refusal {
            Refusal::Problem(Problem { status: 404, .. }) => missing(),
            refusal => refusal.into(),
        })?;
    let response = asked.result(json!({}));
    Ok(match cancelled {
        Cancelled::Settled => response,
        Cancelled::Noted => response.with_work(Work::cancel(&accepted.place)),
    })
}
