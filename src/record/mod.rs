//! The stored values: what each key holds. docs/store.md shows them; all are JSON.
//!
//! A value that can't be read is an error that names its key, never a default.

mod head;

pub use head::*;

use crate::error::Error;
use crate::id::{Address, Place, partition_of_id};
use crate::ports::{Bytes, Clock};
use crate::prelude::*;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The version of the stored form that this build reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// Reads a stored value.
pub fn decode<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T, Error> {
    // serde would take an array for a struct, field by field; no stored value is one.
    if bytes.first() == Some(&b'[') {
        return Err(Error::Corrupt { key: key.to_owned(), why: "an array, which no stored value is".into() });
    }
    serde_json::from_slice(bytes).map_err(|e| Error::Corrupt { key: key.to_owned(), why: e.to_string() })
}

/// Reads a stored value that may be absent.
pub fn decode_opt<T: DeserializeOwned>(key: &str, bytes: &Option<Bytes>) -> Result<Option<T>, Error> {
    bytes.as_deref().map(|b| decode(key, b)).transpose()
}

/// The stored form of a value.
pub fn encode<T: Serialize>(value: &T) -> Bytes {
    // The types below have string keys and no fallible `Serialize`: nothing in them can refuse.
    serde_json::to_vec(value).unwrap_or_default()
}

/// 16 fresh random bytes in hex: no guard ever holds a value twice (R4).
pub fn nonce(clock: &dyn Clock) -> String {
    crate::id::hex(&clock.entropy(16))
}

/// `format`: how this store is laid out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// [`FORMAT_VERSION`].
    pub version: u32,
    /// Number of partitions, 1 to 256.
    pub partitions: u16,
    /// Key of stream tokens, in hex.
    pub token_key: String,
}

/// **Q**, the admission guard of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Fresh in every commit.
    pub nonce: String,
    /// Number of the next slot; never goes back.
    pub next: u64,
    /// No slot below it is in use.
    pub first: u64,
    /// Journals of threads born from now on start above it.
    pub jfloor: u64,
}

/// `queue/<n>`: what a restart must look at. A hint: the records decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// A submission, and the tag of its thread.
    Submission {
        /// Its id.
        id: String,
        /// Its thread's tag.
        tag: String,
        /// Whether somebody is to be told of it: then the slot stays until that is done.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        notify: bool,
    },
    /// A thread that is being deleted.
    Delete {
        /// The thread's tag.
        tag: String,
    },
}

/// What kind of work a submission is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A message for the agent.
    Run,
    /// A copy of another thread's beginning.
    Fork,
    /// A transcript that a caller hands over page by page.
    Import,
}

/// Where a submission stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Accepted, not begun.
    Queued,
    /// An attempt has claimed it.
    Running,
    /// It has its outcome.
    Settled,
}

/// How a submission ended. Never changes (I3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// It was answered.
    Completed {
        /// The number of the message that answers; `None` when there is none to show (a fork, a delivered steer).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<u64>,
        /// The structured result, when a schema was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
    },
    /// It could not be done.
    Failed {
        /// Why.
        error: Failure,
    },
    /// It was ended from outside.
    Aborted {
        /// `cancelled`, `deleted`, `parent`.
        reason: String,
    },
}

/// Why a submission failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable: `retry-exhausted`, `deadline`, `budget`, `model`, `result-invalid`, …
    pub code: String,
    /// For people.
    pub message: String,
    /// Of a model's error: its kind, `refused`, `quota`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

impl Failure {
    /// A failure of a code.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), kind: None }
    }
}

impl Outcome {
    /// A failure.
    pub fn failed(code: &str, message: impl Into<String>) -> Self {
        Self::Failed { error: Failure::new(code, message) }
    }

    /// An abort.
    pub fn aborted(reason: &str) -> Self {
        Self::Aborted { reason: reason.to_owned() }
    }
}

/// `sub/<id>`: a submission, from yes to outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// Version of the hash, for comparing with a retry.
    pub v: u32,
    /// Hash of the canonical request; never changes (I2).
    pub hash: String,
    /// Hashes of its fields, so that a conflict can name one.
    pub fields: BTreeMap<String, String>,
    /// The thread's full name, the owner in it.
    pub address: Address,
    /// The thread's tag.
    pub tag: String,
    /// The caller's key, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What to do.
    pub kind: Kind,
    /// Whether it is meant for the turn under way.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub steer: bool,
    /// Its place in the inbox.
    pub k: u64,
    /// Its slot when it was accepted: the accept number.
    pub n: u64,
    /// Its entry in its owner's list of tasks, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u64>,
    /// When it was accepted, Unix ms.
    pub created: u64,
    /// When it is too late, Unix ms.
    pub deadline: u64,
    /// Where it stands.
    pub state: State,
    /// The targets that are told of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
    /// How often it was tried; only rises (I6).
    pub attempt: u64,
    /// When the last attempt began, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<u64>,
    /// The number of its first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// When it ended, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<u64>,
}

impl Submission {
    /// Whether it has its outcome.
    pub fn is_settled(&self) -> bool {
        self.state == State::Settled
    }

    /// Where its thread is; `id` is its own.
    pub fn place(&self, id: &str) -> Place {
        Place { partition: partition_of_id(id).unwrap_or_default(), tag: self.tag.clone() }
    }
}

/// `sub/<id>/start`: the delivery. Gone once settled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Content blocks.
    pub content: Vec<Value>,
    /// JSON Schema of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<Value>,
    /// The limits in force when it was accepted.
    pub limits: Limits,
    /// What the caller calls the message. It is no part of the request's identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Largest persistent state of a thread, in bytes of JSON.
pub const STATE_BYTES_MAX: usize = 16 * 1024;

/// Ceilings of one submission. All are finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// Answers of a model.
    pub turns: u64,
    /// Tokens, read and written.
    pub tokens: u64,
    /// Money, in millionths of a US dollar.
    pub cost_microusd: u64,
    /// Time from acceptance, in milliseconds.
    pub deadline_ms: u64,
    /// How long a question waits for its answer, in milliseconds; never beyond the deadline.
    pub approval_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const DAY_MS: u64 = 24 * 60 * 60 * 1000;
        Self { turns: 100, tokens: 2_000_000, cost_microusd: 10_000_000, deadline_ms: DAY_MS, approval_ms: DAY_MS }
    }
}

/// `sub/<id>/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelMark {
    /// Who asked.
    pub by: String,
    /// When, Unix ms.
    pub at: u64,
}

/// `sub/<id>/pause`, while it is paused; and who paused an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseMark {
    /// Who asked.
    pub by: String,
    /// When, Unix ms.
    pub at: u64,
}

/// `sub/<id>/notice/<subject>`: somebody is still to be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Since when, Unix ms: tells one notice about the same from the next.
    pub at: u64,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `sub/<id>/sent/<subject>`: what came of telling, by target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The notice's `at`.
    pub of: u64,
    /// By target.
    pub targets: BTreeMap<String, Told>,
}

/// What came of telling one target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// How often it was tried.
    pub tries: u64,
    /// The last time, Unix ms.
    pub at: u64,
    /// It was told, or is given up.
    pub done: bool,
    /// When it is tried again, Unix ms.
    pub due: u64,
    /// Why the last try failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `paused`: the agents that are paused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Fresh in every commit.
    pub nonce: String,
    /// Each for the owner that asked.
    pub agents: Vec<PausedAgent>,
}

/// An agent that is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausedAgent {
    /// Its name.
    pub agent: String,
    /// By whom and since when.
    pub mark: PauseMark,
}

/// `sub/<id>/step/<call>/<i>`: a step that was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its name within the call.
    pub name: String,
    /// What it gave.
    pub value: Value,
}

/// `ses/<A>/in`: the inbox's head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbox {
    /// Number of the next entry.
    pub next: u64,
    /// The slot of a deletion: nothing is admitted any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<u64>,
    /// How many tasks the thread has.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tasks: u64,
}

/// How a question was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call may run.
    Approved,
    /// It is not run.
    Denied,
    /// Nobody answered in time; it is not run.
    Expired,
}

/// `sub/<id>/answer/<call>`: the answer to the question of a call, until the run has taken it; and with the call's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// How.
    pub verdict: Verdict,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When, Unix ms.
    pub at: u64,
    /// Why, if the one who denied it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message that brought it, as its client calls it. Not kept with the result: see [`Op::said`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// `ses/<A>/in/<k>`: an input from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A submission.
    Submit(String),
    /// A wish to end one.
    Cancel(String),
    /// The answer to a question.
    Answer {
        /// Of this submission.
        submission: String,
        /// Of its call `<message>.<index>`.
        call: String,
    },
}

impl Entry {
    /// The submission that it names.
    pub fn submission(&self) -> &str {
        match self {
            Self::Submit(id) | Self::Cancel(id) | Self::Answer { submission: id, .. } => id,
        }
    }
}

/// `ses/<A>/meta`: what the user says of a thread, and its places in lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Its entry in its owner's list.
    pub in_owner: u64,
    /// Its entry in the list of all births.
    pub in_births: u64,
}

/// `idx/…`: the head of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexHead {
    /// Number of the next entry.
    pub next: u64,
    /// How many entries went with their threads. Only the list of tasks counts them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gone: u64,
}

/// `idx/<owner>/tasks/<n>`: a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEntry {
    /// Its id.
    pub id: String,
    /// When it was accepted, Unix ms.
    pub created: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// `ses/<A>/j`: guards the journal's queued writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalGuard {
    /// The thread's birth.
    pub born: u64,
    /// The epoch that may write.
    pub epoch: u64,
}

/// `ses/<A>/j/<n mod 20000>`: an event of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number.
    pub n: u64,
    /// The thread's birth: a slot of a thread that was deleted is no event of the next one.
    pub born: u64,
    /// How many messages the thread had then.
    pub at: u64,
    /// What happened: an object with a `type`.
    pub event: Value,
}

/// Tokens and money spent. `None` is unknown, and unknown is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Tokens written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
}

/// Running totals. A total is a lower bound once `unknown` counts an answer without a price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    /// Answers of a model that were stored.
    pub turns: u64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub cost_microusd: u64,
    /// Answers whose price is unknown.
    pub unpriced: u64,
}

impl Spent {
    /// Adds one answer.
    pub fn add(&mut self, usage: &Usage) {
        self.turns += 1;
        self.tokens = self.tokens.saturating_add(usage.input.unwrap_or(0)).saturating_add(usage.output.unwrap_or(0));
        match usage.cost_microusd {
            Some(cost) => self.cost_microusd = self.cost_microusd.saturating_add(cost),
            None => self.unpriced += 1,
        }
    }
}
