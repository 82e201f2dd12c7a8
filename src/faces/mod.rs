//! Faces: each translates a wire format to admission and the views. None has state or rules of its own.

mod router;
pub mod thread;

use crate::error::{Error, Problem, Refusal};
use crate::prelude::*;
use serde_json::Value;

/// A request of any face.
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names are lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Who asks, as the host has verified it.
    pub principal: Option<String>,
}

/// What to run, and why now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The instance's name.
    pub instance: String,
    /// The submission that caused it.
    pub submission: Option<String>,
    /// What to tell a run that is under way.
    pub signal: Option<Signal>,
}

/// A hint to a run that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A cancel was stored.
    Cancel,
    /// A steering message was stored.
    Steer,
}

/// An answer.
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Instances to run now.
    pub work: Vec<Work>,
}

impl Request {
    /// The first header of a name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl Response {
    /// A JSON answer.
    pub fn json(status: u16, value: &Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { status, headers, body: value.to_string().into_bytes(), work: Vec::new() }
    }

    /// A refusal.
    pub fn problem(problem: &Problem) -> Self {
        let mut headers = vec![("content-type".to_owned(), "application/problem+json".to_owned())];
        if matches!(problem.status, 429 | 503) {
            headers.push(("retry-after".to_owned(), "1".to_owned()));
        }
        let body = problem.document().to_string().into_bytes();
        Self { status: problem.status, headers, body, work: Vec::new() }
    }

    /// What went wrong, as an answer. A fault of the machine never says "not stored" (R5).
    pub fn refusal(refusal: Refusal) -> Self {
        let problem = match refusal {
            Refusal::Problem(problem) => problem,
            Refusal::Error(Error::Unavailable(text)) => {
                let detail = format!("{text}. Repeat the request, with the same key: what was accepted is safe.");
                Problem::new(503, "unavailable", detail)
            }
            Refusal::Error(Error::Corrupt { key, why }) => {
                let detail = format!("The stored value at {key} can't be read: {why}. Run `writ check`.");
                Problem::new(500, "corrupt", detail).with("key", key)
            }
        };
        Self::problem(&problem)
    }

    /// Adds what to run.
    pub fn with_work(mut self, work: Work) -> Self {
        self.work.push(work);
        self
    }
}
