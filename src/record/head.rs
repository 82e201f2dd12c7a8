//! The session head: what each thread's key **H** holds.

use super::{Approval, Failure, Spent};
use crate::id::Address;
use crate::ports::Policy;
use crate::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// **H**, the session head: fence, program counter and totals of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Fresh in every commit.
    pub nonce: String,
    /// The thread's full name.
    pub address: Address,
    /// Queue number of its birth: tells one incarnation from the next.
    pub born: u64,
    /// Raised by the first commit of every run: the fence.
    pub epoch: u64,
    /// Messages 0…count−1 exist.
    pub count: u64,
    /// Submissions before this place in the inbox have begun or ended.
    pub pos: u64,
    /// Control entries before this place have had their effect.
    pub seen: u64,
    /// Journal numbers up to this one may have been used.
    pub jupto: u64,
    /// The last journal number that was used when this head was committed; pieces of an answer may have come since.
    #[serde(default)]
    pub jused: u64,
    /// Its journal begins above this number.
    #[serde(default)]
    pub jfrom: u64,
    /// Number of the summary that the context begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<u64>,
    /// Totals of the thread.
    pub usage: Spent,
    /// The agent's persistent state, at most 16 KiB.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, Value>,
    /// Whether the thread is whole.
    pub stage: Stage,
    /// What it is busy with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Op>,
}

/// Whether a thread is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// In use.
    Live,
    /// A copy under way: exists, but not for readers (I11).
    Staged(Staged),
    /// Being deleted.
    Deleting {
        /// Messages, then inbox entries, then numbers of the journal, that are deleted already.
        done: u64,
        /// Set when only the last step is left.
        last: bool,
        /// The submission of a fork or an import that failed, which keeps its record.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<(String, Failure)>,
    },
}

/// A copy under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// The submission that makes it; admission fills it in.
    pub id: String,
    /// The thread that it copies; `None`: a caller hands the messages over.
    pub source: Option<Address>,
    /// The source's birth.
    pub born: u64,
    /// How many messages it will have.
    pub point: u64,
    /// How many it has.
    pub done: u64,
    /// Of an import: calls whose results must come next, so that no pair is left open (I5).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
}

/// What the session is busy with: one submission's run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Op {
    /// The submission.
    pub sub: String,
    /// What may be under way.
    pub phase: Phase,
    /// Attempts since the last committed message.
    pub strikes: u64,
    /// Number of the first result of the open batch.
    pub base: u64,
    /// The open batch: at most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Transient errors in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Whether this overflow was answered by a compaction already.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub compacted: bool,
    /// Whether the start hooks have run.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub started: bool,
    /// How often a result was sent back for repair.
    #[serde(default)]
    pub repairs: u64,
    /// How often a finish hook went on.
    #[serde(default)]
    pub rounds: u64,
    /// Whether somebody was told that it can't go on without them.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub called: bool,
    /// Whether it stopped because it is paused.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub paused: bool,
    /// Messages that have answered questions, as their clients call them; the last ones only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
    /// Attempts whose end has still to be told in the transcript.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<u64>,
    /// Spent on this submission.
    pub spent: Spent,
}

/// What may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The agent or a model may be at work; no call is open.
    Running,
    /// An open call may have taken effect.
    Calling,
    /// Nothing is in flight until this time, Unix ms.
    Parked {
        /// When to go on.
        due: u64,
    },
}

/// Transient errors in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// How many.
    pub count: u64,
    /// When to ask again, Unix ms.
    pub due: u64,
    /// The last error, for people.
    pub why: String,
}

/// A call of the open batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The provider's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its policy when the call was committed.
    pub policy: Policy,
    /// Whether its result is recorded.
    pub done: bool,
    /// How many steps it has recorded.
    #[serde(default)]
    pub steps: u16,
    /// The question that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// How its question was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
}

/// A call waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Hash of tool and arguments.
    pub hash: String,
    /// Since when, Unix ms.
    pub at: u64,
    /// When it is too late, Unix ms.
    pub expires: u64,
}

impl Call {
    /// Whether it may run: it has no result, and waits for nobody.
    pub fn is_open(&self) -> bool {
        !self.done && self.asked.is_none()
    }
}

/// Messages that have answered questions, of one submission, that are known when they come again.
const SAID_MAX: usize = 16;

impl Op {
    /// The calls that wait for a person, with their places.
    pub fn asked(&self) -> impl Iterator<Item = (usize, &Call, &Asked)> {
        let calls = self.calls.iter().enumerate().filter(|(_, call)| !call.done);
        calls.filter_map(|(i, call)| Some((i, call, call.asked.as_ref()?)))
    }

    /// Notes a message that has answered a question.
    pub fn note(&mut self, said: String) {
        let over = (self.said.len() + 1).saturating_sub(SAID_MAX);
        self.said.drain(..over);
        self.said.push(said);
    }

    /// `<message>.<index>`: the stable name of a call.
    pub fn call_name(&self, i: usize) -> String {
        format!("{}.{i}", self.base.saturating_sub(1))
    }
}
