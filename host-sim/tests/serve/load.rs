//! Many turns wait on a slow model, many viewers watch, and the host is killed twice in the middle of it: nothing is
//! lost, nothing is answered in two ways, and no viewer sees a number twice.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;
use tokio::process::Command;

use super::client::{Client, TOKEN, until};
use super::process::Process;

/// A slow model: an answer in four pieces, two seconds apart.
const SLOW: &str = r#"
[model]
repeat_last = true
[[answer]]
text = "I thought about it for a while"
chunks = 4
delay_ms = 2000
"#;

/// How much: a few in every run, all of it with `WRIT_LONG_TESTS=1`.
struct Load {
    turns: usize,
    streams: usize,
    kills: usize,
}

impl Load {
    fn of_this_run() -> Self {
        match std::env::var_os("WRIT_LONG_TESTS") {
            Some(_) => Self { turns: 2000, streams: 500, kills: 2 },
            None => Self { turns: 60, streams: 20, kills: 2 },
        }
    }
}

/// What all clients count together.
#[derive(Default)]
struct Counts {
    accepted: AtomicUsize,
    settled: AtomicUsize,
    viewed: AtomicUsize,
}

/// A connection, if somebody listens now.
async fn open(addr: SocketAddr) -> Option<Client> {
    Some(Client::over(TcpStream::connect(addr).await.ok()?))
}

/// One client: submits, waits, and repeats what was not answered, until it has the outcome.
async fn turn(addr: SocketAddr, n: usize, counts: Arc<Counts>) -> Value {
    let line = format!("POST /v1/agents/helper/threads/t{n}/submissions");
    let mut receipt: Option<Value> = None;
    loop {
        let answer = match open(addr).await {
            Some(mut client) => {
                client.send(&line, &["idempotency-key: k", "prefer: wait=25"], br#"{"message":"Think."}"#).await;
                client.answer().await
            }
            None => None,
        };
        let Some(answer) = answer.filter(|answer| answer.status < 300) else {
            // As `retry-after` says, and not all at once.
            tokio::time::sleep(Duration::from_millis(1000 + n as u64 % 500)).await;
            continue;
        };
        let now = answer.json();
        if let Some(before) = &receipt {
            assert_eq!((&now["id"], &now["hash"]), (&before["id"], &before["hash"]), "{n} became another");
        } else {
            counts.accepted.fetch_add(1, Ordering::SeqCst);
        }
        if now["state"] == "settled" {
            counts.settled.fetch_add(1, Ordering::SeqCst);
            return now;
        }
        receipt = Some(now);
    }
}

/// One viewer: takes the stream up again wherever it was cut, until the thread's submission has its outcome.
async fn view(addr: SocketAddr, n: usize, counts: Arc<Counts>) {
    let mut seen: BTreeMap<u64, Value> = BTreeMap::new();
    loop {
        let last = seen.last_key_value().map_or(0, |(number, _)| *number);
        if let Some(mut client) = open(addr).await {
            let line = format!("GET /v1/agents/helper/threads/t{n}/stream?after={last}");
            client.send(&line, &[], b"").await;
            if client.head().await.is_some_and(|head| head.status == 200) {
                while let Some(event) = client.event().await {
                    let Some(number) = event.id else { continue };
                    assert!(number > last, "viewer {n} saw {number} again");
                    assert_eq!(seen.insert(number, event.data), None, "viewer {n} saw {number} twice");
                    if event.kind == "settled" {
                        counts.viewed.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(1000 + n as u64 % 500)).await;
    }
}

/// The most memory that a process has had, in KiB.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}

async fn start(data: &Path, addr: Option<SocketAddr>) -> Process {
    let addr = addr.map_or("127.0.0.1:0".to_owned(), |addr| addr.to_string());
    let room = ["--connections", "6000", "--streams", "1000", "--sessions", "2400"];
    Process::start_with(data, SLOW, &addr, &room).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_survives_kills() {
    let load = Load::of_this_run();
    let folder = tempfile::tempdir().expect("a folder");
    let mut process = start(folder.path(), None).await;
    let addr = process.addr;
    let counts = Arc::new(Counts::default());
    let turns: Vec<_> = (0..load.turns).map(|n| tokio::spawn(turn(addr, n, counts.clone()))).collect();
    let viewers: Vec<_> = (0..load.streams).map(|n| tokio::spawn(view(addr, n, counts.clone()))).collect();
    let mut most = 0;
    for kill in 0..load.kills {
        // Somewhere in the middle: some are accepted, few or none have their outcome.
        let wanted = load.turns * (kill + 1) / (load.kills + 1);
        let counted = || counts.accepted.load(Ordering::SeqCst) + counts.settled.load(Ordering::SeqCst);
        long_until("accepted turns", async || counted() >= wanted).await;
        most = most.max(peak(process.id()));
        process.signal("-KILL").await;
        process.end().await;
        process = start(folder.path(), Some(addr)).await;
    }
    let mut outcomes = Vec::new();
    for turn in turns {
        outcomes.push(turn.await.expect("a client ends"));
    }
    for viewer in viewers {
        viewer.await.expect("a viewer ends");
    }
    most = most.max(peak(process.id()));
    for outcome in &outcomes {
        assert_eq!(outcome["outcome"]["text"], "I thought about it for a while", "{outcome}");
    }
    assert_eq!(counts.viewed.load(Ordering::SeqCst), load.streams);
    // Asked again, it is the same to the byte.
    for (n, outcome) in outcomes.iter().enumerate() {
        assert_eq!(&turn(addr, n, counts.clone()).await, outcome);
    }
    process.signal("-TERM").await;
    until("the drain", async || process.has_ended().then_some(())).await;
    println!("{} turns, {} streams: at most {} MiB", load.turns, load.streams, most / 1024);
    // A fixed part (the engine, the pool's tables, the store's cache), and about a megabyte a turn.
    assert!(most / 1024 < 400 + load.turns as u64, "{} MiB", most / 1024);
    let mut check = Command::new(env!("CARGO_BIN_EXE_writ"));
    check.args(["check", "--data"]).arg(folder.path().join("data")).env_remove("WRIT_CLIENT_TOKEN");
    let checked = check.output().await.expect("it runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    assert!(!String::from_utf8_lossy(&checked.stderr).contains(TOKEN));
}

/// Waits for minutes, not for ever.
async fn long_until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looks = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(400), looks)
        .await
        .unwrap_or_else(|_| panic!("waited too long for {what}"));
}
