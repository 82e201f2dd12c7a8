//! The scheduler, driven by the test guest: its runs ask the tool `next` for orders and tell it how the last one went.

mod kit;

use host_sim::clock::{Clock, VirtualClock};
use host_sim::limits::HostLimits;
use kit::{Kit, START, engine};

/// A host whose clock only moves by hand.
fn by_hand() -> Kit {
    Kit::with(engine(), HostLimits::small(), VirtualClock::new(START).reach(0), "")
}

/// Shows A11, B30; trap 14.
#[tokio::test(flavor = "multi_thread")]
async fn one_run_an_instance_and_one_more_afterwards() {
    let mut kit = Kit::new();
    kit.work("a").await;
    kit.seen.expect("a: began").await;
    // Three times while it runs: one more run, and none beside it.
    for _ in 0..3 {
        kit.work("a").await;
    }
    kit.work("b").await;
    kit.seen.expect("b: began").await;
    kit.tools.order("b", "idle");
    kit.seen.expect_nothing();
    kit.tools.order("a", "idle");
    kit.seen.expect("a: began").await;
    kit.tools.order("a", "idle");
    kit.host.settled().await;
    kit.seen.expect_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_wait_for_a_model() {
    let mut kit = by_hand();
    kit.work("a").await;
    kit.seen.expect("a: began").await;
    kit.tools.order("a", "wait-model");
    kit.seen.expect("model hangs").await;
    kit.work("a cancel").await;
    let mut seen = kit.seen.sorted(2).await;
    assert_eq!(seen.remove(0), "a: Ok([Event::Signal]), [Signal::Cancel]");
    assert_eq!(seen, ["completion dropped"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_wait_for_tools() {
    let mut kit = by_hand();
    kit.work("a").await;
    kit.seen.expect("a: began").await;
    kit.tools.order("a", "wait-tools");
    kit.seen.expect("tool hangs").await;
    kit.work("a steer").await;
    assert_eq!(kit.seen.sorted(2).await, ["a: [], [Signal::Steer]", "tool dropped"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_wait_for_the_clock() {
    let mut kit = by_hand();
    kit.work("a").await;
    kit.seen.expect("a: began").await;
    kit.tools.order("a", "wait-clock");
    kit.seen.expect("tool tells").await;
    kit.work("a cancel").await;
    kit.seen.expect(&format!("a: {START}, [Signal::Cancel]")).await;
}

/// Shows B30.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_stays_until_it_is_taken_and_is_for_one_run() {
    let mut kit = by_hand();
    kit.work("a").await;
    kit.seen.expect("a: began").await;
    kit.work("a cancel").await;
    // The guest's wait for its next order is woken, and it polls.
    kit.seen.expect("a: no such order: signalled-Signal::Cancel").await;
    kit.tools.order("a", "idle");
    kit.seen.expect("a: began").await;
    kit.tools.order("a", "wait-clock 7");
    kit.seen.expect("tool tells").await;
    kit.seen.expect(&format!("a: {START}, []")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn later_is_run_again_at_its_time() {
    let mut kit = by_hand();
    kit.work("a").await;
    kit.seen.expect("a: began").await;
    kit.tools.order("a", &format!("later {}", START + 1_000));
    kit.host.settled().await;
    kit.seen.expect_nothing();
    kit.clock.advance_to(START + 999);
    kit.host.settled().await;
    kit.seen.expect_nothing();
    kit.clock.advance_to(START + 1_000);
    kit.seen.expect("a: began").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_brings_later_by_itself() {
    let mut kit = Kit::new();
    kit.work("a").await;
    kit.seen.expect("a: began").await;
    kit.tools.order("a", &format!("later {}", START + 60_000));
    kit.tools.order("a", "idle");
    kit.host.settled().await;
    kit.seen.expect("a: began").await;
    assert_eq!(kit.clock.now(), START + 60_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_work_does_not_wait_for_a_time() {
    let mut kit = by_hand();
    for order in [format!("later {}", START + 1_000), "failed".into(), "trap".into()] {
        kit.work("a").await;
        kit.seen.expect("a: began").await;
        kit.tools.order("a", &order);
        kit.host.settled().await;
    }
    kit.work("a").await;
    kit.seen.expect("a: began").await;
}

/// Shows A13, A31.
#[tokio::test(flavor = "multi_thread")]
async fn failed_and_trapped_runs_are_repeated_with_back_off() {
    let mut kit = by_hand();
    kit.work("a").await;
    let mut now = START;
    for (order, delay) in [("trap", 250), ("failed", 500), ("trap", 1_000), ("trap", 2_000)] {
        kit.seen.expect("a: began").await;
        kit.tools.order("a", order);
        kit.host.settled().await;
        kit.clock.advance_to(now + delay - 1);
        kit.host.settled().await;
        kit.seen.expect_nothing();
        now += delay;
        kit.clock.advance_to(now);
    }
    kit.seen.expect("a: began").await;
    kit.tools.order("a", "idle");
    kit.host.settled().await;
    // A good run makes it forget.
    kit.work("a").await;
    kit.seen.expect("a: began").await;
    kit.tools.order("a", "trap");
    kit.host.settled().await;
    kit.clock.advance(250);
    kit.seen.expect("a: began").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_always_fails_does_not_keep_the_host_from_settling() {
    let kit = Kit::new();
    for _ in 0..100 {
        kit.tools.order("a", "failed");
    }
    kit.work("a").await;
    kit.host.settled().await;
}

/// Shows trap 18.
#[tokio::test(flavor = "multi_thread")]
async fn fenced_is_run_again_by_the_next_sweep_only() {
    let mut kit = Kit::with(engine(), HostLimits::small(), VirtualClock::new(START), "a");
    kit.work("a").await;
    kit.seen.expect("a: began").await;
    kit.tools.order("a", "fenced");
    kit.host.settled().await;
    kit.clock.advance(3_600_000);
    kit.host.settled().await;
    kit.seen.expect_nothing();
    assert_eq!(kit.host.sweep().await.unwrap(), 1);
    kit.seen.expect("a: began").await;
}

/// Shows A13, A28, B9.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_runs_what_is_pending_and_not_running() {
    let mut kit = Kit::with(engine(), HostLimits::small(), VirtualClock::new(START), "a\nb\nc");
    kit.work("b").await;
    kit.seen.expect("b: began").await;
    assert_eq!(kit.host.sweep().await.unwrap(), 3);
    assert_eq!(kit.seen.sorted(2).await, ["a: began", "c: began"]);
    for instance in ["a", "b", "c"] {
        kit.tools.order(instance, "idle");
    }
    kit.host.settled().await;
    // A run under way has read what is there: no second one.
    kit.seen.expect_nothing();
}

/// Shows A8; trap 14.
#[tokio::test(flavor = "multi_thread")]
async fn trapped_uncertain_and_dropped_requests_are_followed_by_a_sweep() {
    let limits = HostLimits { store_ms: 1, ..HostLimits::small() };
    let mut kit = Kit::with(engine(), limits, VirtualClock::new(START).reach(0), "a");
    kit.ask("trap", "").await.unwrap_err();
    kit.seen.expect("a: began").await;
    kit.tools.order("a", "idle");
    kit.host.settled().await;

    kit.store.hangs.store(true, std::sync::atomic::Ordering::SeqCst);
    kit.told("commit", "p/1/g\np/1/g=1").await;
    kit.seen.expect("a: began").await;
    kit.tools.order("a", "idle");
    kit.host.settled().await;

    let call = tokio::spawn({
        let host = kit.host.clone();
        async move { kit::ask(&host, "model", "hang").await.map(drop) }
    });
    kit.seen.expect("model hangs").await;
    call.abort();
    assert_eq!(kit.seen.sorted(2).await, ["a: began", "completion dropped"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shut_down_host_runs_nothing() {
    let mut kit = by_hand();
    kit.work("a\nb").await;
    kit.seen.sorted(2).await;
    kit.tools.order("a", "wait-tools");
    kit.seen.expect("tool hangs").await;
    kit.tools.order("b", &format!("later {}", START + 5));
    kit.host.clone().shutdown().await;
    kit.seen.expect("tool dropped").await;
    kit.clock.advance(10);
    let refused = kit.ask("work", "a").await;
    assert!(matches!(refused, Err(host_sim::error::HostError::Closed)), "{refused:?}");
    kit.host.settled().await;
    kit.seen.expect_nothing();
}

#[test]
fn a_runtime_that_ends_under_a_host_takes_it_along() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut kit = runtime.block_on(async { by_hand() });
    let host = kit.host.clone();
    runtime.spawn(async move { kit::ask(&host, "model", "hang").await.map(drop) });
    runtime.block_on(async {
        kit.seen.expect("model hangs").await;
        kit.work("a").await;
        kit.seen.expect("a: began").await;
    });
    // The call is dropped, and what it then asks of the scheduler finds no runtime: that must not block.
    drop(runtime);
}
