//! The handles, driven by the test guest: each does what `wit/` says, whatever the part behind it does.

mod kit;

use std::sync::atomic::Ordering;
use std::time::Duration;

use host_sim::error::HostError;
use host_sim::limits::HostLimits;
use kit::{Kit, START, ask};

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_own_keys_are_denied() {
    let kit = Kit::new();
    for (order, lines) in [
        ("get", "host/lease"),
        ("get-many", "p/1/x\nhost/lease"),
        ("commit", "host/lease\nhost/lease=1"),
        ("commit", "p/1/x\np/1/x=1\nhost/lease=1"),
    ] {
        let text = kit.told(order, lines).await;
        assert!(text.contains("Denied"), "{order}: {text}");
    }
    assert_eq!(kit.told("append", "p/1/x").await, "1 then 0");
    assert_eq!(kit.told("get", "p/1/x").await, "nothing", "nothing was applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_are_guarded_and_read_back() {
    let kit = Kit::new();
    assert_eq!(kit.told("commit", "p/1/g\np/1/g=1\np/1/x=2").await, "Ok(Outcome::Committed)");
    assert_eq!(kit.told("get", "p/1/x").await, "2");
    assert_eq!(kit.told("commit", "p/1/g\np/1/g=9").await, "Ok(Outcome::Stale(Some([49])))");
}

/// Shows A15.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_or_panics_leaves_commits_unknown_and_reads_unavailable() {
    for panics in [false, true] {
        let kit = Kit::limited(HostLimits { store_ms: 1, ..HostLimits::small() });
        (if panics { &kit.store.panics } else { &kit.store.hangs }).store(true, Ordering::SeqCst);
        let text = kit.told("get", "p/1/x").await;
        assert!(text.contains("Unavailable"), "{text}");
        let text = kit.told("commit", "p/1/g\np/1/g=1").await;
        assert!(text.contains("Unknown"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_stream_end_and_fail() {
    let mut kit = Kit::new();
    let events = kit.told("model", "words").await;
    assert_eq!(events, r#"[Event::Text("a"), Event::Text("b")] [Event::Stop(StopReason::End)]"#);
    kit.seen.expect("completion dropped").await;
    for (model, says) in [("busy", "retry-after-ms: Some(5)"), ("panic-at-start", "as told"), ("panic", "as told")] {
        let text = kit.told("model", model).await;
        assert!(text.contains(says), "{model}: {text}");
    }
    assert!(kit.told("model", "too-many").await.contains("at most 2"));
}

/// The wait is far longer than the test may take: what ends it here is what is said to end it.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_gathered_up_to_the_end_and_no_longer() {
    let gathering = |linger_ms| HostLimits { linger_ms, ..HostLimits::small() };
    let text = |text: &str| format!("Event::Text({text:?})");
    let (a, b, c) = (text("a"), text("b"), text("c"));
    let kit = Kit::in_real_time(gathering(600_000));
    let stopped = kit.told("model", "drops-stop\n100").await;
    assert_eq!(stopped, format!("[{a}, {b}, {c}, Event::Stop(StopReason::End)]"));
    // Not more than it asked for.
    let stopped = kit.told("model", "drops-stop\n2").await;
    assert_eq!(stopped, format!("[{a}, {b}] [{c}, Event::Stop(StopReason::End)]"));
    // What came before an error, or an end without a stop, is not lost to it, and the error isn't either.
    assert_eq!(kit.told("model", "drops-end\n100").await, format!("[{a}, {b}, {c}]"));
    let failed = kit.told("model", "drops-fail\n100").await;
    assert_eq!(failed, format!("[{a}, {b}, {c}] Error::Quota(\"as told\")"));
    let panicked = kit.told("model", "drops-panic\n100").await;
    assert!(panicked.starts_with(&format!("[{a}, {b}, {c}] Error::Unknown(")), "{panicked}");
    // What would be too much at once comes by itself.
    let large = kit.told("model", "drops-large\n100").await;
    assert!(large.starts_with(&format!("[{a}, {b}, {c}] [Event::Text(\"xxx")), "{}", &large[..100]);
    // Time ends it, too; and without it, or on a scripted clock, every event comes as it is there.
    let kit = Kit::in_real_time(HostLimits { model_next_ms: 200, ..gathering(50) });
    let hung = kit.told("model", "drops-hang\n100").await;
    assert!(hung.starts_with(&format!("[{a}, {b}, {c}] Error::Transient(")), "{hung}");
    let single = format!("[{a}] [{b}] [{c}] [Event::Stop(StopReason::End)]");
    assert_eq!(Kit::in_real_time(gathering(0)).told("model", "drops-stop\n100").await, single);
    assert_eq!(Kit::limited(gathering(600_000)).told("model", "drops-stop\n100").await, single);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_gathering_and_loses_nothing() {
    let mut kit = Kit::in_real_time(HostLimits { linger_ms: 600_000, ..HostLimits::small() });
    kit.work("i").await;
    kit.seen.expect("i: began").await;
    kit.tools.order("i", "model drops-hang\n100");
    kit.seen.expect("model hangs").await;
    kit.work("i cancel").await;
    let told = r#"i: [Event::Text("a"), Event::Text("b"), Event::Text("c")] [Event::Signal]"#;
    let heard = async {
        kit.seen.expect("completion dropped").await;
        kit.seen.expect(told).await;
    };
    // Far shorter than the gathering would be.
    tokio::time::timeout(Duration::from_secs(60), heard).await.expect("the signal did not end it");
}

/// Shows A15.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_hangs_is_transient() {
    let kit = Kit::limited(HostLimits { model_next_ms: 1, ..HostLimits::small() });
    let text = kit.told("model", "hang").await;
    assert!(text.contains("Transient"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_tools_run_at_the_same_time() {
    // Each waits for the other two: one after another they would never end.
    let text = Kit::new().told("tools", "meet\nmeet\nmeet").await;
    assert_eq!(text, "0:met|1:met|2:met");
}

/// Shows B40.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_tool_is_an_error_reply_and_nothing_more() {
    let kit = Kit::new();
    let text = kit.told("tools", "panic\nmissing\nnot-blocks\ntoo-large\nsay").await;
    let replies: Vec<_> = text.split('|').collect();
    assert_eq!(replies[0], "0:!The tool crashed: as told");
    assert_eq!(replies[1], "1:!There is no tool `missing`.");
    assert_eq!(replies[2], "2:!The tool's reply is not a list of content blocks.");
    assert!(replies[3].starts_with("3:!The tool's reply has 2097"), "{}", replies[3]);
    assert_eq!(replies[4], "4:respond.say");
    assert!(!kit.told("declared", "").await.contains("not a name"));
    match kit.ask("tools", &"say\n".repeat(33)).await {
        Err(HostError::Trapped { reason, .. }) => {
            assert!(reason.contains("at most 32"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_job_stops_its_tool() {
    let mut kit = Kit::new();
    let call = tokio::spawn({
        let host = kit.host.clone();
        async move { ask(&host, "drop-job", "").await.unwrap().text().into_owned() }
    });
    kit.seen.expect("tool hangs").await;
    assert_eq!(kit.seen.sorted(2).await, ["gate", "tool dropped"]);
    kit.tools.gate.add_permits(1);
    assert_eq!(call.await.unwrap(), "0:hung 0:passed");
}

/// Shows A33.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_stops_its_tools() {
    let mut kit = Kit::new();
    let call = tokio::spawn({
        let host = kit.host.clone();
        async move { ask(&host, "tools", "hang").await.map(drop) }
    });
    kit.seen.expect("tool hangs").await;
    call.abort();
    kit.seen.expect("tool dropped").await;
}

/// Shows A33.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_cancels_its_completion() {
    let mut kit = Kit::new();
    let call = tokio::spawn({
        let host = kit.host.clone();
        async move { ask(&host, "model", "hang").await.map(drop) }
    });
    kit.seen.expect("model hangs").await;
    call.abort();
    kit.seen.expect("completion dropped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_end_at_their_time() {
    let kit = Kit::new();
    assert_eq!(kit.told("wait-clock", &(START + 5).to_string()).await, format!("{}, []", START + 5));
    let until = START + 9;
    assert_eq!(kit.told("wait-tools-until", &until.to_string()).await, format!("[] at {until}"));
    assert_eq!(kit.told("wait-clock", "7").await, format!("{until}, []"), "no wait for the past");
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_are_checked() {
    let kit = Kit::new();
    let schema = r#"{"properties":{"a":{"type":"integer"}}}"#;
    assert_eq!(kit.told("schema", &format!("{schema}\n{{\"a\":1}}")).await, "Ok([])");
    let text = kit.told("schema", &format!("{schema}\n{{\"a\":\"x\"}}")).await;
    assert!(text.starts_with("Ok([Violation") && text.contains(r#"path: "/a""#), "{text}");
    let text = kit.told("schema", "{\"$ref\":\"https://example.com/s.json\"}\n1").await;
    assert!(text.starts_with("Err("), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_reach_who_watches() {
    let kit = Kit::new();
    let mut watch = kit.host.watch();
    kit.told("publish", &format!("t\n{}", "x".repeat(70_000))).await;
    kit.told("publish", "t\n{}").await;
    let event = watch.recv().await.unwrap();
    assert_eq!((event.thread.as_str(), event.event.as_str()), ("t", "{}"), "the one too large is not shown");
}
