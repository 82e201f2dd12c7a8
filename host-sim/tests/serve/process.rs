//! `writ serve` as a process of its own.
#![cfg(unix)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::client::{Event, TOKEN, ask, soon, stream, submit, until};
use super::served::SCRIPT;

/// A server that has said that it listens.
pub struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub addr: SocketAddr,
}

fn command(data: &Path, script: &str, addr: &str, extra: &[&str]) -> Command {
    let file = data.join("script.toml");
    std::fs::write(&file, script).expect("a script");
    let mut command = Command::new(env!("CARGO_BIN_EXE_writ"));
    command.args(["serve", "--addr", addr]).arg("--data").arg(data.join("data"));
    command.arg("--script").arg(file).args(extra).env("WRIT_CLIENT_TOKEN", TOKEN);
    // Nobody reads the log before the end: more than a pipe holds would stop the process.
    command.env("WRIT_TELEMETRY__LOG", "warn");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

impl Process {
    pub async fn start(data: &Path, extra: &[&str]) -> Self {
        Self::start_with(data, SCRIPT, "127.0.0.1:0", extra).await
    }

    /// With a script and an address of the caller's own.
    pub async fn start_with(data: &Path, script: &str, addr: &str, extra: &[&str]) -> Self {
        let mut child = command(data, script, addr, extra).spawn().expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        soon("the first line", stdout.read_line(&mut line)).await.expect("a line");
        let addr = line.strip_prefix("listening on http://").and_then(|line| line.trim_end().parse().ok());
        Self { child, stdout, addr: addr.unwrap_or_else(|| panic!("{line:?}")) }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a status").is_some()
    }

    pub async fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().await.expect("kill").success());
    }

    /// Its exit code, and all that it said but the first line.
    pub async fn end(mut self) -> (Option<i32>, String, String) {
        let status = soon("its end", self.child.wait()).await.expect("it ends");
        let (mut out, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).await.expect("text");
        self.child.stderr.take().expect("a pipe").read_to_string(&mut err).await.expect("text");
        (status.code(), out, err)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_drains_on_sigterm_and_others_see_what_it_did() {
    let folder = tempfile::tempdir().expect("a folder");
    let process = Process::start(folder.path(), &[]).await;
    let submitted = submit(process.addr, "t", "k1", "late", &[]).await;
    assert_eq!(submitted.status, 202);
    process.signal("-TERM").await;
    let addr = process.addr;
    until("the drain", async || {
        let ready = ask(addr, "GET /readyz", &[], b"").await;
        (ready.status == 503 && ready.json() == json!({"status": "draining"})).then_some(())
    })
    .await;
    let (code, out, err) = process.end().await;
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    assert!(!err.contains(TOKEN) && err.contains("stopping"), "{err}");
    let mut inspect = Command::new(env!("CARGO_BIN_EXE_writ"));
    inspect.args(["inspect", "submissions", "--json"]).arg("--data").arg(folder.path().join("data"));
    let seen = inspect.output().await.expect("it runs");
    let seen = String::from_utf8(seen.stdout).expect("text");
    let id = submitted.json()["id"].as_str().expect("an id").to_owned();
    assert!(seen.contains(&id) && seen.contains("Here I am."), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once_and_the_next_start_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let process = Process::start(folder.path(), &[]).await;
    let id = submit(process.addr, "t", "k1", "long", &[]).await.json()["id"].as_str().expect("an id").to_owned();
    let blocked = submit(process.addr, "u", "k2", "never", &[]).await;
    assert_eq!(blocked.status, 202);
    process.signal("-INT").await;
    let addr = process.addr;
    until("the drain", async || (ask(addr, "GET /readyz", &[], b"").await.status == 503).then_some(())).await;
    process.signal("-INT").await;
    assert_eq!(process.end().await.0, Some(130));
    let process = Process::start(folder.path(), &[]).await;
    let addr = process.addr;
    until("the outcome", async || {
        let record = ask(addr, &format!("GET /v1/submissions/{id}"), &[], b"").await.json();
        (record["outcome"]["status"] == "completed").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_served_is_said_and_not_tried() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut plain = Command::new(env!("CARGO_BIN_EXE_writ"));
    plain.args(["serve", "--store", "memory", "--addr", "0.0.0.0:0"]).env("WRIT_CLIENT_TOKEN", "");
    let output = soon("its end", plain.kill_on_drop(true).output()).await.expect("it runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b""[..]), "{text}");
    assert!(text.contains("open-address") && text.contains("WRIT_CLIENT_TOKEN"), "{text}");

    let process = Process::start(folder.path(), &["--store", "memory"]).await;
    let taken = process.addr.to_string();
    let mut second = Command::new(env!("CARGO_BIN_EXE_writ"));
    second.args(["serve", "--store", "memory", "--addr", &taken]).env("WRIT_CLIENT_TOKEN", "two words of a secret");
    let output = soon("its end", second.kill_on_drop(true).output()).await.expect("it runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("client_token") && !text.contains("secret"), "{text}");
    let output = soon("its end", second.env("WRIT_CLIENT_TOKEN", TOKEN).output()).await.expect("it runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains(&taken) && text.contains("--addr"), "{text}");
}

/// A viewer of a host that is killed sees every number at most once, and the end. Shows A21.
#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_outlives_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut seen: Vec<Event> = Vec::new();
    for turn in 0..3 {
        let process = Process::start(folder.path(), &[]).await;
        let submitted = submit(process.addr, "t", &format!("k{turn}"), "long", &[]).await;
        assert_eq!(submitted.status, 202);
        let last = seen.iter().rev().find_map(|event| event.id).unwrap_or(0);
        let mut viewer = stream(process.addr, "t", "?after=0", &[&format!("last-event-id: {last}")]).await;
        // In the middle of an answer, at another place each time.
        let mut texts = 0;
        while texts < 2 + turn {
            let event = viewer.event().await.expect("more events");
            texts += usize::from(event.kind == "text");
            seen.push(event);
        }
        process.signal("-KILL").await;
        while let Some(event) = viewer.event().await {
            seen.push(event);
        }
        assert_eq!(process.end().await.0, None);
    }
    // Started again without anything new: what was begun is brought to its end.
    let process = Process::start(folder.path(), &[]).await;
    let last = seen.iter().rev().find_map(|event| event.id).expect("a number");
    let mut viewer = stream(process.addr, "t", "", &[&format!("last-event-id: {last}")]).await;
    let settled = |seen: &[Event]| seen.iter().filter(|event| event.kind == "settled").count();
    while settled(&seen) < 3 {
        seen.push(viewer.event().await.expect("more events"));
    }
    assert!(seen.windows(2).all(|pair| pair[0].id < pair[1].id), "{seen:#?}");
    // Everything that was seen is still so, number by number.
    let mut again = stream(process.addr, "t", "?after=0", &[]).await;
    let last = seen.last().expect("events").id;
    let mut kept = Vec::new();
    loop {
        let event = again.event().await.expect("more events");
        kept.push(event);
        if kept.last().expect("events").id == last {
            break;
        }
    }
    for event in &seen {
        if event.kind == "gap" {
            continue;
        }
        let found = kept.iter().find(|other| other.id == event.id);
        assert!(found.is_none_or(|other| other == event || other.kind == "gap"), "{event:?} became {found:?}");
    }
    process.signal("-TERM").await;
    assert_eq!(process.end().await.0, Some(0));
}
