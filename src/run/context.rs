//! The context of a model call: the transcript from the boundary on, in the form that a model gets.

use crate::error::Error;
use crate::prelude::*;
use crate::session::message::{READ_MESSAGES, each_message, join};
use crate::session::{Message, Role, Session};
use crate::store::read_many;
use core::fmt::Write;
use serde_json::{Value, json};

/// Bytes of a tool result that are sent to a model at most: the rest is clipped in the projection, not in the store (C2).
const RESULT_BYTES_MAX: u64 = 400_000;

/// What each result has at least in a summary's request, in bytes.
const SHARE_BYTES_MIN: usize = 1_000;

/// What of a tool result is sent to a model with a window of so many tokens: a third of it, at four bytes a token.
fn result_bytes(window: Option<u64>) -> usize {
    window.map_or(RESULT_BYTES_MAX, |tokens| RESULT_BYTES_MAX.min(tokens.saturating_mul(4) / 3)) as usize
}

/// Messages that a context holds, numbered.
pub(crate) struct Context {
    /// Number and message, in order.
    pub messages: Vec<(u64, Message)>,
}

impl Context {
    /// A context of these messages.
    pub fn of(messages: Vec<(u64, Message)>) -> Self {
        Self { messages }
    }

    /// Reads it: the last summary, and what it kept, from the session's messages. The first read takes the last 63
    /// messages along with the summary, which is all there is to read after a compaction as a rule. Results are clipped to
    /// what any model gets of them.
    pub fn load(session: &Session) -> Result<Self, Error> {
        let (ports, place, count) = (&session.ports, &session.place, session.head.count);
        let Some(boundary) = session.head.boundary else {
            return Ok(Self { messages: read(session, 0, count)? });
        };
        let tail = count.saturating_sub(READ_MESSAGES - 1);
        let mut keys = vec![place.message(boundary)];
        keys.extend((tail..count).map(|n| place.message(n)));
        let mut values = read_many(ports.store, &keys)?;
        let newest = values.split_off(1);
        let summary = join(ports, place, boundary, values.pop().flatten())?;
        let kept = summary.kept.unwrap_or(boundary);
        let mut rest = read(session, kept, tail)?;
        for (n, value) in (tail..count).zip(newest) {
            if n >= kept {
                rest.push((n, clipped(join(ports, place, n, value)?)));
            }
        }
        // The summary stands first, and only there: it lies behind what it keeps in the transcript.
        rest.retain(|(_, m)| m.role != Role::Summary);
        let mut messages = vec![(boundary, summary)];
        messages.append(&mut rest);
        Ok(Self { messages })
    }

    /// About how many tokens it is. The last answer's own count is used where there is one, and messages after it are
    /// estimated.
    pub fn tokens(&self, window: Option<u64>) -> u64 {
        let clipped = result_bytes(window) as u64 / 4;
        // Counts from before a compaction speak of the context that it replaced (B31).
        let boundary = self.messages.first().filter(|(_, m)| m.role == Role::Summary).map(|(n, _)| *n);
        let mut tokens = 0;
        for (n, message) in &self.messages {
            if message.broke_off() || message.role == Role::Notice {
                continue;
            }
            match (message.role, &message.usage) {
                (Role::Assistant, Some(usage))
                    if usage.input.is_some_and(|n| n > 0) && boundary.is_none_or(|b| *n > b) =>
                {
                    tokens = usage.input.unwrap_or(0) + usage.output.unwrap_or(0);
                }
                (Role::ToolResult, _) => tokens += message.tokens().min(clipped),
                _ => tokens += message.tokens(),
            }
        }
        tokens
    }

    /// The JSON array that a model gets. Answers that broke off stay out with their results (B19), notices too; a
    /// summary speaks as a user.
    pub fn project(&self, window: Option<u64>) -> String {
        self.projected(result_bytes(window))
    }

    /// The same for a summary: all of it has to fit the window, so that its results are clipped to share half of it.
    pub fn project_whole(&self, window: Option<u64>) -> String {
        let results = self.messages.iter().filter(|(_, m)| m.role == Role::ToolResult).count().max(1);
        let share = window.map_or(usize::MAX, |tokens| tokens.saturating_mul(2) as usize / results);
        self.projected(result_bytes(window).min(share.max(SHARE_BYTES_MIN)))
    }

    fn projected(&self, most: usize) -> String {
        // Written one by one: all of them as values would be as much again.
        let mut out = Array::default();
        let mut skip_results = false;
        for (_, message) in &self.messages {
            match message.role {
                Role::Notice => {}
                Role::Summary => {
                    let text = format!("Summary of the conversation so far:\n{}", message.plain_text());
                    out.push(json!({"role": "user", "content": [{"type": "text", "text": text}]}));
                }
                Role::User => {
                    skip_results = false;
                    out.push(json!({"role": "user", "content": message.content}));
                }
                Role::Assistant => {
                    skip_results = message.broke_off();
                    if !skip_results {
                        let stop = &message.stop_reason;
                        out.push(json!({"role": "assistant", "content": message.content, "stopReason": stop}));
                    }
                }
                Role::ToolResult if skip_results => {}
                Role::ToolResult => out.push(json!({
                    "role": "toolResult",
                    "toolCallId": message.tool_call_id,
                    "toolName": message.tool_name,
                    "isError": message.is_error.unwrap_or(false),
                    "content": message.content.iter().map(|b| clip(b, most)).collect::<Vec<_>>(),
                })),
            }
        }
        out.end()
    }
}

/// A JSON array that is being written.
#[derive(Default)]
struct Array(String);

impl Array {
    fn push(&mut self, value: Value) {
        self.0.push(if self.0.is_empty() { '[' } else { ',' });
        // A text takes everything.
        let _ = write!(self.0, "{value}");
    }

    fn end(mut self) -> String {
        self.0.push_str(if self.0.is_empty() { "[]" } else { "]" });
        self.0
    }
}

/// Messages `from..to`, numbered and clipped.
fn read(session: &Session, from: u64, to: u64) -> Result<Vec<(u64, Message)>, Error> {
    let mut messages = Vec::new();
    each_message(&session.ports, &session.place, from, to, |n, message| {
        messages.push((n, clipped(message)));
        Ok(true)
    })?;
    Ok(messages)
}

/// A result without what no model gets of it: a batch may hold 32 MiB.
pub(crate) fn clipped(mut message: Message) -> Message {
    if message.role == Role::ToolResult {
        for block in &mut message.content {
            if block["text"].as_str().is_some_and(|text| text.len() as u64 > RESULT_BYTES_MAX) {
                *block = clip(block, RESULT_BYTES_MAX as usize);
            }
        }
    }
    message
}

fn clip(block: &Value, most: usize) -> Value {
    match block["text"].as_str() {
        Some(text) if text.len() > most => {
            let end = (0..=most).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
            let left = text.len() - end;
            json!({"type": "text", "text": format!("{}\n[{left} more bytes are in the transcript]", &text[..end])})
        }
        _ => block.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, text: &str) -> Message {
        Message::text(role, text, 0)
    }

    /// Shows B19.
    #[test]
    fn what_broke_off_stays_out_of_the_context() {
        let mut failed = message(Role::Assistant, "half");
        failed.stop_reason = Some("error".into());
        let mut result = message(Role::ToolResult, "not run");
        result.outcome = Some("notRun".into());
        let context = Context::of(
            (0..)
                .zip([message(Role::User, "a"), failed, result, message(Role::Notice, "n"), message(Role::User, "b")])
                .collect(),
        );
        let sent: Value = serde_json::from_str(&context.project(None)).unwrap();
        let texts: Vec<&str> =
            sent.as_array().unwrap().iter().filter_map(|m| m["content"][0]["text"].as_str()).collect();
        assert_eq!(texts, ["a", "b"]);
    }

    /// Shows C2.
    #[test]
    fn a_large_result_is_clipped_only_in_the_projection() {
        let text = "é".repeat(300_000);
        let context = Context::of(vec![(0, message(Role::ToolResult, &text))]);
        let sent = context.project(None);
        assert!(sent.len() < 401_000 && sent.contains("more bytes are in the transcript"));
        assert_eq!(context.messages[0].1.plain_text(), text);
        // A small window gets less of it, and it counts for no more than what is sent.
        assert!(context.project(Some(30_000)).len() < 41_000);
        assert!(context.tokens(Some(30_000)) <= 10_000 && context.tokens(None) <= 100_000);
    }

    /// What is summarised has to fit the window, however many results it has; each keeps its beginning.
    #[test]
    fn results_share_the_window_of_a_summary() {
        let results = (0..32).map(|n| (n, clipped(message(Role::ToolResult, &format!("{n}:{}", "x".repeat(500_000))))));
        let context = Context::of(results.collect());
        assert!(context.messages.iter().all(|(_, m)| m.plain_text().len() < 401_000));
        let sent = context.project_whole(Some(200_000));
        assert!((350_000..450_000).contains(&sent.len()), "{}", sent.len());
        assert!((0..32).all(|n| sent.contains(&format!("\"{n}:x"))));
        assert!(context.project(Some(200_000)).len() > 8_000_000);
        assert_eq!(Context::of(Vec::new()).project_whole(None), "[]");
    }

    #[test]
    fn the_last_answers_own_count_is_used() {
        let mut answer = message(Role::Assistant, "x");
        answer.usage = Some(crate::record::Usage { input: Some(900), output: Some(100), cost_microusd: None });
        let context =
            Context::of(vec![(0, message(Role::User, "long long")), (1, answer), (2, message(Role::User, "1234"))]);
        assert_eq!(context.tokens(None), 1_005);
    }
}
