//! What can go wrong, in two words: an [`Error`] of the machine, a [`Problem`] of the caller.

use crate::ports::StoreError;
use crate::prelude::*;
use serde_json::{Map, Value, json};

/// A fault of the machine. Nothing was lost by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The store did not answer, or not surely.
    Unavailable(String),
    /// A stored value can't be read.
    Corrupt {
        /// Its key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Denied(text) => Self::Unavailable(format!("the store denied access: {text}")),
            StoreError::TooLarge(text) => Self::Unavailable(format!("the store took it for too large: {text}")),
            StoreError::Unavailable(text) | StoreError::Unknown(text) => Self::Unavailable(text),
        }
    }
}

/// A request that is refused, as an RFC 9457 problem document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// HTTP status.
    pub status: u16,
    /// Stable code.
    pub code: &'static str,
    /// What was wrong and what to do, for people.
    pub detail: String,
    /// More members: `field`, `limit`, `value`, …
    pub more: Map<String, Value>,
}

impl Problem {
    /// A problem of a status and a code.
    pub fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), more: Map::new() }
    }

    /// Adds a member.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// What is missing or foreign: both look the same (I13).
    pub fn not_found() -> Self {
        Self::new(404, "not-found", "There is no such thing, or it is not yours.")
    }

    /// A field that is no good.
    pub fn field(field: &str, detail: impl Into<String>) -> Self {
        Self::new(422, "invalid", detail).with("field", field)
    }

    /// The document.
    pub fn document(&self) -> Value {
        let title = match self.status {
            401 => "Who are you?",
            404 => "Not found",
            405 => "Not that way",
            409 => "Conflict",
            413 => "Too large",
            422 => "Not valid",
            429 => "Too many",
            503 => "Not now",
            _ => "Not possible",
        };
        let mut document = self.more.clone();
        document.insert("type".into(), json!(format!("urn:writ:problem:{}", self.code)));
        document.insert("title".into(), json!(title));
        document.insert("status".into(), json!(self.status));
        document.insert("detail".into(), json!(self.detail));
        document.insert("code".into(), json!(self.code));
        Value::Object(document)
    }
}

/// Why a request was not done: the caller's part, or the machine's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The caller's.
    Problem(Problem),
    /// The machine's.
    Error(Error),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Error(error.into())
    }
}
