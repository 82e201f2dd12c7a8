//! The calls of one answer: checked, opened in the answer's commit, run, and their results recorded as they end.

use super::ask::declarations;
use super::context::clipped;
use super::rest::{self, Why, effect_key, result};
use super::steps::Stepper;
use super::turn::Turn;
use crate::agent::{Rendered, Tool, ToolCall, ToolError};
use crate::approval;
use crate::error::Error;
use crate::keys;
use crate::mutation;
use crate::notice::NEEDS_YOU;
use crate::ports::{Declaration, HostCall, Job, Policy, Reply, Write};
use crate::prelude::*;
use crate::record::{Asked, Call, Notice, Phase};
use crate::session::Message;
use crate::session::message::text_block;
use crate::store::{Stop, put};
use serde_json::{Value, json};

/// Largest reply of a tool, in bytes of JSON.
const REPLY_BYTES_MAX: usize = 1024 * 1024;

/// Whether the submission goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It goes on.
    GoOn,
    /// It has its outcome, or the next decision gives it one.
    Ended,
}

/// The calls of an answer before they are opened: each with the text of a refusal, if it is not to be run.
#[derive(Default)]
pub(crate) struct Prepared {
    calls: Vec<(Call, Option<(String, &'static str)>)>,
}

impl Prepared {
    /// None of the answer's calls is to be run.
    pub fn not_run(answer: &Message, why: &str) -> Self {
        let calls = answer
            .calls()
            .iter()
            .map(|c| (open_call(c.id, c.name, Policy::Plain), Some((why.to_owned(), "notRun"))))
            .collect();
        Self { calls }
    }
}

/// Checks the calls of an answer against the tools that there are now.
pub(crate) fn prepare(turn: &Turn, rendered: &Rendered, answer: &Message) -> Prepared {
    let tools = declarations(turn, rendered);
    let calls = answer
        .calls()
        .iter()
        .map(|c| {
            let tool = tools.iter().find(|t| t.name == c.name);
            let policy = tool.map_or(Policy::Plain, |t| t.policy);
            let refusal = refusal(turn, tool, &tools, c.arguments);
            let mut call = open_call(c.id, c.name, policy);
            if policy == Policy::Ask && refusal.is_none() && !mutation::is(turn.s.ports.host, "ask-nobody") {
                let at = turn.s.ports.clock.now();
                let expires = at.saturating_add(turn.start.limits.approval_ms).min(turn.sub.deadline);
                call.asked = Some(Asked { hash: approval::hash(c.name, c.arguments), at, expires });
            }
            (call, refusal)
        })
        .collect();
    Prepared { calls }
}

/// Opens the batch behind the answer that was just appended, in the same commit; refused calls have their results at
/// once, and calls that need a person's word wait for it (C10). Effects may start only after the commit (I9).
pub(crate) fn open(turn: &mut Turn, prepared: Prepared, writes: &mut Vec<Write>) {
    if prepared.calls.is_empty() {
        return;
    }
    let (calls, refusals): (Vec<Call>, Vec<_>) = prepared.calls.into_iter().unzip();
    turn.op.base = turn.s.head.count;
    turn.op.calls = calls;
    turn.op.phase = Phase::Calling;
    turn.results.clear();
    turn.opened_in = turn.sub.attempt;
    for (i, refusal) in refusals.into_iter().enumerate() {
        let Some((text, outcome)) = refusal else { continue };
        place_refusal(turn, i, &text, outcome, writes);
    }
    ask(turn, writes);
    close_if_done(turn, writes);
}

/// Tells that calls wait for a person: viewers, and those who want to be told when they are needed.
fn ask(turn: &mut Turn, writes: &mut Vec<Write>) {
    let question = |(i, call, asked): (usize, &Call, &Asked)| json!({"call": turn.op.call_name(i), "tool": call.name, "hash": asked.hash, "expires": asked.expires});
    let questions: Vec<Value> = turn.op.asked().map(question).collect();
    if questions.is_empty() {
        return;
    }
    turn.s.tell(json!({"type": "question", "submission": turn.id, "questions": questions}));
    if !turn.sub.notify.is_empty() {
        let notice = Notice { at: turn.s.ports.clock.now(), reason: Some(approval::reason(&turn.op)) };
        writes.push(put(keys::notice(&turn.id, NEEDS_YOU), &notice));
    }
}

/// Gives a call that is not run a result that says so.
pub(crate) fn place_refusal(turn: &mut Turn, i: usize, text: &str, outcome: &str, writes: &mut Vec<Write>) {
    let now = turn.s.ports.clock.now();
    let mut message = result(&turn.op.calls[i], turn.op.call_name(i), &turn.id, turn.sub.attempt, text, now);
    message.outcome = Some(outcome.to_owned());
    place(turn, i, message, writes);
}

/// Runs the open calls of the batch to their results.
pub(crate) fn run(turn: &mut Turn, rendered: &Rendered) -> Result<Flow, Stop> {
    let tools = declarations(turn, rendered);
    let open: Vec<usize> = (0..turn.op.calls.len()).filter(|i| turn.op.calls[*i].is_open()).collect();
    let arguments = arguments(turn)?;

    // The policy that was stored is checked against today's declaration (B6, B21): what changed is not run again.
    let is_again = turn.sub.attempt != turn.opened_in;
    let mut changed = Vec::new();
    let mut jobs: Vec<(usize, Box<dyn Job>)> = Vec::new();
    let mut own: Vec<(usize, &Tool)> = Vec::new();
    for i in open {
        let call = &turn.op.calls[i];
        match tools.iter().find(|t| t.name == call.name) {
            Some(today) if !is_again || today.policy == call.policy => {}
            _ => {
                changed.push(i);
                continue;
            }
        }
        match rendered.tools.iter().find(|t| t.name == call.name) {
            Some(tool) => own.push((i, tool)),
            None => jobs.push((i, turn.s.ports.tools.start(&host_call(turn, i, &arguments[i])))),
        }
    }
    if !changed.is_empty() {
        let mut writes = Vec::new();
        for i in changed {
            if turn.approved.contains(&i) {
                let text = "The tool has changed since a person approved this call: it was not run.";
                place_refusal(turn, i, text, "notRun", &mut writes);
                continue;
            }
            let mut op = turn.op.clone();
            op.calls.iter_mut().enumerate().for_each(|(j, c)| c.done |= i != j);
            writes.extend(rest::close(&mut turn.s, &mut op, &turn.id, turn.sub.attempt, Why::Changed, false));
            turn.op.calls[i].done = true;
        }
        turn.results_lost = true;
        close_if_done(turn, &mut writes);
        turn.commit(writes)?;
    }
    for (i, tool) in own {
        if run_own(turn, i, tool, &arguments[i])? == Flow::Ended {
            return Ok(Flow::Ended);
        }
    }
    wait_for_jobs(turn, jobs)
}

/// Runs one of the agent's own tools and records its result.
fn run_own(turn: &mut Turn, i: usize, tool: &Tool, arguments: &Value) -> Result<Flow, Stop> {
    let mut stepper = Stepper::new(turn, i)?;
    let (reply, state) = {
        let mut call = ToolCall::new(arguments, &mut stepper);
        let reply = (tool.run)(&mut call);
        (reply, core::mem::take(&mut call.state))
    };
    if let Some(stop) = stepper.stopped.take() {
        return Err(stop);
    }
    if stepper.cancelled {
        return Ok(Flow::Ended);
    }
    let reply = match reply {
        Ok(text) => match turn.set_state(state) {
            Ok(()) => Ok(text),
            Err(why) => Err(why),
        },
        Err(ToolError::Failed(text)) => Err(text),
        // Only a run that is over gives this, and that was seen above: a tool made it up.
        Err(ToolError::Stopped) => Err("the tool stopped".to_owned()),
    };
    let (text, is_error) = match reply {
        Ok(text) => (text, false),
        Err(text) => (text, true),
    };
    let reply = Reply { content: Value::Array(vec![text_block(&text)]).to_string(), is_error };
    record(turn, vec![(i, reply)])?;
    Ok(Flow::GoOn)
}

/// Waits for the host's jobs and records their results as they end: one commit for those that end together.
fn wait_for_jobs(turn: &mut Turn, mut jobs: Vec<(usize, Box<dyn Job>)>) -> Result<Flow, Stop> {
    while !jobs.is_empty() {
        let handles: Vec<&dyn Job> = jobs.iter().map(|(_, job)| &**job).collect();
        let ended = turn.s.ports.tools.wait(&handles, Some(turn.sub.deadline));
        if ended.is_empty() {
            turn.s.ports.host.poll();
            // What has to end is ended by the next decision, in one commit with the wish that asked for it (P6x).
            if turn.is_cancelled()? || turn.sub.deadline <= turn.s.ports.clock.now() {
                return Ok(Flow::Ended);
            }
            turn.look_for_cancels()?;
            continue;
        }
        let mut ended: BTreeMap<usize, Reply> = ended.into_iter().filter(|(at, _)| *at < jobs.len()).collect();
        if ended.is_empty() {
            let text = "the host says that a job has ended which was never started".to_owned();
            return Err(Stop::Failed(Error::Unavailable(text)));
        }
        let mut results = Vec::new();
        let mut at = 0;
        jobs.retain(|(i, _)| {
            let reply = ended.remove(&at);
            at += 1;
            let open = reply.is_none();
            results.extend(reply.map(|reply| (*i, reply)));
            open
        });
        record(turn, results)?;
    }
    Ok(Flow::GoOn)
}

/// Records results at their reserved numbers (C4). As many commits as their size needs; the last closes the batch.
fn record(turn: &mut Turn, replies: Vec<(usize, Reply)>) -> Result<(), Stop> {
    let now = turn.s.ports.clock.now();
    let mut writes: Vec<Write> = Vec::new();
    for (i, reply) in replies {
        if turn.op.calls.get(i).is_none_or(|c| c.done) {
            continue;
        }
        let mut message = result(&turn.op.calls[i], turn.op.call_name(i), &turn.id, turn.sub.attempt, "", now);
        message.is_error = Some(reply.is_error);
        message.content = match serde_json::from_str(&reply.content) {
            _ if reply.content.len() > REPLY_BYTES_MAX => {
                message.is_error = Some(true);
                let (size, limit) = (reply.content.len(), REPLY_BYTES_MAX);
                vec![text_block(&format!("The tool's reply is {size} bytes; at most {limit} are taken. Ask for less."))]
            }
            Ok(Value::Array(blocks)) => blocks,
            _ => vec![text_block(&reply.content)],
        };
        let size: usize = writes.iter().filter_map(|w| w.value.as_ref()).map(Vec::len).sum();
        if writes.len() > 32 || size + reply.content.len() * 2 > 3 * 1024 * 1024 {
            turn.commit(core::mem::take(&mut writes))?;
        }
        place(turn, i, message, &mut writes);
    }
    turn.op.strikes = 0;
    close_if_done(turn, &mut writes);
    turn.commit(writes)
}

/// Puts the result of a call at its reserved number.
fn place(turn: &mut Turn, i: usize, message: Message, writes: &mut Vec<Write>) {
    let n = turn.op.base + i as u64;
    turn.s.place_at(n, &message, writes);
    turn.op.calls[i].done = true;
    turn.results.insert(n, message);
}

/// Closes the batch if every call is done; the context goes on with its results, or is read again if some are not here.
fn close_if_done(turn: &mut Turn, writes: &mut Vec<Write>) {
    let expected = turn.op.calls.len();
    if !rest::close_batch(&mut turn.s, &mut turn.op, &turn.id, writes) {
        return;
    }
    let results = core::mem::take(&mut turn.results);
    let whole = results.len() == expected && !core::mem::take(&mut turn.results_lost);
    match &mut turn.context {
        Some(context) if whole => context.messages.extend(results.into_iter().map(|(n, m)| (n, clipped(m)))),
        context => *context = None,
    }
}

fn open_call(id: &str, name: &str, policy: Policy) -> Call {
    Call { id: id.to_owned(), name: name.to_owned(), policy, done: false, steps: 0, asked: None, approval: None }
}

/// Why a call is not to be run, and the word for it.
fn refusal(
    turn: &Turn,
    tool: Option<&Declaration>,
    tools: &[Declaration],
    arguments: &Value,
) -> Option<(String, &'static str)> {
    let Some(tool) = tool else {
        let names: Vec<&str> = tools.iter().map(|t| t.name.as_str()).collect();
        return Some((format!("There is no such tool. Known are: {}.", names.join(", ")), "notRun"));
    };
    if !arguments.is_object() {
        return Some(("The arguments are not a JSON object. Send an object.".into(), "notRun"));
    }
    match turn.s.ports.host.check(&tool.parameters, &arguments.to_string()) {
        Ok(violations) if violations.is_empty() => None,
        Ok(violations) => Some((format!("The arguments don't fit: {}.", violations.join("; ")), "notRun")),
        Err(why) => Some((format!("The tool's own schema is no good: {why}"), "notRun")),
    }
}

/// The arguments of the batch's calls, from the message that made them.
fn arguments(turn: &mut Turn) -> Result<Vec<Value>, Stop> {
    let n = turn.op.base.saturating_sub(1);
    let known = turn.context.as_ref().and_then(|c| c.messages.iter().rev().find(|(at, _)| *at == n));
    let message = match known {
        Some((_, message)) => message.clone(),
        None => {
            let mut read = crate::session::message::read_messages(&turn.s.ports, &turn.s.place, n, n + 1)?;
            read.pop().ok_or_else(|| super::corrupt(&turn.s.place, "the open batch has no message"))?
        }
    };
    let mut arguments: Vec<Value> = message.calls().iter().map(|c| c.arguments.clone()).collect();
    arguments.resize(turn.op.calls.len(), Value::Null);
    Ok(arguments)
}

fn host_call(turn: &Turn, i: usize, arguments: &Value) -> HostCall {
    HostCall {
        effect_key: effect_key(&turn.s, &turn.op, i, None),
        name: turn.op.calls[i].name.clone(),
        arguments: arguments.to_string(),
        thread: turn.s.place.head(),
        call_id: turn.op.calls[i].id.clone(),
    }
}
