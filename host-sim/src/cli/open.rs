//! Opens a data folder with a host over it: the only place where the command line meets stores, models and tools.

use std::path::Path;
use std::sync::Arc;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::hosted::Hosted;
use super::names::Name;
use super::names::SubmissionId;
use super::offline::Offline;
use super::read_only::ReadOnly;
use super::runtime::Runtime;
use super::session::Session;
use super::settings::Settings;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::config::StoreKind;
use crate::config::Webhook;
use crate::engine::ComponentSource;
use crate::engine::Engine;
use crate::engine::EngineError;
use crate::host::Host;
use crate::host::Parts;
use crate::limits::HostLimits;
use crate::model::Model;
use crate::model::offline::OfflineModel;
use crate::model::scripted::ScriptedModel;
use crate::script::Script;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redb::OpenError;
use crate::store::redb::RedbStore;
use crate::telemetry::Telemetry;
use crate::tools::Tools;
use crate::tools::scripted::ExecutionLog;
use crate::tools::scripted::ScriptedTools;
use crate::tools::workspace::Workspace;
use crate::webhook::Target;
use crate::webhook::WithWebhooks;

/// What scripted tools have done, beside the store: so that a tool's n-th reply survives a restart.
const EXECUTIONS_FILE: &str = "script-executions.jsonl";
/// How long the offline model takes for a word: long enough to be seen, short enough not to be waited for.
const WORD_MS: u64 = 15;
/// How long a server gathers an answer's events: 20 pieces a second look smooth, and more would cost the store.
const SERVE_LINGER_MS: u64 = 50;

/// What a command does with the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Looks at it. Nothing is written, so nothing can be run.
    Read,
    /// Runs what its own requests give to run, and nothing else.
    Write,
    /// Takes up everything that is unfinished, first of all, where its own settings can serve it.
    Run,
}

/// What a host is made of besides its store.
pub struct Setup {
    /// Settings.
    pub settings: Settings,
    /// Models.
    pub model: Arc<dyn Model>,
    /// Tools.
    pub tools: Arc<dyn Tools>,
}

/// For commands that run turns; `agent` is the one that is asked for.
pub async fn to_run(global: &Global, agent: Option<&Name>) -> Result<Session, Failure> {
    open(global, Mode::Run, agent).await
}

/// For commands that change one thing.
pub async fn to_write(global: &Global) -> Result<Session, Failure> {
    open(global, Mode::Write, None).await
}

/// For commands that change one thing, after which a submission may go on: a script gets that submission's agent.
pub async fn to_go_on(global: &Global, id: &SubmissionId) -> Result<Session, Failure> {
    if global.script.is_none() {
        return to_write(global).await;
    }
    let agent = to_read(global).await?.record(id).await?.thread()?.agent;
    open(global, Mode::Write, Some(&agent)).await
}

/// For commands that only look.
pub async fn to_read(global: &Global) -> Result<Session, Failure> {
    if !global.data.is_dir() {
        let text = format!("there is no data folder {}", global.data.display());
        return Err(Failure::refused("no-data", text)
            .advise("Give --data DIR, or make one: `writ run helper 'What is in the workspace?'`."));
    }
    open(global, Mode::Read, None).await
}

/// For commands that ask the component about itself.
pub async fn without_data(global: &Global) -> Result<Session, Failure> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let setup = setup(global, None, store.clone(), ExecutionLog::in_memory())?;
    start(engine(global, &HostLimits::small()).await?, store, setup, Mode::Read, false).await
}

/// A host that serves others, as it is configured. Nothing runs yet: sweep it. A script gets the agent that is named.
pub async fn to_serve(
    global: &Global,
    agent: Option<&Name>,
    config: &Config,
    telemetry: &Arc<Telemetry>,
) -> Result<Host, Failure> {
    let limits = HostLimits { linger_ms: SERVE_LINGER_MS, ..config.serve.limits() };
    let engine = engine(global, &limits).await?;
    let (store, log) = match config.store {
        StoreKind::Memory => (Arc::new(MemoryStore::default()) as Arc<dyn Store>, ExecutionLog::in_memory()),
        StoreKind::Redb => (folder_store(&global.data)?, executions(global)?),
    };
    // Where nobody names an agent a script gets the one that everybody tries first.
    let helper = "helper".parse().map_err(|e: String| Failure::internal("agent", e))?;
    let setup = setup(global, agent.or(Some(&helper)), store.clone(), log)?;
    let mut settings = setup.settings.texts();
    settings.extend(config.component_settings());
    let parts = Parts {
        component: ComponentSource::Embedded,
        store,
        model: setup.model,
        tools: with_webhooks(setup.tools, config, telemetry.clone())?,
        clock: Arc::new(SystemClock),
        settings,
        limits,
    };
    Ok(Host::observed(engine, parts, telemetry.observer()))
}

/// A box of tools that also tells the configured targets.
fn with_webhooks(tools: Arc<dyn Tools>, config: &Config, telemetry: Arc<Telemetry>) -> Result<Arc<dyn Tools>, Failure> {
    if config.webhooks.is_empty() {
        return Ok(tools);
    }
    let target = |hook: &Webhook| Target { url: hook.url.expose().to_owned(), secret: hook.secret.expose().to_owned() };
    let targets = config.webhooks.iter().map(|hook| (hook.name.clone(), target(hook))).collect();
    let heard = Arc::new(move |name: &str, told: bool| telemetry.metrics().webhook(name, told));
    let tools = WithWebhooks::new(tools, targets, Arc::new(SystemClock), heard)
        .map_err(|error| Failure::internal("webhooks", format!("there is no HTTP client: {error}")))?;
    Ok(Arc::new(tools))
}

/// A host over a folder, with what it is made of given.
pub async fn with(
    global: &Global,
    folder: &Path,
    mode: Mode,
    setup: impl FnOnce(Arc<dyn Store>) -> Result<Setup, Failure>,
) -> Result<Session, Failure> {
    let engine = engine(global, &HostLimits::small()).await?;
    let store = folder_store(folder)?;
    let setup = setup(store.clone())?;
    start(engine, store, setup, mode, mode == Mode::Run).await
}

async fn open(global: &Global, mode: Mode, agent: Option<&Name>) -> Result<Session, Failure> {
    let engine = engine(global, &HostLimits::small()).await?;
    let store = folder_store(&global.data)?;
    let log = if mode == Mode::Read { ExecutionLog::in_memory() } else { executions(global)? };
    let setup = setup(global, agent, store.clone(), log)?;
    // A script knows its own agents only; a run of another agent's thread would fail for want of it.
    let sweep = mode == Mode::Run && global.script.is_none();
    start(engine, store, setup, mode, sweep).await
}

/// What scripted tools have done, those of former processes included.
fn executions(global: &Global) -> Result<ExecutionLog, Failure> {
    if global.script.is_none() {
        return Ok(ExecutionLog::in_memory());
    }
    let path = global.data.join(EXECUTIONS_FILE);
    ExecutionLog::open(&path).map_err(|e| Failure::file(&path, "opened", &e))
}

/// Models and tools as the options say. A script brings its own; without a settings file it also replaces the built-in
/// agents, whose model it doesn't know.
fn setup(global: &Global, agent: Option<&Name>, store: Arc<dyn Store>, log: ExecutionLog) -> Result<Setup, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let Some(path) = &global.script else {
        return Ok(Setup {
            settings: Settings::load(global.settings.as_deref())?,
            model: Arc::new(Offline(OfflineModel::new(clock, WORD_MS))),
            tools: Arc::new(Workspace::new(store)),
        });
    };
    let script = Script::load(path).map_err(|e| Failure::refused(e.code(), e.to_string()))?;
    let mut settings = match &global.settings {
        Some(file) => Settings::load(Some(file))?,
        None => Settings::of_agents(Vec::new()),
    };
    if let Some(agent) = agent {
        let tools: Vec<String> = script.tools.iter().map(|tool| tool.name.clone()).collect();
        settings.derive(agent, script.model.name.as_deref().unwrap_or("scripted"), &tools);
    }
    let script = Arc::new(script);
    Ok(Setup {
        settings,
        model: Arc::new(ScriptedModel::new(script.clone(), clock.clone())),
        tools: Arc::new(ScriptedTools::new(script, clock, Arc::new(log))),
    })
}

/// Loads the component, before anything is touched that it is for.
async fn engine(global: &Global, limits: &HostLimits) -> Result<Engine, Failure> {
    let limits = limits.clone();
    let source = match &global.component {
        Some(path) => ComponentSource::File(path.clone()),
        None => ComponentSource::Embedded,
    };
    let loaded = tokio::task::spawn_blocking(move || Engine::load(&source, &limits)).await;
    match loaded {
        Ok(Ok(engine)) => Ok(engine),
        Ok(Err(error @ EngineError::Setup(_))) => Err(Failure::internal("engine", error.to_string())),
        Ok(Err(error)) => Err(Failure::refused("component", error.to_string())),
        Err(error) => Err(Failure::internal("engine", error.to_string())),
    }
}

async fn start(
    engine: Engine,
    store: Arc<dyn Store>,
    setup: Setup,
    mode: Mode,
    sweep: bool,
) -> Result<Session, Failure> {
    let parts = Parts {
        component: ComponentSource::Embedded,
        store: if mode == Mode::Read { Arc::new(ReadOnly(store.clone())) } else { store.clone() },
        model: setup.model,
        tools: setup.tools,
        clock: Arc::new(SystemClock),
        settings: setup.settings.texts(),
        limits: HostLimits { sweep_ms: HostLimits::small().sweep_ms.filter(|_| sweep), ..HostLimits::small() },
    };
    let hosted = Hosted::new(Host::with_engine(engine, parts), store);
    if sweep {
        hosted.sweep().await?;
    }
    Ok(Session::new(Box::new(hosted)))
}

fn folder_store(folder: &Path) -> Result<Arc<dyn Store>, Failure> {
    let store = RedbStore::open(folder).map_err(|error| {
        let code = match error {
            OpenError::InUse { .. } => "data-in-use",
            OpenError::NewerFormat { .. } => "data-newer",
            OpenError::Damaged { .. } | OpenError::Format { .. } | OpenError::NotADatabase { .. } => "data-corrupt",
            _ => "data",
        };
        Failure::new(exit::DATA, code, error.to_string())
    })?;
    Ok(Arc::new(store))
}
