//! A model that answers as a script says.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use async_trait::async_trait;
use serde_json::Value;

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
use super::planned::split;
use crate::clock::Clock;
use crate::script::Answer;
use crate::script::Fail;
use crate::script::FailKind;
use crate::script::Script;
use crate::script::Stop;

/// Most request keys whose failures are counted; those that come later get their answer at once.
const KEYS_MAX: usize = 100_000;

/// A model that answers as a script says. Which answer it gives depends on the request alone, and so survives a
/// restart; only the counters of `times` begin again with the process.
pub struct ScriptedModel {
    script: Arc<Script>,
    clock: Arc<dyn Clock>,
    failures: Mutex<HashMap<String, u32>>,
}

impl ScriptedModel {
    /// A model that plays `script`, its delays on `clock`.
    pub fn new(script: Arc<Script>, clock: Arc<dyn Clock>) -> Self {
        Self { script, clock, failures: Mutex::default() }
    }

    /// The failure that is due for a request key, counted.
    fn due_failure<'a>(&self, key: &str, answer: &'a Answer) -> Option<&'a Fail> {
        let fail = answer.fail.as_ref()?;
        let Some(times) = fail.times else {
            return Some(fail);
        };
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= KEYS_MAX && !failures.contains_key(key) {
            return None;
        }
        let count = failures.entry(key.to_owned()).or_insert(0);
        if *count >= times {
            return None;
        }
        *count += 1;
        Some(fail)
    }

    fn check_model(&self, name: &str) -> Result<(), ModelError> {
        match &self.script.model.name {
            Some(known) if known != name => {
                Err(ModelError::Invalid(format!("unknown model `{name}`; the script has only `{known}`")))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Model for ScriptedModel {
    async fn describe(&self, name: &str) -> Result<Description, ModelError> {
        self.check_model(name)?;
        let model = &self.script.model;
        Ok(Description { context_window: model.context_window, max_output: model.max_output })
    }

    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        self.check_model(&request.model)?;
        let context = Context::read(&request)?;
        let pieces = if context.summary {
            summary(&self.script, context.messages.len())
        } else {
            let answer = choose(&self.script, request.turn, &context)?;
            let fail = self.due_failure(&request.key, answer);
            if let Some(Fail { kind: Some(kind), after_chunks: None, .. }) = fail {
                return Err(error(*kind, fail));
            }
            plan(answer, fail, request.turn)
        };
        Ok(Box::new(Planned::new(self.clock.clone(), pieces)))
    }
}

/// The rule of `crate::script`, "Which answer is given".
fn choose<'a>(script: &'a Script, turn: u64, context: &Context) -> Result<&'a Answer, ModelError> {
    let asked = context.last_user().unwrap_or_default();
    let matches = |answer: &Answer| answer.when.as_ref().is_some_and(|when| asked.contains(when.as_str()));
    let first = script.answers.iter().position(matches);
    let candidates: Vec<&Answer> = script
        .answers
        .iter()
        .skip(first.unwrap_or(0))
        .filter(|answer| answer.when.is_none() || matches(answer))
        .collect();
    let number = match first {
        Some(_) => context.since_last_user().iter().filter(|(role, _)| role == "assistant").count(),
        None => usize::try_from(turn).unwrap_or(usize::MAX),
    };
    if let Some(answer) = candidates.get(number) {
        return Ok(answer);
    }
    match candidates.last() {
        Some(answer) if script.model.repeat_last => Ok(answer),
        _ => Err(ModelError::Invalid(format!(
            "the script has {} answers to this message, the thread asks for number {} (counted from 0); add an \
             `[[answer]]`, or `repeat_last = true` under `[model]`",
            candidates.len(),
            number
        ))),
    }
}

fn plan(answer: &Answer, fail: Option<&Fail>, turn: u64) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let chunks = split(&answer.text, answer.chunks.unwrap_or(1) as usize);
    let cut_at = fail.and_then(|fail| fail.after_chunks).map(|count| count as usize);
    let ending = |fail: Option<&Fail>| fail.and_then(|fail| fail.kind).map(|kind| Piece::Fail(error(kind, fail)));
    let wait = (answer.delay_ms > 0).then_some(Piece::Wait(answer.delay_ms));

    pieces.extend(answer.blocks.iter().map(|block| Piece::Event(Event::Block(block.to_string()))));
    for (index, chunk) in chunks.iter().enumerate() {
        if cut_at == Some(index) {
            pieces.extend(ending(fail));
            return pieces;
        }
        pieces.extend(wait.clone());
        pieces.push(Piece::Event(Event::Text(chunk.clone())));
    }
    if cut_at.is_some() {
        pieces.extend(ending(fail));
        return pieces;
    }
    if chunks.is_empty() {
        pieces.extend(wait);
    }
    pieces.extend(answer.calls.iter().enumerate().map(|(index, call)| {
        let id = call.id.clone().unwrap_or_else(|| format!("call-{turn}-{index}"));
        let arguments = match &call.arguments {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        Piece::Event(Event::Call { id, name: call.name.clone(), arguments })
    }));
    if let Some(usage) = answer.usage {
        pieces.push(Piece::Event(Event::Usage(Usage {
            input_tokens: usage.input,
            output_tokens: usage.output,
            cost_microusd: usage.cost_microusd,
        })));
    }
    if fail.is_none() {
        pieces.push(Piece::Event(Event::Stop(stop(answer))));
    }
    pieces
}

fn stop(answer: &Answer) -> StopReason {
    match answer.stop {
        Some(Stop::End) => StopReason::End,
        Some(Stop::Length) => StopReason::Length,
        Some(Stop::Pause) => StopReason::Pause,
        Some(Stop::ToolUse) => StopReason::ToolUse,
        None if answer.calls.is_empty() => StopReason::End,
        None => StopReason::ToolUse,
    }
}

fn error(kind: FailKind, fail: Option<&Fail>) -> ModelError {
    let message = fail.and_then(|fail| fail.message.clone()).unwrap_or_else(|| "as the script says".to_owned());
    match kind {
        FailKind::Cancelled => ModelError::Cancelled(message),
        FailKind::Invalid => ModelError::Invalid(message),
        FailKind::Overflow => ModelError::Overflow(message),
        FailKind::Quota => ModelError::Quota(message),
        FailKind::Refused => ModelError::Refused(message),
        FailKind::Transient => {
            ModelError::Transient { retry_after_ms: fail.and_then(|fail| fail.retry_after_ms), message }
        }
        FailKind::Unauthorized => ModelError::Unauthorized(message),
        FailKind::Unknown => ModelError::Unknown(message),
    }
}

fn summary(script: &Script, count: usize) -> Vec<Piece> {
    let text = script.summary.clone().unwrap_or_else(|| format!("A summary of {count} messages."));
    vec![Piece::Event(Event::Text(text)), Piece::Event(Event::Stop(StopReason::End))]
}
