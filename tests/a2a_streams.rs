//! A2A's streams: the task first, then what happens, in order, to the end.
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use host_sim::store::Store;
use host_sim::store::memory::MemoryStore;
use serde_json::json;
use writ_tests::a2a::{Wire, at_once, request, to_send};
use writ_tests::{Gate, Setup, World, until};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "look"
text = "Let me look."
calls = [{ name = "look" }]
[[answer]]
when = "refuse"
fail = { kind = "refused", message = "No." }
[[answer]]
text = "Hello, you all."
chunks = 3
[[tool]]
name = "look"
reply = "seen"
"#;

/// Row 70: the task first, its pieces in order, the whole of it, and the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_a_task_from_beginning_to_end() {
    for wire in Wire::BOTH {
        let mut world = World::new(SCRIPT).await;
        let gate = Gate::close(&mut world).await;
        let mut stream = world.a2a_stream(wire, "SendStreamingMessage", &to_send("hi")).await;
        stream.look(&world.host).await;
        gate.open();
        assert!(stream.short()[0].starts_with("task "), "{:?}", stream.short());
        stream.finish(&world.host).await;
        let short = stream.short();
        assert_eq!(short[short.len() - 2..], [r#"piece last "Hello, you all.""#, "status COMPLETED"]);
        assert_eq!(stream.result(), "Hello, you all.");
        // What it ends with is what is stored.
        let id = stream.told[0]["task"]["id"].clone();
        let task = world.a2a(wire, "GetTask", &json!({"id": id})).await;
        let last = &stream.told[stream.told.len() - 1]["statusUpdate"];
        assert_eq!((&last["status"], &last["contextId"]), (&task.result()["status"], &task.result()["contextId"]));
        let piece = &stream.told[stream.told.len() - 2]["artifactUpdate"]["artifact"];
        assert_eq!(piece, &task.result()["artifacts"][0]);
        world.check().await;
    }
}

/// Row 70: pieces are appended as they come; calls and what came of them are told as status.
#[tokio::test(flavor = "multi_thread")]
async fn pieces_and_calls_are_told() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let mut stream = world.a2a_stream(Wire::Rpc, "SendStreamingMessage", &to_send("hi")).await;
    stream.look(&world.host).await;
    until(|| world.model.calls() == 1).await;
    for pieces in 1..=3 {
        gate.let_go(1);
        until(|| world.store.calls().appends == pieces).await;
        stream.look(&world.host).await;
    }
    let pieces: Vec<String> = stream.short().into_iter().filter(|s| s.starts_with("piece")).collect();
    assert!(
        pieces[0].starts_with("piece new") && pieces[1..].iter().all(|p| p.starts_with("piece append")),
        "{pieces:?}"
    );
    assert_eq!((pieces.len(), stream.result().as_str()), (3, "Hello, you all."));
    gate.open();
    stream.finish(&world.host).await;
    assert_eq!(stream.result(), "Hello, you all.");

    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let mut stream = world.a2a_stream(Wire::Rest, "SendStreamingMessage", &to_send("look")).await;
    stream.look(&world.host).await;
    gate.open();
    stream.finish(&world.host).await;
    let updates: Vec<_> = stream.told.iter().map(|v| &v["statusUpdate"]).collect();
    let calls = updates.iter().find(|u| u["metadata"]["toolCalls"].is_array()).expect("calls");
    assert_eq!(calls["metadata"]["toolCalls"][0]["name"], "look");
    assert_eq!(calls["status"]["message"]["parts"][0]["text"], "Let me look.");
    let results = updates.iter().find(|u| u["metadata"]["toolResults"].is_array()).expect("results");
    assert_eq!(results["metadata"]["toolResults"][0]["name"], "look");
}

/// Row 71: this face never answers with a message alone; what has its outcome already is a stream of one item.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_what_is_done_is_one_item() {
    for wire in Wire::BOTH {
        let world = World::new(SCRIPT).await;
        let keyed = |operation: &str| request(wire, operation, &to_send("hi")).header("idempotency-key", "k");
        let done = world.a2a_send(wire, keyed("SendMessage")).await;
        let first = world.send(keyed("SendStreamingMessage")).await;
        let host_sim::data::Body::Stream(tail) = first.body else { panic!("no stream") };
        let page = world.host.follow(&tail.feed, tail.after).await.expect("a page");
        assert_eq!((page.frames.len(), page.end), (1, true));
        let event: serde_json::Value = serde_json::from_str(&page.frames[0].event).expect("JSON");
        let event = if wire == Wire::Rpc { &event["result"] } else { &event };
        assert_eq!(&event["task"], done.task());
    }
}

/// Rows 72, 73: readers see the same; one that leaves changes nothing; one that comes late gets the task, then the rest.
#[tokio::test(flavor = "multi_thread")]
async fn readers_come_and_go() {
    for wire in Wire::BOTH {
        let mut world = World::new(SCRIPT).await;
        let gate = Gate::close(&mut world).await;
        let mut sent = world.a2a_stream(wire, "SendStreamingMessage", &to_send("hi")).await;
        sent.look(&world.host).await;
        let id = json!({"id": sent.told[0]["task"]["id"]});
        until(|| world.model.calls() == 1).await;
        gate.let_go(1);
        until(|| world.store.calls().appends == 1).await;
        let mut one = world.a2a_stream(wire, "SubscribeToTask", &id).await;
        let mut two = world.a2a_stream(wire, "SubscribeToTask", &id).await;
        one.look(&world.host).await;
        two.look(&world.host).await;
        assert_eq!(one.told, two.told);
        assert_eq!(one.short()[0], "task WORKING");
        drop(sent);
        gate.open();
        one.finish(&world.host).await;
        two.finish(&world.host).await;
        assert_eq!(one.told, two.told);
        assert_eq!(one.short().iter().filter(|s| s.starts_with("task")).count(), 1);
        assert_eq!(one.result(), "Hello, you all.");
        // The pieces are each told once: what the journal had when the task was shown is not told again.
        let offsets: Vec<u64> =
            one.told.iter().filter_map(|v| v["artifactUpdate"]["metadata"]["offset"].as_u64()).collect();
        assert!(offsets.windows(2).all(|w| w[0] < w[1]), "{offsets:?}");
        assert_eq!(one.states().last().map(String::as_str), Some("COMPLETED"));
        world.check().await;
    }
}

/// Row 74: the same when the host is killed in the middle: a new attempt, told as such, and the whole result.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_after_a_kill() {
    for wire in Wire::BOTH {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut first = Setup::new(SCRIPT).store(inner.clone()).world().await;
        let gate = Gate::close(&mut first).await;
        let task = first.a2a(wire, "SendMessage", &at_once("hi")).await.task().clone();
        let id = json!({"id": task["id"]});
        until(|| first.model.calls() == 1).await;
        gate.let_go(2);
        until(|| first.store.calls().appends == 2).await;
        let mut stream = first.a2a_stream(wire, "SubscribeToTask", &id).await;
        stream.look(&first.host).await;
        first.host.clone().shutdown().await;

        let second = Setup::new(SCRIPT).store(inner).world().await;
        // Before anything runs again: the task is there, and works.
        let early = second.a2a(wire, "GetTask", &id).await;
        assert_eq!(early.result()["status"]["state"], "TASK_STATE_WORKING");
        let mut late = second.a2a_stream(wire, "SubscribeToTask", &id).await;
        late.look(&second.host).await;
        assert_eq!(late.short()[0], "task WORKING");
        second.host.sweep().await.expect("a sweep");
        for reader in [&mut stream, &mut late] {
            reader.finish(&second.host).await;
            assert_eq!(reader.result(), "Hello, you all.");
            let attempts: Vec<_> = reader
                .told
                .iter()
                .filter_map(|v| v["statusUpdate"]["status"]["message"]["parts"][0]["text"].as_str())
                .collect();
            assert_eq!(attempts, ["attempt 2: the one before was interrupted"]);
            assert_eq!(reader.states().last().map(String::as_str), Some("COMPLETED"));
        }
        second.host.settled().await;
        second.check().await;
    }
}

/// Row 75: what has its outcome, or is not there, is not followed.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_is_not_followed() {
    let world = World::new(SCRIPT).await;
    let id = world.a2a(Wire::Rpc, "SendMessage", &to_send("hi")).await.task()["id"].clone();
    for (wire, done, missing) in [(Wire::Rpc, -32004, -32001), (Wire::Rest, 400, 404)] {
        let fault = world.a2a(wire, "SubscribeToTask", &json!({"id": id})).await.fault();
        assert_eq!(fault, (done, "UNSUPPORTED_OPERATION".into()));
        let fault = world.a2a(wire, "SubscribeToTask", &json!({"id": "00-00000000000000000000000000"})).await.fault();
        assert_eq!(fault, (missing, "TASK_NOT_FOUND".into()));
    }
    // GET and POST are the same.
    let path = format!("/a2a/tasks/{}:subscribe", id.as_str().expect("an id"));
    let get = host_sim::data::Request::get(path).header("a2a-version", "1.0");
    assert_eq!(world.send(get).await.status, 400);
}
