//! Plays one plan: a client, a host that dies as the plan says, its recovery, and then the judge.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::client::Client;
use super::effects::ToolUse;
use super::plan::Plan;
use super::scenario::Scenario;
use super::trace::Entry;
use super::world::{NoTwist, Outside, Twist, World};
use super::{Finding, judge, order};
use crate::engine::Engine;

/// Most lives of a host in one run.
const LIVES_MAX: u32 = 8;
/// Most calls of one run: far more than any that ends.
const CALLS_MAX: u32 = 50_000;
/// Longest run on the clock of the wall: a net below the count of calls, for what makes no calls.
const NET: Duration = Duration::from_secs(120);
/// Sweeps of one recovery until one succeeds.
const SWEEPS_MAX: u32 = 8;

/// What plans are played with.
#[derive(Clone)]
pub struct Stage {
    engine: Engine,
    scenario: Arc<Scenario>,
    twist: Arc<dyn Twist>,
    /// The number of keys that a run without faults leaves.
    baseline: Option<u64>,
}

/// What came of a plan.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// What is wrong; nothing for a plan that was survived.
    pub findings: Vec<Finding>,
    /// Every call of the component, in order.
    pub trace: Vec<Entry>,
    /// What became of the calls of each tool.
    pub tools: BTreeMap<String, ToolUse>,
    /// Keys in the store at the end.
    pub keys: u64,
}

impl Stage {
    /// A scenario with a component.
    pub fn new(engine: Engine, scenario: Scenario) -> Self {
        Self { engine, scenario: Arc::new(scenario), twist: Arc::new(NoTwist), baseline: None }
    }

    /// In a world that is worse than it claims.
    #[must_use]
    pub fn twisted(mut self, twist: impl Twist) -> Self {
        self.twist = Arc::new(twist);
        self
    }

    /// With the number of keys that must be left when everything was deleted.
    #[must_use]
    pub fn baseline(mut self, keys: u64) -> Self {
        self.baseline = Some(keys);
        self
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }
}

/// Plays a plan on a runtime of its own, with one thread.
pub fn play(stage: &Stage, plan: &Plan) -> Played {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(Finding::new("host", format!("the system gives no runtime: {error}"))),
    };
    let played = runtime.block_on(async { tokio::time::timeout(NET, play_on(stage, plan)).await });
    runtime.shutdown_background();
    played.unwrap_or_else(|_| failed(Finding::new("liveness", format!("it did not end within {} s", NET.as_secs()))))
}

fn failed(finding: Finding) -> Played {
    Played { findings: vec![finding], ..Played::default() }
}

async fn play_on(stage: &Stage, plan: &Plan) -> Played {
    let scenario = stage.scenario.clone();
    let mut outside = Outside::new(stage.engine.clone(), stage.twist.clone(), scenario.clone(), plan, CALLS_MAX);
    let mut client = Client::default();
    let lived = live(&mut outside, &mut client, &scenario, plan).await;
    outside.shared.armed.store(false, Ordering::SeqCst);
    let mut played = Played { trace: outside.shared.trace(), ..Played::default() };
    match lived {
        Err(finding) => played.findings.push(finding),
        Ok(world) => {
            judge::judge(&outside, &world, &mut client, &scenario, plan, &mut played).await;
            if let (Some(baseline), true) = (stage.baseline, scenario.threads().is_empty())
                && played.keys != baseline
            {
                let text = format!("{} keys are left, where a run without faults leaves {baseline}", played.keys);
                played.findings.push(Finding::new("baseline", text));
            }
            if let Err(error) = outside.close(world).await {
                played.findings.push(Finding::new("store", error));
            }
        }
    }
    played.findings.extend(order::check(&played.trace));
    played
}

/// From the first life to the last: the one in which all steps have been answered and nothing is left to do.
async fn live(outside: &mut Outside, client: &mut Client, scenario: &Scenario, plan: &Plan) -> Result<World, Finding> {
    let opened = |world: Result<World, String>| world.map_err(|error| Finding::new("store", error));
    let clock = outside.shared.clock.clone();
    let mut world = opened(outside.open(0, plan.first.clone()))?;
    client.go_on(&world, &clock, &scenario.setup).await?;
    client.restart();
    outside.shared.begun.store(true, Ordering::SeqCst);
    outside.shared.armed.store(true, Ordering::SeqCst);
    for number in 1..=LIVES_MAX {
        let recovers = number > 1;
        let lived = async {
            if recovers {
                sweep(&world, &clock).await?;
            }
            client.go_on(&world, &clock, &scenario.steps).await
        };
        let life = world.life.clone();
        let ended = tokio::select! {
            biased;
            () = life.killed() => None,
            ended = lived => Some(ended),
        };
        if outside.shared.is_endless() {
            return Err(Finding::new("liveness", format!("it takes more than {CALLS_MAX} calls")));
        }
        match ended {
            Some(ended) if !life.is_dead() => return ended.map(|()| world),
            _ => {}
        }
        outside.close(world).await.map_err(|error| Finding::new("store", error))?;
        let faults = if number == 1 { plan.recovery.clone() } else { Vec::new() };
        world = opened(outside.open(number, faults))?;
    }
    Err(Finding::new("liveness", format!("more than {LIVES_MAX} lives")))
}

/// What a host does first; again when it fails, as it would after its period.
async fn sweep(world: &World, clock: &crate::clock::VirtualClock) -> Result<(), Finding> {
    use crate::clock::Clock;
    let mut last = String::new();
    for _ in 0..SWEEPS_MAX {
        match world.host.sweep().await {
            Ok(_) => return Ok(()),
            Err(error) => last = error.to_string(),
        }
        clock.wait_until(clock.now().saturating_add(60_000)).await;
    }
    Err(Finding::new("liveness", format!("{SWEEPS_MAX} sweeps have failed, the last one: {last}")))
}
