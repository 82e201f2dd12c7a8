//! The engine: loads a component once, and gives every call an instance of its own that is thrown away after it.

mod bindings;
mod cache;
mod config;
mod convert;
pub(crate) mod guard;
mod hook;
mod kv;
mod model;
mod observer;
mod pool;
mod schema;
mod signals;
mod small;
mod source;
mod state;
mod ticker;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{AsContextMut, Store};

use self::bindings::exports::writ::runtime::runtime::Guest;
use self::bindings::{Writ, WritPre};
use self::convert::Broken;
pub use self::hook::{After, Before, End, Hook, HostCall, Import, Killed};
pub use self::observer::{CallEnd, ModelEnd, Observer, Seen};
pub(crate) use self::pool::Permit;
use self::pool::Places;
pub(crate) use self::signals::Signals;
pub use self::source::{ComponentSource, EngineError};
pub(crate) use self::state::Handles;
use self::state::State;
use crate::data::{AuditPage, FeedPage, PendingPage, Request, Response, RunReport, RuntimeError, Work};
use crate::error::HostError;
use crate::limits::HostLimits;

/// A loaded component, ready to be called. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pre: WritPre<State>,
    imports: Arc<[String]>,
    places: Places,
}

impl Engine {
    /// Loads and checks a component; compiles it unless the cache has it. It computes for up to seconds: not for the
    /// async runtime's own threads.
    pub fn load(source: &ComponentSource, limits: &HostLimits) -> Result<Self, EngineError> {
        let wasm = source.bytes()?;
        let setup = |error: wasmtime::Error| EngineError::Setup(format!("{error:#}"));
        let engine = config::engine(limits).map_err(setup)?;
        ticker::start(&engine).map_err(|error| EngineError::Setup(error.to_string()))?;
        let component = cache::compile(&engine, &wasm)
            .map_err(|error| EngineError::NotComponent { name: source.name(), text: format!("{error:#}") })?;
        let linker = linker(&engine).map_err(setup)?;
        let other_world =
            |error: wasmtime::Error| EngineError::OtherWorld { name: source.name(), text: format!("{error:#}") };
        let pre = linker.instantiate_pre(&component).and_then(WritPre::new).map_err(other_world)?;
        Ok(Self { pre, imports: imports(&engine, &component), places: Places::new(limits.sessions) })
    }

    /// The names of everything that the component imports, in its own order.
    pub fn imports(&self) -> Vec<String> {
        self.imports.to_vec()
    }

    /// Waits for a place in the pool; to be held while a call that is no run is made.
    pub(crate) async fn place(&self) -> Permit {
        self.places.any().await
    }

    /// Waits for a place in the pool for a run.
    pub(crate) async fn place_for_run(&self) -> Permit {
        self.places.run().await
    }

    pub(crate) async fn respond(&self, call: &Call, request: Request) -> Result<Response, HostError> {
        self.call("respond", call, call.handles.limits.call_ms, async |guest, store| {
            let path = store.data().watch().map(|_| request.path.clone());
            let response = guest.call_respond(&mut *store, &convert::request(request)).await?;
            let response = convert::response(response);
            if let (Ok(response), Some(path), Some(watch)) = (&response, &path, store.data().watch()) {
                let work = response.work.first();
                watch.see(&Seen::Answered {
                    path,
                    status: response.status,
                    thread: work.map(|work| work.instance.as_str()),
                    submission: work.and_then(|work| work.submission.as_deref()),
                });
            }
            Ok(response.map_err(Failure::Broken))
        })
        .await
    }

    pub(crate) async fn run(&self, call: &Call, work: Work) -> Result<RunReport, HostError> {
        self.call("run", call, call.handles.limits.run_ms, async |guest, store| {
            let report = guest.call_run(store, &convert::work(work)).await?;
            Ok(convert::report(report).map_err(Failure::Broken))
        })
        .await
    }

    pub(crate) async fn pending(&self, call: &Call, page: Option<String>) -> Result<PendingPage, HostError> {
        self.call("pending", call, call.handles.limits.call_ms, async |guest, store| {
            let page = guest.call_pending(store, page.as_ref()).await?;
            Ok(checked(page, convert::pending))
        })
        .await
    }

    pub(crate) async fn follow(&self, call: &Call, feed: &str, after: u64) -> Result<FeedPage, HostError> {
        self.call("follow", call, call.handles.limits.call_ms, async |guest, store| {
            let page = guest.call_follow(store, &feed.to_owned(), after).await?;
            Ok(checked(page, convert::feed))
        })
        .await
    }

    pub(crate) async fn audit(&self, call: &Call, page: Option<String>) -> Result<AuditPage, HostError> {
        self.call("audit", call, call.handles.limits.call_ms, async |guest, store| {
            let page = guest.call_audit(store, page.as_ref()).await?;
            Ok(checked(page, convert::audit))
        })
        .await
    }

    /// One call: a fresh instance, the export, and the end of the instance, however the call ends.
    async fn call<T>(
        &self,
        export: &'static str,
        call: &Call,
        limit_ms: u64,
        body: impl AsyncFnOnce(&Guest, &mut Store<State>) -> wasmtime::Result<Result<T, Failure>>,
    ) -> Result<T, HostError> {
        let mut store = state::store(self.pre.engine(), call, export);
        let run = async {
            let instance = self.pre.instantiate_async(store.as_context_mut()).await?;
            body(instance.writ_runtime_runtime(), &mut store).await
        };
        let result = tokio::time::timeout(Duration::from_millis(limit_ms), run).await;
        let state = store.data_mut();
        if state.uncertain {
            call.uncertain.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        if let Some(watched) = &mut state.watched {
            watched.end = match &result {
                Ok(Ok(Ok(_))) => CallEnd::Answered,
                Ok(Ok(Err(Failure::Runtime(_)))) => CallEnd::Failed,
                Ok(Ok(Err(Failure::Broken(_))) | Err(_)) => CallEnd::Trapped,
                Err(_) => CallEnd::TimedOut,
            };
        }
        match result {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(Failure::Runtime(error)))) => Err(error.into()),
            Ok(Ok(Err(Failure::Broken(text)))) => Err(HostError::Broken { export, text }),
            Ok(Err(trap)) => Err(HostError::Trapped { export, reason: reason(&trap), panic: state.last_error.take() }),
            Err(_) => Err(HostError::TimedOut { export, limit_ms }),
        }
    }
}

/// What one call is given by its caller.
pub(crate) struct Call {
    /// What the component can reach.
    pub(crate) handles: Handles,
    /// The hints for it.
    pub(crate) signals: Arc<Signals>,
    /// Set when a commit of the call ended as unknown.
    pub(crate) uncertain: std::sync::atomic::AtomicBool,
    /// The instance that a run drives.
    pub(crate) thread: Option<String>,
}

impl Call {
    pub(crate) fn new(handles: Handles, signals: Arc<Signals>) -> Self {
        Self { handles, signals, uncertain: false.into(), thread: None }
    }
}

enum Failure {
    Runtime(RuntimeError),
    Broken(Broken),
}

fn checked<W, T>(
    result: Result<W, bindings::exports::writ::runtime::runtime::Error>,
    convert: impl FnOnce(W) -> Result<T, Broken>,
) -> Result<T, Failure> {
    let page = result.map_err(|error| Failure::Runtime(convert::error(error)))?;
    convert(page).map_err(Failure::Broken)
}

fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    Writ::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    // For authors' components, whose std asks for it; it leads nowhere (see `state::store`).
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    Ok(linker)
}

fn imports(engine: &wasmtime::Engine, component: &Component) -> Arc<[String]> {
    component.component_type().imports(engine).map(|(name, _)| name.to_owned()).collect()
}

/// The innermost cause: the trap itself, without the frames around it.
fn reason(trap: &wasmtime::Error) -> String {
    trap.root_cause().to_string()
}
