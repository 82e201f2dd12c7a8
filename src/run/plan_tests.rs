//! The table test of `plan`: one line a state.

use super::*;
use crate::id::Address;

const NOW: u64 = 1_000;

fn record(deadline: u64, state: State) -> Submission {
    Submission {
        v: 1,
        hash: "h".into(),
        fields: BTreeMap::new(),
        address: Address { owner: "o/o".into(), agent: "a".into(), thread: "t".into() },
        tag: "t".into(),
        key: None,
        kind: Kind::Run,
        steer: false,
        k: 0,
        n: 0,
        task: None,
        created: 0,
        deadline,
        state,
        notify: Vec::new(),
        attempt: 0,
        begun: None,
        first: None,
        outcome: None,
        settled: None,
    }
}

fn op(phase: Phase, strikes: u64) -> Op {
    let call = Call {
        id: "c".into(),
        name: "pay".into(),
        policy: crate::ports::Policy::Plain,
        done: false,
        steps: 0,
        asked: None,
        approval: None,
    };
    Op {
        sub: "A".into(),
        phase,
        strikes,
        base: 2,
        calls: if phase == Phase::Calling { vec![call] } else { Vec::new() },
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

fn head(pos: u64, seen: u64, op: Option<Op>) -> Head {
    Head {
        nonce: "n".into(),
        address: record(0, State::Queued).address,
        born: 0,
        epoch: 1,
        count: 0,
        pos,
        seen,
        jupto: 0,
        jused: 0,
        jfrom: 0,
        boundary: None,
        usage: Spent::default(),
        state: BTreeMap::new(),
        stage: Stage::Live,
        op,
    }
}

/// A thread with submissions A and B (B settled if `b` says so) and the given inputs behind them.
fn thread(head: Head, b: State, cancels: &[&str]) -> Snapshot {
    let mut entries = vec![(0, Entry::Submit("A".into())), (1, Entry::Submit("B".into()))];
    entries.extend(cancels.iter().enumerate().map(|(i, id)| (2 + i as u64, Entry::Cancel((*id).into()))));
    let a = if head.pos > 0 && head.op.is_none() { State::Settled } else { State::Running };
    let records = [("A".to_owned(), record(5_000, a)), ("B".to_owned(), record(5_000, b))].into();
    let inbox = Inbox { next: entries.len() as u64, ..Inbox::default() };
    Snapshot {
        inbox,
        head: Some(head),
        entries,
        records,
        answers: BTreeMap::new(),
        paused: Vec::new(),
        agent_paused: false,
        now: NOW,
    }
}

fn decide(snapshot: &Snapshot) -> (Row, Action, Vec<(u64, Effect)>, u64) {
    let plan = plan(snapshot);
    (plan.row, plan.action, plan.taken.into_iter().map(|t| (t.k, t.effect)).collect(), plan.seen)
}

/// Shows A3, A7, B13, B16, B38; traps 3, 18.
#[test]
fn the_table() {
    use Effect::{Drop, SettleQueued};
    use Phase::{Calling, Parked, Running};
    use State::{Queued, Settled};
    let cancelled = || Outcome::aborted("cancelled");
    let claim = |k, id: &str| Action::Claim { k, id: id.into() };
    let unbegun = |k, id: &str| Action::SettleUnbegun { k, id: id.into(), outcome: cancelled() };
    let busy = |phase, strikes| head(1, 1, Some(op(phase, strikes)));

    let rows = [
        ("the first waits", thread(head(0, 0, None), Queued, &[]), (Row::P3, claim(0, "A"), vec![], 2)),
        (
            "the first is cancelled",
            thread(head(0, 0, None), Queued, &["A"]),
            (Row::P3c, unbegun(0, "A"), vec![(2, Drop)], 3),
        ),
        (
            "the second is cancelled",
            thread(head(0, 0, None), Queued, &["B"]),
            (Row::P3, claim(0, "A"), vec![(2, SettleQueued)], 3),
        ),
        ("the second waits", thread(head(1, 1, None), Queued, &[]), (Row::P3, claim(1, "B"), vec![], 2)),
        (
            "settled ones are passed",
            thread(head(1, 1, None), Settled, &["B"]),
            (Row::P4, Action::Take { then: None }, vec![(2, Drop)], 3),
        ),
        ("nothing waits: no write", thread(head(2, 2, None), Settled, &[]), (Row::P5, Action::Idle, vec![], 2)),
        ("interrupted in a model call", thread(busy(Running, 1), Queued, &[]), (Row::P6, Action::TakeOver, vec![], 2)),
        (
            "interrupted in a tool call",
            thread(busy(Calling, 1), Queued, &["B"]),
            (Row::P6, Action::TakeOver, vec![(2, SettleQueued)], 3),
        ),
        (
            "interrupted and cancelled",
            thread(busy(Calling, 1), Queued, &["B", "A"]),
            (Row::P6x, Action::End(cancelled()), vec![(2, SettleQueued), (3, Drop)], 4),
        ),
        (
            "the tenth attempt may still be taken over",
            thread(busy(Running, 9), Queued, &[]),
            (Row::P6, Action::TakeOver, vec![], 2),
        ),
        ("parked, due", thread(busy(Parked { due: NOW }, 1), Queued, &[]), (Row::P7c, Action::Resume, vec![], 2)),
        (
            "parked, not due: no write",
            thread(busy(Parked { due: NOW + 1 }, 1), Queued, &[]),
            (Row::P7g, Action::Wait(NOW + 1), vec![], 1),
        ),
        (
            "parked, another is cancelled",
            thread(busy(Parked { due: NOW + 1 }, 1), Queued, &["B"]),
            (Row::P7f, Action::Take { then: Some(NOW + 1) }, vec![(2, SettleQueued)], 3),
        ),
        (
            "parked, cancelled",
            thread(busy(Parked { due: NOW + 1 }, 1), Queued, &["A"]),
            (Row::P7d, Action::End(cancelled()), vec![(2, Drop)], 3),
        ),
        (
            "parked ones burn no strikes",
            thread(busy(Parked { due: NOW }, 10), Queued, &[]),
            (Row::P7c, Action::Resume, vec![], 2),
        ),
        (
            "two cancels of one",
            thread(head(0, 0, None), Queued, &["B", "B"]),
            (Row::P3, claim(0, "A"), vec![(2, SettleQueued), (3, Drop)], 4),
        ),
    ];
    for (name, snapshot, expected) in rows {
        assert_eq!(decide(&snapshot), expected, "{name}");
    }
}

/// A thread whose call waits for a person until `expires`, with an answer to it in the inbox if `answered`.
fn asking(expires: u64, answered: bool, inputs: &[Entry]) -> Snapshot {
    let mut op = op(Phase::Parked { due: expires }, 1);
    let asked = Asked { hash: "h".into(), at: 0, expires };
    let policy = crate::ports::Policy::Ask;
    let (id, name) = ("c".into(), "pay".into());
    op.calls = vec![Call { id, name, policy, done: false, steps: 0, asked: Some(asked), approval: None }];
    let mut snapshot = thread(head(1, 1, Some(op)), State::Queued, &[]);
    let entries = inputs.iter().cloned().chain(answered.then(answer_to_call));
    snapshot.entries.extend((2..).zip(entries));
    snapshot.inbox.next = snapshot.entries.len() as u64;
    if answered {
        let approval = Approval { verdict: Verdict::Approved, by: None, at: 0, reason: None, said: None };
        snapshot.answers.insert("1.0".into(), approval);
    }
    snapshot
}

fn answer_to_call() -> Entry {
    Entry::Answer { submission: "A".into(), call: "1.0".into() }
}

/// Shows A37, A38, B16; traps 3, 12.
#[test]
fn what_waits_for_a_person_waits_for_nothing_else() {
    use Effect::{Answer, Drop, SettleQueued};
    let cancel = |id: &str| Entry::Cancel(id.into());
    let end = || Action::End(Outcome::aborted("cancelled"));
    let other = Entry::Answer { submission: "A".into(), call: "9.9".into() };
    let rows = [
        ("nothing came: no write", asking(NOW + 1, false, &[]), (Row::P7g, Action::Wait(NOW + 1), vec![], 1)),
        ("answered", asking(NOW + 1, true, &[]), (Row::P7a, Action::Resume, vec![(2, Answer)], 3)),
        ("too late, nobody answered", asking(NOW, false, &[]), (Row::P7e, Action::Expire, vec![], 1)),
        ("too late, but answered", asking(NOW, true, &[]), (Row::P7a, Action::Resume, vec![(2, Answer)], 3)),
        (
            "too late, and another input first",
            asking(NOW, false, &[cancel("B")]),
            (Row::P7f, Action::Take { then: Some(NOW) }, vec![(2, SettleQueued)], 3),
        ),
        (
            "another is cancelled, and it is answered",
            asking(NOW + 1, true, &[cancel("B")]),
            (Row::P7a, Action::Resume, vec![(2, SettleQueued), (3, Answer)], 4),
        ),
        (
            "cancelled, then answered",
            asking(NOW + 1, true, &[cancel("A")]),
            (Row::P7d, end(), vec![(2, Drop), (3, Drop)], 4),
        ),
        (
            "an answer to what does not wait",
            asking(NOW + 1, false, &[other]),
            (Row::P7f, Action::Take { then: Some(NOW + 1) }, vec![(2, Drop)], 3),
        ),
    ];
    for (name, snapshot, expected) in rows {
        assert_eq!(decide(&snapshot), expected, "{name}");
    }
    let mut paused = asking(NOW + 1, true, &[]);
    paused.paused = vec!["A".into()];
    assert_eq!(decide(&paused), (Row::P7g, Action::Wait(NOW + 1), vec![], 1), "the answer waits, too");
    let mut interrupted = asking(NOW + 1, true, &[]);
    if let Some(op) = interrupted.head.as_mut().and_then(|h| h.op.as_mut()) {
        op.phase = Phase::Calling;
    }
    assert_eq!(decide(&interrupted), (Row::P6, Action::TakeOver, vec![], 2), "first the takeover, then the answer");
    let late = Snapshot { entries: vec![(2, answer_to_call())], ..thread(head(2, 2, None), State::Settled, &[]) };
    assert_eq!(decide(&late), (Row::P4, Action::Take { then: None }, vec![(2, Drop)], 3), "too late for anything");
}

#[test]
fn what_is_paused_is_left_alone_but_may_end() {
    use Phase::{Calling, Parked, Running};
    use State::Queued;
    let busy = |phase| head(1, 1, Some(op(phase, 1)));
    let parked = || busy(Parked { due: NOW });
    let rows = [
        ("not begun", head(0, 0, None), vec![], Row::P3p, Action::Wait(5_000)),
        ("another is cancelled", head(0, 0, None), vec!["B"], Row::P3p, Action::Take { then: Some(5_000) }),
        ("cancelled before it began", head(0, 0, None), vec!["A"], Row::P3c, Action::Idle),
        ("interrupted: no attempt", busy(Running), vec![], Row::P6p, Action::Wait(5_000)),
        ("interrupted in a call", busy(Calling), vec![], Row::P6p, Action::Wait(5_000)),
        ("stopped at a turn", parked(), vec![], Row::P7p, Action::Wait(5_000)),
        ("stopped, another is cancelled", parked(), vec!["B"], Row::P7p, Action::Take { then: Some(5_000) }),
        ("stopped and cancelled", parked(), vec!["A"], Row::P7d, Action::End(Outcome::aborted("cancelled"))),
    ];
    for (name, head, cancels, row, action) in rows {
        let mut snapshot = thread(head, Queued, &cancels);
        snapshot.paused = vec!["A".into()];
        let decided = plan(&snapshot);
        assert_eq!(decided.row, row, "{name}");
        assert!(decided.action == action || row == Row::P3c, "{name}: {:?}", decided.action);
        snapshot.paused.clear();
        snapshot.agent_paused = true;
        assert_eq!(plan(&snapshot).row, row, "{name}, its agent");
    }
    let mut late = thread(parked(), Queued, &[]);
    (late.paused, late.now) = (vec!["A".into()], 5_000);
    assert_eq!(plan(&late).row, Row::P7d, "a deadline passes while it is paused");
    late.paused = vec!["B".into()];
    late.now = NOW;
    assert_eq!(plan(&late).row, Row::P7c, "another is paused");
}

/// Shows B16.
#[test]
fn no_head_is_idle_and_deletion_comes_before_all() {
    let mut snapshot = thread(head(0, 0, None), State::Queued, &["A"]);
    snapshot.inbox.closed = Some(7);
    assert_eq!(decide(&snapshot).0, Row::P1);
    snapshot.head = None;
    assert_eq!(decide(&snapshot).0, Row::P0);
}

/// A16: time-outs are judged before anything else can fail; B10: the error names the calls.
#[test]
fn what_is_late_or_out_of_tries_ends() {
    let mut late = thread(head(0, 0, None), State::Queued, &[]);
    late.now = 5_000;
    assert!(matches!(plan(&late).action, Action::SettleUnbegun { .. }));
    let worn = thread(head(1, 1, Some(op(Phase::Calling, STRIKES_MAX))), State::Queued, &[]);
    match plan(&worn).action {
        Action::End(Outcome::Failed { error }) => {
            assert_eq!(error.code, "retry-exhausted");
            assert!(error.message.contains("pay"), "{}", error.message);
        }
        other => panic!("{other:?}"),
    }
}

/// Effects are bounded: a commit takes a few inputs, the rest waits for the next.
/// Shows trap 13.
#[test]
fn many_inputs_are_taken_over_several_commits() {
    let cancels = ["B"; 9];
    let plan = plan(&thread(head(0, 0, None), State::Queued, &cancels));
    assert_eq!((plan.taken.len(), plan.seen), (CANCELS_MAX, 2 + CANCELS_MAX as u64));
}
