//! Driving an instance: read, decide by the table, carry out, until there is nothing left to do.

mod answer;
mod ask;
mod batch;
mod compact;
mod context;
mod inbox;
mod model_error;
pub mod plan;
pub(crate) mod rest;
mod steps;
mod turn;

use crate::agent::Agents;
use crate::error::Error;
use crate::id::Place;
use crate::keys;
use crate::notice;
use crate::ports::{Bytes, Ports, Write};
use crate::prelude::*;
use crate::record::*;
use crate::session::{Session, delete, fork};
use crate::store::{READ_MAX, Stop, del, put, read, read_many};
pub(crate) use ask::CALLS_MAX;
use plan::{Action, Effect, Snapshot, Taken, first, plan};
use turn::Turn;

/// Submissions that one run drives before it gives others a chance.
const SUBMISSIONS_MAX: u32 = 16;

/// Decisions that one run takes at most: a ceiling, never met by a run that gets on.
const ROUNDS_MAX: u32 = 4096;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// Nothing left.
    Idle,
    /// Again at this time, Unix ms.
    Later(u64),
    /// Another run owns the instance.
    Fenced,
    /// It could not go on.
    Failed(Error),
}

impl From<Stop> for RunOutcome {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Later(at) => Self::Later(at),
            Stop::Fenced => Self::Fenced,
            Stop::Failed(error) => Self::Failed(error),
        }
    }
}

/// What a run leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub outcome: RunOutcome,
    /// Instances that are to be run now.
    pub work: Vec<String>,
}

/// Drives one instance. `hint` names the submission that caused it, which saves a read.
pub fn drive(ports: Ports, agents: &dyn Agents, instance: &str, hint: Option<&str>) -> Report {
    if let Some(submission) = notice::parse(instance) {
        let outcome = notice::deliver(ports, submission).map_or_else(RunOutcome::from, |()| RunOutcome::Idle);
        return Report { outcome, work: Vec::new() };
    }
    let Some(place) = Place::parse(instance) else { return Report { outcome: RunOutcome::Idle, work: Vec::new() } };
    // Submissions that somebody is to be told of. They are told beside this run, which is run again for what waits.
    let mut told = Vec::new();
    let outcome = drive_thread(ports, agents, &place, hint, &mut told);
    let mut work: Vec<String> = told.iter().map(|id| notice::instance(id)).collect();
    if !work.is_empty() && outcome == RunOutcome::Idle {
        work.push(instance.to_owned());
    }
    Report { outcome, work }
}

fn drive_thread(
    ports: Ports,
    agents: &dyn Agents,
    place: &Place,
    hint: Option<&str>,
    told: &mut Vec<String>,
) -> RunOutcome {
    let mut begun = 0;
    let mut hint = hint;
    for _ in 0..ROUNDS_MAX {
        match step(ports, agents, place, hint.take(), told) {
            Ok(Some(true)) if begun + 1 == SUBMISSIONS_MAX => break,
            Ok(Some(true)) => begun += 1,
            Ok(Some(false)) => {}
            Ok(None) => return RunOutcome::Idle,
            Err(stop) => return stop.into(),
        }
        if !told.is_empty() {
            return RunOutcome::Idle;
        }
    }
    RunOutcome::Later(ports.clock.now())
}

/// One decision, carried out. `Some(true)`: a submission was driven; `None`: nothing is left.
fn step(
    ports: Ports,
    agents: &dyn Agents,
    place: &Place,
    hint: Option<&str>,
    told: &mut Vec<String>,
) -> Result<Option<bool>, Stop> {
    let Loaded { snapshot, stored, hinted } = load(&ports, place, hint)?;
    let plan = plan(&snapshot);
    let Some(stored) = stored else { return Ok(None) };
    let mut session = Session::open(ports, place.clone(), stored)?;
    let inputs = Inputs::of(plan.taken, plan.seen, &snapshot);
    let current = session.head.op.as_ref().map(|op| op.sub.clone());
    if !matches!(plan.action, Action::Idle | Action::Wait(_) | Action::Delete | Action::Copy | Action::Expire) {
        let ended = inputs.taken.iter().filter(|t| t.effect == Effect::SettleQueued).map(|t| t.id().to_owned());
        let worked_on = first(&snapshot).into_iter().chain(ended);
        told.extend(worked_on.filter(|id| snapshot.records.get(id).is_some_and(|r| !r.notify.is_empty())));
    }
    match plan.action {
        Action::Idle => return Ok(None),
        Action::Wait(due) => return Err(Stop::Later(due)),
        Action::Delete => {
            delete::step(session, &snapshot)?;
            return Ok(Some(false));
        }
        Action::Copy => {
            fork::step(session)?;
            return Ok(Some(false));
        }
        Action::Expire => {
            crate::approval::expire(&ports, place)?;
            return Ok(Some(false));
        }
        Action::Take { then } => {
            session.head.epoch += 1;
            let writes = inputs.writes(&mut session, &snapshot.records)?;
            session.commit(writes)?;
            return match then {
                // Perhaps there was more than one commit takes.
                Some(due) if inputs.seen == snapshot.inbox.next => Err(Stop::Later(due)),
                _ => Ok(Some(false)),
            };
        }
        Action::SettleUnbegun { k, id, outcome } => {
            settle_unbegun(session, &snapshot, inputs, k, &id, outcome)?;
            return Ok(Some(false));
        }
        Action::Claim { k, id } => {
            let record = record_of(&snapshot, &id)?;
            let Some((start, moved)) = delivery(&ports, &id, hinted)? else {
                let outcome = Outcome::failed("unreadable", "The stored delivery is missing.");
                settle_unbegun(session, &snapshot, inputs, k, &id, outcome)?;
                return Ok(Some(false));
            };
            let turn = Turn::claim(session, agents, k, id, record, start, moved, &inputs, &snapshot.records)?;
            turn.run()?;
        }
        Action::TakeOver | Action::Resume | Action::End(_) => {
            let id = current.ok_or_else(|| corrupt(place, "an operation without a submission"))?;
            let record = record_of(&snapshot, &id)?;
            let (start, moved) = delivery(&ports, &id, hinted)?.ok_or_else(|| Error::Corrupt {
                key: keys::start(&id),
                why: "the delivery of an unsettled submission is missing".into(),
            })?;
            let mut turn = Turn::open(session, agents, id, record, start, moved);
            match plan.action {
                Action::End(outcome) => {
                    turn.s.head.epoch += 1;
                    let mut writes = inputs.writes(&mut turn.s, &snapshot.records)?;
                    // Whoever was at work here has nothing more to tell (trap 16).
                    writes.push(journal_guard(&turn.s));
                    turn.end(outcome, writes)?;
                }
                action => {
                    turn.take_over(action == Action::TakeOver, &inputs, &snapshot.records)?;
                    turn.run()?;
                }
            }
        }
    }
    Ok(Some(true))
}

/// Inputs that the first commit takes.
pub(crate) struct Inputs {
    taken: Vec<Taken>,
    seen: u64,
    /// Answers that take effect, by call.
    pub(crate) answers: Vec<(String, Approval)>,
}

impl Inputs {
    fn of(taken: Vec<Taken>, seen: u64, snapshot: &Snapshot) -> Self {
        let answer = |taken: &Taken| match &taken.entry {
            Entry::Answer { call, .. } if taken.effect == Effect::Answer => {
                Some((call.clone(), snapshot.answers.get(call)?.clone()))
            }
            _ => None,
        };
        let answers = taken.iter().filter_map(answer).collect();
        Self { taken, seen, answers }
    }

    /// The writes that give them their effect; moves `seen` in the head.
    pub(crate) fn writes(
        &self,
        session: &mut Session,
        records: &BTreeMap<String, Submission>,
    ) -> Result<Vec<Write>, Stop> {
        let mut writes = Vec::new();
        let ending: Vec<&str> =
            self.taken.iter().filter(|t| t.effect == Effect::SettleQueued).map(|t| t.id()).collect();
        let moved_keys: Vec<String> = ending.iter().map(|id| keys::moved(id)).collect();
        let moved = read_many(session.ports.store, &moved_keys)?;
        for (id, (key, moved)) in ending.iter().zip(moved_keys.iter().zip(moved)) {
            let Some(record) = records.get(*id) else { continue };
            let settled = settled(record, Outcome::aborted("cancelled"), session.ports.clock.now());
            session.settle(id, &settled, decode_opt(key, &moved)?, &mut writes);
        }
        for taken in &self.taken {
            writes.push(del(session.place.entry(taken.k)));
            match &taken.entry {
                Entry::Answer { submission, call } => writes.push(del(keys::answer(submission, call))),
                Entry::Cancel(id) if !ending.contains(&id.as_str()) => writes.push(del(keys::cancel(id))),
                _ => {}
            }
        }
        // Two inputs may name one submission; a key may stand in a commit only once.
        let mut seen_keys = Vec::new();
        writes.retain(|w| {
            let new = !seen_keys.contains(&w.key);
            seen_keys.push(w.key.clone());
            new
        });
        session.head.seen = self.seen.max(session.head.seen);
        Ok(writes)
    }
}

/// A record with its outcome.
pub(crate) fn settled(record: &Submission, outcome: Outcome, now: u64) -> Submission {
    Submission { state: State::Settled, outcome: Some(outcome), settled: Some(now), ..record.clone() }
}

/// Settles a submission that never began: no input, no agent code, no attempt (P3c).
fn settle_unbegun(
    mut session: Session,
    snapshot: &Snapshot,
    inputs: Inputs,
    k: u64,
    id: &str,
    outcome: Outcome,
) -> Result<(), Stop> {
    let record = record_of(snapshot, id)?;
    let key = keys::moved(id);
    let [moved] = read(session.ports.store, [key.clone()])?;
    let mut writes = inputs.writes(&mut session, &snapshot.records)?;
    writes.retain(|w| w.key != keys::cancel(id));
    session.head.epoch += 1;
    session.head.pos = k + 1;
    let now = session.ports.clock.now();
    session.settle(id, &settled(&record, outcome, now), decode_opt(&key, &moved)?, &mut writes);
    session.commit(writes)
}

/// The delivery of a submission and where its slot was moved to; `None` when there is no delivery.
fn delivery(ports: &Ports, id: &str, hinted: Option<Hinted>) -> Result<Option<(Start, Option<u64>)>, Stop> {
    let wanted = [keys::start(id), keys::moved(id)];
    let [start, moved] = match hinted {
        Some(hinted) if hinted.id == id => [hinted.start, hinted.moved],
        _ => read(ports.store, wanted.clone())?,
    };
    let start: Option<Start> = decode_opt(&wanted[0], &start)?;
    let moved = decode_opt(&wanted[1], &moved)?;
    Ok(start.map(|s| (s, moved)))
}

fn record_of(snapshot: &Snapshot, id: &str) -> Result<Submission, Stop> {
    snapshot.records.get(id).cloned().ok_or_else(|| {
        Stop::Failed(Error::Corrupt { key: keys::sub(id), why: "the record of an open submission is missing".into() })
    })
}

fn corrupt(place: &Place, why: &str) -> Error {
    Error::Corrupt { key: place.head(), why: why.to_owned() }
}

/// What a run reads before it decides.
pub(crate) struct Loaded {
    /// For the decision.
    pub snapshot: Snapshot,
    /// The head's exact bytes: the guard.
    pub stored: Option<Bytes>,
    /// What was read along of the submission that the hint named.
    pub hinted: Option<Hinted>,
}

/// The delivery of a hinted submission, as stored.
pub(crate) struct Hinted {
    id: String,
    start: Option<Bytes>,
    moved: Option<Bytes>,
}

/// Reads what a decision rests on: the head and the inbox in one snapshot, and after them (R3) the entries and the
/// records that they name. One read in all when the hint names the only submission that waits.
pub(crate) fn load(ports: &Ports, place: &Place, hint: Option<&str>) -> Result<Loaded, Error> {
    let mut wanted = vec![place.head(), place.inbox(), keys::PAUSED.to_owned()];
    wanted.extend(hint.into_iter().flat_map(|id| [keys::sub(id), keys::start(id), keys::moved(id), keys::pause(id)]));
    let mut values = read_many(ports.store, &wanted)?;
    let hinted = hint.map(|id| Hinted { id: id.to_owned(), start: values[4].take(), moved: values[5].take() });
    let head: Option<Head> = decode_opt(&wanted[0], &values[0])?;
    let inbox: Inbox = decode_opt(&wanted[1], &values[1])?.unwrap_or_default();
    let paused = Paused::read(&values[2])?;
    let mut snapshot = Snapshot {
        agent_paused: head.as_ref().is_some_and(|h| paused.has(&h.address.owner, &h.address.agent)),
        head,
        inbox,
        entries: Vec::new(),
        records: BTreeMap::new(),
        answers: BTreeMap::new(),
        paused: Vec::new(),
        now: ports.clock.now(),
    };
    let stored = values[0].take();
    let Some(head) = &snapshot.head else { return Ok(Loaded { snapshot, stored, hinted }) };
    if let Some(id) = hint {
        let record: Option<Submission> = decode_opt(&wanted[3], &values[3])?;
        let alone = head.op.is_none() && head.pos + 1 == snapshot.inbox.next && head.seen <= head.pos;
        if let Some(record) = record.filter(|r| alone && r.k == head.pos && r.tag == place.tag) {
            snapshot.entries.push((head.pos, Entry::Submit(id.to_owned())));
            snapshot.records.insert(id.to_owned(), record);
            if head.seen == head.pos {
                snapshot.paused.extend(values[6].is_some().then(|| id.to_owned()));
                return Ok(Loaded { snapshot, stored, hinted });
            }
            snapshot.entries.clear();
        }
    }
    let (from, to) = (head.pos.min(head.seen), snapshot.inbox.next);
    let op = head.op.as_ref().map(|op| op.sub.clone());
    snapshot.entries = entries(ports, place, from, to)?;
    snapshot.answers = answers(ports, op.as_deref(), &snapshot.entries)?;
    let mut ids: Vec<String> = op.into_iter().collect();
    for (_, entry) in &snapshot.entries {
        let id = entry.submission();
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    // Only what would be worked on is asked for its pause: the first that is named, as a rule, which saves a read.
    let guess = ids.first().map(|id| keys::pause(id));
    let mut wanted: Vec<String> = ids.iter().take(READ_MAX - 1).map(|id| keys::sub(id)).collect();
    wanted.extend(guess.clone());
    let values = read_many(ports.store, &wanted)?;
    for (id, (key, value)) in ids.iter().zip(wanted.iter().zip(&values)).take(READ_MAX - 1) {
        snapshot.records.extend(decode_opt(key, value)?.map(|record| (id.clone(), record)));
    }
    snapshot.records.extend(records(ports, ids.into_iter().skip(READ_MAX - 1).collect())?);
    if let Some(id) = first(&snapshot) {
        let mark = match Some(keys::pause(&id)) == guess {
            true => values.into_iter().last().flatten(),
            false => read(ports.store, [keys::pause(&id)])?.into_iter().next().flatten(),
        };
        snapshot.paused.extend(mark.map(|_| id));
    }
    Ok(Loaded { snapshot, stored, hinted })
}

/// The answers that entries name for a submission.
fn answers(ports: &Ports, of: Option<&str>, entries: &[(u64, Entry)]) -> Result<BTreeMap<String, Approval>, Error> {
    let mut found = BTreeMap::new();
    let named = entries.iter().filter_map(|(_, entry)| match entry {
        Entry::Answer { submission, call } if Some(submission.as_str()) == of => Some((submission, call)),
        _ => None,
    });
    // One a call, and calls are few; what is beyond a read waits for the next.
    let named: Vec<(&String, &String)> = named.take(READ_MAX).collect();
    let wanted: Vec<String> = named.iter().map(|(id, call)| keys::answer(id, call)).collect();
    for ((_, call), (key, value)) in named.iter().zip(wanted.iter().zip(read_many(ports.store, &wanted)?)) {
        found.extend(decode_opt(key, &value)?.map(|answer| ((*call).clone(), answer)));
    }
    Ok(found)
}

/// Inbox entries of a range, those that are still there.
pub(crate) fn entries(ports: &Ports, place: &Place, from: u64, to: u64) -> Result<Vec<(u64, Entry)>, Error> {
    let mut found = Vec::new();
    let numbers: Vec<u64> = (from..to).collect();
    for page in numbers.chunks(crate::store::READ_MAX) {
        let keys: Vec<String> = page.iter().map(|k| place.entry(*k)).collect();
        for ((k, key), value) in page.iter().zip(&keys).zip(read_many(ports.store, &keys)?) {
            if let Some(entry) = decode_opt(key, &value)? {
                found.push((*k, entry));
            }
        }
    }
    Ok(found)
}

/// Records of submissions, those that exist.
pub(crate) fn records(ports: &Ports, ids: Vec<String>) -> Result<BTreeMap<String, Submission>, Error> {
    let mut found = BTreeMap::new();
    for page in ids.chunks(crate::store::READ_MAX) {
        let keys: Vec<String> = page.iter().map(|id| keys::sub(id)).collect();
        for ((id, key), value) in page.iter().zip(&keys).zip(read_many(ports.store, &keys)?) {
            if let Some(record) = decode_opt(key, &value)? {
                found.insert(id.clone(), record);
            }
        }
    }
    Ok(found)
}

/// The journal's guard of the epoch that begins.
pub(crate) fn journal_guard(session: &Session) -> Write {
    put(session.place.journal(), &session.journal_guard())
}
