//! Two runs of one session, one of them believed dead: whatever the order of their store calls, the old epoch never
//! commits (I7), no attempt is run by two (I6), no outcome and no message changes (I3, I4), no plain tool runs twice, and
//! everything settles. Cites A1, A24, A28, A30, A33, A40 and C8.
#![cfg(not(target_family = "wasm"))]

use writ_tests::sim::{Choice, Sim, finish, submit};

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

/// All histories that differ in their first `depth` choices.
fn explore(keys: &[&str], faults: usize, depth: usize) -> u64 {
    let prepared = prepared(keys);
    let mut choose: Vec<usize> = Vec::new();
    for histories in 1.. {
        let options = play(&prepared, faults, &choose);
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
