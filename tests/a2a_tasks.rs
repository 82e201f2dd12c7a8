//! A2A's tasks: sent, read, cancelled, by both bindings, with what other faces see of the same submission.
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use host_sim::store::Store;
use host_sim::store::memory::MemoryStore;
use serde_json::{Value, json};
use writ_tests::a2a::{Wire, at_once, message, request, to_send};
use writ_tests::{Gate, START_MS, Setup, World, until};

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
when = "break"
fail = { kind = "quota", message = "Spent." }
[[answer]]
when = "number"
text = '{"n": 7}'
[[answer]]
text = "Hello."
[[tool]]
name = "look"
reply = "seen"
"#;

/// Whether every time in a value is UTC with milliseconds, and every enum a text of its kind: row 78.
fn is_proto_json(value: &Value) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                assert!(!name.contains('_') && !value.is_null(), "{name}: {value}");
                match name.as_str() {
                    "timestamp" => {
                        let text = value.as_str().expect("a time");
                        assert!(text.len() == 24 && text.ends_with('Z') && &text[10..11] == "T", "{text}");
                    }
                    "state" => assert!(value.as_str().is_some_and(|s| s.starts_with("TASK_STATE_")), "{value}"),
                    "role" => assert!(value.as_str().is_some_and(|s| s.starts_with("ROLE_")), "{value}"),
                    _ => {}
                }
                is_proto_json(value);
            }
        }
        Value::Array(items) => items.iter().for_each(is_proto_json),
        _ => {}
    }
}

/// Rows 49, 52, 54, 60, 78: both bindings, the same task; it ends with its artifact; ids and contexts are new each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_becomes_a_task_with_a_result() {
    let world = World::new(SCRIPT).await;
    let mut ids = Vec::new();
    for wire in Wire::BOTH {
        for _ in 0..2 {
            let reply = world.a2a(wire, "SendMessage", &to_send("hi")).await;
            let task = reply.task();
            is_proto_json(task);
            assert_eq!(
                task["status"],
                json!({"state": "TASK_STATE_COMPLETED", "timestamp": "2025-01-01T00:00:00.000Z"})
            );
            let parts = json!([{"text": "Hello.", "mediaType": "text/plain"}]);
            assert_eq!(task["artifacts"], json!([{"artifactId": "result", "name": "result", "parts": parts}]));
            let context = task["contextId"].as_str().expect("a context").to_owned();
            assert!(context.starts_with("helper/s-"), "{context}");
            let history = task["history"].as_array().expect("history");
            assert_eq!((history.len(), &history[0]["messageId"]), (1, &json!("m-1")));
            assert_eq!((&history[0]["role"], &history[0]["contextId"]), (&json!("ROLE_USER"), &json!(context)));
            let id = task["id"].as_str().expect("an id").to_owned();
            // The same submission as the thread API has it, and the same by the other binding.
            assert_eq!(world.submission(&id).await["outcome"]["text"], "Hello.");
            for other in Wire::BOTH {
                assert_eq!(world.a2a(other, "GetTask", &json!({"id": id})).await.result(), task);
            }
            ids.extend([id, context]);
        }
    }
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((all, ids.len()), (8, 8));
    world.check().await;
}

/// Rows 52, 78: every outcome is a state, and says why.
#[tokio::test(flavor = "multi_thread")]
async fn every_outcome_is_a_state() {
    let world = World::new(SCRIPT).await;
    for (text, state, why) in [
        ("look", "COMPLETED", None),
        ("refuse", "REJECTED", Some("The model failed (refused): No.")),
        ("break", "FAILED", Some("The model failed (quota): Spent.")),
    ] {
        for wire in Wire::BOTH {
            let reply = world.a2a(wire, "SendMessage", &to_send(text)).await;
            let task = reply.task();
            is_proto_json(task);
            assert_eq!(task["status"]["state"], format!("TASK_STATE_{state}"));
            assert_eq!(task["status"]["message"]["parts"][0]["text"].as_str(), why);
            assert_eq!(task["artifacts"].is_array(), state == "COMPLETED");
        }
    }
    // A result with a schema is a value, too.
    let mut params = to_send("number");
    params["metadata"] = json!({"urn:writ:a2a:submission": {"resultSchema": {"type": "object"}}});
    let reply = world.a2a(Wire::Rest, "SendMessage", &params).await;
    let parts = &reply.task()["artifacts"][0]["parts"];
    assert_eq!(parts[1], json!({"data": {"n": 7}, "mediaType": "application/json"}));
    // And a message may bring one.
    let data = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"b": 1, "a": null}}]}});
    let reply = world.a2a(Wire::Rpc, "SendMessage", &data).await;
    assert_eq!(reply.task()["history"][0]["parts"][0]["text"], r#"{"a":null,"b":1}"#);
    world.check().await;
}

/// Row 53: answered before the model is asked, after the task is stored; and then it is a task that works.
#[tokio::test(flavor = "multi_thread")]
async fn at_once_is_before_the_model() {
    for wire in Wire::BOTH {
        let mut world = World::new(SCRIPT).await;
        let gate = Gate::close(&mut world).await;
        let before = world.store.calls();
        let reply = world.a2a(wire, "SendMessage", &at_once("hi")).await;
        assert!(world.calls_since(before).commits >= 1);
        let task = reply.task();
        assert_eq!(task["status"]["state"], "TASK_STATE_SUBMITTED");
        assert_eq!(task["history"][0]["parts"][0]["text"], "hi");
        until(|| world.model.calls() == 1).await;
        let id = json!({"id": task["id"]});
        let reply = world.a2a(wire, "GetTask", &id).await;
        assert_eq!(reply.result()["status"]["state"], "TASK_STATE_WORKING");
        // Behind it, another one of its context waits.
        let mut second = at_once("ho");
        second["message"]["contextId"] = task["contextId"].clone();
        let queued = world.a2a(wire, "SendMessage", &second).await;
        assert_eq!(queued.task()["status"]["state"], "TASK_STATE_SUBMITTED");
        assert_eq!(queued.task()["contextId"], task["contextId"]);
        gate.open();
        world.host.settled().await;
        let reply = world.a2a(wire, "GetTask", &id).await;
        assert_eq!(reply.result()["status"]["state"], "TASK_STATE_COMPLETED");
        world.check().await;
    }
}

/// Row 52: what is waited for, and what is said when that takes too long.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_the_hosts() {
    for wire in Wire::BOTH {
        let mut world = World::new(SCRIPT).await;
        let gate = Gate::close(&mut world).await;
        let response = world.send(request(wire, "SendMessage", &to_send("hi"))).await;
        let wait = response.wait.clone().expect("a wait");
        let shown = response.json().expect("JSON");
        let shown = if wire == Wire::Rpc { &shown["result"] } else { &shown };
        assert_eq!((wait.ms, &shown["task"]["status"]["state"]), (300_000, &json!("TASK_STATE_SUBMITTED")));
        until(|| world.model.calls() == 1).await;
        assert!(!world.host.follow(&wait.tail.feed, wait.tail.after).await.expect("a page").end);
        gate.open();
        world.host.settled().await;
        assert!(world.host.follow(&wait.tail.feed, wait.tail.after).await.expect("a page").end);
    }
}

/// Row 55: one task and one run for a key, again, at the same time, and after a restart; another body is a conflict.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_one_task() {
    for wire in Wire::BOTH {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let world = Setup::new(SCRIPT).store(inner.clone()).world().await;
        let keyed = |text: &str| request(wire, "SendMessage", &to_send(text)).header("idempotency-key", "k");
        let (a, b) = tokio::join!(world.a2a_send(wire, keyed("hi")), world.a2a_send(wire, keyed("hi")));
        assert_eq!(a.task(), b.task());
        // The key of the extension is the same key; what the message is called is no part of it.
        let mut params = to_send("hi");
        params["message"]["messageId"] = json!("another");
        params["metadata"] = json!({"urn:writ:a2a:submission": {"idempotencyKey": "k"}});
        assert_eq!(world.a2a(wire, "SendMessage", &params).await.task(), a.task());
        assert_eq!(world.model.calls(), 1);
        world.host.clone().shutdown().await;

        let world = Setup::new(SCRIPT).store(inner).world().await;
        assert_eq!(world.a2a_send(wire, keyed("hi")).await.task(), a.task());
        let before = world.store.dump().await.expect("a dump");
        let code = if wire == Wire::Rpc { -32602 } else { 409 };
        let fault = world.a2a_send(wire, keyed("ho")).await.fault();
        assert_eq!(fault, (code, "IDEMPOTENCY_CONFLICT".into()));
        let differ = keyed("hi");
        let mut body: Value = serde_json::from_slice(&differ.body).expect("JSON");
        let params = if wire == Wire::Rpc { &mut body["params"] } else { &mut body };
        params["metadata"] = json!({"urn:writ:a2a:submission": {"idempotencyKey": "other"}});
        let differ = host_sim::data::Request { body: body.to_string().into_bytes(), ..differ };
        assert_eq!(world.a2a_send(wire, differ).await.fault().1, "INVALID_PARAMS");
        assert_eq!(world.store.dump().await.expect("a dump"), before);
        assert_eq!(world.model.calls(), 0);
        world.check().await;
    }
}

/// Row 55: a key that is none is refused, not passed over; and one that was accepted outlives its agent.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_kept_or_refused() {
    for wire in Wire::BOTH {
        let world = World::new(SCRIPT).await;
        let keyed = |key: Value| {
            let mut params = to_send("hi");
            params["metadata"] = json!({"urn:writ:a2a:submission": {"idempotencyKey": key}});
            params["tenant"] = json!("helper");
            params
        };
        for key in [json!(""), json!("a b"), json!("é"), json!(7), json!("k".repeat(257))] {
            let refused = world.a2a(wire, "SendMessage", &keyed(key.clone())).await;
            assert_eq!(refused.violations(), ["metadata.urn.idempotencyKey"], "{key}");
        }
        let done = world.a2a(wire, "SendMessage", &keyed(json!("k"))).await.task().clone();
        let later = world.redeployed(json!({"agents": [{"name": "other", "model": "scripted"}]})).await;
        let send = async |key: &str| {
            let request = request(wire, "SendMessage", &keyed(json!(key))).principal(writ_tests::OWNER);
            later.respond(request).await.expect("an answer")
        };
        let told = send("k").await.json().expect("JSON");
        let told = if wire == Wire::Rpc { &told["result"]["task"] } else { &told["task"] };
        assert_eq!((&told["id"], &told["artifacts"]), (&done["id"], &done["artifacts"]));
        let refused = send("new").await;
        assert!(refused.text().contains("There is no agent"), "{}", refused.text());
    }
}

/// Rows 56, 57, 58, 59: a message that names a task.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_a_task() {
    let mut world = World::new(SCRIPT).await;
    let done = world.a2a(Wire::Rpc, "SendMessage", &to_send("hi")).await.task().clone();
    let gate = Gate::close(&mut world).await;
    let works = world.a2a(Wire::Rpc, "SendMessage", &at_once("hi")).await.task().clone();
    until(|| world.model.calls() == 2).await;
    let before = world.store.dump().await.expect("a dump");
    for (wire, missing, refused, invalid) in [(Wire::Rpc, -32001, -32004, -32602), (Wire::Rest, 404, 400, 400)] {
        let to = |task: &Value, context: Option<&str>| {
            let mut params = to_send("more");
            params["message"]["taskId"] = task.clone();
            if let Some(context) = context {
                params["message"]["contextId"] = json!(context);
            }
            params
        };
        for unknown in ["nothing", "00-00000000000000000000000000"] {
            let fault = world.a2a(wire, "SendMessage", &to(&json!(unknown), None)).await.fault();
            assert_eq!(fault, (missing, "TASK_NOT_FOUND".into()));
        }
        let fault = world.a2a(wire, "SendMessage", &to(&done["id"], done["contextId"].as_str())).await.fault();
        assert_eq!(fault, (refused, "UNSUPPORTED_OPERATION".into()));
        let reply = world.a2a(wire, "SendMessage", &to(&done["id"], Some("helper/other"))).await;
        assert_eq!(reply.fault(), (invalid, "INVALID_PARAMS".into()));
        assert_eq!(reply.violations(), ["message.contextId"]);
        // The context follows from the task: this one is known, and asks for nothing.
        let reply = world.a2a(wire, "SendMessage", &to(&works["id"], None)).await;
        assert_eq!(reply.fault(), (refused, "UNSUPPORTED_OPERATION".into()));
        let told = reply.body["error"]["message"].as_str().expect("a text");
        assert!(told.contains(works["contextId"].as_str().expect("a context")), "{told}");
    }
    assert_eq!(world.store.dump().await.expect("a dump"), before, "I2");
    gate.open();
    world.host.settled().await;
    world.check().await;
}

/// Row 60: a context that is named is kept, or refused; never replaced.
#[tokio::test(flavor = "multi_thread")]
async fn contexts_are_threads() {
    let agent = |name: &str| json!({"name": name, "model": "scripted"});
    let agents = json!({"agents": [agent("clerk"), agent("helper")]});
    let world = Setup::new(SCRIPT).setting("agents", agents).world().await;
    for wire in Wire::BOTH {
        let with = |context: Option<&str>, tenant: Option<&str>| {
            let mut params = to_send("hi");
            if let Some(context) = context {
                params["message"]["contextId"] = json!(context);
            }
            if let Some(tenant) = tenant {
                params["tenant"] = json!(tenant);
            }
            params
        };
        let context = async |params: Value| {
            let reply = world.a2a(wire, "SendMessage", &params).await;
            reply.task()["contextId"].as_str().expect("a context").to_owned()
        };
        assert_eq!(context(with(Some("helper/mine"), None)).await, "helper/mine");
        assert_eq!(context(with(Some("clerk/mine"), Some("clerk"))).await, "clerk/mine");
        assert!(context(with(None, Some("clerk"))).await.starts_with("clerk/s-"));
        for (params, field) in [
            (with(Some("5f0c-uuid"), Some("clerk")), "message.contextId"),
            (with(Some("clerk/mine"), Some("helper")), "message.contextId"),
            (with(Some("no-such-agent/mine"), None), "tenant"),
            (with(Some("helper/a/b"), None), "message.contextId"),
            (with(None, Some("nobody")), "tenant"),
            // Two agents, and none that is the default.
            (with(None, None), "tenant"),
        ] {
            let reply = world.a2a(wire, "SendMessage", &params).await;
            assert_eq!(reply.violations(), [field], "{params}");
        }
        // A task is its tenant's.
        let task = world.a2a(wire, "SendMessage", &with(None, Some("clerk"))).await.task().clone();
        let get = async |tenant: Option<&str>| {
            let mut params = json!({"id": task["id"]});
            if let Some(tenant) = tenant {
                params["tenant"] = json!(tenant);
            }
            world.a2a(wire, "GetTask", &params).await
        };
        assert_eq!(get(None).await.result(), &task);
        assert_eq!(get(Some("clerk")).await.result(), &task);
        assert_eq!(get(Some("helper")).await.fault().1, "TASK_NOT_FOUND");
    }
    world.check().await;
}

/// Row 63: history as it is asked for, in order.
#[tokio::test(flavor = "multi_thread")]
async fn history_is_in_order_and_as_long_as_asked() {
    let world = World::new(SCRIPT).await;
    let mut params = to_send("look");
    params["message"]["contextId"] = json!("helper/t");
    world.ask("t", "before", "hi").await;
    let id = world.a2a(Wire::Rpc, "SendMessage", &params).await.task()["id"].clone();
    world.ask("t", "after", "hi").await;
    for wire in Wire::BOTH {
        let texts = async |n: Option<u64>| -> Option<Vec<String>> {
            let mut params = json!({"id": id});
            if let Some(n) = n {
                params["historyLength"] = json!(n);
            }
            let reply = world.a2a(wire, "GetTask", &params).await;
            let history = reply.result().get("history")?.as_array().expect("a list").clone();
            Some(history.iter().map(|m| m["parts"][0]["text"].as_str().expect("a text").to_owned()).collect())
        };
        let whole = Some(vec!["look".to_owned(), "Let me look.".to_owned()]);
        assert_eq!(texts(Some(0)).await, None);
        assert_eq!(texts(Some(1)).await, Some(vec!["Let me look.".into()]));
        assert_eq!(texts(Some(2)).await, whole);
        assert_eq!(texts(None).await, whole);
        let mut none = to_send("hi");
        none["configuration"] = json!({"historyLength": 0});
        assert!(world.a2a(wire, "SendMessage", &none).await.task().get("history").is_none());
    }
}

/// Row 64: what is foreign answers as what is missing, body for body.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_tasks_are_missing() {
    let mut world = World::new(SCRIPT).await;
    let done = world.a2a(Wire::Rpc, "SendMessage", &to_send("hi")).await.task()["id"].clone();
    let _gate = Gate::close(&mut world).await;
    let open = world.a2a(Wire::Rpc, "SendMessage", &at_once("hi")).await.task()["id"].clone();
    for wire in Wire::BOTH {
        let code = if wire == Wire::Rpc { -32001 } else { 404 };
        for operation in ["GetTask", "CancelTask", "SubscribeToTask"] {
            let mut bodies = Vec::new();
            for id in [&done, &open, &json!("00-00000000000000000000000000"), &json!("nothing")] {
                let request = request(wire, operation, &json!({"id": id})).principal("web/mallory");
                let reply = world.a2a_send(wire, request).await;
                assert_eq!(reply.fault(), (code, "TASK_NOT_FOUND".into()), "{operation}");
                bodies.push((reply.status, reply.body));
            }
            assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:#?}");
        }
        let mut to = to_send("hi");
        to["message"]["taskId"] = open.clone();
        let reply = world.a2a_send(wire, request(wire, "SendMessage", &to).principal("web/mallory")).await;
        assert_eq!(reply.fault(), (code, "TASK_NOT_FOUND".into()));
        let mut refers = to_send("hi");
        refers["message"]["referenceTaskIds"] = json!([open]);
        let reply = world.a2a_send(wire, request(wire, "SendMessage", &refers).principal("web/mallory")).await;
        assert_eq!(reply.fault(), (code, "TASK_NOT_FOUND".into()));
        // His context of the same name is another one, with nothing in it.
        let list = request(wire, "ListTasks", &json!({})).principal("web/mallory");
        assert_eq!(world.a2a_send(wire, list).await.result()["tasks"], json!([]));
    }
    // What a wait ends with is for its caller alone.
    let later = host_sim::data::Request::get(format!("/a2a/answers/{}", done.as_str().expect("an id")));
    assert_eq!(world.send(later.principal("web/mallory")).await.status, 404);
}

/// Rows 67, 68: what works or waits is cancelled; what has its outcome, or is not there, is not.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_cancelled() {
    for wire in Wire::BOTH {
        let mut world = World::new(SCRIPT).await;
        let gate = Gate::close(&mut world).await;
        let works = world.a2a(wire, "SendMessage", &at_once("hi")).await.task().clone();
        until(|| world.model.calls() == 1).await;
        let mut second = at_once("ho");
        second["message"]["contextId"] = works["contextId"].clone();
        let waits = world.a2a(wire, "SendMessage", &second).await.task().clone();
        // At once the answer is the task as it is, with the wish noted.
        let now = world.send(request(wire, "CancelTask", &json!({"id": waits["id"]}))).await;
        let now = now.json().expect("JSON");
        let now = if wire == Wire::Rpc { &now["result"] } else { &now };
        assert_eq!((&now["id"], &now["metadata"]["cancelRequested"]), (&waits["id"], &json!(true)));
        for task in [&waits, &works] {
            let cancelled = world.a2a(wire, "CancelTask", &json!({"id": task["id"]})).await;
            if cancelled.body.get("error").is_none() {
                assert_eq!(cancelled.result()["status"]["state"], "TASK_STATE_CANCELED");
            }
            let stored = world.a2a(wire, "GetTask", &json!({"id": task["id"]})).await;
            assert_eq!(stored.result()["status"]["state"], "TASK_STATE_CANCELED");
            assert_eq!(stored.result()["status"]["message"]["parts"][0]["text"], "cancelled");
            let code = if wire == Wire::Rpc { -32002 } else { 400 };
            let again = world.a2a(wire, "CancelTask", &json!({"id": task["id"]})).await;
            assert_eq!(again.fault(), (code, "TASK_NOT_CANCELABLE".into()));
        }
        let code = if wire == Wire::Rpc { -32001 } else { 404 };
        let fault = world.a2a(wire, "CancelTask", &json!({"id": "00-00000000000000000000000000"})).await.fault();
        assert_eq!(fault, (code, "TASK_NOT_FOUND".into()));
        gate.open();
        world.host.settled().await;
        world.check().await;
    }
}

/// Row 69: a cancel that meets the end has one winner, for good.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_and_the_end_have_one_winner() {
    let mut seen = std::collections::BTreeSet::new();
    for events in 0..4 {
        let mut world = World::new(SCRIPT).await;
        let gate = Gate::close(&mut world).await;
        let task = world.a2a(Wire::Rpc, "SendMessage", &at_once("hi")).await.task().clone();
        until(|| world.model.calls() == 1).await;
        gate.let_go(events);
        if events == 3 {
            world.host.settled().await;
        }
        let id = json!({"id": task["id"]});
        let cancelled = world.a2a(Wire::Rpc, "CancelTask", &id).await;
        gate.open();
        world.host.settled().await;
        let end = world.a2a(Wire::Rpc, "GetTask", &id).await.result().clone();
        let state = end["status"]["state"].as_str().expect("a state").to_owned();
        assert!(["TASK_STATE_CANCELED", "TASK_STATE_COMPLETED"].contains(&state.as_str()), "{state}");
        match cancelled.body.get("error") {
            Some(_) => assert_eq!((cancelled.fault().0, state.as_str()), (-32002, "TASK_STATE_COMPLETED")),
            None => assert_eq!(cancelled.result()["status"], end["status"]),
        }
        assert_eq!(world.a2a(Wire::Rpc, "CancelTask", &id).await.fault().0, -32002);
        world.host.sweep().await.expect("a sweep");
        world.host.settled().await;
        assert_eq!(world.a2a(Wire::Rest, "GetTask", &id).await.result(), &end);
        seen.insert(state);
        world.check().await;
    }
    assert_eq!(seen.len(), 2, "both orders were seen");
}

/// Row 78: times are those of the record.
#[tokio::test(flavor = "multi_thread")]
async fn times_are_of_the_record() {
    let world = Setup::new(SCRIPT).reach(0).world().await;
    world.clock.advance(1_234);
    let reply = world.a2a(Wire::Rpc, "SendMessage", &json!({"message": message("hi")})).await;
    assert_eq!(reply.task()["status"]["timestamp"], "2025-01-01T00:00:01.234Z");
    let stored = world.submission(reply.task()["id"].as_str().expect("an id")).await;
    assert_eq!(stored["settled"], json!(START_MS + 1_234));
}
