//! What must hold after every plan.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::client::{Client, Receipt, name, send};
use super::plan::{Kind, Plan};
use super::play::Played;
use super::scenario::{Scenario, Step};
use super::world::{Outside, World};
use super::{Finding, effects};
use crate::clock::Clock;
use crate::data::Request;
use crate::engine::Import;
use crate::store::Store;
use crate::tools::Policy;

/// How often time passes for a submission that has no outcome: the wait doubles from a minute to more than a day.
const ROUNDS: u32 = 12;
/// Most messages of a thread that are read.
const MESSAGES_MAX: u64 = 10_000;

/// Judges a world in which everything was answered. What is read here is neither counted nor stopped.
pub(super) async fn judge(
    outside: &Outside,
    world: &World,
    client: &mut Client,
    scenario: &Scenario,
    plan: &Plan,
    played: &mut Played,
) {
    let mut findings = Vec::new();
    let settled = settle(outside, world, client, &mut findings).await;
    outcomes(client, scenario, plan, played, &settled, &mut findings);
    retry(world, client, &settled, &mut findings).await;
    audit(world, played, &mut findings).await;
    let mut messages = Vec::new();
    for (agent, thread) in scenario.threads() {
        let thread_messages = read(world, &agent, &thread, &mut findings).await;
        order(client, &thread, &thread_messages, &mut findings);
        messages.extend(thread_messages);
    }
    let executions = outside.log.executions();
    played.tools = effects::of(&scenario.script, &executions, &messages, &played.trace);
    tools(scenario, played, &executions, &messages, &mut findings);
    played.findings.append(&mut findings);
}

/// The settled form of each submission: every one must have one once enough time has passed.
async fn settle(
    outside: &Outside,
    world: &World,
    client: &Client,
    findings: &mut Vec<Finding>,
) -> BTreeMap<String, (u16, Vec<u8>)> {
    let clock = &outside.shared.clock;
    let mut settled = BTreeMap::new();
    for round in 0..ROUNDS {
        if world.host.sweep().await.is_err() {
            findings.push(Finding::new("liveness", "the sweep fails without a fault"));
        }
        world.settled().await;
        for (key, receipt) in &client.receipts {
            if settled.contains_key(key) {
                continue;
            }
            let Some(response) = send(&world.host, Request::get(format!("/v1/submissions/{}", receipt.id))).await
            else {
                continue;
            };
            let is_settled = response.json().is_ok_and(|body| body["state"] == "settled");
            if is_settled || response.status == 404 {
                settled.insert(key.clone(), (response.status, response.bytes().to_vec()));
            }
        }
        if settled.len() == client.receipts.len() {
            return settled;
        }
        clock.advance_to(clock.now().saturating_add(60_000 << round));
    }
    for key in client.receipts.keys().filter(|key| !settled.contains_key(*key)) {
        findings.push(Finding::new("liveness", format!("{key:?} was accepted and never settles")));
    }
    settled
}

/// One outcome of each accepted submission, and an allowed one.
fn outcomes(
    client: &Client,
    scenario: &Scenario,
    plan: &Plan,
    played: &Played,
    settled: &BTreeMap<String, (u16, Vec<u8>)>,
    findings: &mut Vec<Finding>,
) {
    let is_model = |import: Import| matches!(import, Import::ModelDescribe | Import::ModelNext | Import::ModelStart);
    let injected = played.trace.iter().filter(|e| e.fault == Some(Kind::FailBefore) && is_model(e.import)).count();
    let may_fail = injected as u32 > scenario.spare_retries;
    for (key, right) in &scenario.expect {
        let status = match (settled.get(key), client.refused.get(key)) {
            (Some((404, _)), _) => "gone".to_owned(),
            (Some((_, body)), _) => outcome(body),
            (None, Some(_)) => "refused".to_owned(),
            (None, None) => continue,
        };
        let is_right = right.contains(&status) || (may_fail && status == "failed");
        if !is_right {
            let what = settled.get(key).map(|(_, body)| String::from_utf8_lossy(body).into_owned());
            let what = what.or_else(|| client.refused.get(key).cloned()).unwrap_or_default();
            let text = format!("{key:?} ended as {status}, allowed are {}: {what} ({plan})", right.join(", "));
            findings.push(Finding::new("outcome", text));
        }
    }
    for (key, receipt) in &client.receipts {
        if let (Some(first), Some((200, last))) = (&receipt.settled, settled.get(key))
            && first != last
        {
            findings.push(Finding::new("I3", format!("{key:?} had another outcome before: {}", lossy(first))));
        }
    }
}

/// The same request again gets the same answer, byte for byte, and nothing is written.
async fn retry(
    world: &World,
    client: &Client,
    settled: &BTreeMap<String, (u16, Vec<u8>)>,
    findings: &mut Vec<Finding>,
) {
    let before = world.store.calls();
    for (key, Receipt { step, .. }) in &client.receipts {
        // A request whose record was deleted would begin anew.
        let Some((200, body)) = settled.get(key) else { continue };
        let Some(request) = client.request(step) else { continue };
        match send(&world.host, request).await {
            Some(again) if again.status == 200 && again.bytes() == body.as_slice() => {}
            Some(again) => {
                let text = format!(
                    "{} was answered with {} {}, before {}",
                    name(step),
                    again.status,
                    again.text(),
                    lossy(body)
                );
                findings.push(Finding::new("retry", text));
            }
            None => findings.push(Finding::new("retry", format!("{} traps without a fault", name(step)))),
        }
    }
    let cost = world.store.calls() - before;
    if cost.commits > 0 {
        findings.push(Finding::new("retry", format!("repeated requests have committed {} times", cost.commits)));
    }
}

/// The component's own audit, and the count of keys.
async fn audit(world: &World, played: &mut Played, findings: &mut Vec<Finding>) {
    let report = match world.host.audit_all(|_| {}).await {
        Ok(report) => report,
        Err(error) => return findings.push(Finding::new("format", format!("the audit fails: {error}"))),
    };
    for found in &report.findings {
        findings.push(Finding::new(found.invariant.clone(), format!("{}: {}", found.key, found.text)));
    }
    match world.store.count().await {
        Ok(count) => {
            played.keys = count;
            if count != report.keys {
                let text = format!("{count} keys are stored, the audit accounts for {}", report.keys);
                findings.push(Finding::new("leak", text));
            }
        }
        Err(error) => findings.push(Finding::new("store", format!("the keys can't be counted: {error}"))),
    }
}

async fn read(world: &World, agent: &str, thread: &str, findings: &mut Vec<Finding>) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    while (messages.len() as u64) < MESSAGES_MAX {
        let after = messages.len();
        let path = format!("/v1/agents/{agent}/threads/{thread}/messages?limit=256&after={after}");
        let page = match send(&world.host, Request::get(path)).await {
            Some(response) if response.status == 200 => response.json().unwrap_or(Value::Null),
            // A fork that found no source, or a thread of refused submissions only.
            Some(response) if response.status == 404 => return messages,
            _ => {
                findings.push(Finding::new("I4", format!("the messages of {thread:?} can't be read")));
                return messages;
            }
        };
        messages.extend(page["messages"].as_array().into_iter().flatten().cloned());
        if page["next"].is_null() {
            break;
        }
    }
    messages
}

/// Accepted messages stand in the transcript once, in the order of acceptance; steered ones come when they can.
fn order(client: &Client, thread: &str, messages: &[Value], findings: &mut Vec<Finding>) {
    let mut queued: Vec<&Receipt> = client.receipts.values().filter(|r| is_queued(&r.step, thread)).collect();
    queued.sort_by_key(|receipt| receipt.accept);
    let mut last = 0;
    for receipt in queued {
        let of = |m: &Value| m["role"] == "user" && m["kind"].is_null() && m["submission"] == receipt.id.as_str();
        let places: Vec<usize> = (0..messages.len()).filter(|at| of(&messages[*at])).collect();
        if places.len() > 1 {
            findings.push(Finding::new(
                "I8",
                format!("{} stands in {thread:?} {} times", name(&receipt.step), places.len()),
            ));
        }
        match places.first() {
            Some(place) if *place < last => {
                findings.push(Finding::new("order", format!("{} stands too early in {thread:?}", name(&receipt.step))));
            }
            Some(place) => last = *place,
            None => {}
        }
    }
}

fn is_queued(step: &Step, of: &str) -> bool {
    matches!(step, Step::Submit { thread, steer: false, .. } if thread == of)
}

/// Plain tools run at most once a call; others again, but always under the effect key of their call.
fn tools(
    scenario: &Scenario,
    played: &Played,
    executions: &[crate::tools::scripted::Execution],
    messages: &[Value],
    findings: &mut Vec<Finding>,
) {
    for (tool, used) in &played.tools {
        let allowed = match scenario.at_most.get(tool) {
            Some(allowed) => *allowed,
            None if used.called_by_model && used.policy == Some(Policy::Plain) => 1,
            None => u32::MAX,
        };
        if used.executions_max > allowed {
            let text = format!("`{tool}` was executed {} times for one call, allowed {allowed}", used.executions_max);
            findings.push(Finding::new("effects", text));
        }
        let keys: BTreeSet<&str> =
            executions.iter().filter(|e| e.name == *tool).map(|e| e.effect_key.as_str()).collect();
        let calls = messages.iter().flat_map(|m| m["content"].as_array().into_iter().flatten());
        let calls = calls.filter(|block| block["type"] == "toolCall" && block["name"] == tool.as_str()).count();
        let whole = scenario.all_steps().all(|step| !matches!(step, Step::Delete { .. }));
        if whole && effects::is_called(&scenario.script, tool) && keys.len() > calls {
            let text = format!("`{tool}` was executed under {} effect keys for {calls} calls", keys.len());
            findings.push(Finding::new("effects", text));
        }
    }
}

fn outcome(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    body["outcome"]["status"].as_str().unwrap_or("none").to_owned()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
