//! A model that plays a recorded session back.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::Completion;
use super::Description;
use super::Event;
use super::Model;
use super::ModelError;
use super::ModelRequest;
use super::StopReason;
use super::context::Context;
use super::planned::NoWaiting;
use super::planned::Piece;
use super::planned::Planned;
use super::planned::split;
use crate::clock::Clock;
use crate::recording::Block;
use crate::recording::Message;
use crate::recording::Recording;
use crate::recording::Role;

/// Pieces that a recorded text is given in.
const CHUNKS: usize = 3;
/// Length to which texts in error messages are cut, in characters.
const SHOWN_CHARS_MAX: usize = 120;

/// Hands over what somebody said in the middle of a recorded turn.
#[async_trait]
pub trait Steer: Send + Sync + 'static {
    /// Submits an input (an index into [`Recording::inputs`]) as a steer. Must be idempotent: it is called again when
    /// the runtime asks before the input has reached it.
    async fn steer(&self, input: usize);
}

/// Answers with the recorded answer number `request.turn`, after it has checked that the session is where the
/// recording was. It keeps no state, so it survives a restart.
pub struct ReplayModel {
    recording: Arc<Recording>,
    steer: Arc<dyn Steer>,
    clock: Arc<dyn Clock>,
    delay_ms: u64,
    answers: Vec<usize>,
}

impl ReplayModel {
    /// A model that plays `recording` and hands over its steers through `steer`.
    pub fn new(recording: Arc<Recording>, steer: Arc<dyn Steer>) -> Self {
        let is_answer = |(_, message): &(usize, &Message)| message.role == Role::Assistant;
        let answers = recording.messages.iter().enumerate().filter(is_answer).map(|(index, _)| index).collect();
        Self { recording, steer, clock: Arc::new(NoWaiting), delay_ms: 0, answers }
    }

    /// Waits `delay_ms` milliseconds on `clock` before each piece of an answer.
    pub fn with_delay(self, clock: Arc<dyn Clock>, delay_ms: u64) -> Self {
        Self { clock, delay_ms, ..self }
    }

    fn answer_at(&self, turn: u64) -> Result<usize, ModelError> {
        let found = usize::try_from(turn).ok().and_then(|turn| self.answers.get(turn));
        found.copied().ok_or_else(|| {
            let count = self.answers.len();
            ModelError::Invalid(format!("the recording has {count} answers; the thread asks for number {turn}"))
        })
    }

    fn plan(&self, at: usize, message: &Message) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut push = |event: Event| {
            if self.delay_ms > 0 {
                pieces.push(Piece::Wait(self.delay_ms));
            }
            pieces.push(Piece::Event(event));
        };
        for block in &message.blocks {
            match block {
                Block::Call { id, name, arguments } => {
                    let arguments = match arguments {
                        Value::String(text) => text.clone(),
                        value => value.to_string(),
                    };
                    push(Event::Call { id: id.clone(), name: name.clone(), arguments });
                }
                Block::Other(value) => push(Event::Block(value.to_string())),
                Block::Text(text) => split(text, CHUNKS).into_iter().for_each(|piece| push(Event::Text(piece))),
            }
        }
        if let Some(usage) = message.usage {
            pieces.push(Piece::Event(Event::Usage(usage)));
        }
        let next = self.recording.messages.get(at + 1).map(|next| next.role);
        pieces.push(ending(message, next));
        pieces
    }
}

#[async_trait]
impl Model for ReplayModel {
    /// Every name is known. The window is so large that nothing is ever compacted: a recording has no answer to a
    /// request for a summary.
    async fn describe(&self, _name: &str) -> Result<Description, ModelError> {
        Ok(Description { context_window: u32::MAX / 2, max_output: u32::MAX / 4 })
    }

    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        let context = Context::read(&request)?;
        if context.summary {
            return Err(ModelError::Invalid("a recording has no summaries to give".to_owned()));
        }
        let at = self.answer_at(request.turn)?;
        match place(&self.recording, at, &context) {
            Place::Here => {}
            Place::Before(input) => {
                self.steer.steer(input).await;
                let message = format!("input {input} of the recording enters the running turn here; ask again");
                return Err(ModelError::Transient { retry_after_ms: Some(0), message });
            }
            Place::Elsewhere(why) => {
                let turn = request.turn;
                return Err(ModelError::Invalid(format!("the session left the recording before answer {turn}: {why}")));
            }
        }
        let Some(message) = self.recording.messages.get(at) else {
            return Err(ModelError::Invalid(format!("the recording has no message {at}")));
        };
        Ok(Box::new(Planned::new(self.clock.clone(), self.plan(at, message))))
    }
}

/// Where a session is, seen from a recorded answer.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Where the recording was.
    Here,
    /// Before this steer.
    Before(usize),
    /// Not on the recording's way.
    Elsewhere(String),
}

fn place(recording: &Recording, at: usize, context: &Context) -> Place {
    let text = |message: usize| recording.messages.get(message).map(Message::text).unwrap_or_default();
    let Some(last) = recording.inputs.iter().rposition(|input| input.message < at) else {
        return match context.last_user() {
            None => Place::Here,
            Some(got) => Place::Elsewhere(format!("expected no user message, got {}", shown(got))),
        };
    };
    // The steers right before the answer: everything between is from users.
    let mut steers: Vec<(usize, String)> = Vec::new();
    let mut before = at;
    for (number, input) in recording.inputs.iter().enumerate().take(last + 1).rev() {
        if input.message + 1 != before || !input.steer {
            break;
        }
        steers.insert(0, (number, text(input.message)));
        before = input.message;
    }
    let present = context.trailing_users();
    let in_order = present.iter().zip(&steers).all(|(present, (_, steer))| present == steer);
    if let Some((number, _)) = steers.get(present.len()).filter(|_| in_order) {
        return Place::Before(*number);
    }
    let expected = recording.inputs.get(last).map(|input| text(input.message)).unwrap_or_default();
    match context.last_user() {
        Some(got) if got == expected => Place::Here,
        got => Place::Elsewhere(format!(
            "expected the last user message (input {last}) {}, got {}",
            shown(&expected),
            got.map_or("none".to_owned(), shown)
        )),
    }
}

fn ending(message: &Message, next: Option<Role>) -> Piece {
    let error = |default: &str| message.error_message.clone().unwrap_or_else(|| default.to_owned());
    let stop = match message.stop_reason.as_deref() {
        Some("aborted") => return Piece::Fail(ModelError::Cancelled(error("aborted"))),
        Some("error") => {
            return Piece::Fail(ModelError::Invalid(error("the recorded answer ended in an error")));
        }
        Some("length") => StopReason::Length,
        Some("pause") => StopReason::Pause,
        Some("toolUse") => StopReason::ToolUse,
        _ if message.calls().next().is_some() => StopReason::ToolUse,
        // The session went on by itself.
        _ if next == Some(Role::Assistant) => StopReason::Pause,
        _ => StopReason::End,
    };
    Piece::Event(Event::Stop(stop))
}

fn shown(text: &str) -> String {
    let short: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
}
