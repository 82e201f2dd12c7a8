//! The commands against the real component: each is a process of its own, as a person would start it.
#![cfg(all(feature = "cli", not(target_family = "wasm")))]

use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use host_sim::store::Guard;
use host_sim::store::Store;
use host_sim::store::Write;
use host_sim::store::redb::RedbStore;
use serde_json::Value;

/// A clerk with a tool that takes ten minutes, and that nobody may repeat.
const SLOW: &str = r#"
[model]
name = "slow"
[[answer]]
text = "I begin."
calls = [{ name = "send", arguments = { to = "Ada" } }]
[[answer]]
text = "It is unknown whether it was sent."
[[tool]]
name = "send"
reply = "sent"
delay_ms = 600000
"#;

/// How long a step may take on a busy machine.
const STEP_MAX: Duration = Duration::from_secs(60);

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_writ"));
        command.args(words).env("WRIT_DATA", self.path("data")).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end; panics when its exit code is another one.
    fn writ(&self, exit: i32, words: &[&str]) -> Output {
        let output = self.command(words).output().expect("the binary runs");
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(exit), "{words:?}\nstdout: {stdout}\nstderr: {stderr}");
        output
    }

    fn json(&self, exit: i32, words: &[&str]) -> Value {
        let output = self.writ(exit, &[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stdout)))
    }

    /// Starts a command and waits until its tool has begun: the log of executions is written before the tool works.
    fn start_and_wait_for_tool(&self, words: &[&str]) -> Child {
        let mut child = self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = self.path("data/script-executions.jsonl");
        let until = Instant::now() + STEP_MAX;
        while !std::fs::read_to_string(&log).is_ok_and(|text| text.ends_with('\n')) {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("it ended early: {status}, {}", text(&child.wait_with_output().unwrap().stderr));
            }
            assert!(Instant::now() < until, "the tool has not begun within {STEP_MAX:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// Everything in the store.
    fn dump(&self) -> Vec<(String, Vec<u8>)> {
        with_store(&self.path("data"), async |store| store.dump().await.unwrap())
    }
}

fn with_store<T>(folder: &Path, work: impl AsyncFnOnce(Arc<RedbStore>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { work(Arc::new(RedbStore::open(folder).unwrap())).await })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_demo_comes_true() {
    let desk = Desk::new();
    let kept = desk.path("kept");
    let told = desk.json(0, &["demo", "--keep", kept.to_str().unwrap()]);
    assert_eq!(told["ok"], true, "{told}");
    assert_eq!(told["facts"]["attempts"], 2);
    assert_eq!(told["facts"]["executions"], 1);
    assert_eq!(told["facts"]["conflict"]["field"], "message");
    assert_eq!(told["facts"]["audit"]["findings"], 0);
    let id = told["facts"]["receipt"]["id"].as_str().unwrap();
    let explained = desk.json(0, &["explain", id, "--data", kept.to_str().unwrap()]);
    assert_eq!(explained["state"], "settled");
    desk.writ(3, &["demo", "--keep", kept.to_str().unwrap()]);
}

#[test]
fn a_run_prints_only_the_reply_and_its_id_before() {
    let desk = Desk::new();
    let first = desk.writ(0, &["run", "helper", "hello", "--id", "k1"]);
    assert!(text(&first.stdout).starts_with("You said: hello\n"), "{}", text(&first.stdout));
    assert!(text(&first.stderr).starts_with("writ: submission "));
    let again = desk.writ(0, &["run", "helper", "hello", "--id", "k1"]);
    assert_eq!((first.stdout, first.stderr), (again.stdout, again.stderr));
    let conflict = desk.writ(4, &["run", "helper", "other", "--id", "k1", "--json"]);
    let error: Value = serde_json::from_slice(&conflict.stderr).unwrap();
    assert_eq!((error["error"].as_str(), error["field"].as_str()), (Some("conflict"), Some("message")));
    assert!(conflict.stdout.is_empty());
    desk.writ(3, &["run", "nobody", "hello"]);
    let submissions = desk.json(0, &["inspect", "submissions"]);
    assert_eq!(submissions["submissions"].as_array().unwrap().len(), 1, "{submissions}");
}

/// Shows A17, A25, B4.
#[test]
fn a_killed_run_goes_on_with_the_same_command() {
    let desk = Desk::new();
    let script = desk.file("slow.toml", SLOW);
    let words = ["run", "clerk", "send it", "--id", "k1", "--script", &script];
    let mut child = desk.start_and_wait_for_tool(&words);
    child.kill().unwrap();
    let killed = child.wait_with_output().unwrap();
    assert!(killed.stdout.is_empty());
    let stderr = text(&killed.stderr);
    let id = stderr.lines().find_map(|l| l.strip_prefix("writ: submission ")).and_then(|l| l.split(' ').next());
    let id = id.unwrap_or_else(|| panic!("the id was not there before the kill: {stderr}"));

    let before = desk.dump();
    let explained = desk.json(0, &["explain", id]);
    assert_eq!(explained["rule"]["row"], "P6", "{explained}");
    desk.writ(0, &["inspect", "submissions"]);
    desk.writ(0, &["inspect", "thread", "clerk/run-k1"]);
    desk.writ(0, &["check"]);
    assert_eq!(desk.dump(), before, "looking changes nothing");

    let again = desk.writ(0, &words);
    assert_eq!(text(&again.stdout), "It is unknown whether it was sent.\n");
    let record = desk.json(0, &["inspect", "submission", id]);
    assert_eq!(record["attempt"], 2);
    let log = std::fs::read_to_string(desk.path("data/script-executions.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 1, "the plain tool was not run again: {log}");
    desk.writ(0, &["check"]);
}

#[cfg(unix)]
#[test]
fn ctrl_c_cancels_durably() {
    let desk = Desk::new();
    let script = desk.file("slow.toml", SLOW);
    let child = desk.start_and_wait_for_tool(&["run", "clerk", "send it", "--id", "k1", "--script", &script]);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("was aborted"), "{}", text(&ended.stderr));
    let submissions = desk.json(0, &["inspect", "submissions"]);
    assert_eq!(submissions["submissions"][0]["outcome"]["status"], "aborted");
    desk.writ(0, &["check"]);
}

#[test]
fn a_folder_in_use_is_said_so() {
    let desk = Desk::new();
    let script = desk.file("slow.toml", SLOW);
    let mut child = desk.start_and_wait_for_tool(&["run", "clerk", "x", "--script", &script]);
    let refused = desk.writ(5, &["inspect", "threads", "--json"]);
    let error: Value = serde_json::from_slice(&refused.stderr).unwrap();
    assert_eq!(error["error"], "data-in-use");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn cancel_settles_what_a_killed_command_left() {
    let desk = Desk::new();
    let script = desk.file("slow.toml", SLOW);
    let mut child = desk.start_and_wait_for_tool(&["run", "clerk", "x", "--id", "k1", "--script", &script]);
    child.kill().unwrap();
    child.wait().unwrap();
    let submissions = desk.json(0, &["inspect", "submissions"]);
    let id = submissions["submissions"][0]["id"].as_str().unwrap().to_string();
    let cancelled = desk.json(0, &["cancel", &id]);
    assert_eq!(cancelled["outcome"]["status"], "aborted", "{cancelled}");
    assert_eq!(desk.json(0, &["cancel", &id]), cancelled, "an outcome never changes");
    // What has ended can be paused as little.
    assert_eq!(desk.json(0, &["pause", &id])["outcome"], cancelled["outcome"]);
    assert_eq!(desk.json(0, &["resume", &id])["outcome"], cancelled["outcome"]);
}

#[test]
fn chat_talks_over_a_pipe() {
    use std::io::Write as _;
    let desk = Desk::new();
    let mut child = desk
        .command(&["chat", "helper", "trip"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"one\n\n/list\n/quit\nnever\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    assert!(text(&ended.stdout).starts_with("You said: one\n"));
    assert!(text(&ended.stdout).ends_with("There are no files.\n"));
    assert!(text(&ended.stderr).starts_with("writ: thread helper/trip"));
    let thread = desk.json(0, &["inspect", "thread", "helper/trip"]);
    assert_eq!(thread["messages"].as_array().unwrap().len(), 6);
}

#[test]
fn an_export_comes_back_to_the_byte() {
    let desk = Desk::new();
    desk.writ(0, &["run", "helper", "/write a.txt hello \u{1F980} \\u00e9", "--thread", "t"]);
    desk.writ(0, &["run", "helper", "/read a.txt", "--thread", "t"]);
    let file = desk.path("t.jsonl");
    let file = file.to_str().unwrap();
    desk.writ(0, &["export", "helper/t", "-o", file]);
    let exported = std::fs::read(file).unwrap();
    assert_eq!(desk.writ(0, &["export", "helper/t"]).stdout, exported);
    desk.writ(0, &["check", file]);

    let other = Desk::new();
    other.writ(0, &["import", file]);
    assert_eq!(other.writ(0, &["export", "helper/t"]).stdout, exported);
    other.writ(0, &["import", file]);
    other.writ(0, &["check"]);
    other.writ(0, &["run", "helper", "and on it goes", "--thread", "t"]);

    desk.writ(0, &["import", file, "--thread", "u"]);
    let copy = desk.writ(0, &["export", "helper/u"]).stdout;
    assert_eq!(text(&copy).replacen("\"thread\":\"u\"", "\"thread\":\"t\"", 1), text(&exported));
    desk.writ(4, &["import", other.file("x.jsonl", &text(&exported).replacen("hello", "other", 1)).as_str()]);
}

#[test]
fn forks_and_deletions_leave_nothing_behind() {
    let desk = Desk::new();
    desk.writ(0, &["run", "helper", "/list", "--thread", "t"]);
    let forked = desk.json(0, &["fork", "helper/t", "u", "--id", "f1"]);
    assert_eq!(forked["messages"], 4);
    assert_eq!(desk.json(0, &["fork", "helper/t", "u", "--id", "f1"]), forked);
    desk.writ(3, &["fork", "helper/t", "v", "--at", "2"]);
    desk.writ(0, &["delete", "helper/u"]);
    desk.writ(3, &["delete", "helper/u"]);
    // The guard of the partition and the heads of its lists stay; from then on it is always the same count.
    let keys = desk.json(0, &["check"])["totals"]["keys"].clone();
    desk.writ(0, &["fork", "helper/t", "u", "--id", "f1"]);
    desk.writ(0, &["delete", "helper/u"]);
    let after = desk.json(0, &["check"]);
    assert_eq!((&after["ok"], &after["totals"]["keys"]), (&Value::Bool(true), &keys), "{after}");
}

#[test]
fn a_leaked_key_breaks_the_check() {
    let desk = Desk::new();
    desk.writ(0, &["run", "helper", "hello"]);
    with_store(&desk.path("data"), async |store| {
        let key = "p/00/stray".to_string();
        let guard = Guard { key: key.clone(), expect: None };
        store.commit(guard, vec![Write { key, value: Some(b"x".to_vec()) }]).await.unwrap();
    });
    let report = desk.json(1, &["check"]);
    assert_eq!(report["ok"], false);
    assert_eq!(report["findings"][0]["invariant"], "leak", "{report}");
}

/// A recorded session with a turn that was aborted in the middle of its calls.
const RECORDING: &str = r#"{"type":"session","id":"x"}
{"type":"message","message":{"role":"user","content":[{"type":"text","text":"look"}],"timestamp":1}}
{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"toolCall","id":"c1","name":"bash","arguments":{"command":"ls"}}],"stopReason":"toolUse","timestamp":2}}
{"type":"message","message":{"role":"toolResult","toolCallId":"c1","toolName":"bash","content":[{"type":"text","text":"a b"}],"isError":false,"timestamp":3}}
{"type":"message","message":{"role":"user","content":[{"type":"text","text":"quickly please"}],"timestamp":4}}
{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"Two files."}],"stopReason":"stop","timestamp":5}}
{"type":"message","message":{"role":"user","content":"and then?","timestamp":6}}
{"type":"message","message":{"role":"assistant","content":[{"type":"toolCall","id":"c2","name":"bash","arguments":{"command":"rm"}}],"stopReason":"aborted","errorMessage":"Request was aborted","timestamp":7}}
{"type":"message","message":{"role":"user","content":[{"type":"text","text":"no"}],"timestamp":8}}
{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"Fine."}],"stopReason":"stop","timestamp":9}}
"#;

#[test]
fn a_recording_is_played_and_compared() {
    let desk = Desk::new();
    let file = desk.file("session.jsonl", RECORDING);
    let report = desk.json(0, &["replay", &file]);
    assert_eq!((report["equal"].as_bool(), report["messages"].as_u64()), (Some(true), Some(9)), "{report}");
    assert_eq!(report["closed_open"].as_array().unwrap().len(), 1, "{report}");
    let again = desk.json(0, &["replay", &file]);
    assert_eq!(again, report, "played twice, stored once");
    let other = desk.file("session.jsonl", &RECORDING.replace("Fine.", "Hardly."));
    let differs = desk.json(1, &["replay", &other]);
    assert_eq!(differs["differences"].as_array().unwrap().len(), 1, "{differs}");
}

#[test]
fn a_killed_replay_goes_on_with_the_same_command() {
    let desk = Desk::new();
    let file = desk.file("session.jsonl", RECORDING);
    // Any moment will do: each of these is another place in the replay.
    for after_ms in [0, 150, 300, 450, 600, 750] {
        let mut child = desk.command(&["replay", &file, "--delay", "100"]).stdout(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + STEP_MAX;
        while !grown(&desk.path("data")) && child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "it never began to write");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(after_ms));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let report = desk.json(0, &["replay", &file]);
    assert_eq!(report["equal"], true, "{report}");
    desk.writ(0, &["check"]);
}

/// Whether a database is there.
fn grown(folder: &Path) -> bool {
    std::fs::metadata(folder.join("writ.redb")).is_ok_and(|meta| meta.len() > 0)
}

/// A call that needs a person's word: `run` says how to give it, `approve` and `deny` give it once, and the turn goes on.
#[test]
fn a_call_waits_for_a_word() {
    let desk = Desk::new();
    let script = desk.file("asks.toml", &SLOW.replace("delay_ms = 600000", "policy = \"ask\""));
    let writ = |exit: i32, words: &[&str]| desk.writ(exit, &[words, &["--script", &script]].concat());
    let waiting = |id: &str| {
        let told = text(&writ(1, &["run", "clerk", "send it", "--id", id]).stderr);
        let (_, rest) = told.split_once("writ approve ").unwrap_or_else(|| panic!("no advice: {told}"));
        rest.split('`').next().unwrap_or_default().to_owned()
    };
    let sent = || std::fs::read_to_string(desk.path("data/script-executions.jsonl")).unwrap_or_default();
    let first = waiting("k1");
    assert_eq!(sent(), "");
    assert!(text(&writ(0, &["approve", &first]).stdout).contains("completed"));
    writ(0, &["approve", &first, "--call", "1.0"]);
    writ(4, &["deny", &first, "--call", "1.0"]);
    // Nothing waits any more.
    writ(4, &["approve", &first]);
    let once = sent();
    assert!(once.contains("send"), "{once}");
    let second = waiting("k2");
    assert!(text(&writ(0, &["deny", &second, "--reason", "Not now."]).stdout).contains("completed"));
    assert_eq!(sent(), once);
    desk.writ(0, &["check"]);
}
