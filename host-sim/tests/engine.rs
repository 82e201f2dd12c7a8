//! The engine, driven by the test guest: calls pass unchanged, every cap holds, a wrong component is explained.

mod kit;

use std::sync::atomic::Ordering;

use host_sim::clock::VirtualClock;
use host_sim::data::{Body, Level, Request, RuntimeError, Tail};
use host_sim::engine::{ComponentSource, Engine, EngineError};
use host_sim::error::HostError;
use host_sim::limits::HostLimits;
use kit::{Kit, START, ask, engine_of};

/// The reason of a trap, and the component's own words about it.
async fn trapped(kit: &Kit, order: &str, lines: &str) -> (String, Option<String>) {
    match kit.ask(order, lines).await {
        Err(HostError::Trapped { export: "respond", reason, panic }) => (reason, panic),
        other => panic!("{order}: {other:?}"),
    }
}

/// The next call gets an instance of its own, whatever became of the last.
async fn still_answers(kit: &Kit) {
    assert_eq!(kit.told("get", "p/1/absent").await, "nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_and_its_answer_pass_unchanged() {
    let kit = Kit::new();
    let request = Request::post("/echo", &serde_json::json!({"a": 1})).header("X-Name", "v").principal("r/s");
    let response = kit.host.respond(request).await.unwrap();
    assert_eq!((response.status, &*response.text()), (200, r#"r/s {"a":1}"#));
    assert_eq!(response.header("x-name"), Some("v"));
    assert_eq!(response.header("content-type"), Some("application/json"));

    let response = kit.ask("stream", "").await.unwrap();
    assert_eq!(response.body, Body::Stream(Tail { feed: "feed".into(), after: 7, thread: "thread".into() }));
    let page = kit.host.follow("feed", 7).await.unwrap();
    assert_eq!((page.frames[0].number, page.end), (8, true));
    let missing = kit.host.follow("other", 0).await;
    assert!(matches!(missing, Err(HostError::Runtime(RuntimeError::NotFound))), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_adds_its_pages_up() {
    let mut pages = 0;
    let report = Kit::new().host.audit_all(|_| pages += 1).await.unwrap();
    assert_eq!((pages, report.pages, report.findings_total, report.threads, report.keys), (3, 3, 3, 3, 12));
}

#[tokio::test(flavor = "multi_thread")]
async fn computing_for_ever_is_trapped() {
    let kit = Kit::limited(HostLimits { compute_ms: 50, ..HostLimits::small() });
    for order in ["loop", "loop-calling"] {
        let (reason, _) = trapped(&kit, order, "").await;
        assert!(reason.contains("interrupt"), "{order}: {reason}");
    }
    still_answers(&kit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_has_a_cap() {
    let kit = Kit::new();
    let mib: u64 = kit.told("grow", "").await.parse().unwrap();
    assert!((48..64).contains(&mib), "{mib} MiB of 64");
    still_answers(&kit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stack_has_a_cap() {
    let kit = Kit::new();
    let (reason, _) = trapped(&kit, "recurse", "").await;
    assert!(reason.contains("stack"), "{reason}");
    still_answers(&kit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trap_tells_the_last_words_and_poisons_nobody() {
    let kit = Kit::new();
    let mut log = kit.host.log();
    let (_, panic) = trapped(&kit, "trap", "it was too much").await;
    assert_eq!(panic.as_deref(), Some("it was too much"));
    let line = log.recv().await.unwrap();
    assert_eq!((line.level, line.text.as_str()), (Level::Error, "it was too much"));
    still_answers(&kit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_are_checked_by_the_host() {
    let kit = Kit::new();
    let too_large = kit.told("huge-key", "").await;
    assert!(too_large.contains("TooLarge") && too_large.contains("1024"), "{too_large}");
    let small = Kit::limited(HostLimits { hostcall_bytes: 1 << 20, ..HostLimits::small() });
    let (reason, _) = trapped(&small, "huge-key", "").await;
    assert!(reason.contains("fuel"), "{reason}");
    trapped(&kit, "leak", "").await;
    trapped(&kit, "entropy", "0").await;
    trapped(&kit, "entropy", "1025").await;
    assert_eq!(kit.told("entropy", "1024").await, "1024");
    let broken = kit.ask("bad-status", "").await;
    assert!(matches!(broken, Err(HostError::Broken { export: "respond", .. })), "{broken:?}");
    let broken = kit.ask("work", &"i\n".repeat(65)).await;
    assert!(matches!(broken, Err(HostError::Broken { export: "respond", .. })), "{broken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authors_component_finds_nothing_outside() {
    let kit = Kit::new();
    assert_eq!(kit.told("environment", "").await, "0 false");
    assert!(kit.host.imports().iter().any(|name| name.starts_with("wasi:")), "the test guest has std");
}

/// Shows A15.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_has_a_time_limit_of_its_own() {
    let limits = HostLimits { call_ms: 1, ..HostLimits::small() };
    let kit = Kit::with(kit::engine(), limits, VirtualClock::new(START).reach(0), "");
    let late = kit.ask("wait-clock", "").await;
    assert!(matches!(late, Err(HostError::TimedOut { export: "respond", limit_ms: 1 })), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_calls_than_the_pool_has_places_wait() {
    let limits = HostLimits { sessions: 3, ..HostLimits::small() };
    let mut kit = Kit::with(engine_of(&limits), limits, VirtualClock::new(START), "");
    let calls: Vec<_> = (0..12)
        .map(|_| {
            let host = kit.host.clone();
            tokio::spawn(async move { ask(&host, "tools", "gate").await.unwrap().text().into_owned() })
        })
        .collect();
    assert_eq!(kit.seen.sorted(3).await.len(), 3, "as many as there are places get in");
    kit.tools.gate.add_permits(12);
    for call in calls {
        assert_eq!(call.await.unwrap(), "0:passed");
    }
    assert!(kit.tools.behind_gate_most.load(Ordering::SeqCst) <= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_leave_a_place_to_other_calls() {
    let limits = HostLimits { sessions: 2, ..HostLimits::small() };
    let mut kit = Kit::with(engine_of(&limits), limits, VirtualClock::new(START), "");
    kit.work("a\nb\nc").await;
    kit.seen.sorted(1).await;
    still_answers(&kit).await;
}

#[test]
fn a_wrong_component_is_named_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.wasm");
    let load = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        Engine::load(&ComponentSource::File(file.clone()), &HostLimits::small()).err().expect("an error")
    };
    for (bytes, says) in [
        (&b"hello, this is text"[..], "does not begin"),
        (b"", "does not begin"),
        (b"\0asm\x01\0\0\0", "core module"),
        (b"\0asm\x0d\0\x01\0\xff\xff", "x.wasm"),
    ] {
        let error = load(bytes);
        assert!(matches!(error, EngineError::NotComponent { .. }), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
    }
    // A component with nothing in it.
    let error = load(b"\0asm\x0d\0\x01\0");
    assert!(matches!(error, EngineError::OtherWorld { .. }), "{error:?}");
    assert!(error.to_string().contains("writ:runtime/runtime"), "{error}");
    std::fs::remove_file(&file).unwrap();
    let error = Engine::load(&ComponentSource::File(file.clone()), &HostLimits::small()).err();
    assert!(matches!(error, Some(EngineError::Read { .. })), "{error:?}");
}
