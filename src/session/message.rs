//! Messages: their stored form, their parts, and how they are put together. docs/transcript.md is the page for people.

use crate::error::Error;
use crate::id::Place;
use crate::ports::{Bytes, Ports, Write};
use crate::prelude::*;
use crate::record::{Approval, Usage, decode};
use crate::store::read_many;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Largest piece of a message in one value: the store's limit, with room to spare.
pub(crate) const PART_BYTES: usize = 240 * 1024;

/// Most parts of a message: 1.9 MiB, so that a commit of two of them fits.
pub const PARTS_MAX: usize = 8;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// A model.
    Assistant,
    /// The runtime, to people: never sent to a model.
    Notice,
    /// A compaction.
    Summary,
    /// A tool.
    ToolResult,
    /// A caller.
    User,
}

/// One message of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// Blocks.
    #[serde(default)]
    pub content: Vec<Value>,
    /// When it was committed, Unix ms.
    #[serde(default)]
    pub timestamp: u64,
    /// The submission that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<String>,
    /// The attempt that wrote it; of a notice, the attempt that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    /// `steer`, `repair`, `attempt-ended`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Of a user's message: what the caller calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Of a notice: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `stop`, `toolUse`, `length`, `pause`, `error`, `aborted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why an answer broke off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The error's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
    /// Of a result: the provider's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Of a result: the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// Of a result: `<message>.<index>` of its call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Of a result: the tool says that it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Of a result that no tool gave: `interrupted`, `notRun`, `denied`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Of a result: how many steps its call has recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u16>,
    /// Of a result: how the question was answered that its call had waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Of a summary: the first message that stays in the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
}

/// A call that an assistant message makes.
pub struct CallBlock<'a> {
    /// The provider's id.
    pub id: &'a str,
    /// The tool.
    pub name: &'a str,
    /// The arguments, if they were JSON.
    pub arguments: &'a Value,
}

impl Message {
    /// A message of blocks.
    pub fn new(role: Role, content: Vec<Value>, timestamp: u64) -> Self {
        Self {
            role,
            content,
            timestamp,
            submission: None,
            attempt: None,
            kind: None,
            label: None,
            reason: None,
            stop_reason: None,
            model: None,
            usage: None,
            error_message: None,
            error_kind: None,
            tool_call_id: None,
            tool_name: None,
            call: None,
            is_error: None,
            outcome: None,
            steps: None,
            approval: None,
            kept: None,
        }
    }

    /// A message of one text.
    pub fn text(role: Role, text: &str, timestamp: u64) -> Self {
        Self::new(role, vec![text_block(text)], timestamp)
    }

    /// Its text blocks, joined by line ends.
    pub fn plain_text(&self) -> String {
        let texts: Vec<&str> =
            self.content.iter().filter(|b| b["type"] == "text").filter_map(|b| b["text"].as_str()).collect();
        texts.join("\n")
    }

    /// The calls that it makes, in order.
    pub fn calls(&self) -> Vec<CallBlock<'_>> {
        self.content
            .iter()
            .filter(|b| b["type"] == "toolCall")
            .map(|b| CallBlock {
                id: b["id"].as_str().unwrap_or_default(),
                name: b["name"].as_str().unwrap_or_default(),
                arguments: &b["arguments"],
            })
            .collect()
    }

    /// Whether it is an answer that broke off: shown to people, kept out of the context.
    pub fn broke_off(&self) -> bool {
        self.role == Role::Assistant && matches!(self.stop_reason.as_deref(), Some("error" | "aborted"))
    }

    /// About how many tokens it is: a quarter of its bytes, the usual rule of thumb for English and code.
    pub fn tokens(&self) -> u64 {
        let bytes: usize =
            self.content.iter().map(|b| b["text"].as_str().map_or_else(|| b.to_string().len(), str::len)).sum();
        (bytes as u64).div_ceil(4) + 4
    }

    /// The writes that store it as message `n`; an error says by how much it is too large.
    pub fn writes(&self, place: &Place, n: u64) -> Result<Vec<Write>, String> {
        let bytes = crate::record::encode(self);
        if bytes.len() <= PART_BYTES {
            return Ok(vec![Write { key: place.message(n), value: Some(bytes) }]);
        }
        let parts: Vec<&[u8]> = bytes.chunks(PART_BYTES).collect();
        if parts.len() > PARTS_MAX {
            let limit = PARTS_MAX * PART_BYTES;
            return Err(format!("the message is {} bytes when stored; at most {limit} fit", bytes.len()));
        }
        let mut writes = vec![crate::store::put(place.message(n), &Parts { parts: parts.len() as u32 })];
        for (i, part) in parts.into_iter().enumerate() {
            writes.push(Write { key: place.part(n, i as u32), value: Some(part.to_vec()) });
        }
        Ok(writes)
    }
}

/// What a message's key holds when the message is in parts.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    parts: u32,
}

/// A text block.
pub fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The parts that a message's value says it has.
pub fn part_count(value: &[u8]) -> u32 {
    // A whole message always begins with its role; only the list of parts reads as one.
    serde_json::from_slice::<Parts>(value).map_or(0, |p| p.parts)
}

/// Messages of one read: a read has their stored values in memory all at once, and the largest that stand in one value are
/// below 200 KB.
pub const READ_MESSAGES: u64 = 64;

/// Reads messages `from..to`, parts and all: as [`each_message`] does.
pub fn read_messages(ports: &Ports, place: &Place, from: u64, to: u64) -> Result<Vec<Message>, Error> {
    let mut messages = Vec::new();
    each_message(ports, place, from, to, |_, message| {
        messages.push(message);
        Ok(true)
    })?;
    Ok(messages)
}

/// Shows messages `from..to` one after the other, parts and all, until `look` wants no more (false). One read per 64
/// messages, one more for each message in parts.
pub fn each_message(
    ports: &Ports,
    place: &Place,
    from: u64,
    to: u64,
    mut look: impl FnMut(u64, Message) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut next = from;
    while next < to {
        let end = to.min(next + READ_MESSAGES);
        let keys: Vec<String> = (next..end).map(|n| place.message(n)).collect();
        for (n, value) in (next..end).zip(read_many(ports.store, &keys)?) {
            if !look(n, join(ports, place, n, value)?)? {
                return Ok(());
            }
        }
        next = end;
    }
    Ok(())
}

/// A message from the value of its key, with its parts read if it has any.
pub fn join(ports: &Ports, place: &Place, n: u64, value: Option<Bytes>) -> Result<Message, Error> {
    let key = place.message(n);
    let missing = |key: &str| Error::Corrupt { key: key.to_owned(), why: "a message is missing (I4)".into() };
    let value = value.ok_or_else(|| missing(&key))?;
    let parts = part_count(&value);
    if parts == 0 {
        return decode(&key, &value);
    }
    let keys: Vec<String> = (0..parts.min(PARTS_MAX as u32)).map(|i| place.part(n, i)).collect();
    let mut bytes = Vec::new();
    for (key, part) in keys.iter().zip(read_many(ports.store, &keys)?) {
        bytes.extend_from_slice(&part.ok_or_else(|| missing(key))?);
    }
    decode(&key, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows A18; trap 23.
    #[test]
    fn a_message_is_split_over_parts_and_never_cut() {
        let place = Place { partition: 0, tag: "t".into() };
        let message = |n: usize| Message::text(Role::User, &"x".repeat(n), 1);
        assert_eq!(message(1000).writes(&place, 0).unwrap().len(), 1);
        let writes = message(500_000).writes(&place, 0).unwrap();
        assert_eq!(writes.len(), 4);
        assert_eq!(part_count(writes[0].value.as_ref().unwrap()), 3);
        assert!(message(2_100_000).writes(&place, 0).unwrap_err().contains("at most"));
    }
}
