//! The thread API: JSON over HTTP-shaped requests (docs/thread-api.md). Its streams are in `stream.rs`.

use super::answer::{Response, Signal, Tail, Wait, Work};
use super::call::Call;
use crate::admission::{self, Accepted, Cancelled};
use crate::agent::AgentInfo;
use crate::approval::{self, Decision, Reply};
use crate::delivery::Delivery;
use crate::error::{Error, Problem, Refusal};
use crate::follow::{Face, Feed, What};
use crate::id::Place;
use crate::keys;
use crate::pause as pauses;
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::{Head, Paused};
use crate::session::{delete as deletion, fork as forks, import as imports, message::each_message};
use crate::store::{read, read_format};
use crate::view;
use serde::Deserialize;
use serde_json::{Value, json};

type Answer = Result<Response, Refusal>;

/// Bytes of messages on one page, about: a page ends early rather than grow beyond it.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// `{"to", "at"}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForkBody {
    to: String,
    #[serde(default)]
    at: Option<u64>,
}

/// `{"call", "decision", "hash", "reason"}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerBody {
    call: String,
    decision: Word,
    #[serde(default)]
    hash: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Approve,
    Deny,
}

/// `{"messages"}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageBody {
    messages: Vec<Value>,
}

pub(super) fn health(call: &Call) -> Answer {
    // An answer of the store is what there is to be healthy about.
    read_format(&call.ports)?;
    Ok(Response::json(200, &json!({"status": "ok"})))
}

pub(super) fn openapi(_: &Call) -> Answer {
    Ok(Response::bytes(200, "application/json", super::OPENAPI.as_bytes().to_vec()))
}

pub(super) fn agents(call: &Call) -> Answer {
    let all = call.agents.list(call.ports.host).map_err(|e| Problem::new(500, "bad-settings", e))?;
    let [paused] = read(call.ports.store, [keys::PAUSED.into()])?;
    let paused = Paused::read(&paused)?;
    let shown = |a: AgentInfo| {
        let paused = paused.has(&call.owner, &a.name);
        json!({"name": a.name, "description": a.description, "limits": a.limits, "paused": paused})
    };
    let agents: Vec<Value> = all.into_iter().map(shown).collect();
    Ok(Response::json(200, &json!({"agents": agents})))
}

pub(super) fn threads(call: &Call) -> Answer {
    let (threads, next) = view::threads(&call.ports, &call.owner, call.path.query("cursor"))?;
    Ok(Response::json(200, &json!({"threads": threads, "next": next})))
}

pub(super) fn submission(call: &Call) -> Answer {
    let id = call.param(0);
    let sub = view::find(&call.ports, &call.owner, id)?;
    Ok(Response::json(200, &view::submission(&call.ports, id, &sub)?))
}

pub(super) fn explain(call: &Call) -> Answer {
    let id = call.param(0);
    let sub = view::find(&call.ports, &call.owner, id)?;
    Ok(Response::json(200, &crate::explain::explain(&call.ports, id, &sub)?))
}

pub(super) fn cancel(call: &Call) -> Answer {
    let id = call.param(0);
    let (cancelled, accepted) = admission::cancel(call.ports, &call.owner, id)?;
    Ok(match cancelled {
        Cancelled::Settled => Response::json(200, &view::submission(&call.ports, id, &accepted.sub)?),
        Cancelled::Noted => {
            Response::json(202, &view::receipt(id, &accepted.sub)).with_work(Work::cancel(&accepted.place))
        }
    })
}

pub(super) fn answer(call: &Call) -> Answer {
    let AnswerBody { call: name, decision, hash, reason } = call.body()?;
    let decision = match (decision, reason) {
        (Word::Approve, None) => Decision::Approve,
        (Word::Approve, Some(_)) => return Err(Problem::field("reason", "Only a denial takes a reason.").into()),
        (Word::Deny, reason) => Decision::Deny(reason),
    };
    let reply = Reply { call: &name, hash: hash.as_deref(), decision, message: None };
    let accepted = approval::answer(call.ports, &call.owner, call.param(0), reply)?;
    let view = view::submission(&call.ports, &accepted.id, &accepted.sub)?;
    if accepted.sub.is_settled() {
        return Ok(Response::json(200, &view));
    }
    Ok(Response::json(202, &view).with_work(Work::run(&accepted)))
}

pub(super) fn pause(call: &Call) -> Answer {
    pause_submission(call, true)
}

pub(super) fn resume(call: &Call) -> Answer {
    pause_submission(call, false)
}

fn pause_submission(call: &Call, pause: bool) -> Answer {
    let Accepted { id, sub, place } = pauses::submission(call.ports, &call.owner, call.param(0), pause)?;
    let view = view::submission(&call.ports, &id, &sub)?;
    if sub.is_settled() {
        return Ok(Response::json(200, &view));
    }
    // A run under way looks at the mark before its next turn; one that waits is run again and decides anew.
    let work = Work { instance: place.head(), submission: Some(id), signal: Some(Signal::Steer) };
    Ok(Response::json(202, &view).with_work(work))
}

pub(super) fn pause_agent(call: &Call) -> Answer {
    let agent = call.param(0);
    let all = call.agents.list(call.ports.host).map_err(|e| Problem::new(500, "bad-settings", e))?;
    if !all.iter().any(|a| a.name == agent) {
        return Err(Problem::new(404, "unknown-agent", format!("There is no agent {agent:?}.")).into());
    }
    pauses::agent(call.ports, &call.owner, agent, true)?;
    Ok(Response::json(200, &json!({"agent": agent, "paused": true})))
}

pub(super) fn resume_agent(call: &Call) -> Answer {
    let agent = call.param(0);
    pauses::agent(call.ports, &call.owner, agent, false)?;
    Ok(Response::json(200, &json!({"agent": agent, "paused": false})))
}

pub(super) fn thread(call: &Call) -> Answer {
    let (_, head, inbox) = view::find_thread(&call.ports, &call.address()?)?;
    Ok(Response::json(200, &view::thread(&head, &inbox)))
}

pub(super) fn delete(call: &Call) -> Answer {
    let place = deletion::close(call.ports, &call.address()?)?;
    let work = Work::cancel(&place);
    Ok(Response::json(202, &json!({"state": "deleting"})).with_work(work))
}

pub(super) fn submissions(call: &Call) -> Answer {
    let (place, _, inbox) = view::find_thread(&call.ports, &call.address()?)?;
    let (after, limit) = call.page()?;
    let (submissions, next) = view::submissions(&call.ports, &place, &inbox, after, limit)?;
    Ok(Response::json(200, &json!({"submissions": submissions, "next": next})))
}

pub(super) fn submit(call: &Call) -> Answer {
    let address = call.address()?;
    let delivery = Delivery::parse(&call.request.body)?;
    let steer = delivery.steer;
    let wait_ms = call.wait_ms()?;
    let accepted = admission::submit(call.ports, call.agents, address, call.key()?, &delivery)?;
    receipt(call, accepted, steer.then_some(Signal::Steer), wait_ms)
}

pub(super) fn messages(call: &Call) -> Answer {
    let (place, head, _) = view::find_thread(&call.ports, &call.address()?)?;
    Ok(Response::json(200, &page(&call.ports, &place, &head, call.page()?, PAGE_BYTES)?))
}

/// A page of a thread's messages from a number on, of so many at most and about so many bytes.
pub(super) fn page(
    ports: &Ports,
    place: &Place,
    head: &Head,
    (after, limit): (u64, u64),
    bytes: usize,
) -> Result<Value, Error> {
    let end = head.count.min(after.saturating_add(limit));
    let (mut messages, mut size) = (Vec::new(), 0);
    each_message(ports, place, after, end, |_, message| {
        let value = serde_json::to_value(&message).unwrap_or(Value::Null);
        size += value.to_string().len();
        messages.push(value);
        Ok(size <= bytes)
    })?;
    let next = after.saturating_add(messages.len() as u64);
    let next = (next < head.count && !messages.is_empty()).then_some(next);
    let mut page = json!({"from": after, "next": next, "count": head.count, "journal": head.jused});
    page["messages"] = Value::Array(messages);
    Ok(page)
}

pub(super) fn fork(call: &Call) -> Answer {
    let address = call.address()?;
    let body: ForkBody = call.body()?;
    let wait_ms = call.wait_ms()?;
    receipt(call, forks::fork(call.ports, address, call.key()?, &body.to, body.at)?, None, wait_ms)
}

pub(super) fn import(call: &Call) -> Answer {
    let accepted = imports::begin(call.ports, call.agents, call.address()?, call.key()?, call.body()?)?;
    let view = view::submission(&call.ports, &accepted.id, &accepted.sub)?;
    Ok(Response::json(if accepted.sub.is_settled() { 200 } else { 202 }, &view))
}

pub(super) fn import_page(call: &Call) -> Answer {
    let address = call.address()?;
    let from = call.param(2).parse();
    let from = from.map_err(|_| Problem::field("from", "The page's first number is not a number."))?;
    let body: PageBody = call.body()?;
    let (done, whole) = imports::page(call.ports, &address, from, body.messages)?;
    Ok(Response::json(if whole { 200 } else { 202 }, &json!({"done": done})))
}

/// What is pending is handed to the host again: a lost hint costs nothing (trap 14).
fn receipt(call: &Call, accepted: Accepted, signal: Option<Signal>, wait_ms: Option<u32>) -> Answer {
    let Accepted { id, sub, place } = accepted;
    let path = format!("/v1/submissions/{id}");
    if sub.is_settled() {
        let mut response = Response::json(200, &view::submission(&call.ports, &id, &sub)?);
        response.header("location", path);
        return Ok(response);
    }
    let mut response = Response::json(202, &view::receipt(&id, &sub));
    response.header("location", path.clone());
    response.work.push(Work { instance: place.head(), submission: Some(id.clone()), signal });
    if let Some(ms) = wait_ms.filter(|ms| *ms > 0) {
        response.header("preference-applied", format!("wait={}", ms / 1000));
        let tail = Tail { feed: Feed { place, what: What::Outcome(id), face: Face::Thread }, after: 0 };
        response.wait = Some(Wait { tail, ms, then: path });
    }
    Ok(response)
}
