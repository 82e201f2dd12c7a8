//! Notices: what configured targets are told of a submission, by an outbox.
//!
//! The commit that settles a submission puts its notice and leaves its slot in the queue, so that a restart finds it. An
//! instance of its own delivers it, beside the thread's runs and with retries, and takes both away under Q. At least once:
//! a target tells a repeat by its id, which is the effect's key.

use crate::error::Error;
use crate::id;
use crate::keys;
use crate::ports::{Guard, Host, HostCall, Ports};
use crate::prelude::*;
use crate::record::*;
use crate::store::{self, Sent as Commit, Stop, del, put, read};
use serde::Deserialize;
use serde_json::{Value, json};

/// The host's own tool that tells a target (`wit/tools.wit`).
pub const TOOL: &str = "writ-webhook";

/// What a notice may be about: `settled` and `needs-you`.
pub const SUBJECTS: [&str; 2] = [SETTLED, NEEDS_YOU];

/// It has its outcome.
pub const SETTLED: &str = "settled";

/// It can't go on before somebody does something.
pub const NEEDS_YOU: &str = "needs-you";

/// Most targets of one submission.
const TARGETS_MAX: usize = 8;

/// After the n-th failure a target is told again after so many milliseconds, 17 hours in all; then it is given up.
const RETRY_MS: [u64; 7] = [5_000, 30_000, 120_000, 600_000, 3_600_000, 14_400_000, 43_200_000];

/// How long a target may take to answer, in milliseconds.
const ANSWER_MS: u64 = 60_000;

/// How often a commit is tried before the run ends and is run again.
const TRIES: u32 = 64;

/// Longest error of a target that is kept, in characters.
const ERROR_CHARS: usize = 300;

/// A target, as the setting `webhooks` names it. Where it is, and how it is signed, the host alone knows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    name: String,
    /// Of `settled`, `failed`, `needs-you`.
    events: Vec<String>,
    /// Only of these agents.
    #[serde(default)]
    agents: Option<Vec<String>>,
}

impl Target {
    fn wants(&self, event: &str) -> bool {
        self.events.iter().any(|e| e == event)
    }
}

fn targets(host: &dyn Host, agent: &str) -> Result<Vec<Target>, String> {
    let Some(text) = host.setting("webhooks") else { return Ok(Vec::new()) };
    let all: Vec<Target> =
        serde_json::from_str(&text).map_err(|e| format!("the setting `webhooks` can't be read: {e}"))?;
    let here: Vec<Target> =
        all.into_iter().filter(|t| t.agents.as_ref().is_none_or(|a| a.iter().any(|a| a == agent))).collect();
    if here.len() > TARGETS_MAX {
        return Err(format!("{} targets of `webhooks` are for agent {agent:?}; at most {TARGETS_MAX} may", here.len()));
    }
    Ok(here)
}

/// The names of those who are told of an agent's submissions, as of now. An error text for settings that are no good.
pub fn names(host: &dyn Host, agent: &str) -> Result<Vec<String>, String> {
    Ok(targets(host, agent)?.into_iter().map(|t| t.name).collect())
}

/// The name of the instance that delivers a submission's notices.
pub fn instance(submission: &str) -> String {
    format!("p/{:02x}/out/{submission}", id::partition_of_id(submission).unwrap_or_default())
}

/// The submission whose notices an instance delivers, if that is what it is.
pub fn parse(name: &str) -> Option<&str> {
    let (_, submission) = name.split_once("/out/")?;
    (instance(submission) == name && id::partition_of_id(submission).is_some()).then_some(submission)
}

/// Delivers what is due; stops with the time when more is.
pub fn deliver(ports: Ports, submission: &str) -> Result<(), Stop> {
    let mut due: Option<u64> = None;
    for subject in SUBJECTS {
        let Some(open) = Open::read(&ports, submission, subject)? else { continue };
        let told = open.tell(&ports, submission, subject);
        let rest = record(&ports, submission, subject, told)?;
        due = due.into_iter().chain(rest).min();
    }
    due.map_or(Ok(()), |due| Err(Stop::Later(due)))
}

/// A notice that is not yet delivered, with all that its delivery rests on, in one snapshot with the guard.
struct Open {
    queue: (Option<Vec<u8>>, Queue),
    sub: Submission,
    notice: Notice,
    sent: Sent,
    /// Where the slot was moved to.
    moved: Option<u64>,
}

impl Open {
    fn read(ports: &Ports, id: &str, subject: &str) -> Result<Option<Self>, Error> {
        let queue_key = keys::queue(id::partition_of_id(id).unwrap_or_default());
        let wanted = [queue_key, keys::sub(id), keys::notice(id, subject), keys::sent(id, subject), keys::moved(id)];
        let [queue, sub, notice, sent, moved] = read(ports.store, wanted.clone())?;
        let sub: Option<Submission> = decode_opt(&wanted[1], &sub)?;
        let notice: Option<Notice> = decode_opt(&wanted[2], &notice)?;
        let (Some(sub), Some(notice)) = (sub, notice) else { return Ok(None) };
        // A thread that is being deleted takes its notices along (R2: once closed, always closed).
        let inbox_key = sub.place(id).inbox();
        let [inbox] = read(ports.store, [inbox_key.clone()])?;
        let inbox: Option<Inbox> = decode_opt(&inbox_key, &inbox)?;
        if inbox.is_none_or(|inbox| inbox.closed.is_some()) {
            return Ok(None);
        }
        // Of an earlier notice about the same.
        let sent = decode_opt(&wanted[3], &sent)?.filter(|sent: &Sent| sent.of == notice.at);
        let sent = sent.unwrap_or_else(|| Sent { of: notice.at, targets: BTreeMap::new() });
        let moved = decode_opt(&wanted[4], &moved)?;
        let queue = (queue.clone(), decode_opt(&wanted[0], &queue)?.unwrap_or_default());
        Ok(Some(Self { queue, sub, notice, sent, moved }))
    }

    /// Those who want it and are still among the settings, each with the word for it.
    fn wanting(&self, ports: &Ports, subject: &str) -> Vec<(String, &'static str)> {
        let failed = matches!(self.sub.outcome, Some(Outcome::Failed { .. }));
        let all = targets(ports.host, &self.sub.address.agent).unwrap_or_else(|why| {
            ports.host.warn(&why);
            Vec::new()
        });
        let word = |target: &Target| match subject {
            NEEDS_YOU => target.wants(NEEDS_YOU).then_some("submission.needs-you"),
            _ if target.wants(SETTLED) => Some("submission.settled"),
            _ => (failed && target.wants("failed")).then_some("submission.failed"),
        };
        let here = all.into_iter().filter(|t| self.sub.notify.contains(&t.name));
        here.filter_map(|target| word(&target).map(|word| (target.name, word))).collect()
    }

    /// Tells everybody who is due; what came of it, by target.
    fn tell(&self, ports: &Ports, id: &str, subject: &str) -> BTreeMap<String, Result<(), String>> {
        let now = ports.clock.now();
        let is_due = |name: &String| self.sent.targets.get(name).is_none_or(|t| !t.done && t.due <= now);
        let due = self.wanting(ports, subject).into_iter().filter(|(name, _)| is_due(name));
        due.map(|(name, word)| {
            let told = self.tell_one(ports, id, &name, word);
            (name, told)
        })
        .collect()
    }

    fn tell_one(&self, ports: &Ports, id: &str, target: &str, word: &str) -> Result<(), String> {
        let place = self.sub.place(id);
        let effect_key = id::effect_key(&place.tag, self.notice.at, id, word, Some(target));
        let body = json!({"type": word, "timestamp": self.notice.at, "data": self.data(id)});
        let arguments = json!({"target": target, "id": effect_key, "body": body});
        let job = ports.tools.start(&HostCall {
            effect_key,
            name: TOOL.to_owned(),
            arguments: arguments.to_string(),
            thread: place.head(),
            call_id: String::new(),
        });
        let until = ports.clock.now().saturating_add(ANSWER_MS);
        while ports.clock.now() < until {
            if let Some((_, reply)) = ports.tools.wait(&[&*job], Some(until)).pop() {
                return if reply.is_error { Err(short(&reply.content)) } else { Ok(()) };
            }
            ports.host.poll();
        }
        Err(format!("no answer within {} s", ANSWER_MS / 1000))
    }

    /// What is told: what it is about and how it ended, not what was said.
    fn data(&self, id: &str) -> Value {
        let sub = &self.sub;
        let mut data = json!({
            "id": id,
            "agent": sub.address.agent,
            "thread": sub.address.thread,
            "key": sub.key,
            "attempt": sub.attempt,
            // As whoever looks is told: what needs somebody waits, whatever its record says.
            "state": if sub.is_settled() { "settled" } else { "waiting" },
            "reason": self.notice.reason,
        });
        match &sub.outcome {
            Some(Outcome::Failed { error }) => data["outcome"] = json!({"status": "failed", "error": error}),
            Some(Outcome::Aborted { reason }) => data["outcome"] = json!({"status": "aborted", "reason": reason}),
            Some(Outcome::Completed { .. }) => data["outcome"] = json!({"status": "completed"}),
            None => {}
        }
        data
    }
}

/// Records what came of telling, under Q; the notice goes once nobody is left to tell, and with it the slot of what has
/// settled. Returns when somebody is due again.
fn record(
    ports: &Ports,
    id: &str,
    subject: &str,
    told: BTreeMap<String, Result<(), String>>,
) -> Result<Option<u64>, Stop> {
    let partition = id::partition_of_id(id).unwrap_or_default();
    for _ in 0..TRIES {
        let Some(open) = Open::read(ports, id, subject)? else { return Ok(None) };
        let now = ports.clock.now();
        let mut sent = open.sent.clone();
        for (name, result) in &told {
            let to = sent.targets.entry(name.clone()).or_default();
            to.tries += 1;
            to.at = now;
            to.error = result.as_ref().err().cloned();
            to.due = now.saturating_add(*RETRY_MS.get(to.tries as usize - 1).unwrap_or(&0));
            to.done = result.is_ok() || to.tries as usize > RETRY_MS.len();
        }
        let wanting = open.wanting(ports, subject);
        let due = |name: &String| match sent.targets.get(name) {
            None => Some(now),
            Some(to) => (!to.done).then_some(to.due),
        };
        let next = wanting.iter().filter_map(|(name, _)| due(name)).min();
        if next.is_some() && told.is_empty() {
            return Ok(next);
        }
        let queue = Queue { nonce: nonce(ports.clock), ..open.queue.1 };
        let mut writes = vec![put(keys::queue(partition), &queue)];
        if !sent.targets.is_empty() {
            writes.push(put(keys::sent(id, subject), &sent));
        }
        if next.is_none() {
            writes.push(del(keys::notice(id, subject)));
            if subject == SETTLED {
                writes.push(del(keys::slot(partition, open.moved.unwrap_or(open.sub.n))));
                writes.push(del(keys::moved(id)));
            }
        }
        let guard = Guard { key: keys::queue(partition), expect: open.queue.0 };
        if store::commit(ports.store, guard, &writes)? == Commit::Committed {
            return Ok(next);
        }
    }
    Err(Stop::Failed(Error::Unavailable("the store is too busy to record a delivery".into())))
}

/// The text of a reply's blocks, cut.
fn short(content: &str) -> String {
    let blocks: Vec<Value> = serde_json::from_str(content).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|b| b["text"].as_str()).collect();
    texts.join(" ").chars().take(ERROR_CHARS).collect()
}
