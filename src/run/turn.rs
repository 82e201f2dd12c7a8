//! One submission's run: claim or take over, then look, render, ask, commit, until it has its outcome.

use super::batch;
use super::context::Context;
use super::inbox::Look;
use super::model_error::PARK_MS;
use super::plan::late;
use super::rest::{self, Why};
use super::{Inputs, ask, compact, journal_guard, settled};
use crate::admission::input_message;
use crate::agent::{Agents, Rendered};
use crate::error::Error;
use crate::keys;
use crate::mutation;
use crate::notice;
use crate::ports::Write;
use crate::prelude::*;
use crate::record::*;
use crate::session::{Message, Session};
use crate::store::{Stop, put, read};
use serde_json::{Value, json};

/// Model calls, waits and batches that one run of a submission makes at most: above any budget.
const LOOPS_MAX: u32 = 100_000;

/// How long a submission waits for an agent that the component doesn't have, in milliseconds, before it looks again.
const NO_AGENT_MS: u64 = 60_000;

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
    /// Tokens of the model's window, as far as it is known.
    pub window: Option<u64>,
    /// Results of the open batch that this run has placed.
    pub results: BTreeMap<u64, Message>,
    /// Whether some were placed that are not in `results`.
    pub results_lost: bool,
    /// The attempt that opened the batch, if this run did.
    pub opened_in: u64,
    /// Calls of the open batch that a person has approved, and that this run is the first to run.
    pub approved: Vec<usize>,
    /// What was delivered.
    pub start: Start,
    agents: &'r dyn Agents,
    pub(super) moved: Option<u64>,
    /// Inbox entries before this one were looked at.
    pub(super) looked: u64,
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
        let mut s = s;
        s.tell_messages_of(&id);
        Self {
            s,
            op,
            id,
            sub,
            context: None,
            window: None,
            results,
            results_lost: false,
            opened_in: 0,
            approved: Vec::new(),
            agents,
            start,
            moved,
            looked,
        }
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
        turn.sub.first = Some(turn.s.head.count);
        let now = turn.s.ports.clock.now();
        let mut message = input_message(&turn.id, &turn.sub, &turn.start, now);
        message.kind = None;
        let empty = turn.s.head.count == 0;
        turn.raise(&mut writes);
        turn.s.append(&message, &mut writes);
        turn.commit(writes)?;
        if empty {
            turn.context = Some(Context::of(vec![(0, message)]));
        }
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
            let closed = rest::close(&mut self.s, &mut self.op, &self.id, self.sub.attempt, Why::Interrupted, true);
            writes.extend(closed);
            self.op.strikes += 1;
            self.raise(&mut writes);
        } else {
            self.s.head.epoch += 1;
            writes.push(journal_guard(&self.s));
            if core::mem::take(&mut self.op.paused) {
                self.s.tell(json!({"type": "resumed", "submission": self.id}));
            }
            for (call, answer) in &inputs.answers {
                self.answer(call, answer, &mut writes);
            }
        }
        rest::close_batch(&mut self.s, &mut self.op, &self.id, &mut writes);
        self.commit(writes)
    }

    /// Takes the answer to the question of a call: it may run, or has its result (P7a).
    fn answer(&mut self, name: &str, answer: &Approval, writes: &mut Vec<Write>) {
        let Some(i) = self.op.asked().map(|(i, ..)| i).find(|i| self.op.call_name(*i) == name) else { return };
        let mut approval = answer.clone();
        if let Some(said) = approval.said.take() {
            self.op.note(said);
        }
        let call = &mut self.op.calls[i];
        call.asked = None;
        call.approval = Some(approval);
        let open = self.op.asked().count();
        let event = json!({
            "type": "answered",
            "submission": self.id,
            "call": name,
            "decision": answer.verdict,
            "by": answer.by,
            "open": open,
        });
        self.s.tell(event);
        let text = match (answer.verdict, &answer.reason) {
            (Verdict::Approved, _) => return self.approved.push(i),
            (Verdict::Denied, None) => "A person denied this call: it was not run.".to_owned(),
            (Verdict::Denied, Some(reason)) => format!("A person denied this call: it was not run. Why: {reason}"),
            (Verdict::Expired, _) => "Nobody approved this call in time: it was not run.".to_owned(),
        };
        batch::place_refusal(self, i, &text, "denied", writes);
    }

    /// The submission's run, to its outcome.
    pub fn run(mut self) -> Result<(), Stop> {
        for _ in 0..LOOPS_MAX {
            if self.op.phase == Phase::Calling {
                let rendered = self.render()?;
                if batch::run(&mut self, &rendered)? == batch::Flow::Ended {
                    return Ok(());
                }
                continue;
            }
            if self.op.asked().next().is_some() {
                // The next decision looks for answers, and says when to look again.
                self.s.flush_journal();
                return Ok(());
            }
            // The next decision ends it, in one commit that also takes the wish out of the inbox (P6x).
            let look = self.look()?;
            if let Look::Cancelled = look {
                return Ok(());
            }
            if let Some(outcome) = self.spent() {
                return self.end(outcome, Vec::new());
            }
            if let Look::Paused = look {
                self.op.paused = true;
                self.s.tell(json!({"type": "paused", "submission": self.id}));
                // The next decision says when to look again.
                return Err(self.park(self.s.ports.clock.now(), Vec::new())?);
            }
            if !self.wait_for_retry()? {
                continue;
            }
            let mut rendered = self.render()?;
            if self.start_hook(&rendered)? {
                // The hook may have set state, and this model call is to see it.
                rendered = self.render()?;
            }
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
        let closed = rest::close(&mut self.s, &mut self.op, &self.id, self.sub.attempt, Why::Ended, false);
        writes.extend(closed);
        rest::close_batch(&mut self.s, &mut self.op, &self.id, &mut writes);
        self.settle(outcome, writes)
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
        self.s.settle(&self.id, &record, self.moved, &mut writes);
        self.s.head.op = None;
        self.s.commit(writes)?;
        self.s.flush_journal();
        Ok(())
    }

    /// A new attempt: epoch and attempt rise in the same commit, before any agent code (I6).
    fn raise(&mut self, writes: &mut Vec<Write>) {
        if !mutation::is(self.s.ports.host, "keep-the-epoch") {
            self.s.head.epoch += 1;
        }
        self.sub.attempt += 1;
        self.sub.begun = Some(self.s.ports.clock.now());
        self.sub.state = State::Running;
        let agent = &self.sub.address.agent;
        self.s.tell(json!({"type": "attempt", "submission": self.id, "attempt": self.sub.attempt, "agent": agent}));
        writes.push(put(keys::sub(&self.id), &self.sub));
        writes.push(journal_guard(&self.s));
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
            return Err(self.park(due, Vec::new())?);
        }
        let woken = clock.wait_until(due) < due;
        if woken {
            self.s.ports.host.poll();
        }
        Ok(!woken)
    }

    /// What the agent is now.
    fn render(&mut self) -> Result<Rendered, Stop> {
        let head = &self.s.head;
        let host = self.s.ports.host;
        match self.agents.render(host, &head.address.agent, &head.address, &head.state) {
            Some(Ok(rendered)) => Ok(rendered),
            Some(Err(why)) => {
                let text = format!("agent {:?} could not be rendered: {why}", head.address.agent);
                host.warn(&text);
                Err(Stop::Failed(Error::Unavailable(text)))
            }
            // A redeploy may bring it back, and what was accepted waits for that until its deadline.
            None => {
                let why = format!("the component has no agent {:?}", head.address.agent);
                host.warn(&why);
                let due = self.s.ports.clock.now().saturating_add(NO_AGENT_MS);
                self.s.tell(json!({"type": "waiting", "submission": self.id, "due": due, "reason": why}));
                let mut writes = Vec::new();
                if !self.sub.notify.is_empty() && !core::mem::replace(&mut self.op.called, true) {
                    let notice = Notice { at: self.s.ports.clock.now(), reason: Some(why.clone()) };
                    writes.push(put(keys::notice(&self.id, notice::NEEDS_YOU), &notice));
                }
                self.op.retry = Some(Retry { count: 0, due, why });
                Err(self.park(due, writes)?)
            }
        }
    }

    /// Nothing is in flight until a time: the run ends, and is run again then.
    fn park(&mut self, due: u64, writes: Vec<Write>) -> Result<Stop, Stop> {
        self.op.phase = Phase::Parked { due };
        self.commit(writes)?;
        Ok(Stop::Later(due))
    }
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
        rounds: 0,
        called: false,
        paused: false,
        said: Vec::new(),
        ended: Vec::new(),
        spent: Spent::default(),
    }
}
