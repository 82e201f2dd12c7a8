//! A conversation goes as it should: turns, tools, errors of models, steering, cancels, forks.
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use host_sim::store::Store;
use host_sim::store::memory::MemoryStore;
use serde_json::json;
use writ_tests::{CrashStore, Fault, Setup, World};

const HELLO: &str = r#"
[model]
repeat_last = true
[[answer]]
text = "Hello."
"#;

const LOOKUP: &str = r#"
[[answer]]
text = "Let me look."
calls = [{ name = "lookup", arguments = { order = 7 } }]
[[answer]]
text = "It is paid."
[[tool]]
name = "lookup"
reply = "order {order} is paid"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_turn_is_answered() {
    let world = World::new(HELLO).await;
    let done = world.ask("t", "k", "hi").await;
    assert_eq!(done["state"], "settled", "{done}");
    assert_eq!(done["outcome"], json!({"status": "completed", "text": "Hello.", "message": 1, "result": null}));
    assert_eq!(done["attempt"], 1);
    assert_eq!(world.transcript("t").await, ["user: hi", "assistant: Hello."]);
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_called_and_its_result_answered() {
    let world = World::new(LOOKUP).await;
    let done = world.ask("t", "k", "is it paid?").await;
    assert_eq!(done["outcome"]["text"], "It is paid.", "{done}");
    assert_eq!(
        world.transcript("t").await,
        [
            "user: is it paid?",
            "assistant: Let me look. [lookup {\"order\":7}]",
            "toolResult: order 7 is paid",
            "assistant: It is paid.",
        ]
    );
    assert_eq!(world.log.executions().len(), 1);
    world.check().await;
}

/// `wit/model.wit`: the key of a request is the same on every try, by whatever attempt, and never used for another answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_a_model_keeps_its_key_over_retries_and_attempts() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    // The first attempt dies before its answer is stored: its third commit, after the admission and the claim.
    let crash = Arc::new(CrashStore::new(inner.clone(), 3, Fault::KillBefore));
    let first = Setup::new(LOOKUP).store(crash.clone()).world().await;
    // Commit 0 makes the format record.
    assert_eq!(first.submit("t", "k", "is it paid?").await.status, 202);
    crash.killed().await;
    let mut keys = first.model.keys();
    first.host.shutdown().await;
    let second = Setup::new(LOOKUP).store(inner).world().await;
    second.host.sweep().await.expect("a sweep");
    second.host.settled().await;
    keys.extend(second.model.keys());
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert_eq!(keys[0], keys[1], "the same answer, asked for by two attempts");
    assert_ne!(keys[1], keys[2], "another answer");
    second.check().await;
}
