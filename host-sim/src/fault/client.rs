//! The client of a scenario: it repeats what was not answered, and keeps its receipts through every crash.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Finding;
use super::scenario::Step;
use super::world::World;
use crate::clock::{Clock, VirtualClock};
use crate::data::{Request, Response};
use crate::host::Host;

/// Who asks.
const OWNER: &str = "local/operator";
/// Tries of one request, a second apart.
const TRIES_MAX: u32 = 40;
/// Between two tries, in milliseconds.
const PAUSE_MS: u64 = 1_000;
/// Messages of one page of an import.
const PAGE: u64 = 40;

/// What a client knows of a submission.
#[derive(Clone, Debug)]
pub(super) struct Receipt {
    pub(super) id: String,
    /// The number that admission gave it.
    pub(super) accept: u64,
    /// The step that asked for it.
    pub(super) step: Step,
    /// Its settled form, as it was first seen.
    pub(super) settled: Option<Vec<u8>>,
}

/// What there is to do about a question.
enum Answered {
    /// It waits: this answers it.
    Request(Request),
    /// Nobody knows it yet.
    NotYet,
    /// It will never be asked.
    Never,
}

/// A client.
#[derive(Default)]
pub(super) struct Client {
    pub(super) receipts: BTreeMap<String, Receipt>,
    /// Keys that were refused, and how.
    pub(super) refused: BTreeMap<String, String>,
    next: usize,
    /// When the pause under way ends, Unix ms.
    pause: Option<u64>,
}

impl Client {
    /// Begins another list of steps.
    pub(super) fn restart(&mut self) {
        self.next = 0;
    }

    /// Goes on where it was, to the end of the steps.
    pub(super) async fn go_on(&mut self, world: &World, clock: &VirtualClock, steps: &[Step]) -> Result<(), Finding> {
        while let Some(step) = steps.get(self.next) {
            match step {
                Step::Wait {} => world.settled().await,
                Step::Pass { ms } => {
                    let until = *self.pause.get_or_insert(clock.now().saturating_add(*ms));
                    clock.wait_until(until).await;
                    self.pause = None;
                }
                _ => self.ask(world, clock, step).await?,
            }
            self.next += 1;
        }
        world.settled().await;
        Ok(())
    }

    async fn ask(&mut self, world: &World, clock: &VirtualClock, step: &Step) -> Result<(), Finding> {
        for _ in 0..TRIES_MAX {
            let answer = match step {
                Step::Answer { key, tool, decision } => match self.answer(world, key, tool, decision).await {
                    Answered::Request(request) => send(&world.host, request).await,
                    Answered::Never => return Ok(()),
                    Answered::NotYet => None,
                },
                Step::Import { messages, .. } => self.import(world, step, *messages).await,
                _ => match self.request(step) {
                    Some(request) => send(&world.host, request).await,
                    // A submission that was refused can't be cancelled.
                    None => return Ok(()),
                },
            };
            match answer {
                Some(response) if response.status < 500 => return self.take(step, &response),
                _ => {
                    clock.wait_until(clock.now().saturating_add(PAUSE_MS)).await;
                }
            }
        }
        Err(Finding::new("liveness", format!("{} was not answered in {TRIES_MAX} tries", name(step))))
    }

    /// The request of a step; `None` if it names a submission that there is not.
    pub(super) fn request(&self, step: &Step) -> Option<Request> {
        let at = |agent: &str, thread: &str| format!("/v1/agents/{agent}/threads/{thread}");
        Some(match step {
            Step::Cancel { key } => self.of(key, "cancel")?,
            Step::Pause { key } => self.of(key, "pause")?,
            Step::Resume { key } => self.of(key, "resume")?,
            Step::Delete { agent, thread } => Request::new("DELETE", at(agent, thread)),
            Step::Fork { key, agent, thread, to, at: point } => {
                let body = json!({"to": to, "at": point});
                Request::post(format!("{}/fork", at(agent, thread)), &body).header("idempotency-key", key)
            }
            Step::Import { key, agent, thread, messages } => {
                let body = json!({"session": {}, "count": messages, "digest": "made-up"});
                Request::post(format!("{}/import", at(agent, thread)), &body).header("idempotency-key", key)
            }
            Step::Submit { key, agent, thread, message, steer, deadline_ms, result_schema } => {
                let mut body = json!({"message": message});
                if let Some(schema) = result_schema {
                    // What is no JSON is sent as text, and refused by the component.
                    body["result_schema"] = serde_json::from_str(schema).unwrap_or_else(|_| schema.clone().into());
                }
                if *steer {
                    body["options"]["steer"] = true.into();
                }
                if let Some(ms) = deadline_ms {
                    body["options"]["deadline_ms"] = (*ms).into();
                }
                Request::post(format!("{}/submissions", at(agent, thread)), &body).header("idempotency-key", key)
            }
            Step::Answer { .. } | Step::Pass { .. } | Step::Wait {} => return None,
        })
    }

    /// The answer to a call that waits. Its name depends on the attempts before it, so it is looked up.
    async fn answer(&self, world: &World, key: &str, tool: &str, decision: &str) -> Answered {
        let Some(receipt) = self.receipts.get(key) else { return Answered::Never };
        let path = format!("/v1/submissions/{}", receipt.id);
        world.settled().await;
        let Some(view) = send(&world.host, Request::get(&path)).await.and_then(|response| response.json().ok()) else {
            return Answered::NotYet;
        };
        let questions = view["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(question) = questions.iter().find(|question| question["tool"] == tool) {
            let body = json!({"call": question["call"], "hash": question["hash"], "decision": decision});
            return Answered::Request(Request::post(format!("{path}/answer"), &body));
        }
        if view["state"] == "settled" {
            return Answered::Never;
        }
        // A host sweeps once a minute; what was fenced off goes on then.
        let _ = world.host.sweep().await;
        Answered::NotYet
    }

    /// A wish about a submission; `None` if there is none.
    fn of(&self, key: &str, wish: &str) -> Option<Request> {
        let id = &self.receipts.get(key)?.id;
        Some(Request::post(format!("/v1/submissions/{id}/{wish}"), &json!({})))
    }

    /// Begins an import, or begins it again, and hands all its pages over: all of it may be repeated.
    async fn import(&mut self, world: &World, step: &Step, count: u64) -> Option<Response> {
        let begun = send(&world.host, self.request(step)?).await?;
        if begun.status != 202 {
            return Some(begun);
        }
        let Step::Import { agent, thread, .. } = step else { return None };
        for from in (0..count).step_by(PAGE as usize) {
            let messages: Vec<Value> = (from..count.min(from + PAGE)).map(made_up).collect();
            let path = format!("/v1/agents/{agent}/threads/{thread}/import/{from}");
            let page = send(&world.host, Request::post(path, &json!({"messages": messages}))).await?;
            if page.status >= 300 {
                return Some(page);
            }
        }
        send(&world.host, self.request(step)?).await
    }

    fn take(&mut self, step: &Step, response: &Response) -> Result<(), Finding> {
        let (Step::Fork { key, .. } | Step::Import { key, .. } | Step::Submit { key, .. }) = step else {
            return Ok(());
        };
        if response.status >= 300 {
            self.refused.insert(key.clone(), format!("{}: {}", response.status, response.text()));
            return Ok(());
        }
        let body = response.json().unwrap_or(Value::Null);
        let id = body["id"].as_str().unwrap_or_default().to_owned();
        let accept = body["accept"].as_u64().unwrap_or_default();
        let settled = (body["state"] == "settled").then(|| response.bytes().to_vec());
        match self.receipts.get(key) {
            Some(known) if known.id != id => {
                let text = format!("the key {key:?} was accepted as {} and then as {id}", known.id);
                Err(Finding::new("I2", text))
            }
            Some(_) => Ok(()),
            None => {
                self.receipts.insert(key.clone(), Receipt { id, accept, step: step.clone(), settled });
                Ok(())
            }
        }
    }
}

/// A step, for people.
pub(super) fn name(step: &Step) -> String {
    match step {
        Step::Answer { key, tool, .. } => format!("the answer to a call of {tool:?} in {key:?}"),
        Step::Cancel { key } => format!("the cancel of {key:?}"),
        Step::Delete { thread, .. } => format!("the deletion of {thread:?}"),
        Step::Fork { key, .. } => format!("the fork {key:?}"),
        Step::Import { key, .. } => format!("the import {key:?}"),
        Step::Pause { key } => format!("the pause of {key:?}"),
        Step::Resume { key } => format!("the resume of {key:?}"),
        Step::Pass { ms } => format!("a pause of {ms} ms"),
        Step::Submit { key, .. } => format!("the submission {key:?}"),
        Step::Wait {} => "a wait".into(),
    }
}

/// A request of the owner; `None` if the call was lost.
pub(super) async fn send(host: &Host, request: Request) -> Option<Response> {
    host.respond(request.principal(OWNER)).await.ok()
}

fn made_up(n: u64) -> Value {
    let role = if n.is_multiple_of(2) { "user" } else { "assistant" };
    json!({"role": role, "content": [{"type": "text", "text": format!("This is message number {n} of a long thread.")}]})
}
