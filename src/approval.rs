//! Approvals: a tool that is declared `ask` runs only after a person has said yes.
//!
//! The question is a fact of the session head: the run ends, and no attempt is spent while it stands. The answer is an input
//! like a cancel: a mark and an inbox entry, written once under **Q**; that nobody answered in time is an answer, too, so
//! that the two can't both win (trap 12). The head alone executes it, by the rows P7a and P7e of `run::plan`.

use crate::admission::Accepted;
use crate::canon;
use crate::error::{Error, Problem, Refusal};
use crate::id::Place;
use crate::keys;
use crate::owned::Owned;
use crate::ports::{Bytes, Guard, Ports};
use crate::prelude::*;
use crate::record::*;
use crate::session::message::{Role, read_messages};
use crate::store::{self, Sent, Stop, put, read};
use serde_json::{Value, json};

/// Longest reason of a denial, in bytes.
pub const REASON_BYTES_MAX: usize = 1000;

/// How often a request starts over before it gives up with 503.
const TRIES: u32 = 64;

/// Questions that one commit answers for those who did not.
const EXPIRIES_MAX: usize = 16;

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The call that it is about: `<message>.<index>`.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// Hash of tool and arguments: an answer may name it, to be sure what it is about.
    pub hash: String,
    /// Since when, Unix ms.
    pub asked: u64,
    /// When it is too late, Unix ms: then it counts as denied.
    pub expires: u64,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The call may run.
    Approve,
    /// The call is not run; the model is told so, and the reason if there is one.
    Deny(Option<String>),
}

/// An answer, and what it is about.
#[derive(Clone, Debug)]
pub struct Reply<'a> {
    /// The call.
    pub call: &'a str,
    /// Hash of the call, if whoever answers wants to be sure.
    pub hash: Option<&'a str>,
    /// What is decided.
    pub decision: Decision,
    /// The message that brings it, as its client calls it: see [`Asking::has_said`].
    pub message: Option<&'a str>,
}

impl Decision {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Approve => Verdict::Approved,
            Self::Deny(_) => Verdict::Denied,
        }
    }
}

/// Hash of a call's tool and arguments.
pub fn hash(tool: &str, arguments: &Value) -> String {
    canon::hash(&json!({"tool": tool, "arguments": arguments}))
}

/// Why a submission waits for a person, in a sentence.
pub fn reason(op: &Op) -> String {
    let calls: Vec<String> =
        op.asked().map(|(i, call, _)| format!("{} (call {})", call.name, op.call_name(i))).collect();
    format!("It waits for approval of {}.", calls.join(", "))
}

/// What a submission asks, and what has answered.
#[derive(Default)]
pub struct Asking {
    /// The questions that nobody has answered yet, in the order of its calls.
    pub questions: Vec<Question>,
    /// Messages whose answers were taken.
    said: Vec<String>,
    /// Answers that were not taken yet: key and value.
    marks: Vec<(String, Bytes)>,
}

impl Asking {
    /// Whether a message has answered a question already: one that comes again must not answer the next one. The last 16
    /// of a submission are known, until it has its outcome.
    pub fn has_said(&self, message: &str) -> Result<bool, Error> {
        if self.said.iter().any(|said| said == message) {
            return Ok(true);
        }
        for (key, mark) in &self.marks {
            let mark: Approval = decode(key, mark)?;
            if mark.said.as_deref() == Some(message) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What a submission asks; nothing if it has settled.
pub fn asking(ports: &Ports, id: &str, sub: &Submission) -> Result<Asking, Error> {
    if sub.is_settled() {
        return Ok(Asking::default());
    }
    let place = sub.place(id);
    let [head] = read(ports.store, [place.head()])?;
    let head: Option<Head> = decode_opt(&place.head(), &head)?;
    match head.as_ref().and_then(|h| h.op.as_ref()).filter(|op| op.sub == id) {
        Some(op) => asking_of(ports, &place, op),
        None => Ok(Asking::default()),
    }
}

/// The questions that a submission waits for, in the order of its calls; none of one that has settled.
pub fn questions(ports: &Ports, id: &str, sub: &Submission) -> Result<Vec<Question>, Error> {
    Ok(asking(ports, id, sub)?.questions)
}

/// The questions of an operation that nobody has answered yet. Costs two reads if there are any.
pub fn questions_of(ports: &Ports, place: &Place, op: &Op) -> Result<Vec<Question>, Error> {
    Ok(asking_of(ports, place, op)?.questions)
}

fn asking_of(ports: &Ports, place: &Place, op: &Op) -> Result<Asking, Error> {
    let calls: Vec<String> = op.asked().map(|(i, ..)| op.call_name(i)).collect();
    if calls.is_empty() {
        return Ok(Asking { said: op.said.clone(), ..Asking::default() });
    }
    // One snapshot: a run deletes the mark in the commit that takes the question away.
    let mut wanted: Vec<String> = calls.iter().map(|call| keys::answer(&op.sub, call)).collect();
    wanted.push(place.head());
    let mut values = store::read_many(ports.store, &wanted)?;
    let head: Option<Head> = decode_opt(&place.head(), &values.pop().flatten())?;
    let Some(op) = head.and_then(|head| head.op).filter(|now| now.sub == op.sub) else {
        return Ok(Asking::default());
    };
    let answered = |name: &String| {
        calls.iter().position(|c| c == name).is_some_and(|i| values.get(i).is_some_and(Option::is_some))
    };
    let n = op.base.saturating_sub(1);
    let message = read_messages(ports, place, n, n + 1)?.pop();
    let arguments = message.as_ref().map(|m| m.calls()).unwrap_or_default();
    let question = |(i, call, asked): (usize, &Call, &Asked)| Question {
        call: op.call_name(i),
        tool: call.name.clone(),
        arguments: arguments.get(i).map(|c| c.arguments.clone()).unwrap_or_default(),
        hash: asked.hash.clone(),
        asked: asked.at,
        expires: asked.expires,
    };
    let questions = op.asked().map(question).filter(|question| !answered(&question.call)).collect();
    let marks = wanted.into_iter().zip(values).filter_map(|(key, mark)| Some((key, mark?))).collect();
    Ok(Asking { questions, said: op.said, marks })
}

/// Answers a question of an owner's submission, durably, once (C13). The first answer wins; the same one again is taken as
/// said, also after the call has run.
///
/// # Errors
/// 404 as for what is missing. 409 `answered` when it was decided otherwise, `expired` when it is too late, `closed` when the
/// call does not wait, `other-arguments` when `hash` is of another call. Nothing is stored then.
pub fn answer(ports: Ports, owner: &str, id: &str, reply: Reply) -> Result<Accepted, Refusal> {
    let Reply { call, hash, decision, message } = reply;
    if let Decision::Deny(Some(reason)) = &decision
        && reason.len() > REASON_BYTES_MAX
    {
        let text = format!("The reason is {} bytes; at most {REASON_BYTES_MAX} are kept.", reason.len());
        return Err(Problem::field("reason", text).with("limit", REASON_BYTES_MAX).into());
    }
    // It becomes part of a key.
    if place_of(call).is_none() {
        return Err(closed().into());
    }
    for _ in 0..TRIES {
        let owned = Owned::read(&ports, owner, id, keys::answer(id, call))?;
        if let Some(mark) = owned.mark()? {
            return again(&mark, &decision, call).map(|()| owned.accepted);
        }
        // What the head says may be over by the time of the commit: then the answer finds nothing to do, and the run
        // drops it.
        let place = &owned.accepted.place;
        let wanted = [place.head(), place.inbox()];
        let [head, inbox] = read(ports.store, wanted.clone())?;
        let head: Head = decode_opt(&wanted[0], &head)?.ok_or_else(Problem::not_found)?;
        let inbox: Option<Inbox> = decode_opt(&wanted[1], &inbox)?;
        let inbox = inbox.filter(|inbox| inbox.closed.is_none()).ok_or_else(Problem::not_found)?;
        let op = head.op.as_ref().filter(|op| op.sub == id);
        let asked = op.and_then(|op| op.asked().find(|(i, ..)| op.call_name(*i) == call));
        let Some((_, _, asked)) = asked else {
            let given = given(&ports, place, op, id, call)?.ok_or_else(closed)?;
            return again(&given, &decision, call).map(|()| owned.accepted);
        };
        if hash.is_some_and(|hash| hash != asked.hash) {
            let text = "The answer is about other arguments than this call has. Look at the question again.";
            return Err(Problem::new(409, "other-arguments", text).with("hash", asked.hash.as_str()).into());
        }
        let now = ports.clock.now();
        if asked.expires <= now {
            let text = format!("The answer to call {call} came too late: it had to come before {}.", asked.expires);
            return Err(Problem::new(409, "expired", text).into());
        }
        let reason = match &decision {
            Decision::Deny(reason) => reason.clone(),
            Decision::Approve => None,
        };
        let (verdict, by, said) = (decision.verdict(), Some(owner.to_owned()), message.map(str::to_owned));
        let approval = Approval { verdict, by, at: now, reason, said };
        let entry = Entry::Answer { submission: id.to_owned(), call: call.to_owned() };
        let writes = vec![
            put(keys::answer(id, call), &approval),
            put(place.entry(inbox.next), &entry),
            put(place.inbox(), &Inbox { next: inbox.next + 1, ..inbox }),
        ];
        if owned.commit(&ports, writes)? {
            return Ok(owned.accepted);
        }
    }
    Err(Problem::new(503, "try-again", "The store is too busy. Answer again.").into())
}

/// Answers the questions of a thread that are too late, for those who did not (P7e). Late or repeated it changes nothing: an
/// answer to what does not wait any more is dropped (R6).
pub(crate) fn expire(ports: &Ports, place: &Place) -> Result<(), Stop> {
    for _ in 0..TRIES {
        let wanted = [keys::queue(place.partition), place.head(), place.inbox()];
        let [queue, head, inbox] = read(ports.store, wanted.clone())?;
        let head: Option<Head> = decode_opt(&wanted[1], &head)?;
        let inbox: Option<Inbox> = decode_opt(&wanted[2], &inbox)?;
        let Some(op) = head.and_then(|head| head.op) else { return Ok(()) };
        let Some(mut inbox) = inbox.filter(|inbox| inbox.closed.is_none()) else { return Ok(()) };
        let now = ports.clock.now();
        let late = op.asked().filter(|(_, _, asked)| asked.expires <= now).map(|(i, ..)| op.call_name(i));
        let late: Vec<String> = late.take(EXPIRIES_MAX).collect();
        let marks: Vec<String> = late.iter().map(|call| keys::answer(&op.sub, call)).collect();
        let stored = store::read_many(ports.store, &marks)?;
        let approval = Approval { verdict: Verdict::Expired, by: None, at: now, reason: None, said: None };
        let new = Queue { nonce: nonce(ports.clock), ..decode_opt(&wanted[0], &queue)?.unwrap_or_default() };
        let mut writes = vec![put(keys::queue(place.partition), &new)];
        for (call, (mark, stored)) in late.into_iter().zip(marks.into_iter().zip(stored)) {
            if stored.is_none() {
                let entry = Entry::Answer { submission: op.sub.clone(), call };
                writes.extend([put(mark, &approval), put(place.entry(inbox.next), &entry)]);
                inbox.next += 1;
            }
        }
        if writes.len() == 1 {
            return Ok(());
        }
        writes.push(put(place.inbox(), &inbox));
        let guard = Guard { key: keys::queue(place.partition), expect: queue };
        if store::commit(ports.store, guard, &writes)? == Sent::Committed {
            return Ok(());
        }
    }
    Err(Stop::Failed(Error::Unavailable("the store is too busy to note that a question has expired".into())))
}

/// How a question was answered that does not wait any more: from the head while its batch is open, then from its result.
fn given(ports: &Ports, place: &Place, op: Option<&Op>, id: &str, call: &str) -> Result<Option<Approval>, Error> {
    let Some((n, i)) = place_of(call) else { return Ok(None) };
    let open = op.filter(|op| op.base == n.saturating_add(1));
    if let Some(approval) = open.and_then(|op| op.calls.get(i as usize)?.approval.clone()) {
        return Ok(Some(approval));
    }
    let at = n.saturating_add(i).saturating_add(1);
    let [value] = read(ports.store, [place.message(at)])?;
    if value.is_none() {
        return Ok(None);
    }
    let result = read_messages(ports, place, at, at.saturating_add(1))?.pop();
    let ours = |m: &crate::session::Message| {
        m.role == Role::ToolResult && m.submission.as_deref() == Some(id) && m.call.as_deref() == Some(call)
    };
    Ok(result.filter(ours).and_then(|m| m.approval))
}

/// Where a call stands: the number of its message, and its own. `None`: that is no name of a call.
fn place_of(call: &str) -> Option<(u64, u64)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (n, i) = call.split_once('.').filter(|(n, i)| is_number(n) && is_number(i))?;
    Some((n.parse().ok()?, i.parse().ok()?))
}

/// An answer to what is answered: the same one is taken as said.
fn again(given: &Approval, decision: &Decision, call: &str) -> Result<(), Refusal> {
    if given.verdict == decision.verdict() {
        return Ok(());
    }
    let problem = match given.verdict {
        Verdict::Approved => Problem::new(409, "answered", format!("Call {call} was approved already.")),
        Verdict::Denied => Problem::new(409, "answered", format!("Call {call} was denied already.")),
        Verdict::Expired => Problem::new(409, "expired", format!("Nobody answered call {call} in time.")),
    };
    Err(problem.with("decision", json!(given.verdict)).into())
}

fn closed() -> Problem {
    Problem::new(409, "closed", "This call does not wait for an answer.")
}
