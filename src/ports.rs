//! The core's only way out: one trait a handle. `component/` implements them over WIT, tests in plain Rust.
//!
//! The types say what `wit/` says, in words of the core, so that nothing but `component/` knows bindings.

use crate::prelude::*;

/// A value as stored.
pub type Bytes = Vec<u8>;

/// The condition of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The guard key.
    pub key: String,
    /// What it must hold; `None`: absent.
    pub expect: Option<Bytes>,
}

/// One write; `None` deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Option<Bytes>,
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Applied and flushed.
    Committed,
    /// The guard key held this instead.
    Stale(Option<Bytes>),
}

/// Why a store did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// Outside its partition, a key twice, or not ours.
    Denied(String),
    /// Over a limit.
    TooLarge(String),
    /// Not applied.
    Unavailable(String),
    /// Perhaps applied, now or later (rule R5).
    Unknown(String),
}

/// Storage.
pub trait Store {
    /// One snapshot of up to 256 keys.
    fn get_many(&self, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError>;
    /// One atomic, flushed commit.
    fn commit(&self, guard: &Guard, writes: &[Write]) -> Result<Outcome, StoreError>;
    /// Queues journal writes: applied before a later commit while the guard holds, else lost. Never waits.
    fn append_later(&self, guard: &Guard, writes: &[Write]);
    /// Waits for what was queued; how many appends were lost.
    fn flush(&self) -> u32;
}

/// A request for a completion; JSON where it is text.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The model's name.
    pub model: String,
    /// Instructions.
    pub system: String,
    /// Array of messages.
    pub messages: String,
    /// Array of tools.
    pub tools: String,
    /// Object of options.
    pub options: String,
    /// The same on every try.
    pub key: String,
    /// Answers that the thread has stored so far.
    pub turn: u64,
    /// The instance's name.
    pub thread: String,
}

/// Why a completion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Complete.
    End,
    /// Waits for results.
    ToolUse,
    /// Cut at the output limit.
    Length,
    /// Wants to be asked again.
    Pause,
}

/// A piece of a completion.
#[derive(Clone, Debug)]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// Another block, as JSON text.
    Block(String),
    /// A tool call.
    Call {
        /// The provider's id.
        id: String,
        /// The tool.
        name: String,
        /// JSON text.
        arguments: String,
    },
    /// What it cost.
    Usage(crate::record::Usage),
    /// The end event.
    Stop(StopReason),
    /// A signal is pending.
    Signal,
}

/// Why a model did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// Ask again.
    Transient {
        /// As the provider asks.
        retry_after_ms: Option<u64>,
        /// For people.
        message: String,
    },
    /// The context is too large.
    Overflow(String),
    /// For good: the kind's name, and a text for people.
    Permanent(&'static str, String),
    /// To be classified by its words.
    Unknown(String),
}

/// What is known of a model.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Context window in tokens.
    pub context_window: u32,
    /// Longest answer in tokens.
    pub max_output: u32,
}

/// Models.
pub trait Model {
    /// What is known of one.
    fn describe(&self, name: &str) -> Result<Description, ModelError>;
    /// Starts a completion.
    fn start(&self, request: &ModelRequest) -> Result<Box<dyn Completion>, ModelError>;
}

/// A running completion; dropping it cancels it.
pub trait Completion {
    /// Waits for events; none is the end.
    fn next(&self) -> Result<Vec<ModelEvent>, ModelError>;
}

/// What a restart does with an open call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Never run again.
    Plain,
    /// Run again, with the same effect key.
    ReplaySafe,
    /// Run again; recorded steps keep their value.
    Stepped,
    /// A person is asked first.
    Ask,
}

/// A tool of the host.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema, as text.
    pub parameters: String,
    /// What a restart does.
    pub policy: Policy,
}

/// A call of a host's tool.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// Stable name of the effect.
    pub effect_key: String,
    /// The tool.
    pub name: String,
    /// JSON text.
    pub arguments: String,
    /// The instance's name.
    pub thread: String,
    /// The provider's id.
    pub call_id: String,
}

/// How a tool ended.
#[derive(Clone, Debug)]
pub struct Reply {
    /// JSON array of blocks.
    pub content: String,
    /// The tool says that it failed.
    pub is_error: bool,
}

/// A running call; dropping it asks it to stop.
pub trait Job {
    /// For the adapter that made it.
    fn as_any(&self) -> &dyn core::any::Any;
}

/// Tools of the host.
pub trait Tools {
    /// All of them.
    fn describe(&self) -> Vec<Declaration>;
    /// Starts one call.
    fn start(&self, call: &HostCall) -> Box<dyn Job>;
    /// Waits for the first to end, a signal, or the time. Gives places in `jobs`.
    fn wait(&self, jobs: &[&dyn Job], until: Option<u64>) -> Vec<(usize, Reply)>;
}

/// Time and chance.
pub trait Clock {
    /// Unix time in milliseconds.
    fn now(&self) -> u64;
    /// Waits until a time or a signal; gives the time now.
    fn wait_until(&self, until: u64) -> u64;
    /// Random bytes.
    fn entropy(&self, n: u32) -> Bytes;
}

/// Everything else a host gives: hints, viewers, settings, schemas, the log.
pub trait Host {
    /// Takes the pending signals; whether there was one.
    fn poll(&self) -> bool;
    /// Tells live viewers of an event of the journal.
    fn publish(&self, thread: &str, number: u64, event: String);
    /// A setting's JSON text.
    fn setting(&self, name: &str) -> Option<String>;
    /// What of a value doesn't fit a schema, as `path: message`; an error if the schema is no good.
    fn check(&self, schema: &str, value: &str) -> Result<Vec<String>, String>;
    /// A warning for the log.
    fn warn(&self, text: &str);
}

/// All handles of one call.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// Storage.
    pub store: &'a dyn Store,
    /// Models.
    pub model: &'a dyn Model,
    /// Tools of the host.
    pub tools: &'a dyn Tools,
    /// Time and chance.
    pub clock: &'a dyn Clock,
    /// The rest.
    pub host: &'a dyn Host,
}
