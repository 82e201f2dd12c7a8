//! Why a request is not done, as JSON-RPC and HTTP say it.

use crate::error::{Error, Problem, Refusal};
use crate::faces::answer::{Response, problem_of};
use crate::faces::rpc::{self, Fault};
use crate::prelude::*;
use serde_json::{Value, json};

/// A header that differs from the body, or is missing.
const HEADER_MISMATCH: i64 = -32020;
/// The request needs a capability that the client has not declared.
const MISSING_CAPABILITY: i64 = -32021;
/// A version that is not spoken here.
const UNSUPPORTED_VERSION: i64 = -32022;

/// A request that fails.
#[derive(Debug)]
pub enum Fail {
    /// With an HTTP status and an error.
    Fault(u16, Fault),
    /// As the rest of the runtime says it.
    Refusal(Refusal),
}

impl Fail {
    /// With a status, a code and a text.
    pub fn fault(status: u16, code: i64, text: impl Into<String>) -> Self {
        Self::Fault(status, Fault::new(code, text))
    }

    /// Parameters that don't fit.
    pub fn params(text: impl Into<String>) -> Self {
        Self::fault(200, rpc::INVALID_PARAMS, text)
    }

    /// `_meta` without what every request must say.
    pub fn meta(text: impl Into<String>) -> Self {
        Self::fault(400, rpc::INVALID_PARAMS, text)
    }

    /// A header that says something else than the body.
    pub fn header(text: impl Into<String>) -> Self {
        Self::fault(400, HEADER_MISMATCH, text)
    }

    /// Capabilities that the client has to declare first.
    pub fn capability(text: impl Into<String>, required: Value) -> Self {
        Self::Fault(400, Fault::new(MISSING_CAPABILITY, text).with(json!({"requiredCapabilities": required})))
    }

    /// A version that is not spoken here.
    pub fn version(requested: &str, supported: &[&str]) -> Self {
        let shown: String = requested.chars().take(64).collect();
        let text = format!("The version {shown:?} is not spoken here; choose one of {}.", supported.join(", "));
        let data = json!({"supported": supported, "requested": requested});
        Self::Fault(400, Fault::new(UNSUPPORTED_VERSION, text).with(data))
    }

    /// The answer to the request of an id.
    pub fn response(self, id: &Value) -> Response {
        let (status, fault) = self.told();
        let mut response = Response::json(status, &fault.response(id));
        if status == 503 {
            response.header("retry-after", "1");
        }
        response
    }

    /// Status and error.
    pub fn told(self) -> (u16, Fault) {
        let problem = match self {
            Self::Fault(status, fault) => return (status, fault),
            Self::Refusal(refusal) => problem_of(refusal),
        };
        let (status, code) = match problem.status {
            500.. => (problem.status, rpc::INTERNAL),
            _ => (200, rpc::INVALID_PARAMS),
        };
        (status, Fault::new(code, problem.detail.clone()).with(error_of(&problem)))
    }
}

/// A problem as data: its stable code, and what there is more.
pub fn error_of(problem: &Problem) -> Value {
    let mut error = problem.more.clone();
    error.insert("code".into(), json!(problem.code));
    error.insert("message".into(), json!(problem.detail));
    Value::Object(error)
}

impl From<Refusal> for Fail {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<Problem> for Fail {
    fn from(problem: Problem) -> Self {
        Self::Refusal(problem.into())
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        Self::Refusal(error.into())
    }
}
