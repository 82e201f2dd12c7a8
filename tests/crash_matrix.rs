//! The crash matrix (docs/proof.md): it is survived, it is deterministic, and it notices worlds that are broken.
#![cfg(not(target_family = "wasm"))]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use host_sim::engine::{ComponentSource, Engine};
use host_sim::fault::matrix::{self, Config, Report};
use host_sim::fault::play::play;
use host_sim::fault::scenario::SHORTEST;
use host_sim::fault::{Fault, Kind, Plan, Scenario, Stage, StoreKind, Twist};
use host_sim::limits::HostLimits;
use host_sim::store::{Guard, Outcome, Store, StoreError, Value, Write};
use host_sim::tools::{Call, Declaration, Reply, Tools};

fn engine() -> Engine {
    static ENGINE: Mutex<Option<Engine>> = Mutex::new(None);
    let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let load = || Engine::load(&ComponentSource::Embedded, &HostLimits::small()).expect("the component loads");
    engine.get_or_insert_with(load).clone()
}

fn stage(scenario: &str) -> Stage {
    Stage::new(engine(), Scenario::find(scenario).expect("a scenario"))
}

fn depth_1(store: StoreKind) -> Config {
    Config { store, depth: 1, seed: 1, max: None, workers: 2 }
}

fn survived(scenario: &str, report: &Report) {
    let failures: Vec<String> =
        report.failures.iter().map(|f| format!("{}: {}: {}", f.plan, f.finding.invariant, f.finding.text)).collect();
    assert_eq!(report.failed, 0, "{scenario}: {failures:#?}");
}

/// The invariants that some plan of a twisted world breaks. Enough plans are played to be sure, and no more.
fn broken(scenario: &str, twist: impl Twist + Clone) -> BTreeSet<String> {
    let config = Config { max: Some(120), ..depth_1(StoreKind::Memory) };
    let report = matrix::run(&stage(scenario).twisted(twist), &config, &|_, _| {});
    report.failures.into_iter().map(|failure| failure.finding.invariant).collect()
}

/// Shows A6, A35, B2.
#[test]
fn the_six_shortest_scenarios_survive_every_fault() {
    let mut plans = 0;
    for scenario in SHORTEST {
        let report = matrix::run(&stage(scenario), &depth_1(StoreKind::Memory), &|_, _| {});
        survived(scenario, &report);
        assert!(report.calls > 30, "{scenario} has only {} calls", report.calls);
        plans += report.plans;
    }
    assert!(plans > 1_000, "only {plans} plans");
}

/// Shows A41.
#[test]
fn a_disk_that_tears_fails_and_fills_is_survived() {
    let config = Config { max: Some(60), ..depth_1(StoreKind::Redb) };
    survived("one-tool", &matrix::run(&stage("one-tool"), &config, &|_, _| {}));
    for kind in [Kind::FlushFails, Kind::NoSpace, Kind::PowerLoss, Kind::Torn] {
        let stage = stage("plain-turn");
        let sound = Plan::sound("plain-turn", StoreKind::Redb, 3);
        let trace = play(&stage, &sound).trace;
        let commits = trace.iter().filter(|e| e.import == host_sim::engine::Import::KvCommit);
        for call in commits.map(|entry| entry.number) {
            let played = play(&stage, &sound.then(Fault { call, kind }));
            assert_eq!(played.findings, [], "{} at {call}", kind.name());
            assert!(played.trace.iter().any(|entry| entry.fault == Some(kind)));
        }
    }
}

/// Shows A14.
#[test]
fn a_recovery_may_be_killed_at_every_call() {
    let config = Config { depth: 2, max: Some(250), ..depth_1(StoreKind::Memory) };
    survived("one-tool", &matrix::run(&stage("one-tool"), &config, &|_, _| {}));
}

/// One seed is one run: the same calls with the same arguments, answers and faults.
/// Shows B35.
#[test]
fn the_same_plan_is_the_same_run() {
    for line in [
        "parallel-tools memory seed=5",
        "parallel-tools memory seed=5 first=40:duplicate-run",
        "steering memory seed=9 first=30:kill-after recovery=12:kill-after",
        "one-tool redb seed=2 first=41:torn",
    ] {
        let plan: Plan = line.parse().expect("a plan");
        let stage = stage(&plan.scenario);
        let first = play(&stage, &plan);
        assert_eq!(first.findings, [], "{line}");
        assert!(first.trace.len() > 30, "{line}");
        for _ in 0..2 {
            assert_eq!(play(&stage, &plan).trace, first.trace, "{line}");
        }
    }
}

/// Says yes to a commit, and loses it: one of each life, of those whose guard key contains a text.
#[derive(Clone)]
struct LosesACommit(&'static str, u32);

/// Leaves the last write out of every commit of a thread.
#[derive(Clone)]
struct AppliesHalf;

/// Keeps the last commit in memory until the next one: it is gone when the host dies.
#[derive(Clone)]
struct ForgetsTheUnflushed;

/// Executes every call twice.
#[derive(Clone)]
struct ExecutesTwice;

/// In the lives after the first one, leaves the slots of the queue behind that are deleted.
#[derive(Clone)]
struct LeavesSlots;

/// Shows the first and the last message of a user in each other's place.
#[derive(Clone)]
struct MixesUpMessages;

struct Leaving {
    inner: Arc<dyn Store>,
    /// Whether there was something when this life began.
    recovers: tokio::sync::OnceCell<bool>,
}

struct Mixing(Arc<dyn Store>);

struct Losing {
    inner: Arc<dyn Store>,
    guard: &'static str,
    /// Which one is lost; `None`: of each, the last write.
    lost: Option<u32>,
    commits: AtomicU32,
}

struct Forgetting {
    inner: Arc<dyn Store>,
    held: Mutex<Option<(Guard, Vec<Write>)>>,
}

struct Twice(Arc<dyn Tools>);

impl Twist for LosesACommit {
    fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Losing { inner, guard: self.0, lost: Some(self.1), commits: AtomicU32::new(0) })
    }
}

impl Twist for AppliesHalf {
    fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Losing { inner, guard: "/ses/", lost: None, commits: AtomicU32::new(0) })
    }
}

impl Twist for ForgetsTheUnflushed {
    fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Forgetting { inner, held: Mutex::default() })
    }
}

impl Twist for LeavesSlots {
    fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Leaving { inner, recovers: tokio::sync::OnceCell::new() })
    }
}

impl Twist for MixesUpMessages {
    fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Mixing(inner))
    }
}

impl Twist for ExecutesTwice {
    fn tools(&self, tools: Arc<dyn Tools>) -> Arc<dyn Tools> {
        Arc::new(Twice(tools))
    }
}

#[async_trait]
impl Store for Losing {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        self.inner.get_many(keys).await
    }

    async fn commit(&self, guard: Guard, mut writes: Vec<Write>) -> Result<Outcome, StoreError> {
        if guard.key.contains(self.guard) {
            match self.lost {
                Some(lost) if self.commits.fetch_add(1, Ordering::SeqCst) == lost => return Ok(Outcome::Committed),
                Some(_) => {}
                None => drop(writes.pop()),
            }
        }
        self.inner.commit(guard, writes).await
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        self.inner.append_later(guard, writes, lost).await;
    }

    async fn flush(&self) {
        self.inner.flush().await;
    }

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        self.inner.dump().await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.inner.count().await
    }
}

impl Forgetting {
    fn held(&self) -> Option<(Guard, Vec<Write>)> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn flush_held(&self) -> Result<(), StoreError> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        match held {
            Some((guard, writes)) => self.inner.commit(guard, writes).await.map(drop),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Store for Forgetting {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        let mut values = self.inner.get_many(keys.clone()).await?;
        for write in self.held().into_iter().flat_map(|(_, writes)| writes) {
            for (key, value) in keys.iter().zip(&mut values) {
                if *key == write.key {
                    value.clone_from(&write.value);
                }
            }
        }
        Ok(values)
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        self.flush_held().await?;
        let current = self.inner.get_many(vec![guard.key.clone()]).await?.pop().flatten();
        if current != guard.expect {
            return Ok(Outcome::Stale(current));
        }
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some((guard, writes));
        Ok(Outcome::Committed)
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        self.inner.append_later(guard, writes, lost).await;
    }

    async fn flush(&self) {
        self.inner.flush().await;
    }

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        self.flush_held().await?;
        self.inner.dump().await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.flush_held().await?;
        self.inner.count().await
    }
}

#[async_trait]
impl Store for Leaving {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        self.recovers().await?;
        self.inner.get_many(keys).await
    }

    async fn commit(&self, guard: Guard, mut writes: Vec<Write>) -> Result<Outcome, StoreError> {
        let recovers = self.recovers().await?;
        writes.retain(|write| !(recovers && write.value.is_none() && write.key.contains("/queue/")));
        self.inner.commit(guard, writes).await
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        self.inner.append_later(guard, writes, lost).await;
    }

    async fn flush(&self) {
        self.inner.flush().await;
    }

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        self.inner.dump().await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.inner.count().await
    }
}

impl Leaving {
    async fn recovers(&self) -> Result<bool, StoreError> {
        self.recovers.get_or_try_init(|| async { Ok(self.inner.count().await? > 0) }).await.copied()
    }
}

#[async_trait]
impl Store for Mixing {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        let mut values = self.0.get_many(keys).await?;
        let is_users = |value: &Option<Value>| value.as_ref().is_some_and(|v| v.starts_with(b"{\"role\":\"user\""));
        let places: Vec<usize> = (0..values.len()).filter(|at| is_users(&values[*at])).collect();
        if let [first, .., last] = places[..] {
            values.swap(first, last);
        }
        Ok(values)
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        self.0.commit(guard, writes).await
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        self.0.append_later(guard, writes, lost).await;
    }

    async fn flush(&self) {
        self.0.flush().await;
    }

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        self.0.dump().await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.0.count().await
    }
}

#[async_trait]
impl Tools for Twice {
    fn describe(&self) -> Vec<Declaration> {
        self.0.describe()
    }

    async fn run(&self, call: Call) -> Reply {
        self.0.run(call.clone()).await;
        self.0.run(call).await
    }
}

#[test]
fn a_store_that_loses_what_it_acknowledged_is_noticed() {
    let accepted = broken("plain-turn", LosesACommit("/queue", 0));
    assert!(accepted.contains("outcome"), "a receipt without a submission: {accepted:?}");
    let called = broken("one-tool", LosesACommit("/ses/", 2));
    assert!(called.contains("effects"), "a call was made and its record lost: {called:?}");
}

/// Shows A23.
#[test]
fn a_store_that_applies_half_a_commit_is_noticed() {
    let broken = broken("one-tool", AppliesHalf);
    assert!(broken.contains("I4") && broken.contains("leak"), "{broken:?}");
}

/// Shows trap 7.
#[test]
fn a_store_that_forgets_what_it_did_not_flush_is_noticed() {
    let broken = broken("one-tool", ForgetsTheUnflushed);
    assert!(broken.contains("effects"), "a plain tool ran twice, since its call was forgotten: {broken:?}");
}

/// Keys that the audit knows and that break nothing: only the number of what is left tells.
#[test]
fn a_store_that_keeps_more_after_a_crash_is_noticed() {
    assert_eq!(broken("deletion", LeavesSlots), BTreeSet::from(["baseline".to_owned()]));
}

/// A transcript that is whole, with its messages in another order than that of their acceptance.
#[test]
fn a_store_that_mixes_messages_up_is_noticed() {
    assert_eq!(broken("queue-of-three", MixesUpMessages), BTreeSet::from(["order".to_owned()]));
}

#[test]
fn tools_that_run_twice_are_noticed() {
    assert_eq!(broken("one-tool", ExecutesTwice), BTreeSet::from(["effects".to_owned()]));
}

/// What authors see: an email outside of a step is sent again long after it has left; in a step only before its record;
/// from a plain tool never.
#[test]
fn a_careless_tool_is_told_from_a_careful_one() {
    let engine = Engine::load(&ComponentSource::File(env!("WRIT_MAILER").into()), &HostLimits::small());
    let engine = engine.expect("the example loads");
    let email = |agent: &str| {
        let path = format!("{}/../examples/mailer/{agent}.toml", env!("CARGO_MANIFEST_DIR"));
        let stage = Stage::new(engine.clone(), Scenario::find(&path).expect("the example's scenario"));
        let report = matrix::run(&stage, &depth_1(StoreKind::Memory), &|_, _| {});
        survived(agent, &report);
        (report.tools["send_email"].clone(), report.tools["welcome"].clone())
    };
    let (careless, _) = email("careless");
    let (careful, _) = email("careful");
    let (once, welcome) = email("once");
    assert!(careless.late_in > 0 && careless.words().contains("CAN BE REPEATED"), "{careless:?}");
    assert!(careful.late_in == 0 && careful.executions_max == 2, "{careful:?}");
    assert!(careful.repeated_in < careless.repeated_in, "{careful:?} {careless:?}");
    assert_eq!((once.executions_max, once.repeated_in), (1, 0));
    assert!(welcome.outcomes.contains("interrupted"), "{welcome:?}");
}
