//! One model call: from the rendered agent to an answer, an error, or a cancel.

use super::context::Context;
use super::turn::Turn;
use crate::agent::Rendered;
use crate::error::Error;
use crate::id::answer_key;
use crate::journal::TEXT_BYTES_MAX;
use crate::ports::{Declaration, ModelError, ModelEvent, ModelRequest, Policy, StopReason};
use crate::prelude::*;
use crate::session::message::text_block;
use crate::session::{Message, Role};
use crate::store::Stop;
use serde_json::{Value, json};

/// Calls that one answer may make: rest and settle of all of them fit one commit.
pub(crate) const CALLS_MAX: usize = 32;

/// Largest answer, in bytes of text and arguments.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Longest id and name of one call, in bytes.
const CALL_NAME_BYTES_MAX: usize = 1024;

/// How a model call ended.
pub(crate) enum Asked {
    /// With an answer.
    Answer(Message, StopReason),
    /// With an error, and what there was of an answer.
    Failed(ModelError, Message),
    /// The submission was cancelled meanwhile.
    Cancelled,
}

/// Asks the model for the next answer of the thread.
pub(crate) fn ask(turn: &mut Turn, rendered: &Rendered) -> Result<Asked, Stop> {
    if turn.context.is_none() {
        turn.context = Some(Context::load(&turn.s)?);
    }
    let window = turn.window;
    let messages = turn.context.as_ref().map(|context| context.project(window)).unwrap_or_default();
    let tools = declarations(turn, rendered).iter().map(tool_json).collect::<Vec<_>>();
    let request = request(turn, rendered, messages, Value::Array(tools).to_string(), "turn");
    collect(turn, &request, true)
}

/// A request for a purpose, with the names that stay the same on every try.
pub(crate) fn request(
    turn: &Turn,
    rendered: &Rendered,
    messages: String,
    tools: String,
    purpose: &str,
) -> ModelRequest {
    let (head, place) = (&turn.s.head, &turn.s.place);
    ModelRequest {
        model: rendered.model.clone(),
        system: rendered.instructions.clone(),
        messages,
        tools,
        options: json!({"purpose": purpose}).to_string(),
        key: answer_key(&place.tag, head.born, head.usage.turns, head.boundary, purpose),
        turn: head.usage.turns,
        thread: place.head(),
    }
}

/// Runs a completion to its end and puts its pieces together.
pub(crate) fn collect(turn: &mut Turn, request: &ModelRequest, show: bool) -> Result<Asked, Stop> {
    let ports = turn.s.ports;
    let mut message = Message::new(Role::Assistant, Vec::new(), ports.clock.now());
    message.submission = Some(turn.id.clone());
    message.attempt = Some(turn.sub.attempt);
    message.model = Some(request.model.clone());
    let mut text = String::new();
    let mut shown = Shown::default();
    let mut stop = None;
    let mut size = 0;
    let completion = match ports.model.start(request) {
        Ok(completion) => completion,
        Err(error) => return Ok(Asked::Failed(error, message)),
    };
    let failed = loop {
        let events = match completion.next() {
            Ok(events) => events,
            Err(error) => break Some(error),
        };
        if events.is_empty() {
            break None;
        }
        for event in events {
            match event {
                ModelEvent::Text(piece) => {
                    size += piece.len();
                    shown.held.push_str(&piece);
                    text.push_str(&piece);
                }
                ModelEvent::Block(json) => {
                    flush_text(&mut text, &mut message.content);
                    size += json.len();
                    if let Ok(block @ Value::Object(_)) = serde_json::from_str(&json) {
                        message.content.push(block);
                    }
                }
                ModelEvent::Call { id, name, arguments } => {
                    flush_text(&mut text, &mut message.content);
                    size += id.len() + name.len() + arguments.len();
                    // They stand in the head while the call is open, 32 of them beside everything else.
                    if id.len() + name.len() > CALL_NAME_BYTES_MAX {
                        let text = format!("a call's id and name are longer than {CALL_NAME_BYTES_MAX} bytes");
                        return Ok(Asked::Failed(ModelError::Permanent("invalid", text), message));
                    }
                    // What is not JSON stays as the model wrote it, to be refused by name later.
                    let arguments = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
                    message.content.push(json!({"type": "toolCall", "id": id, "name": name, "arguments": arguments}));
                }
                ModelEvent::Usage(usage) => message.usage = Some(usage),
                ModelEvent::Stop(reason) => stop = Some(reason),
                ModelEvent::Signal => {
                    ports.host.poll();
                    if turn.is_cancelled()? {
                        return Ok(Asked::Cancelled);
                    }
                    turn.look_for_cancels()?;
                }
            }
        }
        if show {
            shown.show(turn);
        }
        if size > ANSWER_BYTES_MAX {
            let text = format!("the answer is larger than {ANSWER_BYTES_MAX} bytes");
            break Some(ModelError::Permanent("invalid", text));
        }
    };
    flush_text(&mut text, &mut message.content);
    cap_calls(&mut message);
    message.timestamp = ports.clock.now();
    // Escapes grow what was counted raw. An answer that can't be stored must not lose its calls to a stand-in (I5).
    if let Err(why) = message.writes(&turn.s.place, 0) {
        message.content.clear();
        return Ok(Asked::Failed(ModelError::Permanent("invalid", why), message));
    }
    Ok(match (failed, stop) {
        (Some(error), _) => Asked::Failed(error, message),
        (None, Some(reason)) => Asked::Answer(message, reason),
        // A stream without its end event was cut (design §5).
        (None, None) => {
            let message_text = "the model's answer broke off before its end".into();
            Asked::Failed(ModelError::Transient { retry_after_ms: None, message: message_text }, message)
        }
    })
}

/// What viewers have seen of an answer that is still growing.
#[derive(Default)]
struct Shown {
    /// Text that waits to be shown.
    held: String,
    /// Bytes that were shown.
    bytes: usize,
    /// When the last piece was shown, Unix ms.
    last: u64,
}

impl Shown {
    /// Shows what has come, unless it is to wait. What still waits at the end is in the message.
    fn show(&mut self, turn: &mut Turn) {
        match turn.s.hold_ms() {
            _ if self.held.is_empty() => return,
            None => return,
            Some(0) => {}
            Some(hold) => {
                let now = turn.s.ports.clock.now();
                if now < self.last.saturating_add(hold) {
                    return;
                }
                self.last = now;
            }
        }
        while !self.held.is_empty() {
            let end = self.held.floor_char_boundary(TEXT_BYTES_MAX);
            let event = json!({
                "type": "text",
                "submission": turn.id,
                "attempt": turn.sub.attempt,
                "number": turn.s.head.count,
                "offset": self.bytes,
                "text": &self.held[..end],
            });
            if !turn.s.tell_later(event) {
                return;
            }
            self.bytes += end;
            self.held.drain(..end);
        }
    }
}

/// Tools that the agent has now: its own, then those of the host.
pub(crate) fn declarations(turn: &Turn, rendered: &Rendered) -> Vec<Declaration> {
    let own = rendered.tools.iter().map(|t| Declaration {
        name: t.name.clone(),
        description: t.description.clone(),
        parameters: t.parameters.clone(),
        policy: t.policy,
    });
    let mut all: Vec<Declaration> = own.collect();
    if !rendered.host_tools.is_empty() {
        let offered = turn.s.ports.tools.describe();
        all.extend(offered.into_iter().filter(|d| rendered.host_tools.contains(&d.name)));
    }
    for tool in all.iter_mut().filter(|tool| rendered.ask.contains(&tool.name)) {
        tool.policy = Policy::Ask;
    }
    all
}

/// Tokens of the model's window, and of its longest answer.
pub(crate) fn describe(turn: &Turn, rendered: &Rendered) -> Result<Option<u64>, Error> {
    // A model that can't be described fails when it is asked, with its own words.
    Ok(turn.s.ports.model.describe(&rendered.model).ok().map(|d| u64::from(d.context_window)))
}

fn tool_json(tool: &Declaration) -> Value {
    let parameters: Value = serde_json::from_str(&tool.parameters).unwrap_or_else(|_| json!({"type": "object"}));
    json!({"name": tool.name, "description": tool.description, "parameters": parameters})
}

fn flush_text(text: &mut String, content: &mut Vec<Value>) {
    if !text.is_empty() {
        content.push(text_block(text));
        text.clear();
    }
}

/// Drops calls beyond the limit, and says so where both people and the model see it.
fn cap_calls(message: &mut Message) {
    let total = message.calls().len();
    if total <= CALLS_MAX {
        return;
    }
    let mut kept = 0;
    message.content.retain(|block| {
        let call = block["type"] == "toolCall";
        kept += usize::from(call);
        !call || kept <= CALLS_MAX
    });
    let note = format!("[{total} calls were made at once; the first {CALLS_MAX} are taken, the rest were dropped]");
    message.content.push(text_block(&note));
}
