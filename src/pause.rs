//! Pause and resume, of one submission or of all work of an agent.
//!
//! A pause is not an event but a mark that stands until it is taken away: a run reads it with what it decides by, begins
//! nothing while it stands, and stops at the next turn boundary. It costs no attempt. Marks belong to the guard Q (or to
//! the guard of their own key); a run rests nothing on their absence that could not be done with them there (R2).

use crate::admission::Accepted;
use crate::error::{Error, Problem, Refusal};
use crate::keys;
use crate::owned::Owned;
use crate::ports::{Bytes, Guard, Ports};
use crate::prelude::*;
use crate::record::*;
use crate::store::{self, Sent, del, put, read};

/// How often a request starts over before it gives up with 503.
const TRIES: u32 = 64;

/// Most agents that may be paused at once, over all owners: they stand in one value.
const AGENTS_MAX: usize = 1000;

/// How long a run of a paused agent waits before it looks again, in milliseconds: nobody knows all threads of an agent,
/// so nobody can wake them.
pub const LOOK_MS: u64 = 10_000;

/// Pauses or resumes a submission. What has its outcome, or stands as asked already, is left as it is.
pub fn submission(ports: Ports, owner: &str, id: &str, pause: bool) -> Result<Accepted, Refusal> {
    for _ in 0..TRIES {
        let owned = Owned::read(&ports, owner, id, keys::pause(id))?;
        let sub = &owned.accepted.sub;
        if sub.is_settled() || owned.mark::<PauseMark>()?.is_some() == pause {
            return Ok(owned.accepted);
        }
        if sub.kind != Kind::Run {
            let text = "A copy of a thread can't be paused: there is no turn to stop at.";
            return Err(Problem::new(409, "not-a-run", text).into());
        }
        // Once the inbox is closed, the submission's keys are being deleted.
        let key = owned.accepted.place.inbox();
        let [inbox] = read(ports.store, [key.clone()])?;
        let inbox: Option<Inbox> = decode_opt(&key, &inbox)?;
        if inbox.is_none_or(|inbox| inbox.closed.is_some()) {
            return Err(Problem::not_found().into());
        }
        let mark = match pause {
            true => put(keys::pause(id), &PauseMark { by: owner.to_owned(), at: ports.clock.now() }),
            false => del(keys::pause(id)),
        };
        if owned.commit(&ports, vec![mark])? {
            return Ok(owned.accepted);
        }
    }
    Err(busy())
}

/// Pauses or resumes all work of an owner's with an agent.
pub fn agent(ports: Ports, owner: &str, agent: &str, pause: bool) -> Result<(), Refusal> {
    for _ in 0..TRIES {
        let [stored] = read(ports.store, [keys::PAUSED.into()])?;
        let mut paused = Paused::read(&stored)?;
        if paused.has(owner, agent) == pause {
            return Ok(());
        }
        if pause {
            if paused.agents.len() >= AGENTS_MAX {
                let text = format!("{AGENTS_MAX} agents are paused; no more can be. Resume one first.");
                return Err(Problem::new(429, "too-many-paused", text).with("limit", AGENTS_MAX).into());
            }
            let by = PauseMark { by: owner.to_owned(), at: ports.clock.now() };
            paused.agents.push(PausedAgent { agent: agent.to_owned(), mark: by });
        } else {
            paused.agents.retain(|p| !(p.mark.by == owner && p.agent == agent));
        }
        paused.nonce = nonce(ports.clock);
        let guard = Guard { key: keys::PAUSED.into(), expect: stored };
        if store::commit(ports.store, guard, &[put(keys::PAUSED.into(), &paused)])? == Sent::Committed {
            return Ok(());
        }
    }
    Err(busy())
}

impl Paused {
    /// The stored value, or none are paused.
    pub fn read(stored: &Option<Bytes>) -> Result<Self, Error> {
        Ok(decode_opt(keys::PAUSED, stored)?.unwrap_or_default())
    }

    /// Whether an owner's work with an agent is paused.
    pub fn has(&self, owner: &str, agent: &str) -> bool {
        self.agents.iter().any(|p| p.mark.by == owner && p.agent == agent)
    }
}

fn busy() -> Refusal {
    Problem::new(503, "try-again", "The store is too busy. Ask again.").into()
}
