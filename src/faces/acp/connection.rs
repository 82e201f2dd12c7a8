//! What a connection remembers, as the transport keeps it between two messages.

use super::{Fault, INVALID_REQUEST, VERSION};
use crate::ports::Ports;
use crate::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Prompts of one connection that may be under way.
const PROMPTS_MAX: usize = 48;

/// Loads of one connection that are remembered.
const LOADS_MAX: usize = 16;

/// A connection. It says nothing that the store does not know better: with an empty one everything can be asked again.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Connection {
    /// The version agreed on; 0: none yet.
    version: u64,
    /// What the client can show.
    pub(super) client: Client,
    /// Its prompts, oldest first; some may have their answers.
    prompts: Vec<Prompt>,
    /// Sessions that were loaded, and the request that did: it may still tell of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    loads: Vec<(String, Value)>,
}

/// What a client can show besides what all can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    /// Notices.
    #[serde(default, rename = "n", skip_serializing_if = "core::ops::Not::not")]
    pub(super) notices: bool,
    /// Compactions.
    #[serde(default, rename = "c", skip_serializing_if = "core::ops::Not::not")]
    pub(super) compactions: bool,
}

/// A prompt: the id of its request, its session, its submission.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Prompt {
    pub(super) request: Value,
    pub(super) session: String,
    pub(super) submission: String,
}

impl Connection {
    /// A connection as it was written. One that can't be read is a new one: a client finds out, and begins again.
    pub(super) fn read(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// As the transport keeps it.
    pub(super) fn written(&self) -> String {
        // Its keys are texts, and nothing in it refuses.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether a version was agreed on.
    pub(super) fn is_open(&self) -> bool {
        self.version == VERSION
    }

    /// Agrees on the version, and notes what the client can show.
    pub(super) fn open(&mut self, capabilities: Option<&Value>) {
        let offers = |name: &str| capabilities.is_some_and(|all| all["session"][name].is_object());
        self.version = VERSION;
        self.client = Client { notices: offers("notices"), compactions: offers("compaction") };
    }

    /// Takes a prompt in.
    pub(super) fn add(&mut self, prompt: Prompt) {
        self.prompts.push(prompt);
    }

    /// Makes room for one prompt more.
    pub(super) fn make_room(&mut self, ports: &Ports) -> Result<(), Fault> {
        if self.prompts.len() < PROMPTS_MAX {
            return Ok(());
        }
        let ids: Vec<String> = self.prompts.iter().map(|prompt| prompt.submission.clone()).collect();
        let records = crate::run::records(ports, ids).map_err(super::fault)?;
        self.prompts.retain(|prompt| records.get(&prompt.submission).is_some_and(|record| !record.is_settled()));
        if self.prompts.len() < PROMPTS_MAX {
            return Ok(());
        }
        let text = format!("{PROMPTS_MAX} prompts are under way, and no more are taken. Wait for an answer.");
        Err(Fault::new(INVALID_REQUEST, text))
    }

    /// Whether a prompt of a session has no outcome yet.
    pub(super) fn is_busy(&self, ports: &Ports, session: &str) -> Result<bool, Fault> {
        let ids: Vec<String> = self.of_session(session).map(|prompt| prompt.submission.clone()).collect();
        let records = crate::run::records(ports, ids).map_err(super::fault)?;
        Ok(records.values().any(|record| !record.is_settled()))
    }

    /// Notes who tells of a session from now on, if anybody does, and gives who did.
    pub(super) fn tells(&mut self, session: &str, request: Option<&Value>) -> Option<Value> {
        let before = self.loads.iter().position(|(name, _)| name == session).map(|at| self.loads.remove(at).1);
        if let Some(request) = request {
            // Beyond it, who loads a session twice in the middle of a turn is told twice.
            let too_many = (self.loads.len() + 1).saturating_sub(LOADS_MAX);
            self.loads.drain(..too_many);
            self.loads.push((session.to_owned(), request.clone()));
        }
        before
    }

    /// The prompts of a session, oldest first.
    pub(super) fn of_session<'a>(&'a self, session: &'a str) -> impl DoubleEndedIterator<Item = &'a Prompt> {
        self.prompts.iter().filter(move |prompt| prompt.session == session)
    }

    /// The prompt of a request.
    pub(super) fn of_request(&self, request: &Value) -> Option<&Prompt> {
        self.prompts.iter().rev().find(|prompt| prompt.request == *request)
    }

    /// Whether a submission is answered on this connection.
    pub(super) fn answers(&self, submission: &str) -> bool {
        self.prompts.iter().any(|prompt| prompt.submission == submission)
    }
}
