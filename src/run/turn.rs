//! One submission's run: claim or take over, then look, render, ask, commit, until it has its outcome.

use super::batch::{self, Prepared};
use super::context::Context;
use super::model_error::{PARK_MS, Verdict, judge};
use super::plan::late;
use super::rest::{self, Why};
use super::{Inputs, ask, compact, journal_guard, settled};
use crate::admission::input_message;
use crate::agent::{Agents, Finish, Rendered, Start as StartHook};
use crate::error::Error;
use crate::keys;
use crate::ports::{ModelError, StopReason, Write};
use crate::prelude::*;
use crate::record::*;
use crate::session::{Message, Role, Session, settle_writes};
use crate::store::{Stop, put, read, read_many};
use serde_json::{Value, json};

/// Model calls, waits and batches that one run of a submission makes at most: above any budget.
const LOOPS_MAX: u32 = 100_000;

/// How often a finish hook may go on, or a result be sent back for repair.
const REPAIRS_MAX: u64 = 16;

/// How often a result that doesn't fit its schema is sent back.
const RESULT_REPAIRS_MAX: u64 = 2;

/// A submission that this run has claimed.
pub(crate) struct Turn<'r, 'a> {
    /// The session.
    pub s: Session<'a>,
    /// The operation; it goes into the head with each commit.
    pub op: Op,
    /// The submission's id.
    pub id: String,
    /// Its record.
    pub sub: Submission,
    /// The transcript from the boundary on, once read.
    pub context: Option<Context>,
    /// Results of the open batch that this run has placed.
    pub results: BTreeMap<u64, Message>,
    /// Whether some were placed that are not in `results`.
    pub results_lost: bool,
    /// The attempt that opened the batch, if this run did.
    pub opened_in: u64,
    agents: &'r dyn Agents,
    start: Start,
    moved: Option<u64>,
    /// Inbox entries before this one were looked at.
    looked: u64,
}

/// What the inbox says before a turn.
enum Look {
    GoOn,
    Cancelled,
}

impl<'r, 'a> Turn<'r, 'a> {
    /// The submission that the head is busy with.
    pub fn open(
        s: Session<'a>,
        agents: &'r dyn Agents,
        id: String,
        sub: Submission,
        start: Start,
        moved: Option<u64>,
    ) -> Self {
        let op = s.head.op.clone().unwrap_or_else(|| fresh_op(&id));
        let looked = s.head.pos;
        let results = BTreeMap::new();
        Self { s, op, id, sub, context: None, results, results_lost: false, opened_in: 0, agents, start, moved, looked }
    }

    /// Claims the next submission in one commit: epoch, attempt, input. Nothing that can fail comes before it (C7).
    #[allow(clippy::too_many_arguments)]
    pub fn claim(
        s: Session<'a>,
        agents: &'r dyn Agents,
        k: u64,
        id: String,
        sub: Submission,
        start: Start,
        moved: Option<u64>,
        inputs: &Inputs,
        records: &BTreeMap<String, Submission>,
    ) -> Result<Self, Stop> {
        let mut turn = Self::open(s, agents, id, sub, start, moved);
        turn.op = Op { strikes: 1, ..fresh_op(&turn.id) };
        let mut writes = inputs.writes(&mut turn.s, records)?;
        turn.s.head.pos = k + 1;
        turn.looked = k + 1;
        let now = turn.s.ports.clock.now();
        let mut message = input_message(&turn.id, &turn.sub, &turn.start, now);
        message.kind = None;
        let empty = turn.s.head.count == 0;
        turn.raise(&mut writes);
        turn.s.append(&message, &mut writes);
        turn.commit(writes)?;
        if empty {
            turn.context = Some(Context::of(vec![(0, message.clone())]));
        }
        turn.publish_message(turn.s.head.count - 1, &message);
        Ok(turn)
    }

    /// Takes over after an interruption (`new_attempt`), or goes on after a wait: one commit. Plain calls without a
    /// result get one that says so; calls that may run again stay open.
    pub fn take_over(
        &mut self,
        new_attempt: bool,
        inputs: &Inputs,
        records: &BTreeMap<String, Submission>,
    ) -> Result<(), Stop> {
        let mut writes = inputs.writes(&mut self.s, records)?;
        if new_attempt {
            self.op.ended.push(self.sub.attempt);
            let closed = rest::close(&self.s, &mut self.op, &self.id, self.sub.attempt, Why::Interrupted, true);
            writes.extend(closed);
            self.op.strikes += 1;
            self.raise(&mut writes);
        } else {
            self.s.head.epoch += 1;
            writes.push(journal_guard(&self.s));
        }
        rest::close_batch(&mut self.s, &mut self.op, &self.id, &mut writes);
        self.commit(writes)
    }

    /// The submission's run, to its outcome.
    pub fn run(mut self) -> Result<(), Stop> {
        for _ in 0..LOOPS_MAX {
            if self.op.phase == Phase::Calling {
                let Some(rendered) = self.render()? else { return Ok(()) };
                if batch::run(&mut self, &rendered)? == batch::Flow::Ended {
                    return Ok(());
                }
                continue;
            }
            // The next decision ends it, in one commit that also takes the wish out of the inbox (P6x).
            if let Look::Cancelled = self.look()? {
                return Ok(());
            }
            if let Some(outcome) = self.spent() {
                return self.end(outcome, Vec::new());
            }
            if !self.wait_for_retry()? {
                continue;
            }
            let Some(rendered) = self.render()? else { return Ok(()) };
            self.start_hook(&rendered)?;
            if compact::is_due(&mut self, &rendered)? && compact::run(&mut self, &rendered)? == batch::Flow::Ended {
                return Ok(());
            }
            match ask::ask(&mut self, &rendered)? {
                ask::Asked::Cancelled => return Ok(()),
                ask::Asked::Failed(error, partial) => {
                    if !self.model_failed(&rendered, error, partial)? {
                        return Ok(());
                    }
                }
                ask::Asked::Answer(answer, stop) => {
                    if !self.answered(&rendered, answer, stop)? {
                        return Ok(());
                    }
                }
            }
        }
        Err(Stop::Later(self.s.ports.clock.now()))
    }

    /// Commits writes with the head and the operation.
    pub fn commit(&mut self, writes: Vec<Write>) -> Result<(), Stop> {
        self.s.head.op = Some(self.op.clone());
        self.s.commit(writes)
    }

    /// Adds a message at the end, and to the context.
    pub fn append(&mut self, message: Message, writes: &mut Vec<Write>) -> u64 {
        let n = self.s.head.count;
        self.s.append(&message, writes);
        if let Some(context) = &mut self.context {
            context.messages.push((n, message));
        }
        n
    }

    /// Brings to rest and settles, in one commit.
    pub fn end(&mut self, outcome: Outcome, mut writes: Vec<Write>) -> Result<(), Stop> {
        let closed = rest::close(&self.s, &mut self.op, &self.id, self.sub.attempt, Why::Ended, false);
        writes.extend(closed);
        rest::close_batch(&mut self.s, &mut self.op, &self.id, &mut writes);
        self.settle(outcome, writes)
    }

    /// Shows a committed message to live viewers.
    pub fn publish_message(&self, n: u64, message: &Message) {
        let mut event = json!({"type": "message", "number": n, "submission": self.id, "role": message.role});
        if message.plain_text().len() < 32 * 1024
            && let Ok(value) = serde_json::to_value(message)
        {
            event["message"] = value;
        }
        self.publish(event);
    }

    /// Shows an event to live viewers.
    pub fn publish(&self, event: Value) {
        self.s.ports.host.publish(&self.s.place.head(), event.to_string());
    }

    /// Whether the submission was cancelled, read from the store.
    pub fn is_cancelled(&self) -> Result<bool, Error> {
        let [mark] = read(self.s.ports.store, [keys::cancel(&self.id)])?;
        Ok(mark.is_some())
    }

    /// Sets values of the agent's state; an error text when it grows too large.
    pub fn set_state(&mut self, values: BTreeMap<String, Value>) -> Result<(), String> {
        let mut state = self.s.head.state.clone();
        state.extend(values);
        let size = encode(&state).len();
        if size > STATE_BYTES_MAX {
            return Err(format!("the thread's state would be {size} bytes; at most {STATE_BYTES_MAX} are kept"));
        }
        self.s.head.state = state;
        Ok(())
    }

    /// Records what an answer cost and that there was progress.
    pub fn count_answer(&mut self, usage: &Usage) {
        self.op.spent.add(usage);
        self.s.head.usage.add(usage);
        self.op.strikes = 0;
        self.op.retry = None;
    }

    fn settle(&mut self, outcome: Outcome, mut writes: Vec<Write>) -> Result<(), Stop> {
        let record = settled(&self.sub, outcome, self.s.ports.clock.now());
        writes.retain(|w| w.key != keys::cancel(&self.id));
        settle_writes(&self.id, &record, self.moved, self.s.place.partition, &mut writes);
        self.s.head.op = None;
        self.s.commit(writes)?;
        publish_settled(&self.s, &self.id);
        Ok(())
    }

    /// A new attempt: epoch and attempt rise in the same commit, before any agent code (I6).
    fn raise(&mut self, writes: &mut Vec<Write>) {
        self.s.head.epoch += 1;
        self.sub.attempt += 1;
        self.sub.state = State::Running;
        writes.push(put(keys::sub(&self.id), &self.sub));
        writes.push(journal_guard(&self.s));
    }

    /// Reads the inbox once a turn: a cancel of this submission, steering messages, cancels of what waits.
    fn look(&mut self) -> Result<Look, Stop> {
        let ports = self.s.ports;
        let wanted = [self.s.place.inbox(), keys::cancel(&self.id), keys::moved(&self.id)];
        let [inbox, cancel, moved] = read(ports.store, wanted.clone())?;
        self.moved = decode_opt(&wanted[2], &moved)?;
        if cancel.is_some() {
            return Ok(Look::Cancelled);
        }
        let inbox: Inbox = decode_opt(&wanted[0], &inbox)?.unwrap_or_default();
        if inbox.closed.is_some() {
            // The next decision deletes; this run must not go on.
            return Err(Stop::Later(ports.clock.now()));
        }
        if inbox.next > self.looked {
            let (entries, records) = self.entries_to(inbox.next)?;
            self.end_cancelled(&entries, &records)?;
            self.steer(&entries, &records)?;
            self.looked = inbox.next;
        }
        Ok(Look::GoOn)
    }

    /// After a signal in the middle of a wait: ends what was cancelled while it waits behind this one (trap 13), and
    /// this run when the thread is to be deleted.
    pub fn look_for_cancels(&mut self) -> Result<(), Stop> {
        let key = self.s.place.inbox();
        let [inbox] = read(self.s.ports.store, [key.clone()])?;
        let inbox: Inbox = decode_opt(&key, &inbox)?.unwrap_or_default();
        if inbox.closed.is_some() {
            return Err(Stop::Later(self.s.ports.clock.now()));
        }
        if inbox.next > self.looked {
            let (entries, records) = self.entries_to(inbox.next)?;
            self.end_cancelled(&entries, &records)?;
        }
        Ok(())
    }

    /// The inbox's entries that were not looked at, and the records that they name.
    #[allow(clippy::type_complexity)]
    fn entries_to(&self, next: u64) -> Result<(Vec<(u64, Entry)>, BTreeMap<String, Submission>), Stop> {
        let ports = self.s.ports;
        let entries = super::entries(&ports, &self.s.place, self.looked, next)?;
        let mut ids: Vec<String> = Vec::new();
        for (_, entry) in &entries {
            let (Entry::Submit(id) | Entry::Cancel(id)) = entry;
            if !ids.contains(id) {
                ids.push(id.clone());
            }
        }
        let records = super::records(&ports, ids)?;
        Ok((entries, records))
    }

    /// Settles cancelled submissions that wait, one commit each. Their entries are left to the next decision, which
    /// finds nothing left for them to do.
    fn end_cancelled(&mut self, entries: &[(u64, Entry)], records: &BTreeMap<String, Submission>) -> Result<(), Stop> {
        for (_, entry) in entries {
            let Entry::Cancel(id) = entry else { continue };
            let Some(record) = records.get(id).filter(|r| *id != self.id && !r.is_settled()) else { continue };
            let key = keys::moved(id);
            let [moved] = read(self.s.ports.store, [key.clone()])?;
            let done = settled(record, Outcome::aborted("cancelled"), self.s.ports.clock.now());
            let mut writes = Vec::new();
            settle_writes(id, &done, decode_opt(&key, &moved)?, self.s.place.partition, &mut writes);
            self.commit(writes)?;
            publish_settled(&self.s, id);
        }
        Ok(())
    }

    /// Delivers the steering messages that wait, one commit each (C6): rare, and each may be large.
    fn steer(&mut self, entries: &[(u64, Entry)], records: &BTreeMap<String, Submission>) -> Result<(), Stop> {
        for (_, entry) in entries {
            let Entry::Submit(id) = entry else { continue };
            let Some(record) = records.get(id).filter(|r| r.steer && !r.is_settled()) else { continue };
            let wanted = [keys::start(id), keys::moved(id), keys::cancel(id)];
            let values = read_many(self.s.ports.store, &wanted)?;
            let start: Option<Start> = decode_opt(&wanted[0], &values[0])?;
            // A cancelled one is left to the next decision, which settles it.
            let Some(start) = start.filter(|_| values[2].is_none()) else { continue };
            let now = self.s.ports.clock.now();
            let mut writes = Vec::new();
            let message = input_message(id, record, &start, now);
            let n = self.append(message.clone(), &mut writes);
            let done = settled(record, Outcome::Completed { message: None, result: None }, now);
            settle_writes(id, &done, decode_opt(&wanted[1], &values[1])?, self.s.place.partition, &mut writes);
            self.commit(writes)?;
            self.publish_message(n, &message);
            publish_settled(&self.s, id);
        }
        Ok(())
    }

    /// The outcome of a submission that has used up what it may. An unknown price counts as unknown, not as nothing.
    fn spent(&self) -> Option<Outcome> {
        let (spent, limits) = (&self.op.spent, &self.start.limits);
        if self.sub.deadline <= self.s.ports.clock.now() {
            return Some(late());
        }
        let over = [
            ("turns", spent.turns, limits.turns),
            ("tokens", spent.tokens, limits.tokens),
            ("millionths of a US dollar", spent.cost_microusd, limits.cost_microusd),
        ];
        let (what, used, limit) = over.into_iter().find(|(_, used, limit)| used >= limit)?;
        Some(Outcome::failed("budget", format!("{used} {what} were used; the limit of this submission is {limit}.")))
    }

    /// Waits until a transient error's time has come; `false`: something came in between, look again.
    fn wait_for_retry(&mut self) -> Result<bool, Stop> {
        let Some(retry) = &self.op.retry else { return Ok(true) };
        let (clock, due) = (self.s.ports.clock, retry.due);
        let now = clock.now();
        if due <= now {
            return Ok(true);
        }
        if due - now > PARK_MS {
            self.op.phase = Phase::Parked { due };
            self.commit(Vec::new())?;
            return Err(Stop::Later(due));
        }
        let woken = clock.wait_until(due) < due;
        if woken {
            self.s.ports.host.poll();
        }
        Ok(!woken)
    }

    /// What the agent is now. `None`: there is no such agent any more, and the submission has failed for it.
    fn render(&mut self) -> Result<Option<Rendered>, Stop> {
        let head = &self.s.head;
        let host = self.s.ports.host;
        match self.agents.render(host, &head.address.agent, &head.address, &head.state) {
            Some(Ok(rendered)) => Ok(Some(rendered)),
            Some(Err(why)) => {
                let text = format!("agent {:?} could not be rendered: {why}", head.address.agent);
                host.warn(&text);
                Err(Stop::Failed(Error::Unavailable(text)))
            }
            None => {
                let text = format!("The component has no agent {:?} any more.", head.address.agent);
                self.end(Outcome::failed("unknown-agent", text), Vec::new())?;
                Ok(None)
            }
        }
    }

    /// Runs the start hook of a delivered message, and commits what it wants and that it ran.
    fn start_hook(&mut self, rendered: &Rendered) -> Result<(), Stop> {
        let Some(hook) = rendered.on_start.as_ref().filter(|_| !self.op.started) else { return Ok(()) };
        let text = Message::new(Role::User, self.start.content.clone(), 0).plain_text();
        let mut cx = StartHook::new(text);
        hook(&mut cx).map_err(|e| hook_failed("start", &e))?;
        self.set_state(cx.state).map_err(|e| hook_failed("start", &e))?;
        self.op.started = true;
        let mut writes = Vec::new();
        for note in cx.notes {
            let message = self.user_note(&note, "note");
            self.append(message, &mut writes);
        }
        self.commit(writes)
    }

    fn user_note(&self, text: &str, kind: &str) -> Message {
        let mut message = Message::text(Role::User, text, self.s.ports.clock.now());
        message.kind = Some(kind.to_owned());
        message.submission = Some(self.id.clone());
        message
    }

    /// After a model's error; `false`: the submission has its outcome.
    fn model_failed(&mut self, rendered: &Rendered, error: ModelError, partial: Message) -> Result<bool, Stop> {
        let retries = self.op.retry.as_ref().map_or(0, |r| r.count);
        match judge(error, retries, self.op.compacted, self.s.ports.clock.now()) {
            Verdict::Retry(retry) => {
                let event = json!({"type": "retrying", "submission": self.id, "count": retry.count, "due": retry.due, "reason": retry.why});
                self.op.retry = Some(retry);
                self.commit(Vec::new())?;
                self.publish(event);
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
                let outcome = Outcome::failed("model", format!("The model failed ({kind}): {text}"));
                let usage = message.usage.unwrap_or_default();
                let mut writes = Vec::new();
                let n = self.append(message.clone(), &mut writes);
                self.count_answer(&usage);
                let prepared = Prepared::not_run(&message, "This call was not run: the answer that made it broke off.");
                batch::open(self, prepared, &mut writes);
                self.end(outcome, writes)?;
                self.publish_message(n, &message);
                Ok(false)
            }
        }
    }

    /// After an answer; `false`: the submission has its outcome.
    fn answered(&mut self, rendered: &Rendered, answer: Message, stop: StopReason) -> Result<bool, Stop> {
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
        let n = self.append(answer.clone(), &mut writes);
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
        self.publish_message(n, &answer);
        Ok(goes_on)
    }

    /// The model has nothing more to ask: finish hook, result, outcome, in one commit; or one more round.
    fn finish(&mut self, rendered: &Rendered, n: u64, text: &str, writes: Vec<Write>) -> Result<bool, Stop> {
        if let Some(hook) = &rendered.on_finish {
            let mut cx = Finish::new(text.to_owned());
            hook(&mut cx).map_err(|e| hook_failed("finish", &e))?;
            self.set_state(cx.state).map_err(|e| hook_failed("finish", &e))?;
            if let Some(note) = cx.go_on {
                return self.once_more(&note, "note", writes, REPAIRS_MAX, "the finish hook never let it end");
            }
        }
        let schema = self.start.result_schema.as_ref().or(rendered.result_schema.as_ref());
        let result = match schema {
            None => None,
            Some(schema) => match fit(self, schema, text) {
                Ok(result) => Some(result),
                Err(violations) if self.op.repairs >= RESULT_REPAIRS_MAX => {
                    let text = format!("The result does not fit its schema: {violations}");
                    self.end(Outcome::failed("result-invalid", text), writes)?;
                    return Ok(false);
                }
                Err(violations) => {
                    let note = format!(
                        "Your answer must be one JSON value that fits the schema {schema}, and nothing else. \
                         What is wrong: {violations}"
                    );
                    return self.once_more(&note, "repair", writes, REPAIRS_MAX, "the result was never right");
                }
            },
        };
        self.end(Outcome::Completed { message: Some(n), result }, writes)?;
        Ok(false)
    }

    /// Adds a message and asks again, up to a ceiling.
    fn once_more(&mut self, note: &str, kind: &str, mut writes: Vec<Write>, max: u64, why: &str) -> Result<bool, Stop> {
        if self.op.repairs >= max {
            self.end(Outcome::failed("finish-ceiling", format!("After {max} more rounds {why}.")), writes)?;
            return Ok(false);
        }
        self.op.repairs += 1;
        let message = self.user_note(note, kind);
        self.append(message, &mut writes);
        self.commit(writes)?;
        Ok(true)
    }
}

/// Tells live viewers that a submission has its outcome.
pub(crate) fn publish_settled(session: &Session, id: &str) {
    let event = json!({"type": "settled", "submission": id});
    session.ports.host.publish(&session.place.head(), event.to_string());
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

fn fresh_op(id: &str) -> Op {
    Op {
        sub: id.to_owned(),
        phase: Phase::Running,
        strikes: 0,
        base: 0,
        calls: Vec::new(),
        retry: None,
        compacted: false,
        started: false,
        repairs: 0,
        ended: Vec::new(),
        spent: Spent::default(),
    }
}
