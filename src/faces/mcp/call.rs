//! An agent is called: a submission, and how its outcome comes back: as a task, as a stream, or after a wait.

use super::ask::Ask;
use super::envelope::{Asked, Era};
use super::fail::Fail;
use super::questions;
use super::results;
use super::settings::{self, AgentTool, TaskUse};
use super::tasks;
use crate::admission::{self, Accepted};
use crate::canon;
use crate::delivery::Delivery;
use crate::error::Problem;
use crate::faces::answer::{Response, Tail, Wait, Work};
use crate::faces::call::checked_key;
use crate::faces::session;
use crate::follow::{Face, Feed, What};
use crate::id::Address;
use crate::prelude::*;
use crate::view;
use serde_json::{Map, Value, json};

/// How long a call waits at most before it is answered that it is not done yet, in milliseconds.
const WAIT_MS: u32 = 300_000;

/// A tool call of an agent.
pub fn agent(asked: &Asked, agent: &str, arguments: &Map<String, Value>) -> Result<Response, Fail> {
    let tool = settings::tool(&asked.call.ports, agent)?;
    let is_task = asked.knows_tasks() && tool.task != TaskUse::Never;
    check_capabilities(asked, agent, &tool)?;
    // Read again when it is used; a bad one is refused before anything is stored.
    asked.progress_token()?;
    let digest = canon::hash(&json!([agent, arguments]));
    let state = asked.params.get("requestState").filter(|state| asked.era == Era::Modern && !state.is_null());
    let (accepted, from, work) = match state {
        Some(state) => {
            let (id, sub) = questions::taken_up(asked, state, &digest)?;
            let none = Map::new();
            let responses = asked.params.get("inputResponses").and_then(Value::as_object).unwrap_or(&none);
            let work = questions::answer(&asked.call.ports, &id, &sub, responses)?;
            let place = sub.place(&id);
            (Accepted { id, sub, place }, 0, work)
        }
        None => {
            let (accepted, from) = submit(asked, agent, &tool, arguments)?;
            (accepted, from, None)
        }
    };
    if is_task {
        let mut response = asked.result(tasks::created(&asked.call.ports, &accepted)?);
        response.work.push(work.unwrap_or_else(|| Work::run(&accepted)));
        return Ok(response);
    }
    // Who has named the call can ask again; whoever has not, has lost it with the connection.
    let is_lost = asked.era == Era::Modern && accepted.sub.key.is_none();
    later(asked, accepted, Seen { from, work, digest, is_lost })
}

/// Before anything is stored.
fn check_capabilities(asked: &Asked, agent: &str, tool: &AgentTool) -> Result<(), Fail> {
    let mut missing = Map::new();
    if tool.task == TaskUse::Required && !asked.knows_tasks() {
        missing.insert("extensions".into(), json!({tasks::EXTENSION: {}}));
    }
    for name in tool.requires.iter().filter(|name| !asked.declares(name)) {
        missing.insert(name.clone(), json!({}));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.keys().map(String::as_str).collect();
    let text = format!("The tool {agent} needs a client that declares {}.", names.join(", "));
    match asked.era {
        Era::Modern => Err(Fail::capability(text, Value::Object(missing))),
        // There it can't be declared with a request.
        Era::Legacy => Err(Problem::new(400, "missing-capability", text).into()),
    }
}

/// Submits it. And behind which number of its thread's journal all that will be told of it stands.
fn submit(
    asked: &Asked,
    agent: &str,
    tool: &AgentTool,
    arguments: &Map<String, Value>,
) -> Result<(Accepted, u64), Fail> {
    let call = asked.call;
    let (mut body, mut session, mut key) = (Map::new(), None, None);
    match &tool.input {
        Some(schema) => {
            let value = Value::Object(arguments.clone()).to_string();
            let misfits = call.ports.host.check(&schema.to_string(), &value);
            let misfits = misfits.map_err(|e| Problem::new(500, "bad-settings", format!("The tool's `input`: {e}")))?;
            if !misfits.is_empty() {
                let text = format!("The arguments don't fit the tool's schema: {}.", misfits.join("; "));
                return Err(Problem::field("arguments", text).into());
            }
            body.insert("message".into(), Value::String(value));
        }
        None => {
            for (name, value) in arguments {
                match (name.as_str(), value) {
                    ("message", Value::String(_)) | ("result_schema", _) => {
                        body.insert(name.clone(), value.clone());
                    }
                    ("message", _) => return Err(Problem::field(name, "`message` must be a text.").into()),
                    ("session_id" | "idempotency_key", Value::Null) => {}
                    ("session_id", Value::String(text)) => session = Some(text.as_str()),
                    ("idempotency_key", Value::String(text)) => key = Some(checked_key(text)?),
                    ("session_id" | "idempotency_key", _) => {
                        return Err(Problem::field(name, format!("`{name}` must be a text.")).into());
                    }
                    _ => {
                        let known = "`message`, `session_id`, `idempotency_key` and `result_schema`";
                        let shown: String = name.chars().take(64).collect();
                        let text = format!("There is no argument {shown:?}; known are {known}.");
                        return Err(Problem::field(&shown, text).into());
                    }
                }
            }
        }
    }
    let delivery = Delivery::parse(Value::Object(body).to_string().as_bytes())?;
    let address = match session {
        Some(name) => session_of(&call.owner, agent, name)?,
        None => session::minted(&call.ports, &call.owner, agent, key.as_deref()),
    };
    // What has a key may have been accepted, and told of, long ago. In a new thread nothing was told.
    let from = match session.is_some() && key.is_none() && asked.streams()? {
        true => view::find_thread(&call.ports, &address).map_or(0, |(_, head, _)| head.jused),
        false => 0,
    };
    Ok((admission::submit(call.ports, call.agents, address, key, &delivery)?, from))
}

fn session_of(owner: &str, agent: &str, name: &str) -> Result<Address, Problem> {
    session::address(owner, name).filter(|address| address.agent == agent).ok_or_else(|| {
        let text = format!("`session_id` names no session of {agent}: it is `{agent}/NAME`, as a result has given it.");
        Problem::field("session_id", text)
    })
}

/// What an answer that comes later has to know.
#[derive(Default)]
pub struct Seen {
    /// Behind which number of the journal everything stands that is told.
    pub from: u64,
    /// What has to run; by default the submission.
    pub work: Option<Work>,
    /// Hash of the call.
    pub digest: String,
    /// Who leaves before it is answered gives the work up.
    pub is_lost: bool,
}

/// The answer when it is there: at once, at the end of a stream, or after a wait.
pub fn later(asked: &Asked, accepted: Accepted, seen: Seen) -> Result<Response, Fail> {
    let ports = &asked.call.ports;
    let Seen { from, work, digest, is_lost } = seen;
    if accepted.sub.is_settled() {
        return Ok(asked.result(results::tool_result(ports, &accepted.id, &accepted.sub)?));
    }
    let (token, streams) = (asked.progress_token()?, asked.streams()?);
    let ask = Ask { id: asked.id.clone(), era: asked.era, elicit: asked.elicits(), token, digest };
    let face = Face::Mcp(format!("call {}", ask.text()));
    let Accepted { id, sub, place } = &accepted;
    let mut response = match streams {
        true => {
            let feed = Feed { place: place.clone(), what: What::Submission(id.clone()), face };
            Response::stream(Tail { feed, after: from })
        }
        false => {
            let feed = Feed { place: place.clone(), what: What::Outcome(id.clone()), face };
            let mut now = asked.result(results::tool_result(ports, id, sub)?);
            now.wait = Some(Wait {
                tail: Tail { feed, after: 0 },
                ms: WAIT_MS,
                then: ask.path(ports, &asked.call.owner, id)?,
            });
            now
        }
    };
    response.work.push(work.unwrap_or_else(|| Work::run(&accepted)));
    response.left = is_lost.then(|| format!("/v1/submissions/{id}/cancel"));
    Ok(response)
}
