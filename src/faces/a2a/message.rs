//! A message that comes in: checked, and turned into what a delivery holds.

use super::EXTENSION;
use super::errors::Fault;
use super::params::{Fields, Params};
use crate::canon;
use crate::delivery::Delivery;
use crate::error::Problem;
use crate::faces::call::checked_key;
use crate::id::KEY_BYTES_MAX;
use crate::prelude::*;
use crate::session::message::text_block;
use serde_json::{Value, json};

/// What agents here take and give.
pub(super) const MEDIA_TYPES: [&str; 2] = ["text/plain", "application/json"];

/// Longest id that a client gives, in bytes.
const ID_BYTES_MAX: usize = 512;

/// Parts of a message at most: as many as a delivery has blocks, with one to spare for a note.
const PARTS_MAX: usize = 255;

/// Tasks that a message may refer to.
pub(super) const REFERENCES_MAX: usize = 16;

/// A message, and how it is to be answered.
pub(super) struct Asked {
    /// What the client calls it.
    pub message_id: String,
    /// The context that it is for.
    pub context: Option<String>,
    /// The task that it goes on with.
    pub task: Option<String>,
    /// Its parts.
    pub parts: Vec<Part>,
    /// Tasks that it refers to.
    pub references: Vec<String>,
    /// Answer at once.
    pub at_once: bool,
    /// Messages of history that the answer may have.
    pub history: Option<u64>,
    /// The key of the metadata.
    pub key: Option<String>,
    result_schema: Option<Value>,
    deadline_ms: Option<u64>,
}

/// A part.
pub(super) enum Part {
    /// Text.
    Text(String),
    /// A value.
    Data(Value),
}

impl Asked {
    /// Reads the parameters of `SendMessage` and `SendStreamingMessage`.
    pub fn read(params: &Params) -> Result<Self, Fault> {
        let mut fields = Fields::of(params, "");
        let none = Params::new();
        let Some(message) = fields.object("message") else {
            fields.wrong("message", "is missing");
            fields.done()?;
            return Err(Fault::field("message", "`message` is missing."));
        };
        let mut of_message = Fields::of(message, "message");
        let message_id = of_message.required("messageId", ID_BYTES_MAX).to_owned();
        match of_message.required("role", 64) {
            "ROLE_USER" | "" => {}
            _ => of_message.wrong("role", "is not ROLE_USER: that is who speaks to an agent"),
        }
        let context = of_message.text("contextId", ID_BYTES_MAX).map(str::to_owned);
        let task = of_message.text("taskId", ID_BYTES_MAX).map(str::to_owned);
        let raw = of_message.list("parts", PARTS_MAX);
        if raw.is_empty() {
            of_message.wrong("parts", "is missing, empty, or too long");
        }
        let references = references(&mut of_message);
        let configuration = fields.object("configuration").unwrap_or(&none);
        let mut of_configuration = Fields::of(configuration, "configuration");
        let at_once = of_configuration.flag("returnImmediately");
        let history = of_configuration.number("historyLength", 0, u64::from(u32::MAX));
        let push = of_configuration.any("taskPushNotificationConfig").is_some();
        let metadata = fields.object("metadata").unwrap_or(&none);
        let extension = Fields::of(metadata, "metadata").object(EXTENSION).unwrap_or(&none);
        let mut of_extension = Fields::of(extension, "metadata.urn");
        let key = match of_extension.any("idempotencyKey") {
            None => None,
            Some(key) => {
                let key = key.as_str().and_then(|key| checked_key(key).ok());
                if key.is_none() {
                    of_extension
                        .wrong("idempotencyKey", &format!("is not 1 to {KEY_BYTES_MAX} visible ASCII characters"));
                }
                key
            }
        };
        let result_schema = of_extension.any("resultSchema").cloned();
        let deadline_ms = of_extension.number("deadlineMs", 1, u64::MAX >> 11);
        for other in [of_message, of_configuration, of_extension] {
            fields.take_over(other);
        }
        fields.done()?;
        if push {
            return Err(Fault::no_push());
        }
        let parts = raw.iter().enumerate().map(|(i, part)| read_part(part, i)).collect::<Result<_, _>>()?;
        Ok(Self { message_id, context, task, parts, references, at_once, history, key, result_schema, deadline_ms })
    }

    /// What is handed over to the agent. Checked as every delivery is.
    pub fn delivery(&self) -> Result<Delivery, Problem> {
        let block = |part: &Part| match part {
            Part::Text(text) => text_block(text),
            Part::Data(value) => text_block(&canon::canonical(value)),
        };
        let mut blocks: Vec<Value> = self.parts.iter().map(block).collect();
        if !self.references.is_empty() {
            blocks.push(text_block(&format!("This refers to the tasks {}.", self.references.join(", "))));
        }
        let mut body = json!({"message": blocks});
        if let Some(schema) = &self.result_schema {
            body["result_schema"] = schema.clone();
        }
        if let Some(ms) = self.deadline_ms {
            body["options"] = json!({"deadline_ms": ms});
        }
        Delivery::parse(body.to_string().as_bytes())
    }
}

fn references(message: &mut Fields) -> Vec<String> {
    let ids = message.list("referenceTaskIds", REFERENCES_MAX);
    let texts: Vec<String> = ids.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if texts.len() < ids.len() {
        message.wrong("referenceTaskIds", "holds something that is no string");
    }
    texts
}

/// A part: a text or a value of a kind that agents here take.
fn read_part(part: &Value, i: usize) -> Result<Part, Fault> {
    let at = format!("message.parts[{i}]");
    let Value::Object(map) = part else { return Err(Fault::field(&at, format!("`{at}` is no object."))) };
    let mut fields = Fields::of(map, &at);
    let media = fields.text("mediaType", 256).map(str::to_owned);
    let text = match fields.any("text") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => {
            fields.wrong("text", "is no string");
            None
        }
        None => None,
    };
    // A value may be null, and is there all the same.
    let data = map.get("data").cloned();
    let files = ["raw", "url"].iter().filter(|name| fields.any(name).is_some()).count();
    if usize::from(text.is_some()) + usize::from(data.is_some()) + files > 1 {
        fields.wrong("text", "stands beside another content: a part has one of text, raw, url and data");
    }
    fields.done()?;
    let takes = |media: &str, of: &str| {
        let plain = media.split(';').next().unwrap_or_default().trim();
        plain.eq_ignore_ascii_case(of)
    };
    let refused = |what: &str| {
        let text = format!("`{at}` is {what}; agents here take {}.", MEDIA_TYPES.join(" and "));
        Err(Fault::content_type(&at, text))
    };
    match (text, data, media) {
        (Some(text), _, None) => Ok(Part::Text(text)),
        (Some(text), _, Some(media)) if MEDIA_TYPES.iter().any(|of| takes(&media, of)) => Ok(Part::Text(text)),
        (None, Some(data), None) => Ok(Part::Data(data)),
        (None, Some(data), Some(media)) if takes(&media, "application/json") => Ok(Part::Data(data)),
        (None, None, _) if files > 0 => refused("a file"),
        (None, None, _) => Err(Fault::field(&at, format!("`{at}` has no content: text or data is due."))),
        (_, _, Some(media)) => refused(&format!("of the media type {:?}", media.chars().take(64).collect::<String>())),
    }
}
