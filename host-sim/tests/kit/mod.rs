//! What the tests of the engine and of the scheduler share: the test guest, and parts that do as they are told.
#![allow(dead_code, reason = "each test binary uses its part of it")]

mod parts;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use host_sim::clock::{Clock, SystemClock, VirtualClock};
use host_sim::data::{Request, Response};
use host_sim::engine::{ComponentSource, Engine};
use host_sim::error::HostError;
use host_sim::host::{Host, Parts};
use host_sim::limits::HostLimits;

pub use parts::{Models, ScriptStore, ScriptTools, Seen};

/// Unix ms at which the virtual clocks of the tests start.
pub const START: u64 = 1_000_000;

/// The test guest, built once.
pub fn guest() -> ComponentSource {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    ComponentSource::File(FILE.get_or_init(build).clone())
}

fn build() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/Cargo.toml");
    let target_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
    let mut cargo = Command::new(env!("CARGO"));
    // What clippy, coverage or the caller set for the host is not for the guest.
    for name in
        ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"]
    {
        cargo.env_remove(name);
    }
    cargo.args(["build", "--release", "--locked", "--target", "wasm32-wasip2", "--manifest-path"]).arg(manifest);
    let status = cargo.env("CARGO_TARGET_DIR", &target_dir).status().expect("cargo runs");
    assert!(status.success(), "the test guest could not be built");
    target_dir.join("wasm32-wasip2/release/guest.wasm")
}

/// An engine with the test guest that all tests of a binary share.
pub fn engine() -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| engine_of(&HostLimits::small())).clone()
}

/// An engine with the test guest and a pool of its own.
pub fn engine_of(limits: &HostLimits) -> Engine {
    Engine::load(&guest(), limits).expect("the test guest loads")
}

/// A host with the test guest, and a hold on its parts.
pub struct Kit {
    pub host: Host,
    pub store: Arc<ScriptStore>,
    pub tools: Arc<ScriptTools>,
    pub models: Arc<Models>,
    pub clock: Arc<VirtualClock>,
    pub seen: Seen,
}

impl Kit {
    /// A host of the shared engine.
    pub fn new() -> Self {
        Self::with(engine(), HostLimits::small(), VirtualClock::new(START), "")
    }

    pub fn limited(limits: HostLimits) -> Self {
        Self::with(engine(), limits, VirtualClock::new(START), "")
    }

    pub fn with(engine: Engine, limits: HostLimits, clock: VirtualClock, pending: &str) -> Self {
        let clock = Arc::new(clock);
        Self::timed(engine, limits, clock.clone(), clock, pending)
    }

    /// On the machine's clock; `clock` is nobody's.
    pub fn in_real_time(limits: HostLimits) -> Self {
        Self::timed(engine(), limits, Arc::new(SystemClock), Arc::new(VirtualClock::new(START)), "")
    }

    fn timed(
        engine: Engine,
        limits: HostLimits,
        time: Arc<dyn Clock>,
        clock: Arc<VirtualClock>,
        pending: &str,
    ) -> Self {
        let (tools, models, seen) = parts::script();
        let store = Arc::new(ScriptStore::default());
        let parts = Parts {
            component: ComponentSource::Embedded,
            store: store.clone(),
            model: models.clone(),
            tools: tools.clone(),
            clock: time,
            settings: [("pending".to_owned(), pending.to_owned())].into(),
            limits,
        };
        Self { host: Host::with_engine(engine, parts), store, tools, models, clock, seen }
    }

    /// One order to `respond`.
    pub async fn ask(&self, order: &str, lines: &str) -> Result<Response, HostError> {
        ask(&self.host, order, lines).await
    }

    /// One order to `respond`, and what the guest says.
    pub async fn told(&self, order: &str, lines: &str) -> String {
        self.ask(order, lines).await.expect("an answer").text().into_owned()
    }

    /// Has `respond` hand out work, one `instance [signal]` a line.
    pub async fn work(&self, lines: &str) {
        self.ask("work", lines).await.expect("an answer");
    }
}

pub async fn ask(host: &Host, order: &str, lines: &str) -> Result<Response, HostError> {
    let request = Request { body: lines.into(), ..Request::new("POST", format!("/{order}")) };
    host.respond(request).await
}
