//! Admission: from a request to a stored submission in one commit, or to the answer that is stored already.
//!
//! Look up first, validate what is new (trap 21), commit under the partition's guard **Q**, start over on doubt (R5).

use crate::agent::Agents;
use crate::delivery::{Delivery, HASH_VERSION, Identity, too_large};
use crate::error::{Error, Problem, Refusal};
use crate::id::{self, Address, Place};
use crate::keys::{self, List};
use crate::mutation;
use crate::notice;
use crate::owned::Owned;
use crate::ports::{Bytes, Guard, Ports, Write};
use crate::prelude::*;
use crate::queue;
use crate::record::*;
use crate::session::{Message, Role};
use crate::store::{self, COMMIT_WRITES_MAX, Sent, VALUE_MAX, put, read};

/// Submissions that may wait in one thread.
pub const INBOX_MAX: u64 = 256;

/// How often a request starts over before it gives up with 503.
const TRIES: u32 = 64;

/// A submission that exists: as it was stored just now, or as it was found.
pub struct Accepted {
    /// Its id.
    pub id: String,
    /// Its record.
    pub sub: Submission,
    /// Its thread.
    pub place: Place,
}

/// What a thread's admission reads, in one snapshot: the guard and all that the decision rests on (R3).
pub struct Snapshot {
    /// The partition's queue as stored, and as read.
    pub queue: (Option<Bytes>, Queue),
    /// The submission's record.
    pub sub: Option<Submission>,
    /// The inbox's head.
    pub inbox: Option<Inbox>,
    /// The session head.
    pub head: Option<Head>,
    /// Heads of the lists: the owner's (`None`: the first thread of this owner here), of births, of owners.
    pub lists: Lists,
    /// Head of the list of the owner's tasks.
    pub tasks: IndexHead,
}

/// Heads of the owner's list, of births and of owners.
type Lists = (Option<IndexHead>, IndexHead, IndexHead);

/// What is to be admitted.
pub struct Admission<'a> {
    /// The handles.
    pub ports: Ports<'a>,
    /// Where to.
    pub address: Address,
    /// The caller's key.
    pub key: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// Whether it steers.
    pub steer: bool,
    /// Its identity.
    pub identity: Identity,
}

/// What the commit of an admission adds to what every admission writes.
pub struct Birth {
    /// The stage of a thread that is born by it.
    pub stage: Stage,
    /// Messages that it begins with.
    pub messages: Vec<Message>,
    /// An outcome at once: no slot is taken, nothing is left to run.
    pub outcome: Option<Outcome>,
    /// The delivery.
    pub start: Option<Start>,
    /// The summary that the context begins with.
    pub boundary: Option<u64>,
    /// Persistent state of the agent.
    pub state: BTreeMap<String, serde_json::Value>,
    /// When it is too late, in milliseconds from now.
    pub deadline_ms: u64,
    /// The targets that are told of it.
    pub notify: Vec<String>,
}

/// Submits a delivery to a thread.
pub fn submit(
    ports: Ports,
    agents: &dyn Agents,
    address: Address,
    key: Option<String>,
    delivery: &Delivery,
) -> Result<Accepted, Refusal> {
    submit_labelled(ports, agents, address, key, delivery, None)
}

/// Submits a delivery, with what the caller calls its message: kept with it, and no part of its identity.
pub fn submit_labelled(
    ports: Ports,
    agents: &dyn Agents,
    address: Address,
    key: Option<String>,
    delivery: &Delivery,
    label: Option<&str>,
) -> Result<Accepted, Refusal> {
    let identity = delivery.identity(&address);
    let admission = Admission { ports, address, key, kind: Kind::Run, steer: delivery.steer, identity };
    admission.run(|snapshot| {
        let limits = admission.agent_limits(agents)?;
        if let Some(schema) = &delivery.result_schema {
            ports.host.check(&schema.to_string(), "null").map_err(|e| {
                Problem::field("result_schema", format!("`result_schema` is not a usable JSON Schema: {e}"))
            })?;
        }
        if let Some(head) = &snapshot.head {
            let waiting = snapshot.inbox.as_ref().map_or(0, |i| i.next).saturating_sub(head.pos);
            if waiting >= INBOX_MAX {
                let detail =
                    format!("{waiting} submissions wait in this thread; at most {INBOX_MAX} may. Try again later.");
                return Err(Problem::new(429, "inbox-full", detail).with("limit", INBOX_MAX));
            }
        }
        let deadline_ms = delivery.deadline_ms.unwrap_or(limits.deadline_ms).min(limits.deadline_ms);
        // A steering message is no work of its own: nobody waits for its outcome.
        let notify = match delivery.steer {
            true => Vec::new(),
            false => {
                notice::names(ports.host, &admission.address.agent).map_err(|e| Problem::new(500, "bad-settings", e))?
            }
        };
        let (content, result_schema) = (delivery.content.clone(), delivery.result_schema.clone());
        let start = Start { content, result_schema, limits, label: label.map(str::to_owned) };
        let stored = encode(&start).len();
        if stored > VALUE_MAX {
            return Err(too_large("The request's stored form", stored, VALUE_MAX));
        }
        Ok(Birth {
            stage: Stage::Live,
            messages: Vec::new(),
            outcome: None,
            start: Some(start),
            boundary: None,
            state: BTreeMap::new(),
            deadline_ms,
            notify,
        })
    })
}

impl Admission<'_> {
    /// Admits, or answers from what is stored. `validate` looks only at what is new.
    pub fn run(&self, validate: impl Fn(&Snapshot) -> Result<Birth, Problem>) -> Result<Accepted, Refusal> {
        let mut partitions = 256;
        // Minted once a request, before any retry, or `unknown` would give two submissions (trap 8).
        let entropy = self.ports.clock.entropy(17);
        for _ in 0..TRIES {
            let place = self.address.place(partitions);
            let id = match &self.key {
                Some(key) => self.address.submission_id(&place, key),
                None => id::random_id(&place, &entropy),
            };
            let (format, snapshot) = self.snapshot(&place, &id)?;
            match store::format(&self.ports, &format)? {
                Some(format) if format.partitions == partitions => {}
                Some(format) => {
                    partitions = format.partitions;
                    continue;
                }
                None => continue,
            }
            if let Some(sub) = snapshot.sub {
                if mutation::is(self.ports.host, "write-on-repeat") {
                    let (expect, queue) = snapshot.queue;
                    let new = Queue { nonce: nonce(self.ports.clock), ..queue };
                    let key = keys::queue(place.partition);
                    store::commit(self.ports.store, Guard { key: key.clone(), expect }, &[put(key, &new)])?;
                }
                return self.existing(id, sub, place);
            }
            match snapshot.head.as_ref().map(|h| &h.stage) {
                Some(Stage::Staged(_)) => {
                    let text = "A copy into this thread is under way. Try again when it is done.";
                    return Err(Problem::new(409, "forking", text).into());
                }
                Some(Stage::Deleting { .. }) => return Err(deleting().into()),
                _ if snapshot.inbox.as_ref().is_some_and(|i| i.closed.is_some()) => return Err(deleting().into()),
                _ => {}
            }
            let birth = validate(&snapshot)?;
            let (sub, writes) = self.commit(&place, &id, &snapshot, birth)?;
            let guard = Guard { key: keys::queue(place.partition), expect: snapshot.queue.0 };
            let early = mutation::is(self.ports.host, "yes-before-the-commit");
            if early || store::commit(self.ports.store, guard, &writes)? == Sent::Committed {
                return Ok(Accepted { id, sub, place });
            }
        }
        let text =
            "The store is too busy, or does not say whether it has committed. Repeat the request with the same key.";
        Err(Problem::new(503, "try-again", text).into())
    }

    /// Limits of the agent, or the problem that there is none.
    pub fn agent_limits(&self, agents: &dyn Agents) -> Result<Limits, Problem> {
        let all = agents.list(self.ports.host).map_err(|e| Problem::new(500, "bad-settings", e))?;
        if let Some(agent) = all.iter().find(|a| a.name == self.address.agent) {
            return Ok(agent.limits);
        }
        let names: Vec<&str> = all.iter().map(|a| a.name.as_str()).collect();
        let known = if names.is_empty() { "there is none".into() } else { format!("known are {}", names.join(", ")) };
        Err(Problem::new(404, "unknown-agent", format!("There is no agent {:?}; {known}.", self.address.agent)))
    }

    fn snapshot(&self, place: &Place, id: &str) -> Result<(Option<Bytes>, Snapshot), Error> {
        let (p, owner) = (place.partition, List::Owner(&self.address.owner));
        let all = [
            keys::FORMAT.into(),
            keys::queue(p),
            keys::sub(id),
            place.inbox(),
            place.head(),
            keys::list(p, owner),
            keys::list(p, List::Births),
            keys::list(p, List::Owners),
            keys::list(p, List::Tasks(&self.address.owner)),
        ];
        let [format, queue, sub, inbox, head, mine, births, owners, tasks] = read(self.ports.store, all.clone())?;
        let snapshot = Snapshot {
            sub: decode_opt(&all[2], &sub)?,
            inbox: decode_opt(&all[3], &inbox)?,
            head: decode_opt(&all[4], &head)?,
            lists: (
                decode_opt(&all[5], &mine)?,
                decode_opt(&all[6], &births)?.unwrap_or_default(),
                decode_opt(&all[7], &owners)?.unwrap_or_default(),
            ),
            tasks: decode_opt(&all[8], &tasks)?.unwrap_or_default(),
            queue: (queue.clone(), decode_opt(&all[1], &queue)?.unwrap_or_default()),
        };
        Ok((format, snapshot))
    }

    /// The owner is compared before the hash: a foreign record answers as a missing one (I13).
    fn existing(&self, id: String, sub: Submission, place: Place) -> Result<Accepted, Refusal> {
        if sub.address.owner != self.address.owner {
            return Err(Problem::not_found().into());
        }
        if sub.hash != self.identity.hash {
            let field = self.identity.differing_field(&sub.fields);
            let detail = format!(
                "The key was used before in this thread, for another request: `{field}` differs. \
                 Repeat the first request to get its answer, or use another key."
            );
            return Err(Problem::new(409, "conflict", detail).with("field", field).with("id", id).into());
        }
        if mutation::is(self.ports.host, "forget-the-outcome") {
            return Ok(Accepted { id, sub: Submission { state: State::Queued, outcome: None, ..sub }, place });
        }
        Ok(Accepted { id, sub, place })
    }

    /// The one commit: slot, record, delivery, inbox entry, and the birth of a new thread.
    fn commit(
        &self,
        place: &Place,
        id: &str,
        read: &Snapshot,
        birth: Birth,
    ) -> Result<(Submission, Vec<Write>), Error> {
        let p = place.partition;
        let now = self.ports.clock.now();
        let mut queue = Queue { nonce: nonce(self.ports.clock), ..read.queue.1.clone() };
        let mut inbox = read.inbox.clone().unwrap_or_default();
        let (n, k) = (queue.next, inbox.next);
        let settled = birth.outcome.is_some();
        let task = (self.kind == Kind::Run && !self.steer).then_some(read.tasks.next);
        let sub = Submission {
            v: HASH_VERSION,
            hash: self.identity.hash.clone(),
            fields: self.identity.fields.clone(),
            address: self.address.clone(),
            tag: place.tag.clone(),
            key: self.key.clone(),
            kind: self.kind,
            steer: self.steer,
            k,
            n,
            task,
            created: now,
            deadline: now.saturating_add(birth.deadline_ms),
            state: if settled { State::Settled } else { State::Queued },
            notify: birth.notify,
            attempt: 0,
            begun: None,
            first: None,
            settled: settled.then_some(now),
            outcome: birth.outcome,
        };
        queue.next += 1;
        inbox.next += 1;
        let mut writes = vec![put(keys::sub(id), &sub)];
        if let Some(at) = task {
            inbox.tasks += 1;
            let list = List::Tasks(&self.address.owner);
            writes.push(put(keys::list(p, list), &IndexHead { next: at + 1, ..read.tasks }));
            writes.push(put(keys::list_entry(p, list, at), &TaskEntry { id: id.to_owned(), created: now }));
        }
        writes.push(put(place.inbox(), &inbox));
        writes.push(put(place.entry(k), &Entry::Submit(id.to_owned())));
        if !settled {
            let slot = Slot::Submission { id: id.to_owned(), tag: place.tag.clone(), notify: !sub.notify.is_empty() };
            writes.push(put(keys::slot(p, n), &slot));
        }
        if let Some(start) = &birth.start {
            writes.push(put(keys::start(id), start));
        }
        if read.head.is_none() {
            let stage = match birth.stage {
                Stage::Staged(staged) => Stage::Staged(Staged { id: id.to_owned(), ..staged }),
                stage => stage,
            };
            let head = Head {
                nonce: nonce(self.ports.clock),
                address: self.address.clone(),
                born: n,
                epoch: 0,
                count: birth.messages.len() as u64,
                // A submission that is the birth itself (a fork, an import) is not to be claimed as a run.
                pos: if self.kind == Kind::Run { k } else { k + 1 },
                seen: k,
                jupto: queue.jfloor,
                jused: queue.jfloor,
                jfrom: queue.jfloor,
                boundary: birth.boundary,
                usage: Spent::default(),
                state: birth.state,
                stage,
                op: None,
            };
            writes.push(put(place.head(), &head));
            self.list(place, &read.lists, &mut writes);
            for (i, message) in birth.messages.iter().enumerate() {
                // Copied from where they fitted, or checked by the caller.
                writes.extend(message.writes(place, i as u64).map_err(Error::Unavailable)?);
            }
        }
        // A birth with messages leaves no room for it; the next multiple of 16 comes.
        if writes.len() + 1 + queue::WRITES_MAX <= COMMIT_WRITES_MAX {
            writes.extend(queue::maintain(&self.ports, p, &mut queue)?);
        }
        writes.push(put(keys::queue(p), &queue));
        Ok((sub, writes))
    }

    /// Puts a new thread on its owner's list and on that of all births, and a new owner on that of owners.
    fn list(&self, place: &Place, (mine, births, owners): &Lists, writes: &mut Vec<Write>) {
        let owner = self.address.owner.as_str();
        let meta = Meta { in_owner: mine.as_ref().map_or(0, |l| l.next), in_births: births.next };
        let mut append = |list: List, at: u64, value: &str| {
            writes.push(put(keys::list(place.partition, list), &IndexHead { next: at + 1, gone: 0 }));
            writes.push(put(keys::list_entry(place.partition, list, at), &value));
        };
        append(List::Owner(owner), meta.in_owner, &place.tag);
        append(List::Births, meta.in_births, &place.tag);
        if mine.is_none() {
            append(List::Owners, owners.next, owner);
        }
        writes.push(put(place.meta(), &meta));
    }
}

fn deleting() -> Problem {
    Problem::new(409, "deleting", "This thread is being deleted. Try again when it is gone, or use another.")
}

/// The answer to a wish to cancel.
pub enum Cancelled {
    /// It is noted: the run will see it.
    Noted,
    /// Too late: it has its outcome.
    Settled,
}

/// Notes that a submission is to be cancelled, once (C12).
pub fn cancel(ports: Ports, owner: &str, id: &str) -> Result<(Cancelled, Accepted), Refusal> {
    for _ in 0..TRIES {
        let owned = Owned::read(&ports, owner, id, keys::cancel(id))?;
        if owned.accepted.sub.is_settled() {
            return Ok((Cancelled::Settled, owned.accepted));
        }
        let place = &owned.accepted.place;
        let [inbox] = read(ports.store, [place.inbox()])?;
        let mut inbox: Inbox = decode_opt(&place.inbox(), &inbox)?.ok_or_else(Problem::not_found)?;
        if owned.mark::<CancelMark>()?.is_some() || inbox.closed.is_some() {
            return Ok((Cancelled::Noted, owned.accepted));
        }
        let entry = place.entry(inbox.next);
        inbox.next += 1;
        let mark = CancelMark { by: owner.to_owned(), at: ports.clock.now() };
        let writes =
            vec![put(keys::cancel(id), &mark), put(place.inbox(), &inbox), put(entry, &Entry::Cancel(id.to_owned()))];
        if owned.commit(&ports, writes)? {
            return Ok((Cancelled::Noted, owned.accepted));
        }
    }
    Err(Problem::new(503, "try-again", "The store is too busy. Cancel again.").into())
}

/// The user message of a delivery, as it stands in the transcript.
pub fn input_message(id: &str, sub: &Submission, start: &Start, now: u64) -> Message {
    let mut message = Message::new(Role::User, start.content.clone(), now);
    message.submission = Some(id.to_owned());
    message.kind = sub.steer.then(|| "steer".to_owned());
    message.label = start.label.clone();
    message
}
