//! JSON-RPC 2.0, as MCP, A2A and ACP share it: one message a body, no batches.

use crate::canon;
use crate::prelude::*;
use serde_json::{Map, Value, json};

/// Not JSON, or not JSON that can be kept exactly.
pub const PARSE: i64 = -32700;
/// Not a message.
pub const INVALID_REQUEST: i64 = -32600;
/// No such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// Parameters that don't fit.
pub const INVALID_PARAMS: i64 = -32602;
/// A fault of the machine.
pub const INTERNAL: i64 = -32603;

/// Longest id that is taken, in bytes of JSON: it is sent back, and stands in the name of a feed.
const ID_BYTES_MAX: usize = 512;

/// A message that came in.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A request: its id, a string or a number; its method; its parameters.
    Request(Value, String, Map<String, Value>),
    /// A notification.
    Notification(String, Map<String, Value>),
    /// The answer to a request of ours: its id, and its result or the error's object.
    Response(Value, Result<Value, Value>),
}

/// An error to be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Its code.
    pub code: i64,
    /// What was wrong and what to do, for people.
    pub message: String,
    /// More, in the form that the protocol gives it.
    pub data: Option<Value>,
}

impl Fault {
    /// A fault of a code.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Adds data.
    pub fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// As the answer to the request of an id; `null` when the id could not be read.
    pub fn response(&self, id: &Value) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}

/// The answer to the request of an id.
pub fn response(id: &Value, result: Value) -> Value {
    let mut response = json!({"jsonrpc": "2.0", "id": id});
    // Moved: it may be large.
    response["result"] = result;
    response
}

/// A notification.
pub fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// Reads a message. The error comes with the id to answer to.
pub fn parse(body: &[u8]) -> Result<Message, (Value, Fault)> {
    let value = canon::parse(body).map_err(|why| {
        let text = format!("This is not JSON that can be kept exactly: {why}.");
        (Value::Null, Fault::new(PARSE, text))
    })?;
    let Value::Object(mut message) = value else {
        let what = if value.is_array() { "Batches are not taken: send" } else { "This is no message: send" };
        return Err((Value::Null, Fault::new(INVALID_REQUEST, format!("{what} one JSON-RPC object a body."))));
    };
    let id = message.remove("id");
    let fit = |id: &Value| (id.is_string() || id.is_number()) && id.to_string().len() <= ID_BYTES_MAX;
    let shown = id.clone().filter(fit).unwrap_or(Value::Null);
    let invalid = |text: &str| Err((shown.clone(), Fault::new(INVALID_REQUEST, text)));
    if message.get("jsonrpc") != Some(&json!("2.0")) {
        return invalid("`jsonrpc` is not \"2.0\".");
    }
    if id.as_ref().is_some_and(|id| !fit(id)) {
        let text = format!("`id` is neither a string nor a number of at most {ID_BYTES_MAX} bytes.");
        return invalid(&text);
    }
    let params = match message.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err((shown, Fault::new(INVALID_PARAMS, "`params` is not an object."))),
    };
    match (message.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Ok(Message::Request(id, method, params)),
        (Some(Value::String(method)), None) => Ok(Message::Notification(method, params)),
        (None, Some(id)) => match (message.remove("result"), message.remove("error")) {
            (Some(result), None) => Ok(Message::Response(id, Ok(result))),
            (None, Some(error)) => Ok(Message::Response(id, Err(error))),
            _ => invalid("`method` is missing."),
        },
        _ => invalid("`method` is missing, or not a string."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let parse = |text: &str| parse(text.as_bytes());
        let none = Map::new();
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#),
            Ok(Message::Request(json!(1), "m".into(), none.clone()))
        );
        assert_eq!(parse(r#"{"jsonrpc":"2.0","method":"m"}"#), Ok(Message::Notification("m".into(), none)));
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":"a","result":{}}"#),
            Ok(Message::Response(json!("a"), Ok(json!({}))))
        );
    }

    #[test]
    fn what_is_no_message_is_told_with_its_id() {
        let fault = |text: &str| parse(text.as_bytes()).map_err(|(id, fault)| (id, fault.code)).unwrap_err();
        assert_eq!(fault("{"), (Value::Null, PARSE));
        assert_eq!(fault(r#"{"a":1,"a":2}"#), (Value::Null, PARSE));
        assert_eq!(fault("[]"), (Value::Null, INVALID_REQUEST));
        assert_eq!(fault("7"), (Value::Null, INVALID_REQUEST));
        assert_eq!(fault(r#"{"id":7,"method":"m"}"#), (json!(7), INVALID_REQUEST));
        assert_eq!(fault(r#"{"jsonrpc":"2.0","id":7}"#), (json!(7), INVALID_REQUEST));
        assert_eq!(fault(r#"{"jsonrpc":"2.0","id":7,"method":1}"#), (json!(7), INVALID_REQUEST));
        assert_eq!(fault(r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#), (Value::Null, INVALID_REQUEST));
        assert_eq!(fault(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[]}"#), (json!(7), INVALID_PARAMS));
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#, "x".repeat(600));
        assert_eq!(fault(&long), (Value::Null, INVALID_REQUEST));
    }
}
