//! What the tests share: a world with the real component under the real host, scripted models and tools, a virtual
//! clock, and a store that counts its calls, checks the protocol's rules, and can be made to crash.
#![cfg(not(target_family = "wasm"))]

pub mod a2a;
pub mod acp;
mod appends;
mod broken;
pub mod cited;
mod crash;
mod described;
mod gate;
mod heard;
pub mod mcp;
mod meanwhile;
mod rules;
mod survive;
mod viewer;
mod watched;

pub use appends::{Appends, AppendsStore};
pub use broken::{Broken, BrokenStore};
pub use crash::{CrashStore, Fault};
pub use described::{Described, Seen};
pub use gate::Gate;
pub use heard::Heard;
pub use meanwhile::MeanwhileStore;
pub use rules::{RulesStore, Watch};
pub use survive::{Kill, Survived, survive};
pub use viewer::{Frame, Viewer, gap};
pub use watched::WatchedModel;
pub use writ_sim as sim;

use std::collections::BTreeMap;
use std::sync::Arc;

use host_sim::clock::VirtualClock;
use host_sim::data::{Request, Response};
use host_sim::engine::{ComponentSource, Engine};
use host_sim::host::{Host, Parts};
use host_sim::limits::HostLimits;
use host_sim::model::scripted::ScriptedModel;
use host_sim::script::Script;
use host_sim::store::Store;
use host_sim::store::counted::{CountedStore, StoreCalls};
use host_sim::store::memory::MemoryStore;
use host_sim::tools::scripted::{ExecutionLog, ScriptedTools};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// Who asks, unless a test says otherwise.
pub const OWNER: &str = "local/operator";

/// Where the scripted clock begins: 2025-01-01.
pub const START_MS: u64 = 1_735_689_600_000;

/// A host, and what it is made of.
pub struct World {
    /// The host.
    pub host: Host,
    /// Its store, counted.
    pub store: Arc<CountedStore>,
    /// Its model, and what that was asked.
    pub model: Arc<WatchedModel>,
    /// What its scripted tools have executed.
    pub log: Arc<ExecutionLog>,
    /// Its time.
    pub clock: Arc<VirtualClock>,
    /// Its parts, for another host on the same store.
    pub parts: Parts,
    /// The agent that `submit` and its like speak to.
    pub agent: String,
    /// Fails the test when a commit broke a rule of the protocol.
    pub rules: Watch,
}

/// How a world is made.
pub struct Setup {
    /// The script of model and tools.
    pub script: String,
    /// The store; `None`: a new one in memory.
    pub store: Option<Arc<dyn Store>>,
    /// More settings.
    pub settings: BTreeMap<String, String>,
    /// The agent's limits.
    pub limits: Value,
    /// The component.
    pub component: ComponentSource,
    /// The agent that `submit` and its like speak to.
    pub agent: String,
    /// How far the clock jumps by itself; `None`: as it likes.
    pub reach: Option<u64>,
}

impl Setup {
    /// A world of a script, with one agent, `helper`, that has all the script's tools.
    pub fn new(script: &str) -> Self {
        Self {
            script: script.to_owned(),
            store: None,
            settings: BTreeMap::new(),
            limits: json!({}),
            component: ComponentSource::Embedded,
            agent: "helper".into(),
            reach: None,
        }
    }

    /// A world of a script, with an agent of `examples/triage` or, if it has no such agent, `examples/trials`.
    pub fn example(agent: &str, script: &str) -> Self {
        let file = if agent == "triage" { env!("WRIT_TRIAGE") } else { env!("WRIT_TRIALS") };
        Self { agent: agent.to_owned(), ..Self::new(script).component(ComponentSource::File(file.into())) }
    }

    /// On a store.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// With limits of the agent.
    pub fn limits(mut self, limits: Value) -> Self {
        self.limits = limits;
        self
    }

    /// With a setting.
    pub fn setting(mut self, name: &str, value: Value) -> Self {
        self.settings.insert(name.to_owned(), value.to_string());
        self
    }

    /// With a clock that jumps only so far by itself; 0: it is moved by hand.
    pub fn reach(mut self, ms: u64) -> Self {
        self.reach = Some(ms);
        self
    }

    /// With another component.
    pub fn component(mut self, component: ComponentSource) -> Self {
        self.component = component;
        self
    }

    /// Makes the world.
    pub async fn world(self) -> World {
        let script = Arc::new(Script::parse(&self.script).expect("the test's script is well formed"));
        let clock = VirtualClock::new(START_MS);
        let clock = Arc::new(self.reach.map_or(clock, |ms| VirtualClock::new(START_MS).reach(ms)));
        let log = Arc::new(ExecutionLog::in_memory());
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let rules = Arc::new(RulesStore::new(store));
        let store = Arc::new(CountedStore::new(rules.clone()));
        let names: Vec<&str> = script.tools.iter().map(|t| t.name.as_str()).collect();
        let agents = json!({"agents": [{
            "name": "helper", "model": "scripted", "instructions": "Help.", "tools": names, "limits": self.limits,
        }]});
        let mut settings = self.settings;
        settings.entry("agents".into()).or_insert_with(|| agents.to_string());
        let model = Arc::new(WatchedModel::new(Arc::new(ScriptedModel::new(script.clone(), clock.clone()))));
        let parts = Parts {
            component: self.component,
            store: store.clone(),
            model: model.clone(),
            tools: Arc::new(ScriptedTools::new(script, clock.clone(), log.clone())),
            clock: clock.clone(),
            settings,
            limits: HostLimits::small(),
        };
        let host = host(&parts).await;
        World { host, store, model, log, clock, parts, agent: self.agent, rules: Watch(rules) }
    }
}

/// A host of parts.
pub async fn host(parts: &Parts) -> Host {
    Host::with_engine(engine(parts).await, parts.clone())
}

/// A component, loaded. Each is loaded once for all tests of a process.
pub async fn engine(parts: &Parts) -> Engine {
    static LOADED: Mutex<Vec<(ComponentSource, Engine)>> = Mutex::const_new(Vec::new());
    let mut loaded = LOADED.lock().await;
    match loaded.iter().find(|(source, _)| *source == parts.component) {
        Some((_, engine)) => engine.clone(),
        None => {
            let engine = Engine::load(&parts.component, &HostLimits::small()).expect("the component loads");
            loaded.push((parts.component.clone(), engine.clone()));
            engine
        }
    }
}

impl World {
    /// A world of a script.
    pub async fn new(script: &str) -> Self {
        Setup::new(script).world().await
    }

    /// A request of [`OWNER`].
    pub async fn send(&self, request: Request) -> Response {
        let request = if request.principal.is_none() { request.principal(OWNER) } else { request };
        self.host.respond(request).await.expect("the component answers")
    }

    /// Submits a message; the answer as it comes.
    pub async fn submit(&self, thread: &str, key: &str, message: &str) -> Response {
        self.submit_body(thread, key, &json!({"message": message})).await
    }

    /// Submits a body.
    pub async fn submit_body(&self, thread: &str, key: &str, body: &Value) -> Response {
        let path = format!("/v1/agents/{}/threads/{thread}/submissions", self.agent);
        self.send(Request::post(path, body).header("idempotency-key", key)).await
    }

    /// Submits a message and waits until nothing is left to do; the submission as it then stands.
    pub async fn ask(&self, thread: &str, key: &str, message: &str) -> Value {
        let accepted = self.submit(thread, key, message).await;
        assert!(accepted.status < 300, "{}: {}", accepted.status, accepted.text());
        self.host.settled().await;
        self.submission(accepted.json().expect("JSON")["id"].as_str().expect("an id")).await
    }

    /// Submits a message that must be accepted; its id.
    pub async fn accept(&self, thread: &str, key: &str, message: &str) -> String {
        self.accept_body(thread, key, &json!({"message": message})).await
    }

    /// Submits a body that must be accepted; its id.
    pub async fn accept_body(&self, thread: &str, key: &str, body: &Value) -> String {
        let accepted = self.submit_body(thread, key, body).await;
        assert!(accepted.status < 300, "{}: {}", accepted.status, accepted.text());
        accepted.json().expect("JSON")["id"].as_str().expect("an id").to_owned()
    }

    /// Asks to cancel a submission.
    pub async fn cancel(&self, id: &str) -> Response {
        self.send(Request::post(format!("/v1/submissions/{id}/cancel"), &json!({}))).await
    }

    /// Sends a body to a route of a thread, with a key.
    pub async fn post(&self, thread: &str, route: &str, key: &str, body: &Value) -> Response {
        let path = format!("/v1/agents/helper/threads/{thread}/{route}");
        self.send(Request::post(path, body).header("idempotency-key", key)).await
    }

    /// Deletes a thread.
    pub async fn delete(&self, thread: &str) -> Response {
        self.send(Request::new("DELETE", format!("/v1/agents/helper/threads/{thread}"))).await
    }

    /// Imports messages into a new thread, page by page.
    pub async fn import(&self, thread: &str, session: Value, messages: &[Value]) {
        let opening = json!({"session": session, "count": messages.len(), "digest": "00"});
        let begun = self.post(thread, "import", "import", &opening).await;
        assert_eq!(begun.status, 202, "{}", begun.text());
        for (i, page) in messages.chunks(48).enumerate() {
            let sent = self.post(thread, &format!("import/{}", i * 48), "page", &json!({"messages": page})).await;
            let whole = i * 48 + page.len() == messages.len();
            assert_eq!(sent.status, if whole { 200 } else { 202 }, "{}", sent.text());
        }
    }

    /// Another host with this one's parts and other settings: a redeploy.
    pub async fn redeployed(&self, agents: Value) -> Host {
        let mut parts = self.parts.clone();
        parts.settings.insert("agents".into(), agents.to_string());
        host(&parts).await
    }

    /// A submission.
    pub async fn submission(&self, id: &str) -> Value {
        let response = self.send(Request::get(format!("/v1/submissions/{id}"))).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json().expect("JSON")
    }

    /// All messages of a thread.
    pub async fn messages(&self, thread: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let path = format!("/v1/agents/{}/threads/{thread}/messages?limit=256&after={}", self.agent, all.len());
            let response = self.send(Request::get(path)).await;
            assert_eq!(response.status, 200, "{}", response.text());
            let page = response.json().expect("JSON");
            all.extend(page["messages"].as_array().expect("messages").iter().cloned());
            if page["next"].is_null() {
                return all;
            }
        }
    }

    /// The transcript in short: one line a message.
    pub async fn transcript(&self, thread: &str) -> Vec<String> {
        self.messages(thread).await.iter().map(line).collect()
    }

    /// The calls of the store since a count.
    pub fn calls_since(&self, before: StoreCalls) -> StoreCalls {
        self.store.calls() - before
    }

    /// The audit finds nothing, and no key has leaked.
    pub async fn check(&self) {
        let broken = self.rules.0.broken();
        assert!(broken.is_empty(), "rules were broken: {broken:#?}");
        check(&self.host, &*self.store).await;
    }
}

/// The audit finds nothing, and accounts for every key of the store.
pub async fn check(host: &Host, store: &dyn Store) {
    let report = host.audit_all(|_| {}).await.expect("the audit runs");
    let keys: Vec<String> = match report.findings.is_empty() && report.keys == store.count().await.expect("a count") {
        true => return,
        false => store.dump().await.expect("a dump").into_iter().map(|(key, _)| key).collect(),
    };
    panic!("{:#?}\n{} keys accounted for, of {}: {keys:#?}", report.findings, report.keys, keys.len());
}

/// Lets everyone else work until a condition holds.
pub async fn until(mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), wait).await.expect("the condition never held");
}

/// A message in short: `user: hi`, `assistant: let me look [lookup {"order":7}]`, `toolResult(interrupted): …`.
pub fn line(message: &Value) -> String {
    let role = message["role"].as_str().unwrap_or("?");
    let note = message["outcome"].as_str().or(message["kind"].as_str()).map(|o| format!("({o})")).unwrap_or_default();
    let text: Vec<String> = message["content"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|block| match block["type"].as_str() {
            Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
            Some("toolCall") => format!("[{} {}]", block["name"].as_str().unwrap_or("?"), block["arguments"]),
            _ => block.to_string(),
        })
        .collect();
    format!("{role}{note}: {}", text.join(" "))
}
