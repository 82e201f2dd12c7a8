//! The one decision of a run: pure, total, a table (protocol §4). Recovery is this table and nothing else.

use crate::pause::LOOK_MS;
use crate::prelude::*;
use crate::record::*;

/// Attempts without a committed message after which a submission fails.
pub const STRIKES_MAX: u64 = 10;

/// Cancels that one commit takes: their writes fit beside the widest transition.
const CANCELS_MAX: usize = 2;

/// Answers that one commit takes: each may put a result.
const ANSWERS_MAX: usize = 8;

/// What a decision rests on: one thread, read with its head or after it (R3).
pub struct Snapshot {
    /// The session head.
    pub head: Option<Head>,
    /// The inbox's head.
    pub inbox: Inbox,
    /// Entries from the first that matters, in order; perhaps not all.
    pub entries: Vec<(u64, Entry)>,
    /// Records of the submissions that the entries and the head name.
    pub records: BTreeMap<String, Submission>,
    /// Answers to questions of the submission in hand, by call.
    pub answers: BTreeMap<String, Approval>,
    /// Those of the submissions that are paused.
    pub paused: Vec<String>,
    /// Whether the thread's agent is paused.
    pub agent_paused: bool,
    /// Unix ms.
    pub now: u64,
}

/// A row of the protocol's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Row {
    P0,
    P1,
    P2,
    P3,
    P3c,
    P3p,
    P4,
    P5,
    P6,
    P6x,
    P6p,
    P7a,
    P7c,
    P7d,
    P7e,
    P7f,
    P7g,
    P7p,
}

/// What to do first.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing: no write.
    Idle,
    /// Nothing until a time: no write.
    Wait(u64),
    /// Go on deleting.
    Delete,
    /// Go on copying.
    Copy,
    /// Begin a submission.
    Claim {
        /// Its place in the inbox.
        k: u64,
        /// Its id.
        id: String,
    },
    /// Settle a submission that never began: no input, no agent code.
    SettleUnbegun {
        /// Its place in the inbox.
        k: u64,
        /// Its id.
        id: String,
        /// How.
        outcome: Outcome,
    },
    /// Only take inputs.
    Take {
        /// When to look again afterwards, if the session is parked.
        then: Option<u64>,
    },
    /// Take over from an attempt that was interrupted.
    TakeOver,
    /// Bring to rest and settle.
    End(Outcome),
    /// Go on after a wait: no new attempt.
    Resume,
    /// Answer the questions that are too late.
    Expire,
}

/// What an input does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing is left for it to do.
    Drop,
    /// It ends a submission that waits.
    SettleQueued,
    /// It answers a question of the submission in hand.
    Answer,
}

/// An input that the first commit takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its place in the inbox.
    pub k: u64,
    /// What it is.
    pub entry: Entry,
    /// What it does.
    pub effect: Effect,
}

impl Taken {
    /// The submission that it names.
    pub fn id(&self) -> &str {
        self.entry.submission()
    }
}

/// A decision: its row, what to do, and the inputs that ride along.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The row.
    pub row: Row,
    /// What to do.
    pub action: Action,
    /// Inputs taken by the first commit, in order.
    pub taken: Vec<Taken>,
    /// Where `seen` is after it.
    pub seen: u64,
}

/// Decides.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let Some(head) = &snapshot.head else {
        return Plan { row: Row::P0, action: Action::Idle, taken: Vec::new(), seen: 0 };
    };
    let bare = |row, action| Plan { row, action, taken: Vec::new(), seen: head.seen };
    if snapshot.inbox.closed.is_some() || matches!(head.stage, Stage::Deleting { .. }) {
        return bare(Row::P1, Action::Delete);
    }
    if matches!(head.stage, Stage::Staged(_)) {
        return bare(Row::P2, Action::Copy);
    }
    let current = head.op.as_ref().map(|op| op.sub.as_str());
    let next = next_submission(snapshot, head);
    let first = current.or(next.as_ref().map(|(_, id)| id.as_str()));
    let op_end = head.op.as_ref().and_then(|op| ending(snapshot, &op.sub, Some(op)));
    let answers = match &head.op {
        None => Answers::Drop,
        Some(_) if op_end.is_some() => Answers::Drop,
        Some(op) if matches!(op.phase, Phase::Parked { .. }) && pause(snapshot, &op.sub).is_none() => Answers::Take,
        Some(_) => Answers::Leave,
    };
    let (taken, seen) = inputs(snapshot, head, first, answers);
    let with = |row, action| Plan { row, action, taken: taken.clone(), seen };
    match &head.op {
        None => match next {
            Some((k, id)) => match ending(snapshot, &id, None) {
                Some(outcome) => with(Row::P3c, Action::SettleUnbegun { k, id, outcome }),
                None => match (pause(snapshot, &id), taken.is_empty()) {
                    (None, _) => with(Row::P3, Action::Claim { k, id }),
                    (Some(due), true) => bare(Row::P3p, Action::Wait(due)),
                    (Some(due), false) => with(Row::P3p, Action::Take { then: Some(due) }),
                },
            },
            None if !taken.is_empty() => with(Row::P4, Action::Take { then: None }),
            None => bare(Row::P5, Action::Idle),
        },
        Some(op) => {
            let pause = pause(snapshot, &op.sub);
            match (op.phase, op_end) {
                (Phase::Running | Phase::Calling, Some(outcome)) => with(Row::P6x, Action::End(outcome)),
                (Phase::Running | Phase::Calling, None) => match pause {
                    Some(due) => bare(Row::P6p, Action::Wait(due)),
                    None => with(Row::P6, Action::TakeOver),
                },
                (Phase::Parked { .. }, Some(outcome)) => with(Row::P7d, Action::End(outcome)),
                (Phase::Parked { .. }, None) if taken.iter().any(|t| t.effect == Effect::Answer) => {
                    with(Row::P7a, Action::Resume)
                }
                (Phase::Parked { due }, None) if due <= snapshot.now => match (pause, taken.is_empty()) {
                    (None, true) if op.asked().next().is_some() => bare(Row::P7e, Action::Expire),
                    (None, false) if op.asked().next().is_some() => with(Row::P7f, Action::Take { then: Some(due) }),
                    (None, _) => with(Row::P7c, Action::Resume),
                    (Some(due), true) => bare(Row::P7p, Action::Wait(due)),
                    (Some(due), false) => with(Row::P7p, Action::Take { then: Some(due) }),
                },
                (Phase::Parked { due }, None) if !taken.is_empty() => with(Row::P7f, Action::Take { then: Some(due) }),
                (Phase::Parked { due }, None) => bare(Row::P7g, Action::Wait(due)),
            }
        }
    }
}

impl Row {
    /// The row's name and what it means, for `explain`.
    pub fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::P0 => ("P0", "The thread does not exist: nothing to do."),
            Self::P1 => ("P1", "The thread is being deleted: a run goes on deleting."),
            Self::P2 => ("P2", "A copy is under way: a run copies the next page."),
            Self::P3 => ("P3", "A submission waits: a run begins it, counting the attempt before any agent code."),
            Self::P3c => {
                ("P3c", "The next submission was cancelled or is too late: a run settles it without beginning it.")
            }
            Self::P3p => ("P3p", "The next submission is paused, or its agent is: a run begins nothing."),
            Self::P4 => ("P4", "Only inputs wait: a run takes them."),
            Self::P5 => ("P5", "Nothing waits: a run writes nothing."),
            Self::P6 => (
                "P6",
                "An attempt is at work, or was interrupted. A restart takes over: attempt + 1, plain calls without a \
                 result get an error that says their outcome is unknown, replay-safe and stepped ones run again.",
            ),
            Self::P6x => (
                "P6x",
                "The submission was cancelled, is too late or out of tries: a restart brings it to rest and settles it.",
            ),
            Self::P6p => {
                ("P6p", "An attempt was interrupted, and it is paused: a run writes nothing until it is resumed.")
            }
            Self::P7a => ("P7a", "A question is answered: a run takes the answer and goes on, with no new attempt."),
            Self::P7c => ("P7c", "The wait is over: a run goes on, with no new attempt."),
            Self::P7d => {
                ("P7d", "The submission was cancelled or is too late: a run brings it to rest and settles it.")
            }
            Self::P7e => ("P7e", "Nobody answered in time: a run answers for them, and then goes on by P7a."),
            Self::P7f => ("P7f", "It waits; meanwhile a run settles what was cancelled behind it."),
            Self::P7g => ("P7g", "It waits, for its time or for an answer: a run writes nothing."),
            Self::P7p => ("P7p", "It is paused: a run goes on when it is resumed, with no new attempt."),
        }
    }
}

/// The submission that a run would work on.
pub fn first(snapshot: &Snapshot) -> Option<String> {
    let head = snapshot.head.as_ref()?;
    let current = head.op.as_ref().map(|op| op.sub.clone());
    current.or_else(|| next_submission(snapshot, head).map(|(_, id)| id))
}

/// The next submission that has not settled. Entries before `pos` have begun or ended.
fn next_submission(snapshot: &Snapshot, head: &Head) -> Option<(u64, String)> {
    snapshot.entries.iter().filter(|(k, _)| *k >= head.pos).find_map(|(k, entry)| match entry {
        Entry::Submit(id) if snapshot.records.get(id).is_some_and(|r| !r.is_settled()) => Some((*k, id.clone())),
        _ => None,
    })
}

/// Why a submission must end before it goes on. A cancel for the one in hand counts wherever it stands.
fn ending(snapshot: &Snapshot, id: &str, op: Option<&Op>) -> Option<Outcome> {
    if snapshot.entries.iter().any(|(_, e)| matches!(e, Entry::Cancel(c) if c == id)) {
        return Some(Outcome::aborted("cancelled"));
    }
    let record = snapshot.records.get(id)?;
    if record.deadline <= snapshot.now {
        return Some(late());
    }
    let op = op?;
    let interrupted = !matches!(op.phase, Phase::Parked { .. });
    if interrupted && op.strikes >= STRIKES_MAX {
        let open: Vec<&str> = op.calls.iter().filter(|c| !c.done).map(|c| c.name.as_str()).collect();
        let open = if open.is_empty() { String::new() } else { format!("; open calls: {}", open.join(", ")) };
        let text = format!("{} attempts ended without a new message; the limit is {STRIKES_MAX}{open}", op.strikes);
        return Some(Outcome::failed("retry-exhausted", text));
    }
    None
}

/// When to look again at what is paused; `None` if it is not.
fn pause(snapshot: &Snapshot, id: &str) -> Option<u64> {
    let deadline = snapshot.records.get(id).map_or(u64::MAX, |r| r.deadline);
    if snapshot.agent_paused {
        return Some(deadline.min(snapshot.now.saturating_add(LOOK_MS)));
    }
    snapshot.paused.iter().any(|paused| paused == id).then_some(deadline)
}

/// The outcome of what is too late.
pub fn late() -> Outcome {
    Outcome::failed("deadline", "The deadline passed before there was an answer.")
}

/// What to do with answers to questions of the submission in hand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// They have their effect now.
    Take,
    /// They wait until they can have it.
    Leave,
    /// It ends, or nothing is in hand.
    Drop,
}

/// Inputs in order from `seen`: cancels of what waits and answers that are waited for take effect, what comes too late is
/// dropped. A cancel of the submission in hand stops the row unless it is to be settled by the plan itself, which takes
/// its mark along.
fn inputs(snapshot: &Snapshot, head: &Head, first: Option<&str>, answers: Answers) -> (Vec<Taken>, u64) {
    let mut taken: Vec<Taken> = Vec::new();
    let mut seen = head.seen;
    let (mut cancels, mut answered) = (0, 0);
    for (k, entry) in snapshot.entries.iter().filter(|(k, _)| *k >= head.seen) {
        if *k != seen {
            break;
        }
        let effect = match entry {
            Entry::Submit(_) => None,
            Entry::Cancel(id) => {
                cancels += 1;
                let waits = snapshot.records.get(id).is_some_and(|r| !r.is_settled()) && Some(id.as_str()) != first;
                let again = taken.iter().any(|t| t.entry == *entry);
                Some(if waits && !again { Effect::SettleQueued } else { Effect::Drop })
            }
            Entry::Answer { submission, call } => {
                answered += 1;
                let op = head.op.as_ref().filter(|op| op.sub == *submission);
                let waits = op.is_some_and(|op| op.asked().any(|(i, ..)| op.call_name(i) == *call));
                match answers {
                    Answers::Leave if waits => break,
                    Answers::Take if waits && snapshot.answers.contains_key(call) => Some(Effect::Answer),
                    _ => Some(Effect::Drop),
                }
            }
        };
        if cancels > CANCELS_MAX || answered > ANSWERS_MAX {
            break;
        }
        taken.extend(effect.map(|effect| Taken { k: *k, entry: entry.clone(), effect }));
        seen = k + 1;
    }
    (taken, seen)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
