//! A submission as the API shows it.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::exit;
use super::failure::Failure;
use super::names::SubmissionId;
use super::names::Thread;
use super::runtime::Answer;

/// A receipt, or a submission as it is now. Fields that this version doesn't know stay in `body`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Record {
    /// Its id.
    pub id: String,
    /// Its agent.
    pub agent: String,
    /// Its thread's name.
    #[serde(rename = "thread")]
    pub thread_name: String,
    /// The idempotency key, when there was one.
    pub key: Option<String>,
    /// Hash of what was asked.
    pub hash: String,
    /// Accept number.
    pub accept: Option<u64>,
    /// `queued`, `running`, …, `settled`.
    pub state: String,
    /// Why it is in that state, for people.
    pub reason: Option<String>,
    /// Attempts so far.
    pub attempt: u64,
    /// When it was accepted, Unix ms.
    pub created: Option<u64>,
    /// Calls that wait for a person.
    pub questions: Vec<Question>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The answer's body, byte for byte.
    #[serde(skip)]
    pub body: Vec<u8>,
    /// The thread that runs because of the request, by the name that the component gives it.
    #[serde(skip)]
    pub instance: Option<String>,
}

/// A call that waits for a person.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Question {
    /// `MESSAGE.INDEX`.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// Of tool and arguments.
    pub hash: String,
    /// When it is too late, Unix ms.
    pub expires: u64,
}

/// How a submission ended.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Outcome {
    /// `completed`, `failed`, `aborted`.
    pub status: String,
    /// The reply.
    pub text: Option<String>,
    /// The result, when a schema was given.
    pub result: Option<Value>,
    /// What failed.
    pub error: Option<Value>,
    /// Why it was aborted.
    pub reason: Option<String>,
}

impl Record {
    /// From an answer.
    pub fn of(answer: Answer) -> Result<Self, Failure> {
        let mut record: Self = serde_json::from_slice(&answer.body)
            .map_err(|e| Failure::internal("answer", format!("the component's answer is no submission: {e}")))?;
        record.body = answer.body;
        record.instance = answer.instances.into_iter().next();
        Ok(record)
    }

    /// Whether it has an outcome.
    pub fn settled(&self) -> bool {
        self.outcome.is_some()
    }

    /// Its id as a type.
    pub fn submission(&self) -> Result<SubmissionId, Failure> {
        self.id
            .parse()
            .map_err(|e| Failure::internal("answer", format!("the component's id {:?} is none: {e}", self.id)))
    }

    /// Its thread.
    pub fn thread(&self) -> Result<Thread, Failure> {
        let text = format!("{}/{}", self.agent, self.thread_name);
        text.parse().map_err(|e| Failure::internal("answer", format!("the component's thread {text:?} is none: {e}")))
    }

    /// The exit code of its outcome.
    pub fn exit(&self) -> u8 {
        self.outcome.as_ref().map_or(exit::INTERNAL, |outcome| exit::of_outcome(&outcome.status))
    }

    /// One sentence on an outcome that is not `completed`.
    pub fn complaint(&self) -> Option<Failure> {
        let outcome = self.outcome.as_ref()?;
        let failure = match outcome.status.as_str() {
            "completed" => return None,
            "failed" => {
                let error = outcome.error.clone().unwrap_or(Value::Null);
                let code = error["code"].as_str().unwrap_or("failed").to_string();
                let message = error["message"].as_str().unwrap_or("no message was stored").to_string();
                Failure::new(self.exit(), &code, format!("submission {} failed: {message}", self.id))
            }
            "aborted" => {
                let reason = outcome.reason.as_deref().unwrap_or("no reason was stored");
                Failure::new(self.exit(), "aborted", format!("submission {} was aborted: {reason}", self.id))
            }
            other => Failure::new(self.exit(), "outcome", format!("submission {} ended as {other:?}", self.id)),
        };
        Some(failure.fact("attempts", self.attempt).advise(format!("`writ explain {}` shows what is stored.", self.id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(outcome: &str) -> Record {
        let body =
            format!(r#"{{"id":"3f-a","agent":"h","thread":"t","state":"settled","attempt":2,"outcome":{outcome}}}"#);
        Record::of(Answer { status: 200, body: body.into_bytes(), instances: Vec::new() }).unwrap()
    }

    #[test]
    fn outcomes_have_exit_codes_and_words() {
        assert_eq!(record(r#"{"status":"completed","text":"hi","result":null}"#).complaint(), None);
        let failed = record(r#"{"status":"failed","error":{"code":"budget","message":"100 turns are used"}}"#);
        let failure = failed.complaint().unwrap();
        assert_eq!((failure.exit, failure.code.as_str()), (exit::FAILED, "budget"));
        assert!(failure.text().contains("100 turns are used"));
        let aborted = record(r#"{"status":"aborted","reason":"cancelled"}"#).complaint().unwrap();
        assert_eq!(aborted.exit, exit::ABORTED);
        assert!(aborted.text().contains("cancelled"));
    }

    #[test]
    fn a_pending_one_is_not_settled() {
        assert!(!record("null").settled());
        assert_eq!(record("null").thread().unwrap().to_string(), "h/t");
    }
}
