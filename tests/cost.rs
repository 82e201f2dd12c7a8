//! What operations cost, in calls of the store: docs/store.md has the table, this counts (protocol §7).
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use async_trait::async_trait;
use host_sim::clock::Clock;
use host_sim::data::Request;
use host_sim::host::Host;
use host_sim::store::counted::StoreCalls;
use host_sim::store::memory::MemoryStore;
use host_sim::store::{Guard, Outcome, Store, StoreError, Write};
use serde_json::{Value, json};
use writ_tests::{OWNER, START_MS, Setup, World, host, until};

/// An hour's answer holds a thread busy: the clock does not jump so far by itself.
const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "slow"
text = "At last."
delay_ms = 3600000
[[answer]]
when = "look"
calls = [{ name = "look" }]
[[answer]]
when = "three"
calls = [{ name = "look" }, { name = "look" }, { name = "look" }]
[[answer]]
when = "flaky"
text = "Hello."
fail = { kind = "transient", times = 1 }
[[answer]]
text = "Hello."
[[tool]]
name = "look"
reply = "seen"
"#;

const HOUR_MS: u64 = 3_600_000;

/// A world whose store has its format, and a thread `t` with a turn.
async fn world() -> World {
    let world = World::new(SCRIPT).await;
    world.ask("t", "first", "hi").await;
    world
}

/// Commits and reads of a whole submission, from the request to its outcome.
async fn whole(world: &World, thread: &str, message: &str) -> (u64, u64) {
    let calls = world.store.calls();
    world.accept(thread, "k", message).await;
    world.host.settled().await;
    let cost = world.calls_since(calls);
    world.check().await;
    assert_eq!(cost.stale, 0);
    (cost.commits, cost.reads)
}

/// A thread whose run waits for its model: what is counted meanwhile is the request alone.
async fn busy(world: &World, thread: &str) -> String {
    let before = world.clock.waiting();
    let id = world.accept(thread, "busy", "slow").await;
    until(|| world.clock.waiting() > before).await;
    id
}

async fn submission(host: &Host, id: &str) -> Value {
    let request = Request::get(format!("/v1/submissions/{id}")).principal(OWNER);
    host.respond(request).await.expect("an answer").json().expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accept_is_one_commit_and_one_read() {
    let world = world().await;
    busy(&world, "t").await;
    let calls = world.store.calls();
    world.accept("t", "k", "hi").await;
    let cost = world.calls_since(calls);
    assert_eq!((cost.commits, cost.reads), (1, 1), "{cost:?}");

    // Asked again while it waits: nothing is written.
    let calls = world.store.calls();
    assert_eq!(world.submit("t", "k", "hi").await.status, 202);
    let cost = world.calls_since(calls);
    assert_eq!((cost.commits, cost.reads), (0, 1), "{cost:?}");

    // And after its end: one read more, of the message that is its outcome.
    world.clock.advance(HOUR_MS);
    world.host.settled().await;
    let calls = world.store.calls();
    assert_eq!(world.submit("t", "k", "hi").await.status, 200);
    let cost = world.calls_since(calls);
    assert_eq!((cost.commits, cost.reads), (0, 2), "{cost:?}");
    world.check().await;
}

/// Accept 1 and 1; the turn 2 and 3: head with inbox and record, the inbox once a turn, and the look that finds nothing
/// more. On an old thread the context is one read more.
/// Shows B38.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_turn_is_two_commits_and_three_reads() {
    let world = world().await;
    assert_eq!(whole(&world, "new", "hi").await, (1 + 2, 1 + 3));
    assert_eq!(whole(&world, "t", "hi").await, (1 + 2, 1 + 3 + 1));
}

/// The call before its effect, the result before the next model call; the inbox once a turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_two_commits_more_and_three_are_not_much_more() {
    let world = world().await;
    assert_eq!(whole(&world, "one", "look").await, (1 + 4, 1 + 3 + 1));
    let (commits, reads) = whole(&world, "three", "three").await;
    assert!((1 + 4..=1 + 6).contains(&commits), "{commits}");
    assert_eq!(reads, 1 + 3 + 1);
}

/// The error and when to ask again are one commit. The one read is the inbox before the second model call: a cancel in
/// between must not cost another (B18).
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_one_commit_more() {
    let world = world().await;
    assert_eq!(whole(&world, "new", "flaky").await, (1 + 3, 1 + 3 + 1));
    assert_eq!(world.clock.now(), START_MS + 2_000);
}

/// The wish is one commit, rest and outcome are the other; the wish leaves the inbox with the second.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_one_commit_and_one_to_end_it() {
    let world = world().await;
    for (thread, message) in [("a", "slow"), ("b", "slow")] {
        let before = world.model.calls();
        let id = world.accept(thread, "busy", message).await;
        until(|| world.model.calls() > before).await;
        let calls = world.store.calls();
        assert_eq!(world.cancel(&id).await.status, 202);
        world.host.settled().await;
        let cost = world.calls_since(calls);
        assert_eq!((cost.commits, cost.stale), (1 + 1, 0), "{cost:?}");
        // The request: record, inbox, head. The run: the mark, its own inbox for what else was cancelled, then head and
        // inbox, entries, records, delivery, and twice that nothing more is there (a signal asks for one more run).
        assert!(cost.reads <= 3 + 9, "{cost:?}");
        assert_eq!(world.submission(&id).await["outcome"], json!({"status": "aborted", "reason": "cancelled"}));
        // Too late, or again: nothing is written.
        let calls = world.store.calls();
        assert_eq!(world.cancel(&id).await.status, 200);
        assert_eq!(world.calls_since(calls).commits, 0);
    }
    world.check().await;
}

/// Epoch, attempt and rest are one commit; then it is a plain turn's second.
/// Shows A17, B2; trap 30.
#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_is_one_commit_before_it_goes_on() {
    let world = world().await;
    let id = busy(&world, "new").await;
    world.host.clone().shutdown().await;
    let second = host(&world.parts).await;
    let calls = world.store.calls();
    let asked = world.model.calls();
    assert_eq!(second.sweep().await.expect("a sweep"), 1);
    until(|| world.model.calls() > asked).await;
    let cost = world.calls_since(calls);
    assert_eq!(cost.commits, 1, "{cost:?}");
    // The sweep: format, queues, and two partitions in use. The takeover: head with inbox and record, the record that
    // the head names, inbox, context.
    assert_eq!(cost.reads, 2 + 2 + 2 + 2, "{cost:?}");
    until(|| world.clock.waiting() == 1).await;
    world.clock.advance(2 * HOUR_MS);
    second.settled().await;
    let done = submission(&second, &id).await;
    assert_eq!((&done["attempt"], &done["outcome"]["text"]), (&json!(2), &json!("At last.")), "{done}");
    assert_eq!(world.calls_since(calls).commits, 2);
    writ_tests::check(&second, &*world.store).await;
}

/// The next host takes up at once what a killed one has left: on the clock nothing passes until the outcome.
/// Shows A17.
#[tokio::test(flavor = "multi_thread")]
async fn no_time_passes_between_a_kill_and_going_on() {
    let script = "[[answer]]\ncalls = [{ name = \"pay\" }]\n[[answer]]\ntext = \"Done.\"\n\
                  [[tool]]\nname = \"pay\"\nreply = \"paid\"\ndelay_ms = 3600000\n";
    let world = Setup::new(script).reach(0).world().await;
    let id = world.accept("t", "k", "pay").await;
    until(|| world.log.executions().len() == 1).await;
    world.host.clone().shutdown().await;
    let second = host(&world.parts).await;
    second.sweep().await.expect("a sweep");
    second.settled().await;
    let done = submission(&second, &id).await;
    assert_eq!((&done["outcome"]["text"], &done["attempt"]), (&json!("Done."), &json!(2)), "{done}");
    assert_eq!(world.clock.now(), START_MS);
}

/// A store that knows how many bytes its commits have put.
#[derive(Default)]
struct Weighed {
    inner: MemoryStore,
    bytes: AtomicUsize,
}

impl Weighed {
    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for Weighed {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.inner.get_many(keys).await
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        let bytes = writes.iter().map(|w| w.key.len() + w.value.as_ref().map_or(0, Vec::len)).sum();
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.inner.commit(guard, writes).await
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        self.inner.append_later(guard, writes, lost).await;
    }

    async fn flush(&self) {
        self.inner.flush().await;
    }

    async fn dump(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.inner.dump().await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.inner.count().await
    }
}

/// Bytes that a plain turn of a few words may put, in all its commits, with their keys.
const TURN_BYTES_MAX: usize = 5 * 1024;

/// A thread as a compaction leaves it: `count` messages, near the end a summary that keeps the four before it.
async fn long_thread(world: &World, name: &str, count: u64) {
    let summary = count - 6;
    let messages: Vec<Value> = (0..count)
        .map(|n| match (n == summary, n % 2) {
            (true, _) => json!({"role": "summary", "kept": n - 4, "content": [{"type": "text", "text": "Before."}]}),
            (_, 0) => json!({"role": "user", "content": [{"type": "text", "text": format!("question {n}")}]}),
            _ => json!({"role": "assistant", "stopReason": "stop", "content": [{"type": "text", "text": "yes"}]}),
        })
        .collect();
    world.import(name, json!({"boundary": summary}), &messages).await;
}

/// Calls, writes and bytes.
/// Shows A26, B33.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_message_costs_the_same_after_twenty_as_after_twenty_thousand() {
    let store = Arc::new(Weighed::default());
    let world = Setup::new(SCRIPT).store(store.clone()).world().await;
    world.ask("t", "first", "hi").await;
    let (mut costs, mut weights): (Vec<StoreCalls>, Vec<usize>) = (Vec::new(), Vec::new());
    for (name, count) in [("short", 20), ("long", 20_000)] {
        long_thread(&world, name, count).await;
        let (calls, bytes) = (world.store.calls(), store.bytes());
        world.accept(name, "k", "hi").await;
        world.host.settled().await;
        costs.push(world.calls_since(calls));
        weights.push(store.bytes() - bytes);
        // The summary, the five messages that it keeps and all after it, and the new one.
        let context = world.model.last_context();
        assert_eq!(context.len(), 1 + 4 + 5 + 1, "{context:#?}");
        assert!(context[0].contains("Before."), "{context:#?}");
    }
    let of = |c: &StoreCalls| (c.reads, c.commits, c.writes);
    assert_eq!(of(&costs[0]), of(&costs[1]), "{costs:#?}");
    // A context is one read of at most 256 keys.
    assert!(costs[1].keys_read <= costs[0].keys_read + 256, "{costs:#?}");
    // The names differ by a letter and the numbers by a few digits.
    assert!(weights[0].abs_diff(weights[1]) < 256, "{weights:?} bytes");
    assert!(weights[1] < TURN_BYTES_MAX, "{weights:?} bytes");
}

/// `WRIT_LONG_TESTS=1` does it with 100,000 settled submissions in 256 partitions; without, 5,000 in 8 fill each
/// partition even more.
/// Shows B9; trap 11.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_reads_what_is_pending_and_not_what_has_settled() {
    let long = std::env::var("WRIT_LONG_TESTS").is_ok_and(|v| v == "1");
    let (settled, partitions) = if long { (100_000, 256) } else { (5_000, 8) };
    let world = Setup::new(SCRIPT).setting("partitions", json!(partitions)).world().await;
    for n in 0..10 {
        busy(&world, &format!("busy{n}")).await;
    }
    let threads = 20;
    let clients: Vec<_> = (0..threads)
        .map(|t| {
            let host = world.host.clone();
            tokio::spawn(async move {
                for n in 0..settled / threads {
                    // A new thread now and then, so that all partitions are used.
                    let path = format!("/v1/agents/helper/threads/t{t}-{}/submissions", n / 20);
                    let request =
                        Request::post(path, &json!({"message": "hi"})).header("idempotency-key", n.to_string());
                    let response = host.respond(request.principal(OWNER)).await.expect("an answer");
                    assert_eq!(response.status, 202, "{}", response.text());
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("no panic");
    }
    until(|| world.model.calls() == settled + 10).await;
    world.host.clone().shutdown().await;
    let second = host(&world.parts).await;
    let calls = world.store.calls();
    let (mut work, mut page) = (Vec::new(), None);
    loop {
        let pending = second.pending(page).await.expect("a page");
        work.extend(pending.work.into_iter().filter_map(|w| w.submission));
        page = pending.next;
        if page.is_none() {
            break;
        }
    }
    let cost = world.calls_since(calls);
    work.sort();
    work.dedup();
    // Ten wait for their model; a few of the last may not have settled when the host went down.
    assert!((10..=10 + threads).contains(&work.len()), "{}", work.len());
    let pending = work.len() as u64;
    assert!(cost.reads <= 2 * pending + 2 + 2 * partitions, "{cost:?} for {pending} pending");
    assert_eq!(cost.commits, 0);
}
