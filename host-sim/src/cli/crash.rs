//! `writ crash`: crash it at every host call, and see what is left.

use std::sync::Arc;

use clap::Args;

use super::args::Global;
use super::crash_report;
use super::failure::Failure;
use super::out::Out;
use super::progress::Progress;
use crate::engine::{ComponentSource, Engine};
use crate::fault::matrix::{self, Config};
use crate::fault::play::play;
use crate::fault::{Plan, Scenario, Stage, StoreKind};
use crate::limits::HostLimits;

/// Crash a component at every call that it makes of its host, and check what is left each time.
///
/// Each scenario is played once without faults; then once for every host call and every kind of fault there: the call
/// fails, a commit is applied but not answered, the host is killed before or after it, a minute passes, a second host
/// takes the same work. The host is started anew on the same store, the client repeats what was not answered, and then
/// everything is checked: the invariants, one allowed outcome each, the same answer to a repeated request, tools that
/// must not run twice. Nothing outside is touched: models and tools are played by the scenario. docs/proof.md says more.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ crash                                        all scenarios, one crash each, in memory
  writ crash --store redb                           on a disk that can tear and fill
  writ crash --scenario one-tool --depth 2          and crash again at every call of the recovery
  writ crash --component my_agent.wasm --scenario mine.toml
  writ crash --plan 'one-tool memory seed=1 first=30:kill-after'
  writ crash --list                                 the scenarios that come along

It exits with 1 when a plan was not survived, and prints the smallest one and the command that replays it.")]
pub struct CrashArgs {
    /// A scenario by name, or a file with one; may be given several times. Without it, all that come along.
    #[arg(long, value_name = "NAME|FILE")]
    pub scenario: Vec<String>,
    /// memory, or redb on a disk in memory that can fail.
    #[arg(long, default_value = "memory", value_name = "STORE", value_parser = store)]
    pub store: StoreKind,
    /// Faults of a plan: 1, or 2 for a crash of the recovery too.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2))]
    pub depth: u32,
    /// What randomness and interleavings are drawn from; the same seed is the same run.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Most plans of a scenario; then they are drawn from all.
    #[arg(long, value_name = "N")]
    pub max: Option<u64>,
    /// Play this one plan, and print what was called around its faults.
    #[arg(long, value_name = "LINE", value_parser = plan)]
    pub plan: Option<Plan>,
    /// Print every call of the plan, not only those around its faults.
    #[arg(long, requires = "plan")]
    pub trace: bool,
    /// List the scenarios that come along.
    #[arg(long, exclusive = true)]
    pub list: bool,
    /// Plans that are played at the same time; as many as there are processors if it is not given.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
}

/// Plays the plans; the exit code tells.
pub async fn run(args: CrashArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    if args.list {
        return crash_report::list(&Scenario::embedded(), out);
    }
    let component = match &global.component {
        Some(path) => ComponentSource::File(path.clone()),
        None => ComponentSource::Embedded,
    };
    let (global, args) = (global.clone(), Arc::new(args));
    let work = tokio::task::spawn_blocking(move || match &args.plan {
        Some(plan) => replay(plan, &args, &component, out),
        None => all(&args, &global, &component, out),
    });
    work.await.map_err(|error| Failure::internal("crash", format!("the matrix broke off: {error}")))?
}

fn all(args: &CrashArgs, global: &Global, component: &ComponentSource, out: Out) -> Result<u8, Failure> {
    let scenarios = match args.scenario.as_slice() {
        [] => Scenario::embedded(),
        names => names.iter().map(|name| scenario(name)).collect::<Result<_, _>>()?,
    };
    let engine = engine(component)?;
    let workers = args.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into));
    let config = Config { store: args.store, depth: args.depth, seed: args.seed, max: args.max, workers };
    let mut played = Vec::new();
    for scenario in scenarios {
        let progress = Progress::bar(out, "crashing", 1);
        let name = scenario.name.clone();
        let stage = Stage::new(engine.clone(), scenario);
        let report = matrix::run(&stage, &config, &|done, known| {
            progress.length(known);
            progress.at(done, name.clone());
        });
        drop(progress);
        played.push((stage.scenario().clone(), report));
    }
    crash_report::print(&played, &config, &command(args, global), out)
}

fn replay(plan: &Plan, args: &CrashArgs, component: &ComponentSource, out: Out) -> Result<u8, Failure> {
    let name = args.scenario.first().unwrap_or(&plan.scenario);
    let stage = Stage::new(engine(component)?, scenario(name)?);
    let sound = play(&stage, &Plan::sound(&plan.scenario, plan.store, plan.seed));
    let played = play(&stage.baseline(sound.keys), plan);
    crash_report::replayed(plan, &played, args.trace, out)
}

fn engine(component: &ComponentSource) -> Result<Engine, Failure> {
    let limits = HostLimits::small();
    Engine::load(component, &limits).map_err(|error| match component {
        ComponentSource::File(_) => Failure::refused("component", error.to_string()),
        ComponentSource::Embedded => Failure::internal("component", error.to_string()),
    })
}

fn scenario(name: &str) -> Result<Scenario, Failure> {
    Scenario::find(name).map_err(|error| {
        Failure::refused("scenario", error.to_string()).advise("See `writ crash --list`, and docs/proof.md.")
    })
}

/// The beginning of a command that replays a plan.
fn command(args: &CrashArgs, global: &Global) -> Vec<(String, String)> {
    let mut options = Vec::new();
    if let Some(path) = &global.component {
        options.push(("--component".into(), path.display().to_string()));
    }
    for name in args.scenario.iter().filter(|name| !Scenario::names().any(|known| known == name.as_str())) {
        options.push(("--scenario".into(), name.clone()));
    }
    options
}

fn store(text: &str) -> Result<StoreKind, String> {
    text.parse().map_err(|error: crate::fault::PlanError| error.0)
}

fn plan(text: &str) -> Result<Plan, String> {
    text.parse().map_err(|error: crate::fault::PlanError| error.0)
}
