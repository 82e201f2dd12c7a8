//! Around one answer: the start hook before it, and what an answer or an error of the model leads to.

use super::batch::{self, Prepared};
use super::compact;
use super::model_error::{Verdict, judge};
use super::turn::Turn;
use crate::agent::{Finish, Rendered, Start as StartHook};
use crate::error::Error;
use crate::ports::{ModelError, StopReason, Write};
use crate::prelude::*;
use crate::record::{Failure, Outcome};
use crate::session::{Message, Role};
use crate::store::Stop;
use serde_json::{Value, json};

/// Messages that a start hook may append: they fit one commit.
const NOTES_MAX: usize = 16;

/// How often a finish hook may go on.
const ROUNDS_MAX: u64 = 16;

/// How often a result that doesn't fit its schema is sent back.
const REPAIRS_MAX: u64 = 2;

impl Turn<'_, '_> {
    /// Runs the start hook of a delivered message, and commits what it wants and that it ran; whether it ran now.
    pub fn start_hook(&mut self, rendered: &Rendered) -> Result<bool, Stop> {
        let Some(hook) = rendered.on_start.as_ref().filter(|_| !self.op.started) else { return Ok(false) };
        let text = Message::new(Role::User, self.start.content.clone(), 0).plain_text();
        let mut cx = StartHook::new(text);
        hook(&mut cx).map_err(|e| hook_failed("start", &e))?;
        if cx.notes.len() > NOTES_MAX {
            let text = format!("it appended {} messages; at most {NOTES_MAX} are taken", cx.notes.len());
            return Err(hook_failed("start", &text));
        }
        self.set_state(cx.state).map_err(|e| hook_failed("start", &e))?;
        self.op.started = true;
        let mut writes = Vec::new();
        for note in cx.notes {
            let message = self.user_note(&note, "note");
            self.append(message, &mut writes);
        }
        self.commit(writes)?;
        Ok(true)
    }

    fn user_note(&self, text: &str, kind: &str) -> Message {
        let mut message = Message::text(Role::User, text, self.s.ports.clock.now());
        message.kind = Some(kind.to_owned());
        message.submission = Some(self.id.clone());
        message
    }

    /// After a model's error; `false`: the submission has its outcome.
    pub fn model_failed(&mut self, rendered: &Rendered, error: ModelError, partial: Message) -> Result<bool, Stop> {
        let retries = self.op.retry.as_ref().map_or(0, |r| r.count);
        match judge(error, retries, self.op.compacted, self.s.ports.clock.now()) {
            Verdict::Retry(retry) => {
                let event = json!({"type": "retrying", "submission": self.id, "count": retry.count, "due": retry.due, "reason": retry.why});
                self.op.retry = Some(retry);
                self.s.tell(event);
                self.commit(Vec::new())?;
                Ok(true)
            }
            Verdict::Compact(_) => {
                self.op.compacted = true;
                Ok(compact::run(self, rendered)? == batch::Flow::GoOn)
            }
            Verdict::Fail(kind, text) => {
                let mut message = partial;
                message.stop_reason = Some(if kind == "cancelled" { "aborted" } else { "error" }.into());
                message.error_message = Some(text.clone());
                message.error_kind = Some(kind.clone());
                let why = format!("The model failed ({kind}): {text}");
                let outcome = Outcome::Failed { error: Failure { kind: Some(kind), ..Failure::new("model", why) } };
                let usage = message.usage.unwrap_or_default();
                let mut writes = Vec::new();
                self.append(message.clone(), &mut writes);
                self.count_answer(&usage);
                let prepared = Prepared::not_run(&message, "This call was not run: the answer that made it broke off.");
                batch::open(self, prepared, &mut writes);
                self.end(outcome, writes)?;
                Ok(false)
            }
        }
    }

    /// After an answer; `false`: the submission has its outcome.
    pub fn answered(&mut self, rendered: &Rendered, answer: Message, stop: StopReason) -> Result<bool, Stop> {
        let calls = !answer.calls().is_empty();
        let usage = answer.usage.unwrap_or_default();
        let text = answer.plain_text();
        let (prepared, kind) = match (stop, calls) {
            (StopReason::Length, true) => {
                (Prepared::not_run(&answer, "This call was not run: the answer was cut at the output limit."), "length")
            }
            (StopReason::Length, false) => (Prepared::default(), "length"),
            (StopReason::Pause, false) => (Prepared::default(), "pause"),
            (_, true) => (batch::prepare(self, rendered, &answer), "toolUse"),
            (_, false) => (Prepared::default(), "stop"),
        };
        let mut answer = answer;
        answer.stop_reason = Some(kind.to_owned());
        let mut writes = Vec::new();
        let n = self.append(answer, &mut writes);
        self.count_answer(&usage);
        self.op.compacted = false;
        let goes_on = match kind {
            "stop" => self.finish(rendered, n, &text, writes)?,
            "length" if !calls => {
                let outcome = Outcome::failed("length", "The answer was cut at the model's output limit.");
                self.end(outcome, writes)?;
                false
            }
            _ => {
                batch::open(self, prepared, &mut writes);
                self.commit(writes)?;
                true
            }
        };
        Ok(goes_on)
    }

    /// The model has nothing more to ask: finish hook, result, outcome, in one commit; or one more round.
    fn finish(&mut self, rendered: &Rendered, n: u64, text: &str, writes: Vec<Write>) -> Result<bool, Stop> {
        if let Some(hook) = &rendered.on_finish {
            let mut cx = Finish::new(text.to_owned());
            hook(&mut cx).map_err(|e| hook_failed("finish", &e))?;
            self.set_state(cx.state).map_err(|e| hook_failed("finish", &e))?;
            if let Some(note) = cx.go_on {
                if self.op.rounds >= ROUNDS_MAX {
                    let text = format!("After {ROUNDS_MAX} more rounds the finish hook still went on.");
                    self.end(Outcome::failed("finish-ceiling", text), writes)?;
                    return Ok(false);
                }
                self.op.rounds += 1;
                return self.once_more(&note, "note", writes);
            }
        }
        let schema = self.start.result_schema.as_ref().or(rendered.result_schema.as_ref());
        let result = match schema {
            None => None,
            Some(schema) => match fit(self, schema, text) {
                Ok(result) => Some(result),
                Err(violations) if self.op.repairs >= REPAIRS_MAX => {
                    let text = format!("The result does not fit its schema: {violations}");
                    self.end(Outcome::failed("result-invalid", text), writes)?;
                    return Ok(false);
                }
                Err(violations) => {
                    let note = format!(
                        "Your answer must be one JSON value that fits the schema {schema}, and nothing else. \
                         What is wrong: {violations}"
                    );
                    self.op.repairs += 1;
                    return self.once_more(&note, "repair", writes);
                }
            },
        };
        self.end(Outcome::Completed { message: Some(n), result }, writes)?;
        Ok(false)
    }

    /// Adds a message, and the model is asked again.
    fn once_more(&mut self, note: &str, kind: &str, mut writes: Vec<Write>) -> Result<bool, Stop> {
        let message = self.user_note(note, kind);
        self.append(message, &mut writes);
        self.commit(writes)?;
        Ok(true)
    }
}

/// The text as a result: JSON, with or without a fence around it, that fits the schema. Otherwise what is wrong.
fn fit(turn: &Turn, schema: &Value, text: &str) -> Result<Value, String> {
    let trimmed = text.trim();
    let inner = trimmed
        .strip_prefix("```json")
        .or_else(|| trimmed.strip_prefix("```"))
        .and_then(|t| t.strip_suffix("```"))
        .unwrap_or(trimmed);
    let value: Value = serde_json::from_str(inner.trim()).map_err(|e| format!("it is not JSON: {e}"))?;
    let violations = turn.s.ports.host.check(&schema.to_string(), &value.to_string())?;
    if violations.is_empty() { Ok(value) } else { Err(violations.join("; ")) }
}

fn hook_failed(which: &str, why: &str) -> Stop {
    Stop::Failed(Error::Unavailable(format!("the {which} hook failed: {why}")))
}
