//! Messages as updates: how a transcript is told, live and again later. Both ways tell the same of a message.

use super::connection::Client;
use super::content::{self, Shown, said};
use crate::error::Error;
use crate::id::Place;
use crate::ports::Ports;
use crate::prelude::*;
use crate::session::message::read_messages;
use crate::session::{Message, Role};
use serde_json::{Value, json};

/// Blocks of one message that are told one by one; what is said after them is told as one.
const BLOCKS_MAX: usize = 256;

/// Results of one batch at most, and the message that asked for them.
const BATCH_MAX: u64 = 33;

/// Who is told, and of what.
pub(super) struct Teller<'a> {
    pub(super) ports: &'a Ports<'a>,
    pub(super) place: &'a Place,
    pub(super) session: &'a str,
    pub(super) client: Client,
}

/// Bytes of an answer that are told as it grows, at most: twice what a model may answer. The rest comes at its end.
pub(super) const GROWN_BYTES_MAX: usize = (1 << 21) - 1;

/// How often an answer that is told can begin again and still be told apart from the time before.
pub(super) const TAKES_MAX: u64 = 7;

/// An answer that has been told in part, as it grew: how many bytes of it, and how often it had begun again by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Grown {
    pub(super) bytes: usize,
    pub(super) take: u64,
}

impl Grown {
    /// The answer begins again: what was told of it stands, and belongs to a message that will never be.
    pub(super) fn begin_again(&mut self) {
        if self.bytes > 0 {
            *self = Self { bytes: 0, take: (self.take + 1).min(TAKES_MAX) };
        }
    }

    /// Takes a piece that begins at an offset; false if it does not follow what was told.
    pub(super) fn grow(&mut self, offset: usize, bytes: usize) -> bool {
        if offset < self.bytes {
            self.begin_again();
        }
        let follows = offset == self.bytes && offset + bytes <= GROWN_BYTES_MAX;
        if follows {
            self.bytes += bytes;
        }
        follows
    }
}

impl Teller<'_> {
    /// An update of the session.
    pub(super) fn update(&self, kind: &str, mut update: Value) -> Value {
        update["sessionUpdate"] = json!(kind);
        let params = json!({"sessionId": self.session, "update": update});
        crate::faces::rpc::notification("session/update", params)
    }

    /// A piece of a message.
    pub(super) fn chunk(&self, kind: &str, id: &str, content: Value) -> Value {
        self.update(kind, json!({"content": content, "messageId": id}))
    }

    /// All updates of a message, but for what was told as it grew.
    pub(super) fn message(&self, n: u64, message: &Message, grown: Grown) -> Result<Vec<Value>, Error> {
        Ok(match message.role {
            Role::User => self.said("user_message_chunk", &n.to_string(), message, 0),
            Role::Assistant => self.answer(n, message, grown),
            Role::ToolResult => vec![self.result(n, message)?],
            Role::Notice => vec![self.notice(n, &message.plain_text())],
            Role::Summary => vec![self.summary(n, &message.plain_text())],
        })
    }

    /// The status of a call that has no result.
    pub(super) fn status(&self, call: &str, status: &str) -> Value {
        self.update("tool_call_update", json!({"toolCallId": call, "status": status}))
    }

    fn answer(&self, n: u64, message: &Message, grown: Grown) -> Vec<Value> {
        let mut all = self.said("agent_message_chunk", &message_id(n, grown.take), message, grown.bytes);
        for (i, call) in message.calls().into_iter().enumerate() {
            let call = json!({
                "toolCallId": call_id(n, i),
                "title": call.name,
                "name": call.name,
                "kind": "other",
                "status": "pending",
                "rawInput": call.arguments,
            });
            all.push(self.update("tool_call", call));
        }
        if let Some(why) = &message.error_message {
            all.push(self.notice(n, &format!("This answer broke off: {why}")));
        }
        all
    }

    /// What a message says and thinks, without the first bytes of its text, which were told.
    fn said(&self, kind: &str, id: &str, message: &Message, told: usize) -> Vec<Value> {
        let (mut all, mut left, mut rest) = (Vec::new(), told, String::new());
        for (i, block) in message.content.iter().enumerate() {
            match content::shown(block) {
                None => {}
                Some(Shown::Thought(text)) if i < BLOCKS_MAX => {
                    all.push(self.chunk("agent_thought_chunk", id, said(&text)));
                }
                Some(Shown::Said(block)) => {
                    let text = block["text"].as_str();
                    let skipped = text.map_or(0, |text| text.floor_char_boundary(left.min(text.len())));
                    left -= skipped;
                    match text.map(|text| &text[skipped..]) {
                        Some("") => {}
                        Some(text) if i >= BLOCKS_MAX => rest.push_str(text),
                        Some(text) => all.push(self.chunk(kind, id, said(text))),
                        None if i < BLOCKS_MAX => all.push(self.chunk(kind, id, block)),
                        None => {}
                    }
                }
                Some(Shown::Thought(_)) => {}
            }
        }
        if !rest.is_empty() {
            all.push(self.chunk(kind, id, said(&rest)));
        }
        all
    }

    /// The result of a call.
    fn result(&self, n: u64, message: &Message) -> Result<Value, Error> {
        let call = match &message.call {
            Some(call) => call.clone(),
            None => self.call_of(n)?,
        };
        let status = if message.is_error == Some(true) { "failed" } else { "completed" };
        let mut update = json!({"toolCallId": call, "status": status, "content": content::result(&message.content)});
        if let Some(outcome) = &message.outcome {
            update["_meta"] = json!({"writ/outcome": outcome});
        }
        Ok(self.update("tool_call_update", update))
    }

    /// The call that a result which does not name it belongs to: results stand in the order of the calls, right after
    /// the message that made them (I5).
    fn call_of(&self, n: u64) -> Result<String, Error> {
        for back in 1..=BATCH_MAX.min(n) {
            let m = n - back;
            let before = read_messages(self.ports, self.place, m, m + 1)?.pop();
            if before.is_some_and(|message| message.role == Role::Assistant) {
                return Ok(call_id(m, back as usize - 1));
            }
        }
        Ok(n.to_string())
    }

    /// What the runtime says to people. Clients that can't show a notice show it as a thought.
    fn notice(&self, n: u64, text: &str) -> Value {
        match self.client.notices && !text.is_empty() {
            true => self.update("notice", json!({"severity": "warning", "title": text})),
            false => self.chunk("agent_thought_chunk", &format!("{n}-notice"), said(text)),
        }
    }

    fn summary(&self, n: u64, text: &str) -> Value {
        match self.client.compactions {
            true => {
                let done = json!({"compactionId": n.to_string(), "status": "completed", "summary": [said(text)]});
                self.update("compaction_update", done)
            }
            false => self.chunk("agent_thought_chunk", &n.to_string(), said(text)),
        }
    }
}

/// The name of a call, as its result names it.
pub(super) fn call_id(n: u64, i: usize) -> String {
    format!("{n}.{i}")
}

/// The name of a message: its number; an answer that was begun again while it was told is another message to its reader.
pub(super) fn message_id(n: u64, take: u64) -> String {
    if take == 0 { n.to_string() } else { format!("{n}-{take}") }
}
