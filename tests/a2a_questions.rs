//! A2A: a task that waits for a person's word, and how the next message gives it.
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_sim::data::Request;
use host_sim::store::Store;
use host_sim::store::memory::MemoryStore;
use serde_json::{Value, json};
use writ_tests::a2a::{Reply, Wire, request, to_send};
use writ_tests::{MeanwhileStore, Setup, World};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "twice"
text = "I pay twice."
calls = [{ name = "pay", arguments = { order = 1 } }, { name = "pay", arguments = { order = 2 } }]
[[answer]]
when = "twice"
text = "Both are done."
[[answer]]
when = "three times"
calls = [{ name = "pay", arguments = { order = 1 } }]
[[answer]]
when = "three times"
calls = [{ name = "pay", arguments = { order = 1 } }]
[[answer]]
when = "three times"
calls = [{ name = "pay", arguments = { order = 1 } }]
[[answer]]
when = "three times"
text = "All are done."
[[answer]]
when = "pay"
text = "I pay."
calls = [{ name = "pay", arguments = { order = 7 } }]
[[answer]]
when = "pay"
text = "Done."
[[answer]]
text = "Hello."
[[tool]]
name = "pay"
policy = "ask"
reply = "paid {order}"
"#;

/// A message to a task: of parts. No two have one name.
fn to_task(task: &Value, parts: Value) -> Value {
    static NEXT: AtomicU64 = AtomicU64::new(2);
    let name = format!("m-{}", NEXT.fetch_add(1, Ordering::SeqCst));
    json!({"message": {"messageId": name, "role": "ROLE_USER", "taskId": task["id"], "parts": parts}})
}

async fn say(world: &World, wire: Wire, task: &Value, parts: Value) -> Reply {
    world.a2a(wire, "SendMessage", &to_task(task, parts)).await
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().expect("a state").trim_start_matches("TASK_STATE_")
}

/// The questions of a task that asks.
fn questions(task: &Value) -> Vec<Value> {
    assert_eq!(state(task), "INPUT_REQUIRED", "{task:#}");
    task["status"]["message"]["parts"][1]["data"]["questions"].as_array().expect("questions").clone()
}

/// Results of calls in the transcript.
async fn replies(world: &World, task: &Value) -> Vec<String> {
    let (_, thread) = task["contextId"].as_str().and_then(|c| c.split_once('/')).expect("agent/thread");
    let lines = world.transcript(thread).await;
    lines.into_iter().filter(|line| line.starts_with("toolResult")).collect()
}

/// Rows 52, 61: the sender is told what is asked; its next message to the same task answers, and the task goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_in_its_task() {
    for wire in Wire::BOTH {
        let world = World::new(SCRIPT).await;
        let asked = world.a2a(wire, "SendMessage", &to_send("pay")).await.task().clone();
        let open = questions(&asked);
        assert_eq!((open.len(), &open[0]["tool"], &open[0]["arguments"]), (1, &json!("pay"), &json!({"order": 7})));
        assert_eq!(world.log.executions().len(), 0, "before a yes nothing is run");
        // What is neither yes nor no leaves it open, and says what to send.
        let still = say(&world, wire, &asked, json!([{"text": "Who are you?"}])).await.task().clone();
        assert_eq!((&still["id"], questions(&still).len()), (&asked["id"], 1));
        assert!(still["status"]["message"]["parts"][0]["text"].as_str().is_some_and(|t| t.contains("approve")));
        let done = say(&world, wire, &asked, json!([{"text": "Yes."}])).await.task().clone();
        assert_eq!((&done["id"], &done["contextId"], state(&done)), (&asked["id"], &asked["contextId"], "COMPLETED"));
        assert_eq!(done["artifacts"][0]["parts"][0]["text"], "Done.");
        assert_eq!(world.log.executions().len(), 1);
        // It was one answer: there is nothing more to say to this task.
        let (code, _) = say(&world, wire, &asked, json!([{"text": "yes"}])).await.fault();
        assert_eq!(code, if wire == Wire::Rpc { -32004 } else { 400 });
        world.check().await;
    }
}

/// Row 61: a no is told to the agent with its reason, and the task goes on without the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_no_is_told_to_the_agent() {
    for wire in Wire::BOTH {
        let world = World::new(SCRIPT).await;
        let asked = world.a2a(wire, "SendMessage", &to_send("pay")).await.task().clone();
        let no = json!([{"data": {"approve": false, "reason": "It is too dear."}}]);
        let done = say(&world, wire, &asked, no).await.task().clone();
        assert_eq!(state(&done), "COMPLETED");
        assert_eq!(world.log.executions().len(), 0);
        let replies = replies(&world, &done).await;
        assert!(replies.len() == 1 && replies[0].contains("It is too dear."), "{replies:?}");
        world.check().await;
    }
}

/// Row 61: of several questions each is answered by its call, in any order, and bound to what was asked.
#[tokio::test(flavor = "multi_thread")]
async fn several_questions_are_answered_one_by_one() {
    for wire in Wire::BOTH {
        let world = World::new(SCRIPT).await;
        let asked = world.a2a(wire, "SendMessage", &to_send("twice")).await.task().clone();
        let open = questions(&asked);
        assert_eq!(open.len(), 2);
        let yes = |call: &Value, hash: &Value| json!([{"data": {"approve": true, "call": call, "hash": hash}}]);
        // A word alone could mean either.
        let vague = say(&world, wire, &asked, json!([{"text": "yes"}])).await.task().clone();
        assert_eq!(questions(&vague), open);
        assert!(vague["status"]["message"]["parts"][0]["text"].as_str().is_some_and(|t| t.contains("name the call")));
        // Of no call, of another call, and of other arguments.
        for none in ["9.9", "", "1.0/x", "é", "18446744073709551616.0", &"1".repeat(2000)] {
            let unknown = say(&world, wire, &asked, yes(&json!(none), &open[0]["hash"])).await.fault();
            assert_eq!(unknown, (if wire == Wire::Rpc { -32602 } else { 409 }, "CLOSED".to_owned()), "{none}");
        }
        let other = say(&world, wire, &asked, yes(&open[1]["call"], &open[0]["hash"])).await.fault();
        assert_eq!(other.0, if wire == Wire::Rpc { -32602 } else { 409 }, "{other:?}");
        let half = say(&world, wire, &asked, yes(&open[1]["call"], &open[1]["hash"])).await.task().clone();
        assert_eq!(questions(&half), open[..1], "what was answered is open no more");
        // The same said again is taken as said; the opposite is not.
        let again = say(&world, wire, &asked, yes(&open[1]["call"], &open[1]["hash"])).await.task().clone();
        assert_eq!(questions(&again), open[..1]);
        let opposite = json!([{"data": {"approve": false, "call": open[1]["call"]}}]);
        let opposite = say(&world, wire, &asked, opposite).await.fault();
        assert_eq!(opposite, (if wire == Wire::Rpc { -32602 } else { 409 }, "ANSWERED".to_owned()));
        let done = say(&world, wire, &asked, json!([{"text": "no"}])).await.task().clone();
        assert_eq!((state(&done), world.log.executions().len()), ("COMPLETED", 1));
        let replies = replies(&world, &done).await;
        assert!(replies.len() == 2 && replies[1].contains("paid 2"), "{replies:?}");
        world.check().await;
    }
}

/// Row 61: a message that comes again, because its answer got lost, does not answer the question that has come since.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_answer_answers_nothing_else() {
    for wire in Wire::BOTH {
        let world = World::new(SCRIPT).await;
        let asked = world.a2a(wire, "SendMessage", &to_send("three times")).await.task().clone();
        let mut seen = questions(&asked);
        for round in 1..=2 {
            let yes = to_task(&asked, json!([{"text": "yes"}]));
            let next = world.a2a(wire, "SendMessage", &yes).await.task().clone();
            let open = questions(&next);
            assert!(open.len() == 1 && open != seen, "{open:?}");
            seen = open;
            for _ in 0..2 {
                let again = world.a2a(wire, "SendMessage", &yes).await.task().clone();
                assert_eq!(questions(&again), seen);
            }
            assert_eq!(world.log.executions().len(), round);
        }
        let done = say(&world, wire, &asked, json!([{"text": "yes"}])).await.task().clone();
        assert_eq!((state(&done), world.log.executions().len()), ("COMPLETED", 3));
        world.check().await;
    }
}

/// Row 61: who says neither yes nor no while somebody else answers is told how the task stands then.
#[tokio::test(flavor = "multi_thread")]
async fn a_word_that_says_nothing_may_come_too_late() {
    for wire in Wire::BOTH {
        let store = Arc::new(MeanwhileStore::new(Arc::new(MemoryStore::new())));
        let world = Setup::new(SCRIPT).store(store.clone()).world().await;
        let asked = world.a2a(wire, "SendMessage", &to_send("pay")).await.task().clone();
        assert_eq!(questions(&asked).len(), 1);
        let host = world.host.clone();
        let path = format!("/v1/submissions/{}/answer", asked["id"].as_str().expect("an id"));
        let yes = Request::post(path, &json!({"call": "1.0", "decision": "approve"})).principal(writ_tests::OWNER);
        // The question has been read, and its arguments are next.
        store.before("/m/1", async move {
            assert_eq!(host.respond(yes).await.expect("an answer").status, 202);
            host.settled().await;
        });
        let told = say(&world, wire, &asked, json!([{"text": "Who are you?"}])).await.task().clone();
        assert_eq!((&told["id"], state(&told)), (&asked["id"], "COMPLETED"));
        world.check().await;
    }
}

/// Rows 61, 64: nobody else can answer, nor learn that something is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_answer_finds_nothing() {
    for wire in Wire::BOTH {
        let world = World::new(SCRIPT).await;
        let asked = world.a2a(wire, "SendMessage", &to_send("pay")).await.task().clone();
        let before = world.store.dump().await.expect("a dump");
        let send = async |task: &Value| {
            let request = request(wire, "SendMessage", &to_task(task, json!([{"text": "yes"}])));
            world.a2a_send(wire, request.principal("web/eve")).await
        };
        let (foreign, missing) = (send(&asked).await, send(&json!({"id": "00-00000000000000000000000000"})).await);
        assert_eq!(foreign.fault().0, if wire == Wire::Rpc { -32001 } else { 404 });
        assert_eq!(foreign.body, missing.body);
        assert_eq!(world.store.dump().await.expect("a dump"), before);
    }
}

/// Rows 61, 70: the sender's stream ends with the question, a subscriber's goes on over it to the outcome; the answer's own
/// stream tells the rest.
#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_a_question_or_outlast_it() {
    for wire in Wire::BOTH {
        let world = World::new(SCRIPT).await;
        let mut first = world.a2a_stream(wire, "SendStreamingMessage", &to_send("pay")).await;
        first.finish(&world.host).await;
        assert_eq!(first.states().last().map(String::as_str), Some("INPUT_REQUIRED"), "{:?}", first.short());
        let task = first.told[0]["task"].clone();
        let mut subscriber = world.a2a_stream(wire, "SubscribeToTask", &json!({"id": task["id"]})).await;
        subscriber.look(&world.host).await;
        assert!(!subscriber.ended, "it waits with the task");
        assert_eq!(subscriber.short(), ["task INPUT_REQUIRED"]);
        let answer = to_task(&task, json!([{"text": "approve"}]));
        let mut second = world.a2a_stream(wire, "SendStreamingMessage", &answer).await;
        for stream in [&mut second, &mut subscriber] {
            stream.finish(&world.host).await;
            assert_eq!(stream.states().last().map(String::as_str), Some("COMPLETED"), "{:?}", stream.short());
            // Its pieces, or the first item has it already: the turn may have been faster than the stream.
            let whole = stream.told[0]["task"]["artifacts"][0]["parts"][0]["text"].as_str().map(str::to_owned);
            assert_eq!(whole.unwrap_or_else(|| stream.result()), "Done.");
        }
        world.check().await;
    }
}
