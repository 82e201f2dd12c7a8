//! What is under way: which attempt a call of the component makes, and since when a submission is known. Hints only,
//! all of them bounded: what is forgotten costs a name or a count, never a turn.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::time::SystemTime;

use serde::Deserialize;

/// Most submissions that are known at a time; then the oldest knowledge goes, all at once.
const SUBMISSIONS_MAX: usize = 65_536;
/// Most threads whose agent is known.
const THREADS_MAX: usize = 16_384;
/// Calls that are over and still known: what they had started may end after them.
const ENDED_MAX: usize = 256;

/// What the runtime publishes, as far as it is counted (docs/operations.md).
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) submission: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) attempt: Option<u64>,
    #[serde(default, borrow)]
    pub(super) status: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) agent: Option<Cow<'a, str>>,
}

/// An attempt at a submission.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) submission: String,
    pub(super) number: u64,
    pub(super) thread: String,
    /// Where it is known: after a restart not before the thread is spoken to again.
    pub(super) agent: Option<String>,
    pub(super) began: SystemTime,
    /// When the run that made it ended without its end: it waits, and a later run may go on with it.
    pub(super) left: Option<SystemTime>,
}

/// A call of the component.
#[derive(Clone, Default)]
pub(super) struct Call {
    pub(super) thread: Option<String>,
    /// The last one: what comes after its end is still about it.
    pub(super) attempt: Option<Attempt>,
    /// Whether it is still to be ended.
    open: bool,
}

impl Call {
    fn take_open(&mut self) -> Option<Attempt> {
        if std::mem::take(&mut self.open) { self.attempt.clone() } else { None }
    }
}

/// All that is under way.
#[derive(Default)]
pub(super) struct Work {
    calls: HashMap<u64, Call>,
    ended: VecDeque<(u64, Call)>,
    submissions: HashMap<String, Known>,
    agents: HashMap<String, String>,
    /// Attempts that wait, by thread: for a retry, or for somebody.
    waiting: HashMap<String, Attempt>,
}

#[derive(Clone, Copy)]
struct Known {
    since: SystemTime,
    accepted: bool,
}

impl Work {
    pub(super) fn began(&mut self, call: u64, thread: Option<&str>) {
        let Some(thread) = thread else { return };
        let attempt = self.waiting.remove(thread).map(|attempt| Attempt { left: None, ..attempt });
        let open = attempt.is_some();
        self.calls.insert(call, Call { thread: Some(thread.to_owned()), attempt, open });
    }

    /// A call is over: the attempt that ends with it. One whose run has answered waits; a lost one does not.
    pub(super) fn ended(&mut self, call: u64, answered: bool) -> Option<Attempt> {
        let mut ended = self.calls.remove(&call)?;
        let mut attempt = ended.take_open();
        if answered && self.waiting.len() < THREADS_MAX {
            let left = Some(SystemTime::now());
            let waits = attempt.take().map(|attempt| (attempt.thread.clone(), Attempt { left, ..attempt }));
            self.waiting.extend(waits);
        }
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((call, ended));
        attempt
    }

    /// All attempts that wait: nothing will go on with them here.
    pub(super) fn waiting(&mut self) -> Vec<Attempt> {
        self.waiting.drain().map(|(_, attempt)| attempt).collect()
    }

    /// What a call is about.
    pub(super) fn about(&self, call: u64) -> Call {
        let ended = || self.ended.iter().rev().find(|(number, _)| *number == call).map(|(_, call)| call);
        self.calls.get(&call).or_else(ended).cloned().unwrap_or_default()
    }

    /// An attempt begins: the one that this call made before, if it was never settled.
    pub(super) fn attempt(&mut self, call: u64, thread: &str, submission: &str, event: &Event<'_>) -> Option<Attempt> {
        let began = SystemTime::now();
        self.know(submission, Known { since: began, accepted: false });
        let agent = event.agent.as_deref().map(str::to_owned).or_else(|| self.agents.get(thread).cloned());
        let (thread, number) = (thread.to_owned(), event.attempt.unwrap_or_default());
        let attempt = Attempt { submission: submission.to_owned(), number, thread, agent, began, left: None };
        let call = self.calls.get_mut(&call)?;
        let before = call.take_open();
        (call.attempt, call.open) = (Some(attempt), true);
        before
    }

    /// A submission is settled: the attempt that did it, and since when the submission is known.
    pub(super) fn settled(&mut self, call: u64, submission: &str) -> (Option<Attempt>, Option<SystemTime>) {
        let of_it = |call: &&mut Call| call.attempt.as_ref().is_some_and(|attempt| attempt.submission == submission);
        let attempt = self.calls.get_mut(&call).filter(of_it).and_then(Call::take_open);
        (attempt, self.submissions.remove(submission).map(|known| known.since))
    }

    /// Whether a receipt is the first of its submission.
    pub(super) fn accepted(&mut self, submission: &str) -> bool {
        let known = self.know(submission, Known { since: SystemTime::now(), accepted: false });
        !std::mem::replace(&mut known.accepted, true)
    }

    /// A request names the agent of a thread (docs/thread-api.md).
    pub(super) fn named(&mut self, path: &str, thread: Option<&str>) {
        let mut parts = path.split(['/', '?']);
        let (Some(""), Some("v1"), Some("agents"), Some(agent), Some("threads"), Some(thread)) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next(), thread)
        else {
            return;
        };
        // An escaped name is unusual, and not worth more than this.
        if agent.contains('%') || self.agents.get(thread).is_some_and(|known| known == agent) {
            return;
        }
        if self.agents.len() >= THREADS_MAX {
            self.agents.clear();
        }
        self.agents.insert(thread.to_owned(), agent.to_owned());
    }

    fn know(&mut self, submission: &str, new: Known) -> &mut Known {
        if self.submissions.len() >= SUBMISSIONS_MAX && !self.submissions.contains_key(submission) {
            self.submissions.clear();
        }
        self.submissions.entry(submission.to_owned()).or_insert(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_receipt_counts_once_until_its_submission_is_settled() {
        let mut work = Work::default();
        assert!(work.accepted("s"));
        assert!(!work.accepted("s"));
        let attempt = event(r#"{"type": "attempt", "submission": "s", "attempt": 1, "more": [1]}"#);
        assert!(work.attempt(1, "t", "s", &attempt).is_none());
        assert!(!work.accepted("s"), "known by its attempt, and by its receipt");
        assert!(work.settled(1, "s").1.is_some());
        // Taken up from an earlier process: the receipt is of that one, or comes again to this one.
        work.attempt(2, "t", "u", &attempt);
        assert!(work.accepted("u"));
    }

    #[test]
    fn an_attempt_waits_for_the_next_run_of_its_thread() {
        let mut work = Work::default();
        let attempt = event(r#"{"type": "attempt", "submission": "s", "attempt": 1}"#);
        work.began(1, Some("t"));
        work.attempt(1, "t", "s", &attempt);
        assert!(work.ended(1, true).is_none());
        work.began(2, Some("t"));
        assert_eq!(work.about(2).attempt.unwrap().number, 1);
        // The runtime begins another: the first was over when its run was.
        let next = event(r#"{"type": "attempt", "submission": "s", "attempt": 2}"#);
        assert_eq!(work.attempt(2, "t", "s", &next).unwrap().number, 1);
        assert!(work.ended(2, true).is_none());
        let waiting = work.waiting();
        assert!(waiting.len() == 1 && waiting[0].number == 2 && waiting[0].left.is_some(), "{waiting:?}");
        assert!(work.waiting().is_empty());
    }

    #[test]
    fn what_a_call_had_begun_is_known_after_its_end() {
        let mut work = Work::default();
        work.named("/v1/agents/helper/threads/x/submissions?wait=1", Some("t"));
        work.began(1, Some("t"));
        work.attempt(1, "t", "s", &event(r#"{"type": "attempt", "submission": "s", "attempt": 3}"#));
        let left = work.ended(1, false).unwrap();
        assert_eq!((left.number, left.agent.as_deref()), (3, Some("helper")));
        assert_eq!(work.about(1).attempt.unwrap().number, 3);
        assert!(work.ended(1, false).is_none());
        for call in 2..=(ENDED_MAX as u64 + 1) {
            work.began(call, Some("t"));
            work.ended(call, true);
        }
        assert!(work.about(1).attempt.is_none(), "it is not kept for ever");
    }
}
