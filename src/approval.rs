//! Approvals: a tool that is declared `ask` runs only after a person has said yes.

use crate::admission::Accepted;
use crate::error::{Error, Problem, Refusal};
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::Submission;
use serde_json::Value;

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The call that it is about: `<message>.<index>`.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// SHA-256 over tool and arguments: an answer names it to be sure what it is about.
    pub hash: String,
    /// Since when, Unix ms.
    pub asked: u64,
    /// When it is too late, Unix ms: then it counts as denied.
    pub expires: u64,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The call may run.
    Approve,
    /// The call is not run; the model is told so, and the reason if there is one.
    Deny(Option<String>),
}

/// The questions that a submission waits for, in the order of its calls; none of one that has settled.
pub fn questions(_: &Ports, _: &str, _: &Submission) -> Result<Vec<Question>, Error> {
    Ok(Vec::new())
}

/// Answers a question of an owner's submission, durably. The first answer wins; the same one again is taken as said.
///
/// # Errors
/// 404 as for what is missing; 409 `answered` when it was decided otherwise or has expired, `closed` when the call does not wait (any more),
/// `other-arguments` when `hash` is of another call.
pub fn answer(
    _: Ports,
    _owner: &str,
    _id: &str,
    _call: &str,
    _hash: Option<&str>,
    _: Decision,
) -> Result<Accepted, Refusal> {
    Err(Problem::new(409, "closed", "This call does not wait for an answer.").into())
}
