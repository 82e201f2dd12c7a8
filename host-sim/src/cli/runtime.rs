//! What a command needs of the host: one small trait, so that commands are tested without a component.

use async_trait::async_trait;

use super::failure::Failure;
use super::feed::Feed;

/// A request to the component's `respond`, as the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// `GET`, `POST`, `DELETE`.
    pub method: &'static str,
    /// Path and query.
    pub path: String,
    /// Headers, lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// The threads that run because of it, by the names that the component gives them.
    pub instances: Vec<String>,
}

/// What an audit found so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Audit {
    /// What is broken, the first 10,000.
    pub findings: Vec<Finding>,
    /// How much is broken.
    pub findings_total: u64,
    /// Threads looked at.
    pub threads: u64,
    /// Submissions looked at.
    pub submissions: u64,
    /// Messages looked at.
    pub messages: u64,
    /// Keys accounted for.
    pub keys: u64,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its number in the design, or `format`, or `leak`.
    pub invariant: String,
    /// The key where it shows.
    pub key: String,
    /// What is wrong.
    pub text: String,
}

/// The host, as the commands see it.
#[async_trait]
pub trait Runtime: Send + Sync {
    /// One request. What it gives to run is run, unless the runtime was opened to read only.
    async fn respond(&self, ask: Ask) -> Result<Answer, Failure>;

    /// Takes up everything that a former process has left unfinished.
    async fn sweep(&self) -> Result<(), Failure>;

    /// Live events from now on.
    fn watch(&self) -> Feed;

    /// Returns when nothing runs and nothing is due now.
    async fn idle(&self);

    /// Checks the invariants over the whole store; `progress` hears of every page.
    async fn audit(&self, progress: &(dyn for<'a> Fn(&'a Audit) + Send + Sync)) -> Result<Audit, Failure>;

    /// The number of keys in the store, the host's own not counted.
    async fn keys(&self) -> Result<u64, Failure>;
}
