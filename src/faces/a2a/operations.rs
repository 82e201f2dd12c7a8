//! The operations, whichever binding they came by: parameters in, a result, a wait or a stream out.

use super::answer::{Answered, Awaited, Done};
use super::errors::Fault;
use super::list;
use super::message::Asked;
use super::params::{Fields, Params};
use super::question::{self, Verdict};
use super::settings::{Settings, agents};
use super::stream::{Telling, Until};
use super::task::{self, Shown, Stand};
use crate::admission::{self, Accepted, Cancelled};
use crate::approval::{self, Reply};
use crate::faces::answer::Work;
use crate::faces::call::Call;
use crate::faces::session;
use crate::id::Address;
use crate::prelude::*;
use crate::record::{Kind, Submission};
use crate::view;
use serde_json::{Value, json};

/// How long `SendMessage` waits for a task, in milliseconds. Then it answers with the task as it is.
const SEND_WAIT_MS: u32 = 300_000;

/// How long `CancelTask` waits for the end, in milliseconds. Then it answers with the task as it is.
const CANCEL_WAIT_MS: u32 = 5_000;

/// Longest id that is looked at, in bytes.
const ID_BYTES_MAX: usize = 512;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    SendMessage,
    SendStreamingMessage,
    GetTask,
    ListTasks,
    CancelTask,
    SubscribeToTask,
    /// All four about push notifications.
    Push,
    GetExtendedAgentCard,
}

impl Operation {
    /// The operation of a JSON-RPC method.
    pub fn of_method(method: &str) -> Option<Self> {
        Some(match method {
            "SendMessage" => Self::SendMessage,
            "SendStreamingMessage" => Self::SendStreamingMessage,
            "GetTask" => Self::GetTask,
            "ListTasks" => Self::ListTasks,
            "CancelTask" => Self::CancelTask,
            "SubscribeToTask" => Self::SubscribeToTask,
            "CreateTaskPushNotificationConfig"
            | "GetTaskPushNotificationConfig"
            | "ListTaskPushNotificationConfigs"
            | "DeleteTaskPushNotificationConfig" => Self::Push,
            "GetExtendedAgentCard" => Self::GetExtendedAgentCard,
            _ => return None,
        })
    }

    /// Does it.
    pub fn run(self, call: &Call, params: &Params) -> Result<Answered, Fault> {
        version(call)?;
        match self {
            Self::SendMessage => send(call, params, false),
            Self::SendStreamingMessage => {
                streaming(call)?;
                send(call, params, true)
            }
            Self::GetTask => get(call, params),
            Self::ListTasks => list::list(call, params, tenant(params)?).map(Answered::result),
            Self::CancelTask => cancel(call, params),
            Self::SubscribeToTask => {
                streaming(call)?;
                subscribe(call, params)
            }
            Self::Push => Err(Fault::no_push()),
            Self::GetExtendedAgentCard => {
                let text = "There is no extended card: the public one, at /.well-known/agent-card.json, says it all.";
                Err(Fault::unsupported(text))
            }
        }
    }
}

/// `A2A-Version`, of the header or the query: `1.0`; a patch, as in `1.0.3`, is passed over.
fn version(call: &Call) -> Result<(), Fault> {
    let asked =
        call.request.header("a2a-version").or_else(|| call.path.query("A2A-Version")).unwrap_or_default().trim();
    let patch = asked.strip_prefix(super::VERSION).map(|rest| rest.strip_prefix('.').unwrap_or(rest));
    let fits = patch.is_some_and(|patch| patch.bytes().all(|b| b.is_ascii_digit()))
        && (asked == super::VERSION || asked.starts_with("1.0.") && asked.len() > 4);
    if fits { Ok(()) } else { Err(Fault::version(asked)) }
}

fn streaming(call: &Call) -> Result<(), Fault> {
    match Settings::read(call)?.streaming {
        true => Ok(()),
        false => Err(Fault::unsupported("Streams are switched off here, as the card says: send, and get the task.")),
    }
}

/// The tenant, which is an agent's name.
fn tenant(params: &Params) -> Result<Option<&str>, Fault> {
    let mut fields = Fields::of(params, "");
    let tenant = fields.text("tenant", ID_BYTES_MAX);
    fields.done()?;
    Ok(tenant)
}

/// A task of the caller's, and of the tenant if there is one. What is no task (a copy, a steering message) and what is
/// foreign is missing (I13).
pub(super) fn find(call: &Call, tenant: Option<&str>, id: &str) -> Result<Submission, Fault> {
    let sub = view::find(&call.ports, &call.owner, id)?;
    let fits = sub.kind == Kind::Run && !sub.steer && tenant.is_none_or(|tenant| tenant == sub.address.agent);
    if fits { Ok(sub) } else { Err(Fault::task_not_found()) }
}

fn named(params: &Params) -> Result<(Option<&str>, &str), Fault> {
    let mut fields = Fields::of(params, "");
    let id = fields.required("id", ID_BYTES_MAX);
    fields.done()?;
    Ok((tenant(params)?, id))
}

fn get(call: &Call, params: &Params) -> Result<Answered, Fault> {
    let mut fields = Fields::of(params, "");
    let history = fields.number("historyLength", 0, u64::from(u32::MAX));
    fields.done()?;
    let (tenant, id) = named(params)?;
    let sub = find(call, tenant, id)?;
    Ok(Answered::result(task::task(&call.ports, id, &sub, Shown { history, artifacts: true })?.0))
}

fn cancel(call: &Call, params: &Params) -> Result<Answered, Fault> {
    let (tenant, id) = named(params)?;
    find(call, tenant, id)?;
    let (cancelled, accepted) = admission::cancel(call.ports, &call.owner, id)?;
    if let Cancelled::Settled = cancelled {
        return Err(Fault::not_cancelable());
    }
    let (now, _) = task::task(&call.ports, id, &accepted.sub, Shown { history: Some(0), artifacts: true })?;
    let work = Work::cancel(&accepted.place);
    let (place, history) = (accepted.place, Some(0));
    let awaited = Awaited { place, id: accepted.id, ms: CANCEL_WAIT_MS, wrapped: false, history, terminal: true };
    Ok(Answered { done: Done::Wait(now, awaited), work: vec![work] })
}

fn subscribe(call: &Call, params: &Params) -> Result<Answered, Fault> {
    let (tenant, id) = named(params)?;
    let sub = find(call, tenant, id)?;
    if sub.is_settled() {
        return Err(Fault::unsupported("The task has its outcome: get it, there is nothing to follow."));
    }
    let context = session::name(&sub.address);
    let telling = Telling { rpc: None, context, until: Until::Terminal, history: None };
    Ok(Answered { done: Done::Stream(sub.place(id), id.to_owned(), telling), work: Vec::new() })
}

fn send(call: &Call, params: &Params, streamed: bool) -> Result<Answered, Fault> {
    let asked = Asked::read(params)?;
    let tenant = tenant(params)?;
    for id in &asked.references {
        find(call, tenant, id)?;
    }
    match &asked.task {
        Some(id) => go_on(call, tenant, &asked, id, streamed),
        None => begin(call, tenant, &asked, streamed),
    }
}

/// A new task.
fn begin(call: &Call, tenant: Option<&str>, asked: &Asked, streamed: bool) -> Result<Answered, Fault> {
    let key = key(call, asked)?;
    let address = place_of(call, tenant, asked, key.as_deref())?;
    let delivery = asked.delivery()?;
    let label = Some(asked.message_id.as_str());
    let accepted = admission::submit_labelled(call.ports, call.agents, address, key, &delivery, label)?;
    // What is pending is handed to the host again: a lost hint costs nothing (trap 14).
    let pending = !accepted.sub.is_settled();
    let work = Work::run(&accepted);
    let work = pending.then_some(work).into_iter().collect();
    let done = answer(call, asked, &accepted.id, &accepted.sub, streamed)?;
    Ok(Answered { done, work })
}

/// The key: of the header, or of the extension.
fn key(call: &Call, asked: &Asked) -> Result<Option<String>, Fault> {
    match (call.key()?, &asked.key) {
        (Some(header), Some(key)) if header != *key => {
            let why = "`Idempotency-Key` and the extension's `idempotencyKey` differ: send one of them.";
            Err(Fault::field("idempotencyKey", why))
        }
        (header, key) => Ok(header.or_else(|| key.clone())),
    }
}

/// The thread of a new task: the context's, or a new one of the tenant's or the default agent. A context that is not
/// there yet is taken as it is named if it names a thread of an agent here: such names are the caller's own. Everything
/// else is refused, not replaced.
fn place_of(call: &Call, tenant: Option<&str>, asked: &Asked, key: Option<&str>) -> Result<Address, Fault> {
    let all = agents(call)?;
    let known: Vec<&str> = all.iter().map(|a| a.name.as_str()).collect();
    let unknown = |field: &str, name: &str| {
        let shown: String = name.chars().take(64).collect();
        Fault::field(field, format!("There is no agent {shown:?}; known are {}.", known.join(", ")))
    };
    // One that was accepted with this key before its agent went is found by it; admission refuses the others.
    if let Some(tenant) = tenant.filter(|tenant| !known.contains(tenant) && key.is_none()) {
        return Err(unknown("tenant", tenant));
    }
    if let Some(context) = &asked.context {
        let why =
            "`contextId` is no context of this server: leave it out for a new one, or name one as `agent/thread`.";
        let address = session::address(&call.owner, context).ok_or_else(|| Fault::field("message.contextId", why))?;
        if tenant.is_some_and(|tenant| tenant != address.agent) {
            return Err(Fault::field(
                "message.contextId",
                "`contextId` is a context of another agent than the tenant.",
            ));
        }
        return Ok(address);
    }
    let agent = match tenant {
        Some(tenant) => tenant,
        None => match Settings::read(call)?.default_agent(&all) {
            Some(agent) => agent.name.as_str(),
            None => {
                let why = format!("There is no default agent: name one as `tenant`. Known are {}.", known.join(", "));
                return Err(Fault::field("tenant", why));
            }
        },
    };
    Ok(session::minted(&call.ports, &call.owner, agent, key))
}

/// A message to a task that is there: the answer to its question.
fn go_on(call: &Call, tenant: Option<&str>, asked: &Asked, id: &str, streamed: bool) -> Result<Answered, Fault> {
    let sub = find(call, tenant, id)?;
    let context = session::name(&sub.address);
    if asked.context.as_ref().is_some_and(|asked| *asked != context) {
        let why = "`contextId` is not the context of the task: leave it out, or leave `taskId` out.";
        return Err(Fault::field("message.contextId", why));
    }
    if sub.is_settled() {
        let text =
            format!("The task has its outcome. For more, send a message without `taskId` to context {context:?}.");
        return Err(Fault::unsupported(text));
    }
    // One that comes again, because its answer got lost, is not an answer to the next question.
    let asking = approval::asking(&call.ports, id, &sub)?;
    if asking.has_said(&asked.message_id)? {
        let done = answer(call, asked, id, &sub, streamed)?;
        let accepted = Accepted { id: id.to_owned(), place: sub.place(id), sub };
        return Ok(Answered { done, work: vec![Work::run(&accepted)] });
    }
    let (named, hash, decision) = match (question::verdict(&asked.parts), asking.questions.as_slice()) {
        (Some(Verdict { call: Some(named), hash, decision }), _) => (named, hash, decision),
        (_, []) => {
            let text = format!(
                "The task asks for nothing now. For more, send a message without `taskId` to context {context:?}: it \
                 queues."
            );
            return Err(Fault::unsupported(text));
        }
        (None, _) => return still_asks(call, asked, id, &sub, streamed, "That says neither yes nor no."),
        // The one that was open just now, and no other.
        (Some(Verdict { hash, decision, .. }), [only]) => {
            (only.call.clone(), hash.or_else(|| Some(only.hash.clone())), decision)
        }
        (Some(_), _) => return still_asks(call, asked, id, &sub, streamed, "Several calls wait."),
    };
    let reply = Reply { call: &named, hash: hash.as_deref(), decision, message: Some(&asked.message_id) };
    let accepted = approval::answer(call.ports, &call.owner, id, reply)?;
    let work = Work::run(&accepted);
    let done = answer(call, asked, id, &accepted.sub, streamed)?;
    Ok(Answered { done, work: vec![work] })
}

/// The task as it is, with a word about why the message has not answered it.
fn still_asks(
    call: &Call,
    asked: &Asked,
    id: &str,
    sub: &Submission,
    streamed: bool,
    why: &str,
) -> Result<Answered, Fault> {
    let mut done = answer(call, asked, id, sub, streamed)?;
    if let Done::Result(value) | Done::Wait(value, _) = &mut done
        // There is no such part when somebody else has answered meanwhile.
        && let Some(part) = value.pointer_mut("/task/status/message/parts/0")
    {
        *part = json!({"text": format!("{why} {}", question::HOW)});
    }
    Ok(Answered { done, work: Vec::new() })
}

/// The answer to a message: the task's stream, the task once it is terminal or interrupted, or the task at once.
fn answer(call: &Call, asked: &Asked, id: &str, sub: &Submission, streamed: bool) -> Result<Done, Fault> {
    let (place, history) = (sub.place(id), asked.history);
    if streamed {
        let context = session::name(&sub.address);
        let telling = Telling { rpc: None, context, until: Until::Interrupted, history };
        return Ok(Done::Stream(place, id.to_owned(), telling));
    }
    let (task, stand) = task::task(&call.ports, id, sub, Shown { history, artifacts: true })?;
    let value: Value = json!({"task": task});
    if asked.at_once || stand != Stand::Open {
        return Ok(Done::Result(value));
    }
    let awaited = Awaited { place, id: id.to_owned(), ms: SEND_WAIT_MS, wrapped: true, history, terminal: false };
    Ok(Done::Wait(value, awaited))
}
