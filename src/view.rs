//! What people and faces see of the store: submissions, threads, messages. Stored facts, never folded from text.

use crate::approval::{self, Question};
use crate::error::{Error, Problem, Refusal};
use crate::id::{self, Address, Place};
use crate::keys::{self, List};
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::*;
use crate::session::message::read_messages;
use crate::store::{read, read_format, read_many};
use serde_json::{Value, json};

/// A submission of an owner's, by its id. What is foreign answers as what is missing, with the same reads (I13).
pub fn find(ports: &Ports, owner: &str, id: &str) -> Result<Submission, Refusal> {
    id::partition_of_id(id).ok_or_else(Problem::not_found)?;
    Ok(record(ports, id)?.filter(|r| r.address.owner == owner).ok_or_else(Problem::not_found)?)
}

/// The record of an id, whoever's it is.
pub fn record(ports: &Ports, id: &str) -> Result<Option<Submission>, Error> {
    let key = keys::sub(id);
    let [record] = read(ports.store, [key.clone()])?;
    decode_opt(&key, &record)
}

/// Whether whoever waits for a submission has waited long enough: it has its outcome, is gone, or asks something.
pub fn is_due(ports: &Ports, id: &str) -> Result<bool, Error> {
    Ok(match record(ports, id)? {
        None => true,
        Some(record) => record.is_settled() || !approval::questions(ports, id, &record)?.is_empty(),
    })
}

/// A live thread of an owner's.
pub fn find_thread(ports: &Ports, address: &Address) -> Result<(Place, Head, Inbox), Refusal> {
    let place = address.place(read_format(ports)?.partitions);
    let wanted = [place.head(), place.inbox()];
    let [head, inbox] = read(ports.store, wanted.clone())?;
    let head: Head = decode_opt(&wanted[0], &head)?.ok_or_else(Problem::not_found)?;
    let inbox: Inbox = decode_opt(&wanted[1], &inbox)?.unwrap_or_default();
    if head.stage != Stage::Live || inbox.closed.is_some() {
        return Err(Problem::not_found().into());
    }
    Ok((place, head, inbox))
}

/// The receipt of a submission: what its record alone says. Costs no read.
pub fn receipt(id: &str, sub: &Submission) -> Value {
    let mut view = json!({
        "id": id,
        "agent": sub.address.agent,
        "thread": sub.address.thread,
        "kind": sub.kind,
        "hash": sub.hash,
        "partition": id::partition_of_id(id),
        "accept": sub.n,
        "attempt": sub.attempt,
        "created": sub.created,
        "deadline": sub.deadline,
        "state": sub.state,
        "reason": "It is accepted and stored.",
    });
    if let Some(key) = &sub.key {
        view["key"] = json!(key);
    }
    view
}

/// A submission as the API shows it: its receipt, its state and why, and its outcome once it has one.
pub fn submission(ports: &Ports, id: &str, sub: &Submission) -> Result<Value, Error> {
    let mut view = receipt(id, sub);
    if let Some(outcome) = &sub.outcome {
        view["settled"] = json!(sub.settled);
        view["outcome"] = outcome_view(ports, &sub.place(id), outcome)?;
        view["reason"] = json!("It has its outcome.");
        return Ok(view);
    }
    let Standing { state, reason, questions } = standing(ports, id, sub)?;
    view["state"] = json!(state);
    view["reason"] = json!(reason);
    if !questions.is_empty() {
        view["questions"] = questions.iter().map(question).collect();
    }
    Ok(view)
}

/// How a submission without outcome stands.
pub struct Standing {
    /// Its state.
    pub state: &'static str,
    /// A sentence that says why.
    pub reason: String,
    /// What it waits to be told by a person.
    pub questions: Vec<Question>,
}

/// How a submission stands that has no outcome.
pub fn standing(ports: &Ports, id: &str, sub: &Submission) -> Result<Standing, Error> {
    let place = sub.place(id);
    let wanted = [place.head(), keys::pause(id), keys::PAUSED.to_owned()];
    let [head, mark, paused] = read(ports.store, wanted.clone())?;
    let by_agent = Paused::read(&paused)?.has(&sub.address.owner, &sub.address.agent);
    let paused = match decode_opt::<PauseMark>(&wanted[1], &mark)? {
        Some(_) => Some("It is paused."),
        None => by_agent.then_some("Its agent is paused."),
    };
    let head: Option<Head> = decode_opt(&wanted[0], &head)?;
    let (state, reason) = state(head.as_ref(), id, sub, paused);
    let questions = match head.as_ref().and_then(|h| h.op.as_ref()).filter(|op| op.sub == id) {
        Some(op) => approval::questions_of(ports, &place, op)?,
        None => Vec::new(),
    };
    Ok(Standing { state, reason, questions })
}

fn question(question: &Question) -> Value {
    json!({
        "call": question.call,
        "tool": question.tool,
        "arguments": question.arguments,
        "hash": question.hash,
        "asked": question.asked,
        "expires": question.expires,
    })
}

/// The state of an unsettled submission, and a sentence that says why.
/// `paused` says that it is paused, if it is.
pub fn state(head: Option<&Head>, id: &str, sub: &Submission, paused: Option<&str>) -> (&'static str, String) {
    if let Some(paused) = paused {
        let op = head.and_then(|h| h.op.as_ref()).filter(|op| op.sub == id);
        let at_work = op.is_some_and(|op| !matches!(op.phase, Phase::Parked { .. }));
        let rest = if at_work { " The turn under way goes on to its end." } else { "" };
        return ("paused", format!("{paused}{rest} Resume it, or cancel it."));
    }
    let Some(head) = head else { return ("queued", "Its thread is not there yet.".into()) };
    if let Stage::Staged(staged) = &head.stage {
        return ("running", format!("{} of {} messages are copied.", staged.done, staged.point));
    }
    let Some(op) = head.op.as_ref().filter(|op| op.sub == id) else {
        return match &head.op {
            Some(op) => ("queued", format!("It waits behind submission {}.", op.sub)),
            None => ("queued", "It is accepted and waits for a run.".into()),
        };
    };
    let open: Vec<&str> = op.calls.iter().filter(|c| c.is_open()).map(|c| c.name.as_str()).collect();
    match (&op.retry, op.phase) {
        (Some(Retry { count: 0, due, why }), _) => {
            ("waiting", format!("It can't go on: {why}. It looks again at {due} (Unix ms)."))
        }
        (Some(retry), _) => {
            let Retry { count, due, why } = retry;
            ("retrying", format!("The model failed ({why}); retry {count} of 3 is due at {due} (Unix ms)."))
        }
        (None, Phase::Parked { due }) if op.asked().next().is_some() => {
            ("waiting", format!("{} Answer before {due} (Unix ms).", approval::reason(op)))
        }
        (None, Phase::Calling) => ("running", format!("Attempt {} runs {}.", sub.attempt, open.join(", "))),
        (None, _) => ("running", format!("Attempt {} is at work.", sub.attempt)),
    }
}

/// An outcome with its text, which is that of the message that it names.
fn outcome_view(ports: &Ports, place: &Place, outcome: &Outcome) -> Result<Value, Error> {
    Ok(match outcome {
        Outcome::Completed { message, result } => {
            let text = match message {
                Some(n) => read_messages(ports, place, *n, n + 1)?.pop().map(|m| m.plain_text()).unwrap_or_default(),
                None => String::new(),
            };
            json!({"status": "completed", "text": text, "message": message, "result": result})
        }
        Outcome::Failed { error } => json!({"status": "failed", "error": error}),
        Outcome::Aborted { reason } => json!({"status": "aborted", "reason": reason}),
    })
}

/// A thread as the API shows it.
pub fn thread(head: &Head, inbox: &Inbox) -> Value {
    let op = head.op.as_ref().map(|op| json!({"submission": op.sub, "phase": op.phase, "spent": op.spent}));
    json!({
        "agent": head.address.agent,
        "thread": head.address.thread,
        "messages": head.count,
        "submissions": inbox.next,
        "epoch": head.epoch,
        "boundary": head.boundary,
        "journal": head.jused,
        "usage": head.usage,
        "state": head.state,
        "operation": op,
    })
}

/// A page of an owner's threads, as the API shows them.
pub fn threads(ports: &Ports, owner: &str, cursor: Option<&str>) -> Result<(Vec<Value>, Option<String>), Error> {
    let (heads, next) = heads(ports, owner, cursor)?;
    Ok((heads.iter().map(|(head, inbox)| thread(head, inbox)).collect(), next))
}

/// A page of an owner's threads, and where to go on.
pub type Heads = (Vec<(Head, Inbox)>, Option<String>);

/// A page of an owner's live threads. The heads of all partitions' lists come in one read; the cursor is
/// `<partition>.<entry>`.
pub fn heads(ports: &Ports, owner: &str, cursor: Option<&str>) -> Result<Heads, Error> {
    let format = read_format(ports)?;
    let (mut p, mut from) = parse_cursor(cursor);
    let heads: Vec<String> = (0..format.partitions).map(|p| keys::list(p as u8, List::Owner(owner))).collect();
    let lists = read_many(ports.store, &heads)?;
    let mut tags = Vec::new();
    while p < format.partitions && tags.len() < 100 {
        let list: IndexHead = decode_opt(&heads[usize::from(p)], &lists[usize::from(p)])?.unwrap_or_default();
        let end = list.next.min(from.saturating_add((100 - tags.len()) as u64));
        let entries: Vec<String> = (from..end).map(|n| keys::list_entry(p as u8, List::Owner(owner), n)).collect();
        for (key, value) in entries.iter().zip(read_many(ports.store, &entries)?) {
            if let Some(tag) = decode_opt::<String>(key, &value)? {
                tags.push(Place { partition: p as u8, tag });
            }
        }
        (p, from) = if end < list.next { (p, end) } else { (p + 1, 0) };
    }
    let mut wanted = Vec::new();
    for place in &tags {
        wanted.extend([place.head(), place.inbox()]);
    }
    let values = read_many(ports.store, &wanted)?;
    let mut found = Vec::new();
    for (pair, names) in values.chunks(2).zip(wanted.chunks(2)) {
        let head: Option<Head> = decode_opt(&names[0], &pair[0])?;
        let inbox: Inbox = decode_opt(&names[1], &pair[1])?.unwrap_or_default();
        if let Some(head) = head.filter(|h| h.stage == Stage::Live && inbox.closed.is_none()) {
            found.push((head, inbox));
        }
    }
    Ok((found, (p < format.partitions).then(|| format!("{p}.{from}"))))
}

/// Bytes of a page of submissions, about: an outcome has the text of its answer.
const SUBMISSIONS_BYTES: usize = 1024 * 1024;

/// A page of a thread's submissions in order of acceptance, and where to go on.
pub fn submissions(
    ports: &Ports,
    place: &Place,
    inbox: &Inbox,
    after: u64,
    limit: u64,
) -> Result<(Vec<Value>, Option<u64>), Error> {
    let end = inbox.next.min(after.saturating_add(limit));
    let entries = crate::run::entries(ports, place, after, end)?;
    let (mut views, mut size) = (Vec::new(), 0);
    for entries in entries.chunks(16) {
        let ids = entries.iter().filter(|(_, entry)| matches!(entry, Entry::Submit(_)));
        let ids: Vec<String> = ids.map(|(_, entry)| entry.submission().to_owned()).collect();
        let records = crate::run::records(ports, ids)?;
        for (k, entry) in entries {
            let Entry::Submit(id) = entry else { continue };
            let Some(record) = records.get(id) else { continue };
            let view = submission(ports, id, record)?;
            size += view.to_string().len();
            views.push(view);
            if size > SUBMISSIONS_BYTES {
                return Ok((views, (k + 1 < inbox.next).then_some(k + 1)));
            }
        }
    }
    Ok((views, (end < inbox.next).then_some(end)))
}

/// Whether a cursor is one that a page of threads may have given; none is.
pub fn is_cursor(ports: &Ports, cursor: Option<&str>) -> Result<bool, Error> {
    let Some(cursor) = cursor else { return Ok(true) };
    let (p, n) = parse_cursor(Some(cursor));
    Ok(format!("{p}.{n}") == cursor && p < read_format(ports)?.partitions)
}

/// `<partition>.<number>`; anything else starts at the beginning.
pub fn parse_cursor(cursor: Option<&str>) -> (u16, u64) {
    let parts = cursor.and_then(|c| c.split_once('.'));
    parts.and_then(|(p, n)| Some((p.parse().ok()?, n.parse().ok()?))).unwrap_or((0, 0))
}
