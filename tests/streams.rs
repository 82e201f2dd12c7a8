//! Streams: each ends with the outcome of its submission, however that ends and whatever became of the journal; and what
//! a host needs of them to serve many.
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use host_sim::data::{Request, Response};
use host_sim::store::memory::MemoryStore;
use host_sim::store::{Guard, Store, Write};
use serde_json::{Value, json};
use writ_tests::{Appends, AppendsStore, CrashStore, Fault, Gate, MeanwhileStore, Setup, Viewer, World, until};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "look"
text = "Let me look."
calls = [{ name = "look" }]
[[answer]]
when = "fail"
text = "I can't."
chunks = 2
fail = { kind = "refused", message = "No.", after_chunks = 1 }
[[answer]]
when = "flaky"
text = "Hello."
fail = { kind = "transient", times = 1, message = "429" }
[[answer]]
when = "long"
text = "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789"
chunks = 90
[[answer]]
text = "Hello."
[[tool]]
name = "look"
reply = "seen"
delay_ms = 5000
"#;

fn id_of(response: &Response) -> String {
    assert!(response.status < 300, "{}: {}", response.status, response.text());
    response.json().expect("JSON")["id"].as_str().expect("an id").to_owned()
}

fn settled(id: &str, rest: Value) -> Value {
    let mut event = json!({"type": "settled", "submission": id});
    event.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
    event
}

/// The stream of a submission has ended for this viewer, for one that comes now, and for one that comes back at any
/// number; each of them has seen the outcome once, at its end, and nothing of another submission.
async fn has_ended(world: &World, mut viewer: Viewer, thread: &str, id: &str, outcome: Value) {
    viewer.look(&world.host).await.expect("the stream is there");
    let mut all = vec![viewer];
    for after in 0..=world.last_number(thread).await {
        all.push(world.seen(thread, &format!("?submission={id}&after={after}")).await);
    }
    for viewer in &all {
        assert!(viewer.ended, "{:#?}", viewer.frames);
        assert_eq!(viewer.of("settled"), [&settled(id, outcome.clone())], "{:#?}", viewer.frames);
        assert_eq!(viewer.frames.last().expect("a frame").1["type"], "settled");
        let foreign = viewer.frames.iter().find(|(_, e)| e["type"] != "gap" && e["submission"] != id);
        assert_eq!(foreign, None);
    }
    let stored = world.submission(id).await;
    assert_eq!((&stored["state"], &stored["outcome"]["status"]), (&json!("settled"), &outcome["status"]));
}

/// A world whose thread `t` is in the middle of an answer.
async fn busy(store: Arc<dyn Store>, message: &str) -> (World, Arc<Gate>, String) {
    let mut world = Setup::new(SCRIPT).store(store).world().await;
    let gate = Gate::close(&mut world).await;
    let id = world.accept("t", "busy", message).await;
    until(|| world.model.calls() > 0).await;
    (world, gate, id)
}

/// Shows A12, A22: failures and budgets, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_each_outcome_of_a_run() {
    let failed = |code: &str, message: &str| json!({"status": "failed", "error": {"code": code, "message": message}});
    let cases = [
        ("hi", json!({}), json!({"status": "completed", "message": 1})),
        ("look", json!({}), json!({"status": "completed", "message": 3})),
        ("flaky", json!({}), json!({"status": "completed", "message": 1})),
        ("fail", json!({}), {
            let mut refused = failed("model", "The model failed (refused): No.");
            refused["error"]["kind"] = json!("refused");
            refused
        }),
        ("look", json!({"turns": 1}), failed("budget", "1 turns were used; the limit of this submission is 1.")),
        ("look", json!({"deadlineMs": 1000}), failed("deadline", "")),
    ];
    for (message, limits, mut outcome) in cases {
        let mut world = Setup::new(SCRIPT).limits(limits.clone()).world().await;
        let gate = Gate::close(&mut world).await;
        let id = world.accept("t", "k", message).await;
        let mut viewer = world.viewer("t", &format!("?submission={id}")).await;
        viewer.look(&world.host).await.expect("the stream is there");
        assert!(!viewer.ended, "{:#?}", viewer.frames);
        gate.open();
        world.host.settled().await;
        if outcome["error"]["code"] == "deadline" {
            outcome["error"] = world.submission(&id).await["outcome"]["error"].clone();
            assert_eq!(outcome["error"]["code"], "deadline");
        }
        has_ended(&world, viewer, "t", &id, outcome).await;
        let retried = world.journal("t").await;
        let retries: Vec<&Value> = retried.of("retrying");
        assert_eq!(retries.len(), usize::from(message == "flaky"), "{retries:?}");
        assert!(retries.iter().all(|e| e["count"] == 1 && e["reason"] == "429" && e["due"].is_u64()), "{retries:?}");
        world.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_submission_is_cancelled_or_delivered() {
    let (world, gate, first) = busy(Arc::new(MemoryStore::new()), "look").await;
    let queued = world.accept("t", "queued", "hi").await;
    let steer = id_of(&world.submit_body("t", "steer", &json!({"message": "ho", "options": {"steer": true}})).await);
    let mut viewers = Vec::new();
    for id in [&first, &queued, &steer] {
        let mut viewer = world.viewer("t", &format!("?submission={id}")).await;
        viewer.look(&world.host).await.expect("the stream is there");
        assert!(!viewer.ended);
        viewers.push(viewer);
    }
    let mut viewers = viewers.into_iter();
    let mut next = || viewers.next().expect("a viewer");
    let (running, waiting, steering) = (next(), next(), next());
    let aborted = json!({"status": "aborted", "reason": "cancelled"});

    // The one that waits is told at once, in the middle of the other's answer.
    assert_eq!(world.cancel(&queued).await.status, 202);
    let mut record = Value::Null;
    while record["state"] != "settled" {
        tokio::task::yield_now().await;
        record = world.submission(&queued).await;
    }
    has_ended(&world, waiting, "t", &queued, aborted.clone()).await;

    // The answer calls a tool; after it the message that steers is delivered, and then the model waits again.
    gate.let_go(4);
    until(|| world.model.calls() == 2).await;
    has_ended(&world, steering, "t", &steer, json!({"status": "completed", "message": null})).await;

    assert_eq!(world.cancel(&first).await.status, 202);
    world.host.settled().await;
    has_ended(&world, running, "t", &first, aborted).await;
    world.check().await;
}

/// In the middle of a deletion its outcome is told; after it the submission is gone, and the stream says that.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_thread_is_deleted() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (first, _gate, id) = busy(inner.clone(), "hi").await;
    let watching = |from: &Viewer| Viewer { tail: from.tail.clone(), frames: Vec::new(), ended: false };
    let viewer = first.viewer("t", &format!("?submission={id}")).await;
    first.host.clone().shutdown().await;
    // Closed, and the run brought to rest; the host dies before the next commit.
    let crash = Arc::new(CrashStore::new(inner.clone(), 2, Fault::KillBefore));
    let second = Setup::new(SCRIPT).store(crash.clone()).world().await;
    assert_eq!(second.delete("t").await.status, 202);
    crash.killed().await;
    let mut middle = watching(&viewer);
    middle.look(&second.host).await.expect("the stream is there");
    assert_eq!(middle.of("settled"), [&settled(&id, json!({"status": "aborted", "reason": "deleted"}))]);
    assert!(middle.ended);
    second.host.shutdown().await;

    let third = Setup::new(SCRIPT).store(inner).world().await;
    third.host.sweep().await.expect("a sweep");
    third.host.settled().await;
    // Also when another thread has the name meanwhile.
    for round in 0..2 {
        let mut late = watching(&viewer);
        late.look(&third.host).await.expect("the stream is there");
        let (_, last) = late.frames.last().expect("a frame");
        assert_eq!((last, late.ended), (&json!({"type": "gone", "submission": id}), true), "round {round}");
        assert_eq!(third.send(Request::get(third.route("t", &format!("stream?submission={id}")))).await.status, 404);
        third.ask("t", "another", "hi").await;
    }
    third.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_a_copy_is_whole() {
    let world = World::new(SCRIPT).await;
    let message = |i: u64| json!({"role": "user", "content": [{"type": "text", "text": i.to_string()}]});
    world.import("long", json!({}), &(0..120).map(message).collect::<Vec<_>>()).await;
    world.ask("short", "k", "hi").await;
    for from in ["short", "long"] {
        let to = format!("{from}-copy");
        let id = id_of(&world.post(from, "fork", "fork", &json!({"to": to})).await);
        world.host.settled().await;
        let viewer = world.viewer(&to, &format!("?submission={id}")).await;
        has_ended(&world, viewer, &to, &id, json!({"status": "completed", "message": null})).await;
        let foreign = world.send(Request::get(world.route("short", &format!("stream?submission={id}")))).await;
        assert_eq!(foreign.status, 404, "a submission of another thread");
    }
    world.check().await;
}

/// Shows A22: the outcome is a fact of the record, and told whatever became of the journal. Its number is a cursor to go on from:
/// nothing that comes is before it.
#[tokio::test(flavor = "multi_thread")]
async fn the_outcome_is_told_without_the_journal() {
    for overwritten in [false, true] {
        let inner = Arc::new(MemoryStore::new());
        let mut world = Setup::new(SCRIPT).store(inner.clone()).world().await;
        let done = world.ask("t", "a", "hi").await;
        let id = done["id"].as_str().expect("an id");
        let all = inner.dump().await.expect("a dump");
        let is_head = |key: &str| key.contains("/ses/") && key.matches('/').count() == 3;
        let (key, value) = all.iter().find(|(key, _)| is_head(key)).expect("a head").clone();
        let mut head: Value = serde_json::from_slice(&value).expect("JSON");
        let mut writes = Vec::new();
        if overwritten {
            for field in ["jupto", "jused"] {
                head[field] = json!(head[field].as_u64().expect("a number") + 30_000);
            }
        } else {
            let slots = all.into_iter().filter(|(key, _)| key.contains("/j/"));
            writes.extend(slots.map(|(key, _)| Write { key, value: None }));
        }
        writes.push(Write { key: key.clone(), value: Some(head.to_string().into_bytes()) });
        inner.commit(Guard { key, expect: Some(value) }, writes).await.expect("a commit");
        let outcome = json!({"status": "completed", "message": 1});
        let viewer = world.viewer("t", &format!("?submission={id}&after=0")).await;
        if !overwritten {
            has_ended(&world, viewer, "t", id, outcome.clone()).await;
        }
        // Now another one is at work, whose numbers are reserved but not used.
        let gate = Gate::close(&mut world).await;
        let asked = world.model.calls();
        world.accept("t", "b", "hi").await;
        until(|| world.model.calls() > asked).await;
        let mut viewer = world.viewer("t", &format!("?submission={id}&after=0")).await;
        viewer.look(&world.host).await.expect("the stream is there");
        assert_eq!((viewer.of("settled"), viewer.ended), (vec![&settled(id, outcome)], true));
        let mut going_on = world.viewer("t", &format!("?after={}", viewer.tail.after)).await;
        gate.open();
        world.host.settled().await;
        going_on.look(&world.host).await.expect("the stream is there");
        let kinds: Vec<&Value> = going_on.frames.iter().map(|(_, event)| &event["type"]).collect();
        assert_eq!(kinds, ["text", "messages", "settled"]);
    }
}

/// Who waits behind a long answer on a store that loses every second piece gets its gaps, page by page.
/// An outcome that comes between two reads of one look does not hide what came with it.
#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_between_two_reads_hides_nothing() {
    let store = Arc::new(MeanwhileStore::new(Arc::new(MemoryStore::new())));
    let (world, gate, id) = busy(store.clone(), "hi").await;
    let settled = store.until_settled(&id);
    // A look reads so many slots at a time; behind the first ones nothing stands yet.
    store.before("/j/101", async move {
        gate.open();
        settled.await;
    });
    let viewer = world.seen("t", &format!("?submission={id}&after=0")).await;
    assert!(viewer.ended, "{:#?}", viewer.frames);
    let kinds: Vec<&str> = viewer.frames.iter().filter_map(|(_, event)| event["type"].as_str()).collect();
    assert_eq!(kinds, ["attempt", "messages", "text", "messages", "settled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_gaps_are_many_pages() {
    let text = "x".repeat(900);
    let script = format!("[model]\nrepeat_last = true\n[[answer]]\ntext = {text:?}\nchunks = 900\n");
    let store = Arc::new(AppendsStore::new(Arc::new(MemoryStore::new()), Appends::HalfLost));
    let mut world = Setup::new(&script).store(store).world().await;
    let gate = Gate::close(&mut world).await;
    world.accept("t", "a", "hi").await;
    let queued = world.accept("t", "b", "hi").await;
    gate.let_go(900);
    until(|| world.store.calls().appends == 900).await;
    let seen = world.seen("t", &format!("?submission={queued}")).await;
    assert_eq!((seen.frames.len(), seen.of("gap").len()), (449, 449));
    gate.open();
    world.host.settled().await;
    world.check().await;
}

/// What a look at an answer that grows costs does not depend on how many numbers are reserved for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_is_two_reads_at_most() {
    let (world, gate, _) = busy(Arc::new(MemoryStore::new()), "long").await;
    let mut viewer = world.viewer("t", "").await;
    for pieces in 1..=90 {
        gate.let_go(1);
        until(|| world.store.calls().appends == pieces).await;
        let calls = world.store.calls();
        let page = world.host.follow(&viewer.tail.feed, viewer.tail.after).await.expect("a page");
        let cost = world.calls_since(calls);
        assert!(page.frames.len() == 1 && cost.reads <= 2, "{cost:?}");
        viewer.tail.after = page.frames[0].number;
    }
    gate.open();
    world.host.settled().await;
    world.check().await;
}

/// Every number is published, with an event that a host takes: what is too large for it is named only.
#[tokio::test(flavor = "multi_thread")]
async fn large_messages_are_published_by_name() {
    let script = format!(
        "[[answer]]\ncalls = [{{ name = \"look\", arguments = {{ a = {:?} }} }}]\n[[answer]]\ntext = {:?}\n\
         [[tool]]\nname = \"look\"\nreply = \"{}\"\n",
        "a".repeat(70_000),
        "b".repeat(100_000),
        // Six bytes each in an event, one in a text.
        "\\u0001".repeat(20_000),
    );
    let world = World::new(&script).await;
    let mut published = world.host.watch();
    world.ask("t", "k", "hi").await;
    let mut numbers = Vec::new();
    while let Ok(shown) = published.try_recv() {
        assert!(shown.event.len() <= 64 * 1024, "{} bytes", shown.event.len());
        numbers.push(shown.number);
    }
    assert_eq!(numbers, world.journal("t").await.numbers());
    // Who follows gets all of it.
    let journal = world.journal("t").await;
    assert!(journal.of("messages").iter().all(|event| event["messages"][0]["message"]["role"].is_string()));
    world.check().await;
}

/// `Prefer: wait=N`: the host is told what to wait for, how long, and what to answer then.
/// Shows B30: what settles before the wait begins has ended when it is first looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_the_outcome() {
    let (world, gate, _) = busy(Arc::new(MemoryStore::new()), "hi").await;
    let path = world.route("t", "submissions");
    let request = Request::post(&path, &json!({"message": "hi"})).header("idempotency-key", "k");
    let answer = world.send(request.clone().header("prefer", "respond-async, wait=7")).await;
    let wait = answer.wait.clone().expect("a wait");
    let id = id_of(&answer);
    assert_eq!((answer.status, wait.ms, &wait.then), (202, 7_000, &format!("/v1/submissions/{id}")));
    assert_eq!(answer.header("preference-applied"), Some("wait=7"));
    let page = world.host.follow(&wait.tail.feed, wait.tail.after).await.expect("a page");
    assert_eq!((page.frames.len(), page.end), (0, false));
    gate.open();
    world.host.settled().await;
    let page = world.host.follow(&wait.tail.feed, wait.tail.after).await.expect("a page");
    assert_eq!((page.frames.len(), page.end), (0, true));
    // Asked again there is nothing to wait for.
    let again = world.send(request.header("prefer", "wait=7")).await;
    assert_eq!((again.status, &again.wait, again.header("preference-applied")), (200, &None, None));
}

/// I2: a preference that can't be is refused before anything is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_preference_changes_nothing() {
    let world = World::new(SCRIPT).await;
    world.ask("t", "k", "hi").await;
    let before = world.store.dump().await.expect("a dump");
    let fork = json!({"to": "u"});
    for (route, body) in [("submissions", json!({"message": "hi"})), ("fork", fork)] {
        for wait in ["wait=301", "wait=soon", "wait=-1", "wait="] {
            let answer = world.send(Request::post(world.route("t", route), &body).header("prefer", wait)).await;
            assert_eq!(
                (answer.status, answer.json().expect("JSON")["field"].as_str()),
                (422, Some("prefer")),
                "{wait}"
            );
            assert_eq!(world.store.dump().await.expect("a dump"), before, "{route}: {wait}");
        }
    }
}
