//! What a hook may do. Its wishes are carried out after it returns, in one commit; they are dead outside it.

use crate::prelude::*;
use serde_json::Value;

/// A hook.
pub type Hook<W> = Box<dyn Fn(&mut W) -> Result<(), String>>;

/// Before the first model call of a delivered message: runs once for each, again only if its commit was lost.
#[derive(Default)]
pub struct Start {
    message: String,
    pub(crate) notes: Vec<String>,
    pub(crate) state: BTreeMap<String, Value>,
}

impl Start {
    pub(crate) fn new(message: String) -> Self {
        Self { message, ..Self::default() }
    }

    /// The text of the delivered message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Adds a message to the transcript before the model is asked. At most 16.
    pub fn append(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Sets a value of the thread's persistent state.
    pub fn set_state(&mut self, name: &str, value: Value) {
        self.state.insert(name.to_owned(), value);
    }
}

/// When the model has answered without asking for tools.
#[derive(Default)]
pub struct Finish {
    answer: String,
    pub(crate) go_on: Option<String>,
    pub(crate) state: BTreeMap<String, Value>,
}

impl Finish {
    pub(crate) fn new(answer: String) -> Self {
        Self { answer, ..Self::default() }
    }

    /// The text of the answer.
    pub fn answer(&self) -> &str {
        &self.answer
    }

    /// Goes on: adds a message and asks the model again. At most 16 times a submission, then it fails.
    pub fn go_on(&mut self, text: &str) {
        self.go_on = Some(text.to_owned());
    }

    /// Sets a value of the thread's persistent state.
    pub fn set_state(&mut self, name: &str, value: Value) {
        self.state.insert(name.to_owned(), value);
    }
}
