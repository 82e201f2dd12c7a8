//! A deliberately broken runtime is caught by the proof, each break by the name of what it breaks. The breaks are in
//! `src/mutation.rs`, behind a feature that only these tests turn on.
#![cfg(not(target_family = "wasm"))]

use std::collections::BTreeSet;

use host_sim::engine::{ComponentSource, Engine};
use host_sim::fault::matrix::{self, Config, Report};
use host_sim::fault::{Scenario, Stage, StoreKind};
use host_sim::limits::HostLimits;
use writ_tests::sim::{Sim, finish, submit};

/// The crash matrix of a scenario of `examples/mailer`, on a runtime that is broken in one way, or not.
fn play(scenario: &str, mutation: Option<&str>) -> Report {
    play_some(scenario, mutation, None)
}

/// The same for so many plans, drawn from all.
fn play_some(scenario: &str, mutation: Option<&str>, max: Option<u64>) -> Report {
    let engine = Engine::load(&ComponentSource::File(env!("WRIT_BROKEN").into()), &HostLimits::small());
    let path = format!("{}/../examples/mailer/{scenario}.toml", env!("CARGO_MANIFEST_DIR"));
    let mut scenario = Scenario::find(&path).expect("the example's scenario");
    if let Some(mutation) = mutation {
        scenario.settings.insert("mutation".into(), mutation.into());
    }
    let config = Config { store: StoreKind::Memory, depth: 1, seed: 1, max, workers: 2 };
    matrix::run(&Stage::new(engine.expect("the component loads"), scenario), &config, &|_, _| {})
}

fn broken(report: &Report) -> BTreeSet<&str> {
    report.failures.iter().map(|failure| failure.finding.invariant.as_str()).collect()
}

#[test]
fn unbroken_it_passes() {
    let report = play("careful", None);
    assert_eq!((report.failed, report.tools["send_email"].late_in), (0, 0), "{:?}", broken(&report));
    assert_eq!(play("once", None).failed, 0);
}

/// I9: an effect that starts after a commit of unknown outcome.
#[test]
fn going_on_in_doubt_is_caught() {
    let report = play("careful", Some("go-on-in-doubt"));
    assert!(broken(&report).contains("I9"), "{:?}", broken(&report));
}

/// I1: a receipt before its commit.
#[test]
fn a_yes_before_the_commit_is_caught() {
    assert!(play("careful", Some("yes-before-the-commit")).failed > 0);
}

/// The check `retry`, both halves of it: a repeated request that is answered in another way, and one that writes. Nothing
/// else sees them.
#[test]
fn a_repeated_request_that_is_not_like_the_first_is_caught() {
    for mutation in ["forget-the-outcome", "write-on-repeat"] {
        assert_eq!(broken(&play_some("once", Some(mutation), Some(50))), BTreeSet::from(["retry"]), "{mutation}");
    }
}

/// I10: the value of a step is used before it is recorded, so a crash executes it again in far more places
/// than the one between its effect and its record.
#[test]
fn a_step_that_is_recorded_too_late_is_caught() {
    let repeated = |mutation: Option<&str>| play("careful", mutation).tools["send_email"].repeated_in;
    let (sound, late) = (repeated(None), repeated(Some("answer-before-the-step")));
    assert!(sound > 0 && late > 2 * sound, "the email is repeated in {late} plans; soundly in {sound}");
}

/// B4: a plain tool that a restart runs again.
#[test]
fn a_plain_tool_that_runs_again_is_caught() {
    let report = play("once", Some("run-plain-again"));
    assert!(report.failed > 0 && report.tools["send_email"].executions_max > 1, "{:?}", report.tools["send_email"]);
}

/// A tool that needs a person's word, and runs without it.
#[test]
fn a_tool_that_does_not_ask_is_caught() {
    let engine = Engine::load(&ComponentSource::File(env!("WRIT_BROKEN").into()), &HostLimits::small());
    let mut scenario = Scenario::find("approval-expired").expect("an embedded scenario");
    scenario.settings.insert("mutation".into(), "ask-nobody".into());
    let report = Stage::new(engine.expect("the component loads"), scenario);
    let config = Config { store: StoreKind::Memory, depth: 1, seed: 1, max: Some(20), workers: 2 };
    let report = matrix::run(&report, &config, &|_, _| {});
    assert!(report.failed > 0, "{:?}", report.tools);
}

/// I7: a takeover that does not raise the epoch.
#[test]
fn a_takeover_that_keeps_the_epoch_is_caught() {
    let broken = |mutation: Option<&str>| {
        let sim = Sim::of(&Default::default());
        if let Some(mutation) = mutation {
            sim.mutate(mutation);
        }
        let id = sim.free(|ports| submit(ports, "a"));
        let mut history = sim.play(&sim.instance(), 2, 0, &[1, 1, 1, 1, 1]);
        history.broken.extend(finish(&sim, &sim.instance(), &[id]));
        history.broken
    };
    assert_eq!(broken(None), Vec::<String>::new());
    assert!(broken(Some("keep-the-epoch")).iter().any(|b| b.starts_with("I7")), "nobody saw it");
}
