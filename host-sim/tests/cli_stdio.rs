//! `writ acp` and `writ mcp` as an editor starts them: processes of their own, spoken to over pipes.
#![cfg(all(feature = "cli", unix))]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "send"
text = "I begin."
calls = [{ name = "send" }]
[[answer]]
when = "slow"
text = "one two three four five six seven eight nine ten eleven twelve"
chunks = 12
delay_ms = 100
[[answer]]
text = "Hello."
[[tool]]
name = "send"
reply = "sent"
delay_ms = 600000
"#;

/// How long a step may take on a busy machine.
const STEP_MAX: Duration = Duration::from_secs(60);

fn command(folder: &Path, words: &[&str]) -> Command {
    let script = folder.join("script.toml");
    std::fs::write(&script, SCRIPT).expect("a script");
    let mut command = Command::new(env!("CARGO_BIN_EXE_writ"));
    command.args(words).arg("--data").arg(folder.join("data")).arg("--script").arg(script);
    command.env("WRIT_TELEMETRY__LOG", "warn").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(STEP_MAX, future).await.unwrap_or_else(|_| panic!("{what} did not come"))
}

/// A process, spoken to.
struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<Value>,
}

impl Peer {
    fn start(folder: &Path, words: &[&str]) -> Self {
        let mut child = command(folder, words).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let stdin = child.stdin.take();
        Self { child, stdin, lines, seen: Vec::new() }
    }

    /// An ACP agent that has been greeted.
    async fn acp(folder: &Path) -> Self {
        let mut peer = Self::start(folder, &["acp"]);
        peer.ask(0, "initialize", json!({"protocolVersion": 1})).await;
        peer
    }

    async fn send(&mut self, message: Value) {
        let mut line = message.to_string();
        line.push('\n');
        self.stdin.as_mut().expect("its stdin").write_all(line.as_bytes()).await.expect("it reads");
    }

    async fn request(&mut self, id: u64, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.request(id, method, params).await;
        self.until(|line| line["id"] == id).await
    }

    /// The next line; each line of stdout must be a message.
    async fn next(&mut self) -> Option<Value> {
        let line = soon("a line", self.lines.next_line()).await.expect("text")?;
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        self.seen.push(message.clone());
        Some(message)
    }

    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.next().await.unwrap_or_else(|| panic!("it ended; seen: {:#?}", self.seen));
            if fits(&line) {
                return line;
            }
        }
    }

    async fn session(&mut self) -> String {
        let made = self.ask(1, "session/new", json!({"cwd": "/", "mcpServers": []})).await;
        made["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    async fn prompt(&mut self, id: u64, session: &str, text: &str) {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request(id, "session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
    }

    /// Loads a session; all that was told of it before the answer.
    async fn load(&mut self, session: &str) -> Vec<Value> {
        let from = self.seen.len();
        let answer = self.ask(7, "session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []})).await;
        assert_eq!(answer["result"], json!({}));
        let told = self.seen[from..].iter().filter(|line| line["method"] == "session/update");
        told.map(|line| line["params"]["update"].clone()).collect()
    }

    /// Closes its stdin: it ends by itself. Its exit code, the rest of its messages, its stderr.
    async fn end(mut self) -> (Option<i32>, Vec<Value>, String) {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        while let Some(line) = self.next().await {
            rest.push(line);
        }
        let status = soon("its end", self.child.wait()).await.expect("a status");
        let mut stderr = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut stderr).await.expect("text");
        (status.code(), rest, stderr)
    }

    async fn kill(mut self) {
        self.child.kill().await.expect("it can be killed");
    }
}

/// Rows 92, 97. Nothing but messages is on stdout; the end of stdin is the end, and the turn goes on at the next start.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_finds_its_turn_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut peer = Peer::acp(folder.path()).await;
    let session = peer.session().await;
    peer.prompt(2, &session, "slow").await;
    peer.until(|line| line["params"]["update"]["sessionUpdate"] == "agent_message_chunk").await;
    let (code, rest, stderr) = peer.end().await;
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(rest.iter().all(|line| line["id"] != 2), "{rest:?}");

    // Once more, to see what comes live after a load.
    let mut peer = Peer::acp(folder.path()).await;
    peer.load(&session).await;
    while peer
        .load(&session)
        .await
        .iter()
        .all(|update| update["content"]["text"].as_str().is_none_or(|t| !t.ends_with("twelve")))
    {}
    peer.prompt(3, &session, "hi").await;
    let answer = peer.until(|line| line["id"] == 3).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(peer.end().await.0, Some(0));
}

/// Row 91: `kill -9` in the middle of a tool call.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_says_what_was_interrupted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut peer = Peer::acp(folder.path()).await;
    let session = peer.session().await;
    peer.prompt(2, &session, "send").await;
    peer.until(|line| line["params"]["update"]["status"] == "in_progress").await;
    let log = folder.path().join("data/script-executions.jsonl");
    soon("the tool", async {
        while !std::fs::read_to_string(&log).is_ok_and(|text| text.ends_with('\n')) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    peer.kill().await;
    let mut peer = Peer::acp(folder.path()).await;
    let failed = loop {
        let told = peer.load(&session).await;
        if let Some(update) = told.into_iter().find(|update| update["status"] == "failed") {
            break update;
        }
    };
    assert_eq!((&failed["toolCallId"], &failed["_meta"]["writ/outcome"]), (&json!("1.0"), &json!("interrupted")));
    let text = failed["content"][0]["content"]["text"].as_str().expect("a text");
    assert!(text.contains("interrupted") && text.contains("not run again"), "{text}");
    peer.prompt(3, &session, "hi").await;
    assert_eq!(peer.until(|line| line["id"] == 3).await["result"]["stopReason"], "end_turn");
    peer.end().await;
    let log = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(log.lines().count(), 1, "{log}");
}

/// With time to drain, a whole conversation fits a pipe.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_is_answered_to_its_end_when_there_is_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut peer = Peer::start(folder.path(), &["acp", "--drain-seconds", "60", "--store", "memory"]);
    peer.ask(0, "initialize", json!({"protocolVersion": 1})).await;
    let session = peer.session().await;
    peer.prompt(2, &session, "hi").await;
    let (code, rest, _) = peer.end().await;
    assert_eq!(code, Some(0));
    assert_eq!(rest.last().expect("an answer")["result"]["stopReason"], "end_turn", "{rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_named_and_a_folder_in_use_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut peer = Peer::start(folder.path(), &["acp", "--agent", "clerk"]);
    peer.ask(0, "initialize", json!({"protocolVersion": 1})).await;
    assert!(peer.session().await.starts_with("clerk/"));
    for name in ["acp", "mcp"] {
        let second = Peer::start(folder.path(), &[name]);
        let (code, rest, stderr) = second.end().await;
        assert_eq!((code, rest), (Some(5), Vec::new()), "{stderr}");
        assert!(stderr.contains("in use") && stderr.contains("--data") && stderr.contains("writ serve"), "{stderr}");
    }
    assert_eq!(peer.end().await.0, Some(0));
    let refused = command(folder.path(), &["acp", "--agent", "no name"]).output().await.expect("it runs");
    assert_eq!((refused.status.code(), refused.stdout), (Some(2), Vec::new()));
}

/// A process that is told to stop stops, as if its client had left.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_is_an_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut peer = Peer::acp(folder.path()).await;
    let id = peer.child.id().expect("it runs").to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().await.expect("kill").success());
    assert!(peer.next().await.is_none());
    assert_eq!(soon("its end", peer.child.wait()).await.expect("a status").code(), Some(0));
}

fn legacy(message: &str) -> Value {
    json!({"name": "helper", "arguments": {"message": message}})
}

/// A request of the modern era.
fn modern(id: &str, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Row 30. A call that is cancelled gets no message more, its turn ends; unknown cancellations change nothing; the end of
/// stdin is the end.
#[tokio::test(flavor = "multi_thread")]
async fn mcp_over_pipes_cancels_and_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut peer = Peer::start(folder.path(), &["mcp"]);
    peer.send(modern("d", "server/discover", json!({}))).await;
    let found = peer.until(|line| line["id"] == "d").await;
    assert_eq!(found["result"]["resultType"], "complete", "{found}");
    peer.send(modern("c", "tools/call", legacy("send"))).await;
    // Answered while the call waits.
    peer.send(modern("l", "tools/list", json!({}))).await;
    let listed = peer.until(|line| line["id"] == "l").await;
    assert!(listed["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{listed}");
    let cancel =
        |id: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    peer.send(cancel(json!("unknown"))).await;
    peer.send(cancel(json!("c"))).await;
    peer.send(cancel(json!("c"))).await;
    peer.send(modern("h", "tools/call", legacy("hi"))).await;
    let answer = peer.until(|line| line["id"] == "h").await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(peer.seen.iter().all(|line| line["id"] != "c"), "{:#?}", peer.seen);
    let (code, rest, stderr) = peer.end().await;
    assert_eq!((code, rest, stderr.as_str()), (Some(0), Vec::new(), ""));
    let mut inspect = Command::new(env!("CARGO_BIN_EXE_writ"));
    inspect.args(["inspect", "submissions", "--json"]).arg("--data").arg(folder.path().join("data"));
    let seen: Value = serde_json::from_slice(&inspect.output().await.expect("it runs").stdout).expect("JSON");
    let submissions = seen["submissions"].as_array().expect("submissions");
    let ended: Vec<&Value> = submissions.iter().map(|one| &one["outcome"]["status"]).collect();
    assert!(ended.contains(&&json!("aborted")) && ended.contains(&&json!("completed")), "{ended:?}");
}

/// The era of `initialize` over the same pipe.
#[tokio::test(flavor = "multi_thread")]
async fn mcp_of_the_older_era_over_pipes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut peer = Peer::start(folder.path(), &["mcp", "--store", "memory"]);
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let agreed = peer.ask(1, "initialize", params).await;
    assert_eq!(agreed["result"]["protocolVersion"], "2025-11-25", "{agreed}");
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    assert_eq!(peer.ask(2, "ping", json!({})).await["result"], json!({}));
    let called = peer.ask(3, "tools/call", legacy("hi")).await;
    assert!(called["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("Hello.")), "{called}");
    assert_eq!(peer.end().await.0, Some(0));
}

/// Row 96: what is a cancellation to one protocol is nothing to another; and a line that is refused cancels nothing.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_cancellation_that_is_one_cancels() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut peer = Peer::acp(folder.path()).await;
    let session = peer.session().await;
    peer.prompt(5, &session, "slow").await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    peer.send(cancel.clone()).await;
    peer.send(json!({"method": "$/cancel_request", "params": {"requestId": 5}})).await;
    let answer = peer.until(|line| line["id"] == 5).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    peer.end().await;

    let mut peer = Peer::start(folder.path(), &["mcp"]);
    for id in [json!(1.0), json!("b")] {
        let mut call = modern("x", "tools/call", legacy("slow"));
        call["id"] = id.clone();
        peer.send(call).await;
        peer.send(json!(["x", "notifications/cancelled", {"requestId": id}])).await;
        peer.send(json!({"method": "notifications/cancelled", "params": {"requestId": id}})).await;
        let whole = if id == 1.0 { json!(1) } else { id };
        let answer = peer.until(|line| line["id"] == whole && line.get("result").is_some()).await;
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    // An id is a number, however it is written.
    let mut call = modern("x", "tools/call", legacy("send"));
    call["id"] = json!(2.0);
    peer.send(call).await;
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})).await;
    peer.send(modern("h", "tools/call", legacy("hi"))).await;
    peer.until(|line| line["id"] == "h").await;
    assert!(peer.seen.iter().all(|line| line["id"] != 2), "{:#?}", peer.seen);
    assert_eq!(peer.end().await.0, Some(0));
}

/// Row 30: the end of stdin is the end, also for a client that has stopped reading.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_comes_though_nobody_reads() {
    for (words, line) in [
        ("mcp", modern("l", "tools/list", json!({}))),
        ("acp", json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = command(folder.path(), &[words]).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // More than the pipes hold: it is read ahead.
        let text = format!("{line}\n").repeat(4000);
        soon("room for what is asked", stdin.write_all(text.as_bytes())).await.expect("it reads");
        drop(stdin);
        let status = soon("its end", child.wait()).await.expect("a status");
        assert_eq!(status.code(), Some(0), "{words}");
    }
}
