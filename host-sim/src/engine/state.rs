//! The data of one call: what it was given, what it has taken, and its caps.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::broadcast;
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, Store, StoreLimits, StoreLimitsBuilder, Trap, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::Call;
use super::hook::{Hook, Probe};
use super::observer::{Observer, Watch, Watched};
use super::signals::Signals;
use super::ticker::TICK_MS;
use crate::clock::Clock;
use crate::data::{LogLine, Published};
use crate::limits::HostLimits;
use crate::model::Model;
use crate::tools::Tools;

/// What a call is given: everything that the component can reach.
#[derive(Clone)]
pub(crate) struct Handles {
    pub(crate) store: Arc<dyn crate::store::Store>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Arc<dyn Tools>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Arc<BTreeMap<String, String>>,
    pub(crate) events: broadcast::Sender<Published>,
    pub(crate) log: broadcast::Sender<LogLine>,
    pub(crate) limits: Arc<HostLimits>,
    /// What sees every call of the component; none in life.
    pub(crate) hook: Option<Arc<dyn Hook>>,
    /// What hears of everything; none unless it is asked for.
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// The data of one call. Dropping it drops its table, and with that cancels completions and jobs.
pub(crate) struct State {
    pub(super) handles: Handles,
    pub(super) signals: Arc<Signals>,
    pub(super) table: ResourceTable,
    /// The last line that the component logged as an error: the text of its panic, if it trapped.
    pub(super) last_error: Option<String>,
    /// Whether a commit ended as unknown: the call may have left more work than it says.
    pub(super) uncertain: bool,
    /// The hook, with the number of this instance.
    pub(super) probe: Option<Probe>,
    /// The observer, with the number of this call. After the table, which it outlives.
    pub(super) watched: Option<Watched>,
    /// Ticks that passed since the call last waited for the host.
    ticks: u64,
    memory: StoreLimits,
    wasi: WasiCtx,
}

impl State {
    /// To be called by every import that waits for the host: computing starts anew.
    pub(super) fn waited(&mut self) {
        self.ticks = 0;
    }

    /// Who is to be told what happens in this call.
    pub(super) fn watch(&self) -> Option<&Watch> {
        self.watched.as_ref().map(|watched| &watched.watch)
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// The wasmtime store of one call, with all caps set.
pub(super) fn store(engine: &Engine, call: &Call, export: &'static str) -> Store<State> {
    let (handles, signals) = (call.handles.clone(), call.signals.clone());
    let probe = handles.hook.clone().map(|hook| Probe::begin(hook, export));
    let watched = handles.observer.clone().map(|observer| Watched::begin(observer, export, call.thread.as_deref()));
    let hooked = probe.is_some();
    let limits = handles.limits.clone();
    let mut table = ResourceTable::new();
    table.set_max_capacity(limits.handles);
    let memory = StoreLimitsBuilder::new().memory_size(limits.memory_bytes).memories(1).build();
    // Nothing of the outside: no files, environment, arguments or network; output goes nowhere.
    let wasi = WasiCtx::builder().allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false).build();
    let state =
        State { handles, signals, table, last_error: None, uncertain: false, probe, watched, ticks: 0, memory, wasi };
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.memory);
    store.set_hostcall_fuel(limits.hostcall_bytes);
    store.set_epoch_deadline(1);
    let ticks_max = (limits.compute_ms / TICK_MS).max(1);
    store.epoch_deadline_callback(move |mut context| {
        let state = context.data_mut();
        state.ticks += 1;
        if state.ticks > ticks_max {
            return Err(Trap::Interrupt.into());
        }
        if hooked {
            // Ticks come by the clock on the wall, and a hooked run must be the same every time.
            return Ok(UpdateDeadline::Continue(1));
        }
        // Tokio's own yield goes to the back of its queue; wasmtime's goes to the front and starves the others.
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    store
}
