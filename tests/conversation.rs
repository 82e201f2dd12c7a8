//! A conversation goes as it should: turns, tools, errors of models, steering, cancels, forks.
#![cfg(not(target_family = "wasm"))]

use serde_json::json;
use writ_tests::World;

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
