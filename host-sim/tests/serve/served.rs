//! A server in this process, over the real component.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use host_sim::clock::SystemClock;
use host_sim::engine::{ComponentSource, Engine};
use host_sim::host::{Host, Parts};
use host_sim::http::{ClientToken, Drain, ServeOptions, Server};
use host_sim::limits::HostLimits;
use host_sim::model::scripted::ScriptedModel;
use host_sim::script::Script;
use host_sim::store::Store;
use host_sim::store::memory::MemoryStore;
use host_sim::tools::scripted::{ExecutionLog, ScriptedTools};
use serde_json::json;
use tokio::task::JoinHandle;

use super::client::TOKEN;

/// What the model says: at once, in pieces, or late.
pub const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "long"
text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
chunks = 16
delay_ms = 60
[[answer]]
when = "fast"
text = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
chunks = 100
delay_ms = 1
[[answer]]
when = "late"
text = "Here I am."
delay_ms = 2500
[[answer]]
when = "never"
text = "You will not see this."
delay_ms = 600000
[[answer]]
text = "Hello."
"#;

/// A server, and what it is over.
pub struct Served {
    pub addr: SocketAddr,
    pub host: Host,
    pub drain: Drain,
    pub running: JoinHandle<()>,
}

/// Any free port.
pub fn options() -> ServeOptions {
    ServeOptions { addr: SocketAddr::from(([127, 0, 0, 1], 0)), has_token: true, ..ServeOptions::default() }
}

impl Served {
    /// Over the real component, a script, and a store in memory.
    pub async fn start(options: ServeOptions) -> Self {
        Self::with(options, Arc::new(MemoryStore::default()), Some(TOKEN)).await
    }

    pub async fn with(options: ServeOptions, store: Arc<dyn Store>, token: Option<&str>) -> Self {
        let engine = tokio::task::spawn_blocking(engine).await.expect("it loads");
        let script = Arc::new(Script::parse(SCRIPT).expect("a good script"));
        let clock = Arc::new(SystemClock);
        let agents = json!({"agents": [{"name": "helper", "model": "m", "tools": []}]}).to_string();
        let auth = token.map(|token| ClientToken::new(token).expect("a good token").auth_setting("local/operator"));
        let settings = [("agents".to_owned(), agents)].into_iter();
        let parts = Parts {
            component: ComponentSource::Embedded,
            store,
            model: Arc::new(ScriptedModel::new(script.clone(), clock.clone())),
            tools: Arc::new(ScriptedTools::new(script, clock.clone(), Arc::new(ExecutionLog::in_memory()))),
            clock,
            settings: settings.chain(auth.map(|auth| ("auth".to_owned(), auth))).collect(),
            limits: HostLimits { linger_ms: 50, ..HostLimits::small() },
        };
        Self::over(Host::with_engine(engine, parts), options).await
    }

    /// Over any host.
    pub async fn over(host: Host, options: ServeOptions) -> Self {
        let server = Server::bind(host.clone(), options).await.expect("it binds");
        let (addr, drain) = (server.addr(), server.drain());
        Self { addr, host, drain, running: tokio::spawn(server.run()) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// One for all tests.
fn engine() -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let load = || Engine::load(&ComponentSource::Embedded, &HostLimits::small()).expect("the component loads");
    ENGINE.get_or_init(load).clone()
}
