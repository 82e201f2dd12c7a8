//! A client of ACP: speaks to a host over pipes, as an editor does to a process of its own. Every line must be one that the
//! protocol has, with the fields that it asks for; `tests/clients/acp_client.mjs` holds lines against the whole schema.

use std::time::Duration;

use host_sim::host::Host;
use host_sim::stdio::{StdioOptions, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use crate::{OWNER, World};

/// How long a line may take on a busy machine.
const LINE_MAX: Duration = Duration::from_secs(60);

/// A client, and the server that it speaks to.
pub struct Editor {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    input: Option<WriteHalf<DuplexStream>>,
    asked: Vec<(Value, String)>,
    /// What it has read, in order.
    pub seen: Vec<Value>,
    server: JoinHandle<std::io::Result<()>>,
}

impl Editor {
    /// A client of a host, before its first word.
    pub fn start(host: &Host) -> Self {
        Self::start_at(host, "/acp")
    }

    /// With a path of its own.
    pub fn start_at(host: &Host, path: &str) -> Self {
        let ((near, far), (read, written)) = (tokio::io::duplex(1 << 20), tokio::io::duplex(1 << 20));
        let options = StdioOptions { look_again: Duration::from_millis(200), ..StdioOptions::new(path, OWNER) };
        let server = tokio::spawn(serve(host.clone(), options, far, written));
        let lines = BufReader::new(tokio::io::split(read).0).lines();
        let input = Some(tokio::io::split(near).1);
        Self { lines, input, asked: Vec::new(), seen: Vec::new(), server }
    }

    /// A client that has agreed on the version.
    pub async fn open(world: &World) -> Self {
        Self::open_on(&world.host).await
    }

    /// As [`Editor::open`], of a host.
    pub async fn open_on(host: &Host) -> Self {
        let mut editor = Self::start(host);
        editor.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})).await;
        editor
    }

    /// Sends bytes as a line.
    pub async fn line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its input is open");
        input.write_all(format!("{line}\n").as_bytes()).await.expect("somebody reads");
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
    }

    /// Answers a request of the agent's.
    pub async fn answer(&mut self, id: &Value, result: Value) {
        self.line(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()).await;
    }

    /// Sends a request; its id.
    pub async fn send(&mut self, method: &str, params: Value) -> Value {
        let id = json!(self.asked.len() + 1);
        self.asked.push((id.clone(), method.to_owned()));
        self.line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
        id
    }

    /// Sends a request and waits for its answer; what came before it is in `seen`.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer_to(&id).await
    }

    /// The next line.
    pub async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(LINE_MAX, self.lines.next_line()).await.expect("a line in time");
        let line = line.expect("a pipe").unwrap_or_else(|| panic!("the server has ended; seen: {:#?}", self.seen));
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.hold(&line);
        self.seen.push(line.clone());
        line
    }

    /// Waits for the answer of a request; it may have come already.
    pub async fn answer_to(&mut self, id: &Value) -> Value {
        let is = |line: &Value| line["id"] == *id && line.get("method").is_none();
        if let Some(line) = self.seen.iter().find(|line| is(line)) {
            return line.clone();
        }
        self.until(is).await
    }

    /// Reads until a line that fits.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.next().await;
            if fits(&line) {
                return line;
            }
        }
    }

    /// Reads until an update of a kind.
    pub async fn update(&mut self, kind: &str) -> Value {
        let line = self.until(|line| line["params"]["update"]["sessionUpdate"] == kind).await;
        line["params"]["update"].clone()
    }

    /// A new session.
    pub async fn session(&mut self) -> String {
        let made = self.ask("session/new", json!({"cwd": "/work", "mcpServers": []})).await;
        made["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    /// Sends a prompt; its id.
    pub async fn prompt(&mut self, session: &str, text: &str) -> Value {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Sends a prompt and waits for its answer: why the turn stopped.
    pub async fn turn(&mut self, session: &str, text: &str) -> Value {
        let id = self.prompt(session, text).await;
        self.answer_to(&id).await["result"]["stopReason"].clone()
    }

    /// Loads a session: the updates before the answer, in short, and the answer.
    pub async fn load(&mut self, session: &str) -> (Vec<String>, Value) {
        let from = self.seen.len();
        let answer = self.ask("session/load", json!({"sessionId": session, "cwd": "/work", "mcpServers": []})).await;
        (self.short(from, session), answer)
    }

    /// The updates of a session from a place in `seen` on, in short; pieces of one message are put together.
    pub fn short(&self, from: usize, session: &str) -> Vec<String> {
        let mut all: Vec<(String, String)> = Vec::new();
        for line in self.seen[from..].iter().filter(|line| line["params"]["sessionId"] == session) {
            let update = &line["params"]["update"];
            let Some(kind) = update["sessionUpdate"].as_str() else { continue };
            let (head, text) = match kind.strip_suffix("_chunk") {
                Some(who) => {
                    let text = update["content"]["text"].as_str().unwrap_or_default();
                    (format!("{who} {}", update["messageId"].as_str().unwrap_or("?")), text.to_owned())
                }
                None => {
                    let (call, status) = (&update["toolCallId"], &update["status"]);
                    (kind.to_owned(), format!("{} {}", call.as_str().unwrap_or("?"), status.as_str().unwrap_or("?")))
                }
            };
            match all.last_mut() {
                Some((last, so_far)) if *last == head && kind.ends_with("_chunk") => so_far.push_str(&text),
                _ => all.push((head, text)),
            }
        }
        all.into_iter().map(|(head, text)| format!("{head}: {text}")).collect()
    }

    /// Asserts that nothing more comes of what was done so far: a line sent now is answered next.
    pub async fn is_quiet(&mut self) {
        let id = self.send("session/list", json!({"cursor": "no cursor"})).await;
        let next = self.next().await;
        assert_eq!(next["id"], id, "there was still {next}");
    }

    /// Closes its end; what was still to be read.
    pub async fn leave(mut self) -> Vec<Value> {
        drop(self.input.take());
        self.server.await.expect("it does not panic").expect("the input can be read");
        let mut rest = Vec::new();
        while let Ok(Some(line)) = self.lines.next_line().await {
            rest.push(serde_json::from_str(&line).expect("JSON"));
        }
        rest
    }

    /// The line is a message of the protocol.
    fn hold(&self, line: &Value) {
        assert_eq!(line["jsonrpc"], "2.0", "{line}");
        let params = &line["params"];
        match line["method"].as_str() {
            Some("session/update") => {
                has(line, params, &["sessionId", "update"]);
                update(line, &params["update"]);
            }
            Some("session/request_permission") => {
                assert!(line["id"].is_string(), "{line}");
                has(line, params, &["sessionId", "toolCall", "options"]);
                has(line, &params["toolCall"], &["toolCallId"]);
                for option in params["options"].as_array().expect("options") {
                    has(line, option, &["optionId", "name", "kind"]);
                }
            }
            Some(other) => panic!("{other} is not to be sent: {line}"),
            None if !line["error"].is_null() => {
                assert!(line["error"]["code"].is_i64() && line["error"]["message"].is_string(), "{line}");
            }
            None => {
                let asked = self.asked.iter().find(|(id, _)| *id == line["id"]);
                let (_, method) = asked.unwrap_or_else(|| panic!("nobody asked for {line}"));
                let answers = self.seen.iter().filter(|seen| seen["id"] == line["id"] && seen.get("method").is_none());
                assert_eq!(answers.count(), 0, "a second answer: {line}");
                let fields: &[&str] = match method.as_str() {
                    "initialize" => &["protocolVersion", "agentCapabilities", "agentInfo"],
                    "session/new" => &["sessionId"],
                    "session/list" => &["sessions"],
                    "session/prompt" => &["stopReason"],
                    "session/load" | "session/resume" | "session/close" | "session/delete" => &[],
                    other => panic!("{other} has no answer: {line}"),
                };
                has(line, &line["result"], fields);
            }
        }
    }
}

/// An update is one that every client knows, or that this one has asked for.
fn update(line: &Value, update: &Value) {
    let status = |known: &[&str]| {
        assert!(update["status"].as_str().is_some_and(|status| known.contains(&status)), "{line}");
    };
    match update["sessionUpdate"].as_str().unwrap_or_default() {
        "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
            has(line, update, &["content", "messageId"]);
            has(line, &update["content"], &["type"]);
        }
        "tool_call" => {
            has(line, update, &["toolCallId", "title", "kind", "rawInput"]);
            status(&["pending"]);
        }
        "tool_call_update" => {
            has(line, update, &["toolCallId"]);
            status(&["in_progress", "completed", "failed"]);
        }
        "notice" => has(line, update, &["severity", "title"]),
        "compaction_update" => has(line, update, &["compactionId", "status"]),
        other => panic!("{other} is no update: {line}"),
    }
}

/// An object has fields.
fn has(line: &Value, object: &Value, fields: &[&str]) {
    assert!(object.is_object(), "{line}");
    let missing = fields.iter().find(|field| object.get(**field).is_none_or(Value::is_null));
    assert_eq!(missing, None, "{line}");
}

/// A line that is an error of a code.
pub fn code(line: &Value) -> i64 {
    line["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {line}"))
}
