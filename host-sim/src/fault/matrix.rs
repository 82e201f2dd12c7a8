//! All plans of a scenario: every call of its run without faults, every kind that applies there; and with depth 2 again
//! every call of what follows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Finding;
use super::effects::ToolUse;
use super::life::Draw;
use super::plan::{Fault, Kind, Plan, StoreKind};
use super::play::{Played, Stage, play};
use super::shrink::shrink;
use super::trace::Entry;

/// What is enumerated.
#[derive(Clone, Debug)]
pub struct Config {
    /// The store.
    pub store: StoreKind,
    /// How many faults a plan has: 1 or 2.
    pub depth: u32,
    /// What randomness is drawn from.
    pub seed: u64,
    /// Most plans of a scenario; then they are drawn from all.
    pub max: Option<u64>,
    /// Plans that are played at the same time.
    pub workers: usize,
}

/// A plan that was not survived: the smallest one of those that break the same invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The plan.
    pub plan: Plan,
    /// What was found.
    pub finding: Finding,
    /// How many plans have broken the same.
    pub plans: u64,
}

/// What came of all plans of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Calls of the run without faults.
    pub calls: u32,
    /// Plans that were played.
    pub plans: u64,
    /// Plans that were not survived.
    pub failed: u64,
    /// The smallest of each kind.
    pub failures: Vec<Failure>,
    /// What became of the calls of each tool.
    pub tools: BTreeMap<String, ToolUse>,
    /// How long it took.
    pub time: Duration,
}

/// Plays all plans of a stage's scenario. `progress` hears how many plans are done and how many are known of.
pub fn run(stage: &Stage, config: &Config, progress: &(dyn Fn(u64, u64) + Sync)) -> Report {
    let begun = Instant::now();
    let sound = Plan::sound(&stage.scenario().name, config.store, config.seed);
    let played = play(stage, &sound);
    let stage = stage.clone().baseline(played.keys);
    let tally = Tally::default();
    let jobs = first_faults(&played.trace, config);
    tally.known.store(jobs.len() as u64 + 1, Ordering::Relaxed);
    let calls = played.trace.len() as u32;
    tally.count(&sound, played);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..config.workers.max(1) {
            scope.spawn(|| {
                while let Some(fault) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if tally.is_full(config) {
                        return;
                    }
                    work(&stage, &sound.then(*fault), config, &tally, progress);
                }
            });
        }
    });
    let (plans, inner) = (tally.done.load(Ordering::Relaxed), tally.inner.into_inner());
    let Inner { failed, failures, tools } = inner.unwrap_or_else(PoisonError::into_inner);
    let failures = failures.into_values().map(|failure| smallest(&stage, failure)).collect();
    Report { calls, plans, failed, failures, tools, time: begun.elapsed() }
}

/// One plan with one fault, and all that put another one on top of it.
fn work(stage: &Stage, plan: &Plan, config: &Config, tally: &Tally, progress: &(dyn Fn(u64, u64) + Sync)) {
    let played = play(stage, plan);
    let survived = played.findings.is_empty();
    let seconds = if config.depth > 1 && survived { second_plans(plan, &played.trace) } else { Vec::new() };
    tally.known.fetch_add(seconds.len() as u64, Ordering::Relaxed);
    tally.count(plan, played);
    tally.tell(progress);
    for plan in seconds {
        if tally.is_full(config) {
            return;
        }
        tally.count(&plan, play(stage, &plan));
        tally.tell(progress);
    }
}

fn first_faults(trace: &[Entry], config: &Config) -> Vec<Fault> {
    let mut faults: Vec<Fault> = trace
        .iter()
        .flat_map(|entry| {
            let kinds = Kind::ALL.into_iter().filter(|k| k.applies(entry.import, entry.export, config.store));
            kinds.map(|kind| Fault { call: entry.number, kind })
        })
        .collect();
    if config.max.is_some() {
        let mut draw = Draw::new(config.seed);
        for at in (1..faults.len()).rev() {
            faults.swap(at, draw.below(at as u64 + 1) as usize);
        }
    }
    faults
}

/// After a kill every call of the recovery; without one every later call of the same life.
fn second_plans(plan: &Plan, trace: &[Entry]) -> Vec<Plan> {
    let Some(first) = plan.first.first() else { return Vec::new() };
    let kills = first.kind.kills();
    let follows = |entry: &&Entry| {
        let place = if kills { entry.life == 1 } else { entry.life == 0 && entry.number > first.call };
        place && !entry.twin
    };
    let plans = trace.iter().filter(follows).flat_map(|entry| {
        let kinds =
            Kind::ALL.into_iter().filter(|k| k.is_second() && k.applies(entry.import, entry.export, plan.store));
        kinds.map(move |kind| {
            let fault = Fault { call: entry.number, kind };
            if kills { plan.then_in_recovery(fault) } else { plan.then(fault) }
        })
    });
    plans.collect()
}

fn smallest(stage: &Stage, failure: Failure) -> Failure {
    let broken = failure.finding.invariant.clone();
    let breaks = |plan: &Plan| play(stage, plan).findings.into_iter().find(|found| found.invariant == broken);
    let plan = shrink(failure.plan, |plan| breaks(plan).is_some());
    let finding = breaks(&plan).unwrap_or(failure.finding);
    Failure { plan, finding, plans: failure.plans }
}

#[derive(Default)]
struct Tally {
    done: AtomicU64,
    known: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    failed: u64,
    /// By invariant.
    failures: BTreeMap<String, Failure>,
    tools: BTreeMap<String, ToolUse>,
}

impl Tally {
    fn count(&self, plan: &Plan, played: Played) {
        self.done.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, tool) in &played.tools {
            inner.tools.entry(name.clone()).or_default().add(tool);
        }
        inner.failed += u64::from(!played.findings.is_empty());
        let mut broken = std::collections::BTreeSet::new();
        for finding in played.findings {
            if !broken.insert(finding.invariant.clone()) {
                continue;
            }
            let failure = Failure { plan: plan.clone(), finding: finding.clone(), plans: 0 };
            let known = inner.failures.entry(finding.invariant.clone()).or_insert(failure);
            known.plans += 1;
            if plan.size() < known.plan.size() {
                known.plan = plan.clone();
                known.finding = finding;
            }
        }
    }

    fn tell(&self, progress: &(dyn Fn(u64, u64) + Sync)) {
        progress(self.done.load(Ordering::Relaxed), self.known.load(Ordering::Relaxed));
    }

    fn is_full(&self, config: &Config) -> bool {
        config.max.is_some_and(|max| self.done.load(Ordering::Relaxed) >= max)
    }
}
