//! What can go wrong, as A2A tells it: one fault, two written forms.

use crate::error::{Error, Problem, Refusal};
use crate::faces::answer::Response;
use crate::faces::rpc;
use crate::prelude::*;
use serde_json::{Value, json};

/// The domain of the protocol's own reasons.
const DOMAIN: &str = "a2a-protocol.org";

/// A fault.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    /// The JSON-RPC code.
    pub code: i64,
    /// The HTTP status of the REST binding.
    pub http: u16,
    /// The name of the canonical status that goes with it.
    pub status: &'static str,
    /// Stable: `TASK_NOT_FOUND`, …
    pub reason: String,
    /// What was wrong and what to do, for people.
    pub message: String,
    /// Fields that are no good, and why.
    pub violations: Vec<(String, String)>,
}

impl Fault {
    fn new(code: i64, http: u16, status: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self { code, http, status, reason: reason.to_owned(), message: message.into(), violations: Vec::new() }
    }

    /// What is missing or foreign: both look the same (I13).
    pub fn task_not_found() -> Self {
        Self::new(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND", "There is no such task, or it is not yours.")
    }

    /// The task has its outcome.
    pub fn not_cancelable() -> Self {
        let text = "The task has its outcome, and can't be canceled any more.";
        Self::new(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE", text)
    }

    /// Push notifications are not offered.
    pub fn no_push() -> Self {
        let text =
            "Push notifications are not offered: subscribe to the task, or let the operator configure a webhook.";
        Self::new(-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED", text)
    }

    /// Not now, or not at all.
    pub fn unsupported(text: impl Into<String>) -> Self {
        Self::new(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", text)
    }

    /// A part of a kind that agents here don't take.
    pub fn content_type(field: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        let fault = Self::new(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", text.clone());
        Self { violations: vec![(field.to_owned(), text)], ..fault }
    }

    /// A version of the protocol that is not spoken here.
    pub fn version(asked: &str) -> Self {
        let shown: String = asked.chars().take(32).collect();
        let what = if shown.is_empty() { "No version, which means 0.3," } else { &format!("Version {shown:?}") };
        let text = format!("{what} is not spoken here: send `A2A-Version: 1.0`.");
        Self::new(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED", text)
    }

    /// Parameters that don't fit: each field, and why.
    pub fn invalid(violations: Vec<(String, String)>) -> Self {
        let told: Vec<&str> = violations.iter().map(|(_, why)| why.as_str()).collect();
        let fault = Self::new(rpc::INVALID_PARAMS, 400, "INVALID_ARGUMENT", "INVALID_PARAMS", told.join(" "));
        Self { violations, ..fault }
    }

    /// One parameter that doesn't fit.
    pub fn field(field: &str, why: impl Into<String>) -> Self {
        Self::invalid(vec![(field.to_owned(), why.into())])
    }

    /// No such method.
    pub fn no_method(method: &str) -> Self {
        let shown: String = method.chars().take(64).collect();
        let text = format!("There is no method {shown:?} in A2A 1.0.");
        Self::new(rpc::METHOD_NOT_FOUND, 404, "NOT_FOUND", "METHOD_NOT_FOUND", text)
    }

    /// What JSON-RPC found wrong with a message.
    pub fn of_message(fault: rpc::Fault) -> Self {
        let (http, reason) = match fault.code {
            rpc::PARSE => (400, "JSON_PARSE_ERROR"),
            rpc::INVALID_REQUEST => (400, "INVALID_REQUEST"),
            _ => (400, "INVALID_PARAMS"),
        };
        Self::new(fault.code, http, "INVALID_ARGUMENT", reason, fault.message)
    }

    /// A body that is not JSON.
    pub fn not_json(why: &str) -> Self {
        let text = format!("The body is not JSON that can be kept exactly: {why}.");
        Self::new(rpc::PARSE, 400, "INVALID_ARGUMENT", "JSON_PARSE_ERROR", text)
    }

    fn of_problem(problem: Problem) -> Self {
        let Problem { status, code, detail, more } = problem;
        let reason = match code {
            "conflict" => "IDEMPOTENCY_CONFLICT".to_owned(),
            "unknown-agent" => "INVALID_PARAMS".to_owned(),
            code => code.to_ascii_uppercase().replace('-', "_"),
        };
        let (http, name) = match status {
            _ if code == "unknown-agent" => (400, "INVALID_ARGUMENT"),
            404 => return Self::task_not_found(),
            400 | 422 => (400, "INVALID_ARGUMENT"),
            409 if code == "conflict" => (409, "ALREADY_EXISTS"),
            409 => (409, "ABORTED"),
            413 => (413, "INVALID_ARGUMENT"),
            429 => (429, "RESOURCE_EXHAUSTED"),
            503 => (503, "UNAVAILABLE"),
            _ => (500, "INTERNAL"),
        };
        let rpc_code = if http < 500 { rpc::INVALID_PARAMS } else { rpc::INTERNAL };
        let fault = Self::new(rpc_code, http, name, &reason, detail.clone());
        let field = if code == "unknown-agent" { Some("tenant") } else { more.get("field").and_then(Value::as_str) };
        let violations = field.map(|field| (field.to_owned(), detail)).into_iter().collect();
        Self { violations, ..fault }
    }

    /// The details: `google.rpc.ErrorInfo`, and `BadRequest` where fields are no good.
    fn details(&self) -> Value {
        let mut details = vec![json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": self.reason, "domain": DOMAIN,
        })];
        if !self.violations.is_empty() {
            let told = |(field, why): &(String, String)| json!({"field": field, "description": why});
            let violations: Vec<Value> = self.violations.iter().map(told).collect();
            let bad = json!({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations});
            details.push(bad);
        }
        Value::Array(details)
    }

    /// As the answer to a JSON-RPC request. What waiting mends is told to the transport, too.
    pub fn rpc(&self, id: &Value) -> Response {
        let fault = rpc::Fault::new(self.code, self.message.clone()).with(self.details());
        self.pressed(Response::json(200, &fault.response(id)))
    }

    /// As the answer to a REST request.
    pub fn rest(&self) -> Response {
        let error = json!({
            "code": self.http, "status": self.status, "message": self.message, "details": self.details(),
        });
        self.pressed(Response::json(self.http, &json!({"error": error})))
    }

    fn pressed(&self, mut response: Response) -> Response {
        if matches!(self.http, 429 | 503) {
            response.header("retry-after", "1");
        }
        response
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self::of_problem(problem)
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Problem(problem) => problem.into(),
            Refusal::Error(error) => error.into(),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(text) => {
                let text = format!("{text}. Repeat the request, with the same key: what was accepted is safe.");
                Self::new(rpc::INTERNAL, 503, "UNAVAILABLE", "UNAVAILABLE", text)
            }
            Error::Corrupt { key, why } => {
                let text = format!("The stored value at {key} can't be read: {why}. Run `writ check`.");
                Self::new(rpc::INTERNAL, 500, "INTERNAL", "CORRUPT", text)
            }
        }
    }
}
