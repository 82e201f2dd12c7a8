//! As much of JSON-RPC as a transport has to know: which request an answer is for, and how to say that there is none.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::LINE_BYTES_MAX;
use crate::data::Response;
use crate::error::HostError;

/// What a line was no good for.
const INVALID_REQUEST: i64 = -32600;
/// It was given up.
const REPLACED: i64 = -32800;
/// A fault of the machine.
const INTERNAL: i64 = -32603;
/// Longest id that a refused line is answered under, in bytes of JSON.
const ID_BYTES_MAX: usize = 512;
/// Up to here whole numbers are exact in JSON.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// What the transport reads of a line.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Envelope {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<Value>,
    #[serde(skip)]
    unread: bool,
}

impl Envelope {
    /// Reads a line; one that is no message has no id.
    pub(super) fn read(line: &[u8]) -> Self {
        serde_json::from_slice(line).unwrap_or_else(|_| Self { unread: true, ..Self::default() })
    }

    /// A request of an id.
    pub(super) fn of(id: &str) -> Self {
        Self { id: serde_json::from_str(id).ok(), ..Self::default() }
    }

    /// The name of its id: 1 and "1" are two.
    pub(super) fn id(&self) -> Option<String> {
        self.id.as_ref().map(name)
    }

    /// Whether somebody waits for an answer to it.
    pub(super) fn wants_answer(&self) -> bool {
        self.unread || (self.id.is_some() && self.method.is_some())
    }

    /// Whether a message is its answer.
    pub(super) fn is_answered_by(&self, message: &str) -> bool {
        let told = Self::read(message.as_bytes());
        told.method.is_none() && told.id.is_some() && told.id == self.id
    }

    /// The lines of an answer that is there.
    pub(super) fn lines(&self, response: &Response) -> Vec<String> {
        let text = response.text();
        if response.header("content-type").is_some_and(|media| media.starts_with("application/problem+json")) {
            return self.wants_answer().then(|| self.refused(&text)).into_iter().collect();
        }
        if serde_json::from_str::<IgnoredAny>(&text).is_ok() {
            return vec![text.into_owned()];
        }
        text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
    }

    /// The component refused it before any protocol had a say.
    fn refused(&self, problem: &str) -> String {
        let problem: Value = serde_json::from_str(problem).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or("The request was refused.").to_owned();
        self.fault(INTERNAL, &detail, Some(problem))
    }

    pub(super) fn too_long(&self) -> String {
        let text = format!("A line has at most {LINE_BYTES_MAX} bytes. Send less, or in pieces.");
        // The id may be what is long.
        let fits = self.id().is_some_and(|id| id.len() <= ID_BYTES_MAX);
        let named = Self { id: self.id.clone().filter(|_| fits), ..Self::default() };
        named.fault(INVALID_REQUEST, &text, Some(json!({"limit": LINE_BYTES_MAX})))
    }

    pub(super) fn busy(&self, limit: usize) -> String {
        let text = format!(
            "{limit} requests are being answered, and no more are. What this one asked for may have been accepted: try again \
             when one has its answer, with the same key if it had one."
        );
        self.fault(INTERNAL, &text, Some(json!({"limit": limit})))
    }

    /// It has no answer any more: a later request has taken its place.
    pub(super) fn replaced(&self) -> String {
        self.fault(REPLACED, "A later request has taken the place of this one.", None)
    }

    /// What a stream was about is gone, before its answer has come.
    pub(super) fn gone(&self) -> String {
        self.fault(INTERNAL, "What this was about was deleted before it had its answer.", None)
    }

    /// What the component said in its panic is for the log, not for the caller.
    pub(super) fn broken(&self, error: &HostError) -> String {
        let what = match error {
            HostError::TimedOut { .. } => "took too long",
            HostError::Trapped { .. } => "broke off",
            _ => "could not do its work",
        };
        let text = format!(
            "The component {what}. Nothing that was accepted is lost, and this request may have been: look before you \
             repeat it, or repeat it with the same idempotency key."
        );
        self.fault(INTERNAL, &text, None)
    }

    fn fault(&self, code: i64, message: &str, data: Option<Value>) -> String {
        let mut error = json!({"code": code, "message": message});
        if let Some(data) = data {
            error["data"] = data;
        }
        json!({"jsonrpc": "2.0", "id": self.id, "error": error}).to_string()
    }
}

/// An id as text. 1.0 is 1: the component writes it so.
pub(super) fn name(id: &Value) -> String {
    match id.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= WHOLE_MAX) {
        Some(number) => (number as i64).to_string(),
        None => id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Body;

    fn response(media: &str, body: &str) -> Response {
        Response {
            status: 200,
            headers: vec![("content-type".into(), media.into())],
            body: Body::Bytes(body.into()),
            work: Vec::new(),
            wait: None,
            left: None,
        }
    }

    #[test]
    fn ids_are_told_apart() {
        let read = |line: &str| Envelope::read(line.as_bytes());
        assert_eq!(read(r#"{"id":1,"method":"m"}"#).id().as_deref(), Some("1"));
        assert_eq!(read(r#"{"id":"1","method":"m"}"#).id().as_deref(), Some("\"1\""));
        assert_eq!(read(r#"{"id":1.0,"method":"m"}"#).id().as_deref(), Some("1"));
        assert_eq!(read(r#"{"id":1.5,"method":"m"}"#).id().as_deref(), Some("1.5"));
        let long = json!({"id": "x".repeat(600), "method": "m"}).to_string();
        assert!(read(&long).too_long().contains("\"id\":null"));
        assert!(read("{").wants_answer() && !read(r#"{"method":"m"}"#).wants_answer());
        assert!(!read(r#"{"id":1,"result":{}}"#).wants_answer());
        let asked = read(r#"{"id":1,"method":"m"}"#);
        assert!(asked.is_answered_by(r#"{"id":1,"result":{}}"#));
        assert!(
            !asked.is_answered_by(r#"{"id":1,"method":"ask"}"#) && !asked.is_answered_by(r#"{"id":2,"result":{}}"#)
        );
    }

    #[test]
    fn a_refusal_becomes_the_answer_of_its_request() {
        let envelope = Envelope::read(br#"{"id":3,"method":"m"}"#);
        let problem =
            response("application/problem+json", r#"{"status":503,"code":"unavailable","detail":"Not now."}"#);
        let lines = envelope.lines(&problem);
        let told: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!((&told["id"], &told["error"]["message"]), (&json!(3), &json!("Not now.")));
        assert_eq!(told["error"]["data"]["code"], "unavailable");
        assert!(Envelope::read(br#"{"method":"m"}"#).lines(&problem).is_empty());
    }

    #[test]
    fn a_body_holds_one_message_or_one_a_line() {
        let lines = |body: &str| Envelope::default().lines(&response("application/json", body));
        assert_eq!(lines(""), Vec::<String>::new());
        assert_eq!(lines("{\n}").len(), 1);
        assert_eq!(lines("{\"a\":1}\n{\"b\":2}\n"), ["{\"a\":1}", "{\"b\":2}"]);
    }
}
