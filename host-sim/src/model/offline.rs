//! A tiny model that needs no account: what answers when nothing else is configured.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use serde_json::json;

use super::Completion;
use super::Description;
use super::Event;
use super::Model;
use super::ModelError;
use super::ModelRequest;
use super::StopReason;
use super::Usage;
use super::context::Context;
use super::planned::Piece;
use super::planned::Planned;
use crate::clock::Clock;

/// Context window of the offline model, in tokens.
pub const CONTEXT_WINDOW: u32 = 128_000;
/// Most tokens of one of its answers.
pub const MAX_OUTPUT: u32 = 4096;

/// A deterministic model for trying things out. It acknowledges the last user message, and three commands in it
/// become calls of the workspace's tools: `/read PATH`, `/write PATH TEXT`, `/list [PREFIX]`. It answers with the
/// result. Every name is known; it costs nothing; its tokens are words.
pub struct OfflineModel {
    clock: Arc<dyn Clock>,
    word_ms: u64,
}

impl OfflineModel {
    /// A model that takes `word_ms` milliseconds for each word.
    pub fn new(clock: Arc<dyn Clock>, word_ms: u64) -> Self {
        Self { clock, word_ms }
    }
}

#[async_trait]
impl Model for OfflineModel {
    async fn describe(&self, _name: &str) -> Result<Description, ModelError> {
        Ok(Description { context_window: CONTEXT_WINDOW, max_output: MAX_OUTPUT })
    }

    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        let context = Context::read(&request)?;
        let offered: Vec<Value> = serde_json::from_str(&request.tools).unwrap_or_default();
        let offered: Vec<&str> = offered.iter().filter_map(|tool| tool.get("name").and_then(Value::as_str)).collect();
        let pieces = self.pieces(&request, &context, answer(&context, &offered));
        Ok(Box::new(Planned::new(self.clock.clone(), pieces)))
    }
}

impl OfflineModel {
    fn pieces(&self, request: &ModelRequest, context: &Context, answer: Said) -> Vec<Piece> {
        let (text, call) = match answer {
            Said::Call { name, arguments } => (format!("I'll use `{name}`."), Some((name, arguments))),
            Said::Text(text) => (text, None),
        };
        let words: Vec<&str> = text.split_inclusive(' ').collect();
        let mut pieces = Vec::new();
        for word in &words {
            if self.word_ms > 0 {
                pieces.push(Piece::Wait(self.word_ms));
            }
            pieces.push(Piece::Event(Event::Text((*word).to_owned())));
        }
        let read: usize = context.messages.iter().map(|(_, text)| text.split_whitespace().count()).sum();
        let stop = if call.is_some() { StopReason::ToolUse } else { StopReason::End };
        if let Some((name, arguments)) = call {
            let id = format!("call-{}", request.turn);
            pieces.push(Piece::Event(Event::Call { id, name: name.to_owned(), arguments: arguments.to_string() }));
        }
        pieces.push(Piece::Event(Event::Usage(Usage {
            input_tokens: Some(read as u64),
            output_tokens: Some(words.len() as u64),
            cost_microusd: Some(0),
        })));
        pieces.push(Piece::Event(Event::Stop(stop)));
        pieces
    }
}

/// What the model says next.
enum Said {
    Call { name: &'static str, arguments: Value },
    Text(String),
}

fn answer(context: &Context, offered: &[&str]) -> Said {
    if context.summary {
        return Said::Text(format!("A summary of {} messages.", context.messages.len()));
    }
    let asked = context.last_user().unwrap_or_default().trim();
    let results: Vec<&str> = context
        .since_last_user()
        .iter()
        .filter(|(role, _)| role == "toolResult")
        .map(|(_, text)| text.as_str())
        .collect();
    if !results.is_empty() {
        return Said::Text(format!("The tool says:\n{}", results.join("\n")));
    }
    match command(asked) {
        Some(Ok((name, _))) if !offered.contains(&name) => {
            Said::Text(format!("This agent has no tool `{name}`, so I can't do that."))
        }
        Some(Ok((name, arguments))) => Said::Call { name, arguments },
        Some(Err(usage)) => Said::Text(usage),
        None if asked.is_empty() => Said::Text("I got a message without text.".to_owned()),
        None => Said::Text(format!(
            "You said: {asked}\n(I am the offline model. I know /read PATH, /write PATH TEXT and /list.)"
        )),
    }
}

/// A command at the beginning of the message; the error says how it is used.
fn command(asked: &str) -> Option<Result<(&'static str, Value), String>> {
    let (word, rest) = asked.split_once(char::is_whitespace).unwrap_or((asked, ""));
    let rest = rest.trim();
    Some(match (word, rest) {
        ("/list", "") => Ok(("list", json!({}))),
        ("/list", prefix) => Ok(("list", json!({"prefix": prefix}))),
        ("/read", "") => Err("Please name a file: /read PATH".to_owned()),
        ("/read", path) => Ok(("read", json!({"path": path}))),
        ("/write", rest) => match rest.split_once(char::is_whitespace) {
            Some((path, content)) => Ok(("write", json!({"path": path, "content": content.trim_start()}))),
            None => Err("Please name a file and its text: /write PATH TEXT".to_owned()),
        },
        _ => return None,
    })
}
