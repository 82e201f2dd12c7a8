//! What a caller hands over, read from a request's body and checked, and the hash that is its identity.

use crate::canon;
use crate::error::Problem;
use crate::id::Address;
use crate::prelude::*;
use serde_json::{Map, Value, json};

/// Largest request body, in bytes.
pub const BODY_BYTES_MAX: usize = 256 * 1024;

/// Most blocks of a message.
pub const BLOCKS_MAX: usize = 256;

/// Version of the hash. A retry is compared under the version that its record names.
pub const HASH_VERSION: u32 = 1;

/// A delivery: message, result schema, options.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// Content blocks.
    pub content: Vec<Value>,
    /// What the result must look like.
    pub result_schema: Option<Value>,
    /// Meant for the turn under way.
    pub steer: bool,
    /// Time from acceptance, in milliseconds.
    pub deadline_ms: Option<u64>,
}

/// The identity of a delivery: its hash, and one for each field, so that a conflict can name the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Hash of the whole.
    pub hash: String,
    /// Hashes of the fields.
    pub fields: BTreeMap<String, String>,
}

impl Delivery {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<Self, Problem> {
        if body.len() > BODY_BYTES_MAX {
            return Err(too_large("The request", body.len(), BODY_BYTES_MAX));
        }
        let value = canon::parse(body).map_err(|e| {
            Problem::new(422, "invalid-json", format!("The body is not JSON that Writ can keep exactly: {e}."))
        })?;
        let Value::Object(mut fields) = value else {
            return Err(Problem::field("", "The body must be a JSON object with a `message`."));
        };
        let content = blocks(fields.remove("message"))?;
        let result_schema = match fields.remove("result_schema") {
            None | Some(Value::Null) => None,
            Some(schema @ (Value::Object(_) | Value::Bool(_))) => Some(schema),
            Some(_) => return Err(Problem::field("result_schema", "`result_schema` must be a JSON Schema.")),
        };
        let mut options = match fields.remove("options") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(options)) => options,
            Some(_) => return Err(Problem::field("options", "`options` must be an object.")),
        };
        let steer = match options.remove("steer") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(steer)) => steer,
            Some(_) => return Err(Problem::field("options.steer", "`steer` must be true or false.")),
        };
        let deadline_ms = match options.remove("deadline_ms") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_u64().filter(|ms| *ms > 0).ok_or_else(|| {
                Problem::field(
                    "options.deadline_ms",
                    "`deadline_ms` must be a whole number of milliseconds, 1 or more.",
                )
            })?),
        };
        if let Some(name) = options.keys().next() {
            let known = "`steer` and `deadline_ms`";
            return Err(Problem::field(
                &format!("options.{name}"),
                format!("There is no option {name:?}; known are {known}."),
            ));
        }
        if let Some(name) = fields.keys().next() {
            let known = "`message`, `result_schema` and `options`";
            return Err(Problem::field(name, format!("There is no field {name:?}; known are {known}.")));
        }
        Ok(Self { content, result_schema, steer, deadline_ms })
    }

    /// The identity of this delivery at an address. Defaults are written out, relative times as given, the face never.
    pub fn identity(&self, address: &Address) -> Identity {
        let fields = json!({
            "message": self.content,
            "options.deadline_ms": self.deadline_ms,
            "options.steer": self.steer,
            "result_schema": self.result_schema,
        });
        identity(address, "run", fields)
    }
}

/// The identity of any request that becomes a submission: `fields` is an object.
pub fn identity(address: &Address, kind: &str, fields: Value) -> Identity {
    let Value::Object(map) = &fields else { return Identity { hash: canon::hash(&fields), fields: BTreeMap::new() } };
    let hashes = map.iter().map(|(name, value)| (name.clone(), canon::hash(value))).collect();
    let whole = json!({
        "address": [address.agent, address.thread],
        "delivery": fields,
        "kind": kind,
        "owner": address.owner,
    });
    Identity { hash: canon::hash(&whole), fields: hashes }
}

impl Identity {
    /// The first field in which a stored record differs.
    pub fn differing_field(&self, stored: &BTreeMap<String, String>) -> String {
        let names = self.fields.keys().chain(stored.keys());
        names.into_iter().find(|n| self.fields.get(*n) != stored.get(*n)).cloned().unwrap_or_else(|| "kind".into())
    }
}

/// A 413 that names the limit.
pub fn too_large(what: &str, size: usize, limit: usize) -> Problem {
    Problem::new(
        413,
        "too-large",
        format!("{what} is {size} bytes; at most {limit} are taken. Send less, or in pieces."),
    )
    .with("limit", limit)
    .with("value", size)
}

fn blocks(message: Option<Value>) -> Result<Vec<Value>, Problem> {
    let content = match message {
        Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
        Some(Value::Array(blocks)) => blocks,
        Some(_) => return Err(Problem::field("message", "`message` must be a text or an array of blocks.")),
        None => return Err(Problem::field("message", "`message` is missing.")),
    };
    if content.is_empty() || content.len() > BLOCKS_MAX {
        return Err(Problem::field("message", format!("`message` must have 1 to {BLOCKS_MAX} blocks.")));
    }
    for (i, block) in content.iter().enumerate() {
        if block["type"] != "text" || !block["text"].is_string() {
            let field = format!("message[{i}]");
            return Err(Problem::field(&field, "A block must be {\"type\": \"text\", \"text\": …}."));
        }
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Delivery, Problem> {
        Delivery::parse(text.as_bytes())
    }

    fn address() -> Address {
        Address { owner: "local/ada".into(), agent: "helper".into(), thread: "t".into() }
    }

    #[test]
    fn a_text_and_its_block_are_one_request() {
        let a = parse(r#"{"message":"hi"}"#).unwrap().identity(&address());
        let b = parse(r#"{"options":{"steer":false},"message":[{"text":"hi","type":"text"}],"result_schema":null}"#);
        assert_eq!(a, b.unwrap().identity(&address()));
    }

    #[test]
    fn a_conflict_names_its_field() {
        let stored = parse(r#"{"message":"hi"}"#).unwrap().identity(&address());
        for (text, field) in [
            (r#"{"message":"ho"}"#, "message"),
            (r#"{"message":"hi","result_schema":{}}"#, "result_schema"),
            (r#"{"message":"hi","options":{"deadline_ms":1}}"#, "options.deadline_ms"),
        ] {
            let other = parse(text).unwrap().identity(&address());
            assert_ne!(other.hash, stored.hash);
            assert_eq!(other.differing_field(&stored.fields), field);
        }
    }

    #[test]
    fn bad_bodies_name_what_is_wrong() {
        for (text, field) in [
            ("[]", ""),
            ("{}", "message"),
            (r#"{"message":7}"#, "message"),
            (r#"{"message":[]}"#, "message"),
            (r#"{"message":[{"type":"image"}]}"#, "message[0]"),
            (r#"{"message":"a","result_schema":3}"#, "result_schema"),
            (r#"{"message":"a","options":{"steer":1}}"#, "options.steer"),
            (r#"{"message":"a","options":{"deadline_ms":0}}"#, "options.deadline_ms"),
            (r#"{"message":"a","options":{"speed":1}}"#, "options.speed"),
            (r#"{"message":"a","msg":1}"#, "msg"),
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!((problem.status, problem.more["field"].as_str()), (422, Some(field)), "{text}");
        }
        assert_eq!(parse("{").unwrap_err().code, "invalid-json");
        let large = format!(r#"{{"message":"{}"}}"#, "x".repeat(BODY_BYTES_MAX));
        assert_eq!(parse(&large).unwrap_err().status, 413);
    }
}
