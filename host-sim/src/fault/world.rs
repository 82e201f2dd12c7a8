//! What a host lives in: the outside that outlives it (models, tools, time, the disk), and how a life begins and ends.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::disk::Disk;
use super::life::{Draw, Life, Shared};
use super::plan::{Fault, Plan, StoreKind};
use super::scenario::Scenario;
use crate::clock::VirtualClock;
use crate::engine::{ComponentSource, Engine};
use crate::host::{Host, Parts};
use crate::limits::HostLimits;
use crate::model::scripted::ScriptedModel;
use crate::model::{Completion, Description, Model, ModelError, ModelRequest};
use crate::store::Store;
use crate::store::counted::CountedStore;
use crate::store::memory::MemoryStore;
use crate::store::redb::RedbStore;
use crate::tools::Tools;
use crate::tools::scripted::{ExecutionLog, ScriptedTools};

/// Where the clock begins: 2025-01-01.
const START_MS: u64 = 1_735_689_600_000;
/// Of redb, in bytes: the stores of scenarios are small.
const CACHE_BYTES: usize = 1 << 20;

/// Makes a world worse than it claims to be: to see that the checks notice.
pub trait Twist: Send + Sync + 'static {
    /// The store of one life, over the one that outlives it.
    fn store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        store
    }

    /// The tools.
    fn tools(&self, tools: Arc<dyn Tools>) -> Arc<dyn Tools> {
        tools
    }
}

/// The world as it is.
pub(super) struct NoTwist;

impl Twist for NoTwist {}

/// A model whose failures pass with time: it counts them by thread and turn, whatever the component calls its tries.
struct Moody(ScriptedModel);

#[async_trait]
impl Model for Moody {
    async fn describe(&self, name: &str) -> Result<Description, ModelError> {
        self.0.describe(name).await
    }

    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        let key = format!("{} {} {}", request.thread, request.turn, request.options.contains("summary"));
        self.0.start(ModelRequest { key, ..request }).await
    }
}

/// What outlives a host.
pub(super) struct Outside {
    pub(super) shared: Arc<Shared>,
    pub(super) log: Arc<ExecutionLog>,
    engine: Engine,
    twist: Arc<dyn Twist>,
    model: Arc<dyn Model>,
    tools: Arc<dyn Tools>,
    scenario: Arc<Scenario>,
    base: Base,
}

enum Base {
    Memory(Arc<MemoryStore>),
    Redb(Disk),
}

/// A life of a host, begun.
pub(super) struct World {
    pub(super) host: Host,
    pub(super) life: Arc<Life>,
    pub(super) store: Arc<CountedStore>,
    twin: Arc<Mutex<Option<Host>>>,
}

impl Outside {
    pub(super) fn new(
        engine: Engine,
        twist: Arc<dyn Twist>,
        scenario: Arc<Scenario>,
        plan: &Plan,
        calls_max: u32,
    ) -> Self {
        let clock = Arc::new(VirtualClock::new(START_MS));
        let log = Arc::new(ExecutionLog::in_memory());
        let script = scenario.script.clone();
        let tools = twist.tools(Arc::new(ScriptedTools::new(script.clone(), clock.clone(), log.clone())));
        let model = Arc::new(Moody(ScriptedModel::new(script, clock.clone())));
        let base = match plan.store {
            StoreKind::Memory => Base::Memory(Arc::new(MemoryStore::new())),
            StoreKind::Redb => Base::Redb(Disk::new(Draw::new(plan.seed))),
        };
        let shared = Arc::new(Shared::new(plan.seed, clock, scenario.traps.clone(), calls_max));
        Self { shared, log, engine, twist, model, tools, scenario, base }
    }

    /// Begins a life. An error is the store's: it can't be opened.
    pub(super) fn open(&self, number: u32, faults: Vec<Fault>) -> Result<World, String> {
        let (store, disk): (Arc<dyn Store>, _) = match &self.base {
            Base::Memory(store) => (store.clone(), None),
            Base::Redb(disk) => {
                let opened = disk.clone();
                let store = RedbStore::with_backend(move || opened.backend(), CACHE_BYTES);
                let store = store.map_err(|error| error.to_string())?;
                (Arc::new(super::inline::Inline(Arc::new(store))), Some(disk.clone()))
            }
        };
        let store = Arc::new(CountedStore::new(self.twist.store(store)));
        let parts = Parts {
            component: ComponentSource::Embedded,
            store: store.clone(),
            model: self.model.clone(),
            tools: self.tools.clone(),
            clock: self.shared.clock.clone(),
            settings: self.scenario.settings.clone(),
            limits: limits(),
        };
        let life = Life::new(self.shared.clone(), number, false, faults, disk);
        let host = Host::with_hook(self.engine.clone(), parts.clone(), life.clone());
        let twin = Arc::new(Mutex::new(None));
        let (engine, shared, place) = (self.engine.clone(), self.shared.clone(), twin.clone());
        life.set_twin(move || {
            let life = Life::new(shared.clone(), number, true, Vec::new(), None);
            let host = Host::with_hook(engine.clone(), parts.clone(), life);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(host.clone());
            // It finds the work as a host does that takes another one for dead.
            tokio::spawn(async move { host.sweep().await });
        });
        Ok(World { host, life, store, twin })
    }

    /// Ends a life, with all that it holds.
    pub(super) async fn close(&mut self, world: World) -> Result<(), String> {
        let World { host, life, store, twin } = world;
        life.forget_twin();
        let second = twin.lock().unwrap_or_else(PoisonError::into_inner).take();
        if life.is_dead()
            && let Base::Redb(disk) = &mut self.base
        {
            *disk = disk.restart(life.keeps_unflushed()).map_err(|error| error.to_string())?;
        }
        if let Some(second) = second {
            second.shutdown().await;
        }
        host.shutdown().await;
        drop(store);
        Ok(())
    }
}

impl World {
    /// Waits until nothing is left to do, in either host.
    pub(super) async fn settled(&self) {
        self.host.settled().await;
        let second = self.twin.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(second) = second {
            second.settled().await;
            self.host.settled().await;
        }
    }
}

/// The caps of a pool of 32, and no deadline on the wall's clock that a busy machine could miss.
fn limits() -> HostLimits {
    let hour = 3_600_000;
    HostLimits {
        sweep_ms: None,
        compute_ms: 120_000,
        call_ms: hour,
        run_ms: hour,
        store_ms: hour,
        model_start_ms: hour,
        model_next_ms: hour,
        wait_ms: hour,
        ..HostLimits::small()
    }
}
