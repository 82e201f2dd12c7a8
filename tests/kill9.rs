//! Real kills: a host process under load is ended with SIGKILL again and again, while clients repeat their requests by key
//! and keep their receipts. Then an auditor reconciles receipts, outcomes, transcripts and executed effects.
//!
//! Kills come after a random number of answers, not after a time. `WRIT_LONG_TESTS=1` makes it a long run: at least a minute
//! of kills, with new clients for as long as it lasts.
#![cfg(all(not(target_family = "wasm"), unix))]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use host_sim::clock::SystemClock;
use host_sim::data::Request;
use host_sim::engine::ComponentSource;
use host_sim::host::{Host, Parts};
use host_sim::limits::HostLimits;
use host_sim::model::scripted::ScriptedModel;
use host_sim::script::Script;
use host_sim::store::redb::RedbStore;
use host_sim::tools::scripted::{ExecutionLog, ScriptedTools};
use serde_json::{Value, json};
use writ_tests::{OWNER, check};

/// Set in the host process: its folder.
const FOLDER: &str = "WRIT_KILL9_FOLDER";

const SCRIPT: &str = r#"
[[answer]]
when = "pay"
text = "I pay and look."
calls = [{ name = "pay", arguments = {} }, { name = "look", arguments = {} }]
[[answer]]
when = "pay"
text = "It is paid."
[[answer]]
when = "hello"
text = "Hello to you, and a long answer that comes in pieces."
chunks = 4
delay_ms = 1
[[tool]]
name = "pay"
policy = "plain"
reply = "paid"
delay_ms = 2
[[tool]]
name = "look"
policy = "replay-safe"
reply = "seen"
delay_ms = 1
"#;

async fn host(folder: &Path) -> (Host, Arc<RedbStore>) {
    let script = Arc::new(Script::parse(SCRIPT).expect("a good script"));
    let store = Arc::new(RedbStore::open(&folder.join("data")).expect("the folder opens"));
    let log = Arc::new(ExecutionLog::open(folder.join("executions.jsonl")).expect("the log opens"));
    let clock = Arc::new(SystemClock);
    let agents = json!({"agents": [{"name": "helper", "model": "m", "tools": ["pay", "look"]}]});
    let parts = Parts {
        component: ComponentSource::Embedded,
        store: store.clone(),
        model: Arc::new(ScriptedModel::new(script.clone(), clock.clone())),
        tools: Arc::new(ScriptedTools::new(script, clock.clone(), log)),
        clock,
        settings: [("agents".to_owned(), agents.to_string())].into(),
        limits: HostLimits::small(),
    };
    (writ_tests::host(&parts).await, store)
}

/// The host process: a request a line in, an answer a line out. Not a test: `real_kills` starts it.
#[test]
#[ignore = "the host process of `real_kills_lose_nothing`"]
fn host_process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (host, _store) = runtime.block_on(host(&folder));
    runtime.block_on(host.sweep()).expect("a sweep");
    for line in std::io::stdin().lock().lines() {
        let Ok(asked) = line.map(|line| serde_json::from_str::<Value>(&line).expect("JSON")) else { return };
        let host = host.clone();
        runtime.spawn(async move {
            let mut request = Request::post(asked["path"].as_str().expect("a path"), &asked["body"]).principal(OWNER);
            request.method = asked["method"].as_str().expect("a method").to_owned();
            if let Some(key) = asked["key"].as_str() {
                request = request.header("idempotency-key", key);
            }
            let answer = host.respond(request).await;
            let (status, body) = match &answer {
                Ok(response) => (response.status, response.text().into_owned()),
                Err(error) => (500, error.to_string()),
            };
            println!("{}", json!({"n": asked["n"], "status": status, "body": body}));
        });
    }
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "host_process", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the host starts");
        let (input, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Self { child, input, output: BufReader::new(output) }
    }

    fn ask(&mut self, n: usize, client: &Client) {
        let request = match &client.receipt {
            None => json!({
                "n": n, "method": "POST", "key": client.key, "body": {"message": client.message},
                "path": format!("/v1/agents/helper/threads/{}/submissions", client.thread),
            }),
            Some(id) => json!({"n": n, "method": "GET", "path": format!("/v1/submissions/{id}"), "body": {}}),
        };
        // A host that is just being killed does not read any more.
        let _ = writeln!(self.input, "{request}");
    }

    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line).ok()? == 0 {
                return None;
            }
            // The test runner's own words come on the same pipe, and a killed host may leave half a line.
            if let Some(answer) = line.find('{').and_then(|at| serde_json::from_str(line[at..].trim_end()).ok()) {
                return Some(answer);
            }
        }
    }

    fn kill(mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("it ends");
    }
}

/// A client of one submission: it asks until it has the receipt, then until it has the outcome.
struct Client {
    thread: String,
    key: String,
    message: &'static str,
    receipt: Option<String>,
    outcome: Option<Value>,
}

impl Client {
    fn new(n: usize) -> Self {
        let message = if n.is_multiple_of(3) { "pay" } else { "hello" };
        Self { thread: format!("t{}", n % 17), key: format!("k{n}"), message, receipt: None, outcome: None }
    }

    /// Takes an answer in; whether it brings something new: the receipt, or the outcome.
    fn hear(&mut self, answer: &Value) -> bool {
        let status = answer["status"].as_u64().expect("a status");
        assert!(matches!(status, 200 | 202 | 503), "{answer}");
        let Ok(body) = serde_json::from_str::<Value>(answer["body"].as_str().expect("a body")) else { return false };
        if status == 503 {
            return false;
        }
        let id = body["id"].as_str().expect("an id").to_owned();
        let mut is_news = self.receipt.is_none();
        if let Some(before) = self.receipt.replace(id.clone()) {
            assert_eq!(before, id, "the receipt changed");
        }
        if body["state"] == "settled" {
            is_news |= self.outcome.is_none();
            if let Some(before) = &self.outcome {
                assert_eq!(*before, body["outcome"], "the outcome changed");
            }
            self.outcome = Some(body["outcome"].clone());
        }
        is_news
    }
}

/// Shows A8, B1, B4.
#[test]
fn real_kills_lose_nothing() {
    let long = std::env::var_os("WRIT_LONG_TESTS").is_some();
    let (count, kills, least) = if long { (600, 40, Duration::from_secs(60)) } else { (60, 6, Duration::ZERO) };
    let folder = tempfile::tempdir().expect("a folder");
    let mut clients: Vec<Client> = (0..count).map(Client::new).collect();
    let mut seed = 88_172_645_463_325_252u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let (mut killed, begun) = (0, Instant::now());
    let is_enough = |killed| killed >= kills && begun.elapsed() >= least;
    while !is_enough(killed) || clients.iter().any(|c| c.outcome.is_none()) {
        let mut process = Process::start(folder.path());
        let last = is_enough(killed);
        // Some work gets done in each life, or all would be given up; then any number of answers.
        let (mut news, mut left) = (4 + random(20), random(100));
        let mut open: Vec<usize> = (0..clients.len()).filter(|n| clients[*n].outcome.is_none()).collect();
        if open.is_empty() && killed >= kills {
            // The load goes on for as long as the kills do.
            open = (clients.len()..clients.len() + count).collect();
            clients.extend(open.iter().map(|n| Client::new(*n)));
        }
        if open.is_empty() {
            // All is done: what is asked again must be answered as before.
            open = (0..clients.len()).collect();
        }
        for n in open.iter().take(32) {
            process.ask(*n, &clients[*n]);
        }
        let mut waiting: Vec<usize> = open.into_iter().skip(32).rev().collect();
        while last || news > 0 || left > 0 {
            let Some(answer) = process.answer() else { panic!("the host ended by itself") };
            let n = answer["n"].as_u64().expect("a client") as usize;
            match clients[n].hear(&answer) {
                true if news > 0 => news -= 1,
                _ if news == 0 => left = left.saturating_sub(1),
                _ => {}
            }
            let next = if clients[n].outcome.is_none() { Some(n) } else { waiting.pop() };
            match next {
                Some(n) => process.ask(n, &clients[n]),
                None if clients.iter().all(|c| c.outcome.is_some()) => break,
                None => {}
            }
        }
        process.kill();
        killed += 1;
    }
    audit(folder.path(), &clients);
}

/// Receipts, outcomes, transcripts and effects agree.
fn audit(folder: &Path, clients: &[Client]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (host, store) = host(folder).await;
        check(&host, &*store).await;
        let get = async |path: String| {
            let response = host.respond(Request::get(path).principal(OWNER)).await.expect("an answer");
            assert_eq!(response.status, 200, "{}", response.text());
            response.json().expect("JSON")
        };
        let mut inputs: BTreeMap<String, u32> = BTreeMap::new();
        for thread in clients.iter().map(|c| &c.thread).collect::<std::collections::BTreeSet<_>>() {
            let mut after = 0;
            loop {
                let page = get(format!("/v1/agents/helper/threads/{thread}/messages?limit=256&after={after}")).await;
                for message in page["messages"].as_array().expect("messages") {
                    if message["role"] == "user" {
                        *inputs.entry(message["submission"].as_str().expect("an id").to_owned()).or_default() += 1;
                    }
                }
                match page["next"].as_u64() {
                    Some(next) => after = next,
                    None => break,
                }
            }
        }
        let mut completed = 0;
        for client in clients {
            let id = client.receipt.clone().expect("a receipt");
            let now = get(format!("/v1/submissions/{id}")).await;
            assert_eq!(Some(&now["outcome"]), client.outcome.as_ref(), "{id} has another outcome");
            // Who is killed ten times in a row without a new message is given up, and says so.
            let worn = now["outcome"]["error"]["code"] == "retry-exhausted";
            assert!(now["outcome"]["status"] == "completed" || worn, "{now}");
            completed += usize::from(!worn);
            assert_eq!(inputs.get(&id), Some(&1), "the input of {id} is not there just once");
        }
        assert!(completed * 10 >= clients.len() * 9, "only {completed} of {} completed", clients.len());
        assert_eq!(inputs.len(), clients.len(), "somebody's message is there that nobody has a receipt for");
    });
    let lines = std::fs::read_to_string(folder.join("executions.jsonl")).expect("the log");
    let mut paid: BTreeMap<String, u32> = BTreeMap::new();
    for line in lines.lines() {
        let Ok(execution) = serde_json::from_str::<Value>(line) else { continue };
        if execution["name"] == "pay" {
            *paid.entry(execution["effect_key"].as_str().expect("a key").to_owned()).or_default() += 1;
        }
    }
    assert!(paid.values().all(|n| *n == 1), "a plain tool ran twice for one call: {paid:?}");
    let asked = clients.iter().filter(|c| c.message == "pay").count();
    assert!(paid.len() <= asked, "{} payments for {asked} requests", paid.len());
}
