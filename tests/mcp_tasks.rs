//! MCP: tasks are submissions. They are announced when they are stored, and outlive every connection.
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use host_sim::store::Store;
use host_sim::store::memory::MemoryStore;
use serde_json::{Value, json};
use writ_tests::mcp::{TASKS, able, body, legacy, modern};
use writ_tests::{CrashStore, Fault, Gate, Setup, World, host};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "fail"
fail = { kind = "refused", message = "No." }
[[answer]]
when = "key"
fail = { kind = "unauthorized", message = "This key has expired." }
[[answer]]
when = "money"
fail = { kind = "quota", message = "The month's money is spent." }
[[answer]]
when = "patience"
fail = { kind = "transient", message = "503" }
[[answer]]
when = "pay"
text = "I pay twice."
calls = [{ name = "pay", arguments = { order = 1 } }, { name = "pay", arguments = { order = 2 } }]
[[answer]]
when = "pay"
text = "Done."
[[answer]]
text = "Hello."
[[tool]]
name = "pay"
policy = "ask"
reply = "paid"
"#;

async fn get(world: &World, id: &Value) -> Value {
    let told = world.mcp_able("tasks/get", json!({"taskId": id})).await;
    assert_eq!(told.result()["resultType"], "complete");
    told.answer["result"].clone()
}

async fn update(world: &World, id: &Value, responses: Value) -> Value {
    let told = world.mcp_able("tasks/update", json!({"taskId": id, "inputResponses": responses})).await;
    let answer = told.result().clone();
    world.host.settled().await;
    answer
}

/// An acknowledgement has nothing in it but what every result has.
fn is_empty(result: &Value) -> bool {
    result["resultType"] == "complete"
        && result.as_object().is_some_and(|r| r.keys().all(|k| ["resultType", "_meta"].contains(&k.as_str())))
}

fn yes() -> Value {
    json!({"action": "accept", "content": {"confirm": true}})
}

/// Rows 31, 33: flat, with times that a machine can read; and its outcome, also a bad one, as a result.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_announced_and_completes() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let task = world.task(json!({"message": "hi"})).await;
    for member in ["requestState", "ttl", "pollInterval", "task", "result", "error", "inputRequests"] {
        assert!(task.get(member).is_none(), "{member}");
    }
    assert_eq!((&task["status"], &task["createdAt"]), (&json!("working"), &json!("2025-01-01T00:00:00.000Z")));
    assert!(task["pollIntervalMs"].is_u64() && task["ttlMs"].is_null() && task["lastUpdatedAt"].is_string());
    let working = get(&world, &task["taskId"]).await;
    assert_eq!((&working["status"], &working["taskId"]), (&json!("working"), &task["taskId"]));
    gate.open();
    world.host.settled().await;
    let done = get(&world, &task["taskId"]).await;
    assert_eq!((&done["status"], &done["result"]["content"][0]["text"]), (&json!("completed"), &json!("Hello.")));
    assert_eq!((&done["result"]["isError"], done.get("error")), (&json!(false), None));
    // It is the submission that everybody else sees.
    let id = task["taskId"].as_str().expect("an id");
    assert_eq!(world.submission(id).await["outcome"]["text"], "Hello.");
    let failed = world.task(json!({"message": "fail"})).await;
    world.host.settled().await;
    let failed = get(&world, &failed["taskId"]).await;
    assert_eq!((&failed["status"], &failed["result"]["isError"]), (&json!("completed"), &json!(true)));
    world.check().await;
}

/// Row 32: it is there at once, and after the host was killed at that instant; and then it is done. (A process that is
/// killed is shown in host-sim/tests/serve/mcp.rs.)
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_stored_before_it_is_announced() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    // The second commit would be the run's first.
    let crash = Arc::new(CrashStore::new(inner.clone(), 2, Fault::KillBefore));
    let first = Setup::new(SCRIPT).store(crash.clone()).world().await;
    let task = first.task(json!({"message": "hi"})).await;
    crash.killed().await;
    let second = Setup::new(SCRIPT).store(inner).world().await;
    assert_eq!(get(&second, &task["taskId"]).await["status"], "working");
    second.host.sweep().await.expect("a sweep");
    second.host.settled().await;
    let done = get(&second, &task["taskId"]).await;
    assert_eq!((&done["status"], &done["result"]["content"][0]["text"]), (&json!("completed"), &json!("Hello.")));
    second.check().await;
}

/// Row 34: no answer came, for the machine's reasons.
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_the_machine_is_a_failed_task() {
    let mut world = Setup::new(SCRIPT).limits(json!({"deadlineMs": 1000})).reach(0).world().await;
    let _gate = Gate::close(&mut world).await;
    let task = world.task(json!({"message": "hi"})).await;
    world.host.clone().shutdown().await;
    world.clock.advance(2000);
    world.host = host(&world.parts).await;
    world.host.sweep().await.expect("a sweep");
    world.host.settled().await;
    let failed = get(&world, &task["taskId"]).await;
    assert_eq!((&failed["status"], failed.get("result")), (&json!("failed"), None));
    assert_eq!((&failed["error"]["code"], &failed["error"]["data"]["code"]), (&json!(-32603), &json!("deadline")));
    assert!(failed["error"]["message"].is_string());
}

/// Row 34: neither did one where the model was out of reach.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_out_of_reach_is_a_failed_task() {
    let world = World::new(SCRIPT).await;
    for message in ["key", "money", "patience"] {
        let task = world.task(json!({"message": message})).await;
        world.host.settled().await;
        let failed = get(&world, &task["taskId"]).await;
        assert_eq!((&failed["status"], failed.get("result")), (&json!("failed"), None), "{message}");
        assert_eq!((&failed["error"]["code"], &failed["error"]["data"]["code"]), (&json!(-32603), &json!("model")));
    }
    world.check().await;
}

/// Row 35.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_acknowledged_and_an_outcome_stays() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let task = world.task(json!({"message": "hi"})).await;
    let cancel = async |id: &Value| world.mcp_able("tasks/cancel", json!({"taskId": id})).await.result().clone();
    assert!(is_empty(&cancel(&task["taskId"]).await));
    world.host.settled().await;
    let cancelled = get(&world, &task["taskId"]).await;
    assert_eq!(
        (&cancelled["status"], cancelled.get("result"), cancelled.get("error")),
        (&json!("cancelled"), None, None)
    );
    assert!(is_empty(&cancel(&task["taskId"]).await));
    assert_eq!(get(&world, &task["taskId"]).await, cancelled);
    gate.open();
    let done = world.task(json!({"message": "hi"})).await;
    world.host.settled().await;
    let before = get(&world, &done["taskId"]).await;
    assert_eq!(before["status"], "completed");
    assert!(is_empty(&cancel(&done["taskId"]).await));
    assert!(is_empty(&update(&world, &done["taskId"], json!({"x": yes()})).await));
    assert_eq!(get(&world, &done["taskId"]).await, before);
    world.check().await;
}

/// Row 36: I13.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_and_missing_tasks_are_one() {
    let world = World::new(SCRIPT).await;
    let task = world.task(json!({"message": "pay"})).await;
    world.host.settled().await;
    let before = world.store.dump().await.expect("a dump");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let mut answers = Vec::new();
        for id in [&task["taskId"], &json!("50-k71a5bvrh7j2aspdem614x068y"), &json!("none"), &json!("")] {
            let params = json!({"taskId": id, "inputResponses": {}});
            let told = world.told(modern(&body(1, method, params, able())).principal("local/other")).await;
            assert_eq!(told.fault(), (200, -32602), "{method} {id}");
            answers.push(told.answer);
        }
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:#?}");
    }
    for params in [json!({}), json!({"taskId": 7})] {
        assert_eq!(world.mcp_able("tasks/get", params).await.fault(), (200, -32602));
    }
    let no_responses = world.mcp_able("tasks/update", json!({"taskId": task["taskId"]})).await;
    assert_eq!(no_responses.fault(), (200, -32602));
    assert_eq!(world.store.dump().await.expect("a dump"), before);
}

/// Rows 37, 38: nothing of tasks for who has not declared them; a tool that must be one says so before it stores anything.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_for_those_who_declare_them() {
    let world = World::new(SCRIPT).await;
    let task = world.task(json!({"message": "hi"})).await;
    world.host.settled().await;
    let required = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let told = world.mcp(method, json!({"taskId": task["taskId"], "inputResponses": {}})).await;
        assert_eq!((told.fault(), &told.answer["error"]["data"]), ((400, -32021), &required), "{method}");
    }
    let inline = world.call(json!({"message": "hi"})).await;
    assert_eq!((&inline.result()["resultType"], inline.result().get("taskId")), (&json!("complete"), None));
    let tools = json!({"tools": {"helper": {"task": "required"}}});
    let strict = Setup::new(SCRIPT).setting("mcp", tools).world().await;
    let before = strict.store.dump().await.expect("a dump");
    let refused = strict.call(json!({"message": "hi"})).await;
    assert_eq!((refused.fault(), &refused.answer["error"]["data"]), ((400, -32021), &required));
    let old = json!({"name": "helper", "arguments": {"message": "hi"}});
    assert_eq!(strict.told(legacy(1, "tools/call", old)).await.result()["isError"], true);
    assert_eq!(strict.store.dump().await.expect("a dump"), before);
    strict.task(json!({"message": "hi"})).await;
    // And one that never is.
    let never = Setup::new(SCRIPT).setting("mcp", json!({"tools": {"helper": {"task": "never"}}})).world().await;
    let told = never.mcp_able("tools/call", json!({"name": "helper", "arguments": {"message": "hi"}})).await;
    assert_eq!(told.result()["resultType"], "complete");
}

/// Row 39.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_asks_until_all_is_answered() {
    let world = World::new(SCRIPT).await;
    let task = world.task(json!({"message": "pay"})).await;
    let id = &task["taskId"];
    world.host.settled().await;
    let asking = get(&world, id).await;
    assert_eq!(asking["status"], "input_required");
    let keys = |task: &Value| task["inputRequests"].as_object().expect("requests").keys().cloned().collect::<Vec<_>>();
    let both = keys(&asking);
    assert_eq!(both.len(), 2);
    assert!(is_empty(&update(&world, id, json!({"made-up": yes(), (&both[0]): {"action": "run"}})).await));
    assert_eq!(keys(&get(&world, id).await), both);
    assert!(is_empty(&update(&world, id, json!({"made-up": yes(), (&both[0]): yes()})).await));
    assert_eq!(keys(&get(&world, id).await), both[1..]);
    // What was answered is not answered again.
    update(&world, id, json!({(&both[0]): {"action": "decline"}})).await;
    update(&world, id, json!({(&both[1]): {"action": "decline"}})).await;
    let done = get(&world, id).await;
    assert_eq!((&done["status"], &done["result"]["content"][0]["text"]), (&json!("completed"), &json!("Done.")));
    assert_eq!(world.log.executions().iter().map(|e| e.count).sum::<u32>(), 1);
    // The same request in the same session asks under other keys.
    let session = done["result"]["structuredContent"]["session_id"].clone();
    let again = world.task(json!({"message": "pay", "session_id": session})).await;
    world.host.settled().await;
    let again = get(&world, &again["taskId"]).await;
    assert!(again["inputRequests"].is_null() || keys(&again).iter().all(|key| !both.contains(key)), "{again}");
    // Who can't show a form is not asked.
    let other = world.task(json!({"message": "pay"})).await;
    world.host.settled().await;
    let blind = json!({"extensions": {TASKS: {}}});
    let told = world.told(modern(&body(1, "tasks/get", json!({"taskId": other["taskId"]}), blind))).await;
    assert_eq!((&told.result()["status"], told.result().get("inputRequests")), (&json!("working"), None));
    assert!(told.result()["statusMessage"].as_str().expect("a text").contains("approval"), "{}", told.answer);
    world.check().await;
}

/// Row 40: what an older version had for tasks is passed over.
#[tokio::test(flavor = "multi_thread")]
async fn the_old_way_to_ask_for_a_task_is_nothing() {
    let world = World::new(SCRIPT).await;
    let params = json!({"name": "helper", "arguments": {"message": "hi"}, "task": {"ttl": 60_000}});
    for told in [world.mcp("tools/call", params.clone()).await, world.told(legacy(1, "tools/call", params)).await] {
        assert_eq!((&told.result()["content"][0]["text"], told.result().get("task")), (&json!("Hello."), None));
    }
}

/// Row 41.
#[tokio::test(flavor = "multi_thread")]
async fn the_header_names_the_task() {
    let world = World::new(SCRIPT).await;
    let task = world.task(json!({"message": "hi"})).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let mut request = modern(&body(1, method, json!({"taskId": task["taskId"], "inputResponses": {}}), able()));
        request.headers.retain(|(name, _)| name != "mcp-name");
        assert_eq!(world.told(request.clone()).await.fault(), (400, -32020), "{method}");
        let other = request.header("mcp-name", "50-k71a5bvrh7j2aspdem614x068y");
        assert_eq!(world.told(other).await.fault(), (400, -32020), "{method}");
    }
}

/// Row 42: with and without a session's name.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_call_is_one_task() {
    let world = World::new(SCRIPT).await;
    for session in [None, Some("helper/mine")] {
        let mut arguments = json!({"message": "hi", "idempotency_key": "k"});
        if let Some(session) = session {
            arguments["session_id"] = json!(session);
        }
        let first = world.task(arguments.clone()).await;
        let second = world.task(arguments.clone()).await;
        world.host.settled().await;
        let calls = world.model.calls();
        let third = world.task(arguments.clone()).await;
        world.host.settled().await;
        assert_eq!((&second["taskId"], &third["taskId"]), (&first["taskId"], &first["taskId"]));
        assert_eq!((&third["status"], world.model.calls()), (&json!("completed"), calls));
        // Inline it is the same one.
        let inline = world.call(arguments.clone()).await;
        assert_eq!(inline.result()["structuredContent"]["submission_id"], first["taskId"]);
        let before = world.store.dump().await.expect("a dump");
        arguments["message"] = json!("something else");
        let conflict = world.mcp_able("tools/call", json!({"name": "helper", "arguments": arguments})).await;
        let error = &conflict.result()["structuredContent"]["error"];
        assert_eq!((&conflict.result()["isError"], &error["code"]), (&json!(true), &json!("conflict")));
        assert_eq!((&error["field"], world.store.dump().await.expect("a dump")), (&json!("message"), before));
    }
    assert_eq!(world.model.calls(), 2);
    world.check().await;
}
