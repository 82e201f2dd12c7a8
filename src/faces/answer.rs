//! What a face answers.

use crate::admission::Accepted;
use crate::error::{Error, Problem, Refusal};
use crate::follow::Feed;
use crate::id::Place;
use crate::prelude::*;
use serde_json::Value;

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

impl Work {
    /// A submission's thread is to go on.
    pub fn run(of: &Accepted) -> Self {
        Self { instance: of.place.head(), submission: Some(of.id.clone()), signal: None }
    }

    /// Something in a thread is to end.
    pub fn cancel(place: &Place) -> Self {
        Self { instance: place.head(), submission: None, signal: Some(Signal::Cancel) }
    }
}

/// A hint to a run that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A cancel was stored.
    Cancel,
    /// A steering message was stored.
    Steer,
}

/// Frames to come: what to follow, and after which number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// What.
    pub feed: Feed,
    /// After which number.
    pub after: u64,
}

/// A wish to be answered later: when the tail has ended, by a `GET` of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// To be followed until it ends.
    pub tail: Tail,
    /// How long at most, in milliseconds.
    pub ms: u32,
    /// The path.
    pub then: String,
}

/// The body of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The whole of it.
    Bytes(Vec<u8>),
    /// Frames to come.
    Stream(Tail),
}

impl Body {
    /// Its bytes; none of a stream.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Stream(_) => &[],
        }
    }
}

/// An answer.
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
    /// Instances to run now.
    pub work: Vec<Work>,
    /// What to wait for before the caller is answered.
    pub wait: Option<Wait>,
    /// What to `POST` if the caller leaves before the whole answer has reached it.
    pub left: Option<String>,
}

impl Response {
    /// A JSON answer.
    pub fn json(status: u16, value: &Value) -> Self {
        Self::bytes(status, "application/json", value.to_string().into_bytes())
    }

    /// An answer of a media type.
    pub fn bytes(status: u16, media: &str, body: Vec<u8>) -> Self {
        let headers = vec![("content-type".to_owned(), media.to_owned())];
        Self { status, headers, body: Body::Bytes(body), work: Vec::new(), wait: None, left: None }
    }

    /// A stream.
    pub fn stream(tail: Tail) -> Self {
        let headers = vec![
            ("content-type".to_owned(), "text/event-stream".to_owned()),
            ("cache-control".to_owned(), "no-store".to_owned()),
        ];
        Self { status: 200, headers, body: Body::Stream(tail), work: Vec::new(), wait: None, left: None }
    }

    /// A refusal.
    pub fn problem(problem: &Problem) -> Self {
        let body = problem.document().to_string().into_bytes();
        let mut response = Self::bytes(problem.status, "application/problem+json", body);
        match problem.status {
            401 => response.header("www-authenticate", "Bearer realm=\"writ\""),
            // Waiting does not bring a token: somebody has to set one.
            429 | 503 if problem.code != "no-client-token" => response.header("retry-after", "1"),
            _ => {}
        }
        response
    }

    /// What went wrong, as an answer. A fault of the machine never says "not stored" (R5).
    pub fn refusal(refusal: Refusal) -> Self {
        Self::problem(&problem_of(refusal))
    }

    /// Adds a header.
    pub fn header(&mut self, name: &str, value: impl Into<String>) {
        self.headers.push((name.to_owned(), value.into()));
    }

    /// Adds what to run.
    pub fn with_work(mut self, work: Work) -> Self {
        self.work.push(work);
        self
    }
}

/// What went wrong, as a problem.
pub(super) fn problem_of(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Problem(problem) => problem,
        Refusal::Error(Error::Unavailable(text)) => {
            let detail = format!("{text}. Repeat the request, with the same key: what was accepted is safe.");
            Problem::new(503, "unavailable", detail)
        }
        Refusal::Error(Error::Corrupt { key, why }) => {
            let detail = format!("The stored value at {key} can't be read: {why}. Run `writ check`.");
            Problem::new(500, "corrupt", detail).with("key", key)
        }
    }
}
