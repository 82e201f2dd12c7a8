//! Two runs of one session, one of them believed dead: whatever the order of their store calls, the old epoch never
//! commits (I7), no attempt is run by two (I6), no outcome and no message changes (I3, I4), no plain tool runs twice, and
//! everything settles. Cites A1, A24, A28, A30, A33, A40 and C8. And two others that may meet on one store: two first
//! starts, and an audit beside work.
#![cfg(not(target_family = "wasm"))]

use std::sync::{Arc, Mutex};

use writ::ports::{Host, Ports};
use writ_tests::sim::{Choice, Sim, Work, audit, close, finish, submit};

/// A store with a thread, `t`, and submissions that wait.
fn prepared(keys: &[&str]) -> (std::collections::BTreeMap<String, Vec<u8>>, String, Vec<String>) {
    let sim = Sim::of(&Default::default());
    let ids: Vec<String> = sim.free(|ports| keys.iter().map(|key| submit(ports, key)).collect());
    (sim.map(), sim.instance(), ids)
}

/// One history; returns how many choices there were at each step.
fn play(
    prepared: &(std::collections::BTreeMap<String, Vec<u8>>, String, Vec<String>),
    faults: usize,
    choose: &[usize],
) -> Vec<usize> {
    let (map, instance, ids) = prepared;
    let sim = Sim::of(map);
    let mut history = sim.play(instance, 2, faults, choose);
    history.broken.extend(finish(&sim, instance, ids));
    assert!(history.broken.is_empty(), "{:#?}\nafter {:?}\n(choices {choose:?})", history.broken, history.taken);
    history.options
}

/// All histories of two runs that differ in their first `depth` choices.
fn explore(keys: &[&str], faults: usize, depth: usize) -> u64 {
    let prepared = prepared(keys);
    explore_all(depth, |choose| play(&prepared, faults, choose))
}

/// All histories that differ in their first `depth` choices; `play` says how many choices there were at each step.
fn explore_all(depth: usize, mut play: impl FnMut(&[usize]) -> Vec<usize>) -> u64 {
    let mut choose: Vec<usize> = Vec::new();
    for histories in 1.. {
        let options = play(&choose);
        choose.resize(depth.min(options.len()), 0);
        loop {
            let Some(last) = choose.pop() else { return histories };
            if last + 1 < options[choose.len()] {
                choose.push(last + 1);
                break;
            }
        }
    }
    0
}

/// Shows A1, A24, A28, A30, A33, A36, A40.
#[test]
fn all_orders_of_two_owners() {
    let histories = explore(&["a"], 0, 12);
    assert!(histories > 500, "only {histories} histories");
}

/// Shows A4, A34, B3, B12, B29; trap 10.
#[test]
fn all_orders_with_a_kill_or_a_late_commit() {
    let histories = explore(&["a"], 1, 9);
    assert!(histories > 500, "only {histories} histories");
}

/// Shows A24, A29, A40, C8; trap 4.
#[test]
fn random_orders_with_faults() {
    let prepared = prepared(&["a", "b"]);
    // An xorshift generator (Marsaglia 2003): one seed, one run.
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..400 {
        let choose: Vec<usize> = (0..200)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                (seed >> 33) as usize % 4
            })
            .collect();
        play(&prepared, 3, &choose);
    }
}

/// A1: an owner that was frozen through a whole takeover wakes up and goes on: nothing of it is committed.
/// Shows C8.
#[test]
fn a_frozen_owner_wakes_up_too_late() {
    let (map, instance, ids) = prepared(&["a"]);
    let sim = Sim::of(&map);
    // Owner 1 goes first up to its claim and a call; owner 0 takes everything over; then owner 1 wakes.
    let choose = [1, 1, 1, 1, 1];
    let history = sim.play(&instance, 2, 0, &choose);
    assert!(history.taken.starts_with(&[Choice::Go(1); 5]), "{:?}", history.taken);
    assert!(history.taken.ends_with(&[Choice::Go(1)]), "owner 1 must wake up last: {:?}", history.taken);
    assert_eq!(finish(&sim, &instance, &ids), Vec::<String>::new());
    assert_eq!(history.broken, Vec::<String>::new());
}

/// The host of a build that was configured for another number of partitions.
struct Configured<'a>(&'a dyn Host, &'static str);

impl Host for Configured<'_> {
    fn poll(&self) -> bool {
        self.0.poll()
    }

    fn publish(&self, thread: &str, number: u64, event: String) {
        self.0.publish(thread, number, event);
    }

    fn setting(&self, name: &str) -> Option<String> {
        if name == "partitions" { Some(self.1.to_owned()) } else { self.0.setting(name) }
    }

    fn check(&self, schema: &str, value: &str) -> Result<Vec<String>, String> {
        self.0.check(schema, value)
    }

    fn warn(&self, text: &str) {
        self.0.warn(text);
    }
}

/// Two hosts that start on one empty store, configured for different numbers of partitions, each with a request of the
/// same client: whoever is first, both take the number that is stored, and it is one submission.
/// Shows trap 27.
#[test]
fn all_orders_of_two_first_starts() {
    let mut numbers = std::collections::BTreeSet::new();
    let histories = explore_all(10, |choose| {
        let sim = Sim::of(&Default::default());
        let ids = Arc::new(Mutex::new(Vec::new()));
        let start = |partitions: &'static str| -> Work {
            let ids = ids.clone();
            Box::new(move |ports| {
                let id = submit(Ports { host: &Configured(ports.host, partitions), ..ports }, "a");
                ids.lock().expect("no panic").push(id);
            })
        };
        let mut history = sim.race(vec![start("1"), start("16")], 0, choose);
        let ids = ids.lock().expect("no panic").clone();
        assert!(ids.len() == 2 && ids[0] == ids[1], "{ids:?} after {:?}", history.taken);
        history.broken.extend(finish(&sim, &sim.instance(), &ids));
        assert!(history.broken.is_empty(), "{:#?}\nafter {:?}", history.broken, history.taken);
        numbers.insert(ids[0][..2].to_owned());
        history.options
    });
    assert!(histories > 50, "only {histories} histories");
    assert_eq!(numbers.len(), 2, "each of the two was first in some history: {numbers:?}");
}

/// An audit beside a run, beside a request, and beside a deletion, stopped at each of its reads while the other makes any
/// number of its calls: it finds nothing, since nothing is broken.
/// Shows trap 33.
#[test]
fn an_audit_beside_work_finds_nothing() {
    let (queued, instance, _) = prepared(&["a", "b"]);
    let settled = {
        let sim = Sim::of(&queued);
        sim.settle(&instance);
        sim.map()
    };
    let closed = {
        let sim = Sim::of(&settled);
        sim.free(close);
        sim.map()
    };
    let drive =
        |ports: Ports, instance: &str| drop(writ::run::drive(ports, &writ_tests::sim::agents(), instance, None));
    let mut histories = 0;
    for (name, map) in [("a run", &queued), ("a request", &settled), ("a deletion", &closed)] {
        for (reads, calls) in (0..).flat_map(|reads| (1..40).map(move |calls| (reads, calls))) {
            let sim = Sim::of(map);
            let found = Arc::new(Mutex::new(Vec::new()));
            let (told, instance) = (found.clone(), instance.clone());
            let auditor: Work = Box::new(move |ports| *told.lock().expect("no panic") = audit(ports).0);
            let other: Work = match name {
                "a request" => Box::new(|ports| drop(submit(ports, "c"))),
                _ => Box::new(move |ports| drive(ports, &instance)),
            };
            let choose = [vec![0; reads], vec![1; calls], vec![0; 100]].concat();
            let history = sim.race(vec![auditor, other], 0, &choose);
            let found = found.lock().expect("no panic").clone();
            assert!(found.is_empty(), "{found:#?}\nbeside {name}, {calls} of its calls after {reads} reads");
            assert_eq!(history.broken, Vec::<String>::new());
            histories += 1;
            if history.taken.iter().take(reads).filter(|c| **c == Choice::Go(0)).count() < reads {
                break;
            }
        }
    }
    assert!(histories > 1_000, "only {histories} histories");
}
