//! One submission through all four wires: whoever makes it, all show it under one id, in one state, with one result.
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use host_sim::data::Request;
use host_sim::store::Store;
use host_sim::store::memory::MemoryStore;
use serde_json::{Value, json};
use writ_tests::a2a::{Wire, at_once, to_send};
use writ_tests::acp::{Editor, code};
use writ_tests::mcp::modern;
use writ_tests::{CrashStore, Fault, Setup, World};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "pay"
text = "I pay."
calls = [{ name = "pay", arguments = { order = 7 } }]
[[answer]]
when = "pay"
text = "Paid."
[[answer]]
when = "fail"
fail = { kind = "quota", message = "No credit." }
[[answer]]
text = "Hello."
[[tool]]
name = "pay"
policy = "ask"
reply = "paid"
"#;

/// What one wire shows of a submission: its id, its session, how it stands, and the text of its answer.
#[derive(Debug, PartialEq)]
struct Shown {
    id: String,
    session: String,
    state: &'static str,
    text: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

async fn by_thread_api(world: &World, id: &str) -> Shown {
    let view = world.submission(id).await;
    let state = match (view["state"].as_str(), view["outcome"]["status"].as_str()) {
        (Some("settled"), Some("completed")) => "completed",
        (Some("settled"), Some("failed")) => "failed",
        (Some("settled"), Some("aborted")) => "cancelled",
        (Some("waiting"), None) => "asks",
        _ => panic!("{view}"),
    };
    let session = format!("{}/{}", text(&view["agent"]), text(&view["thread"]));
    Shown { id: text(&view["id"]), session, state, text: text(&view["outcome"]["text"]) }
}

async fn by_mcp(world: &World, id: &str) -> Shown {
    let told = world.mcp_able("tasks/get", json!({"taskId": id})).await;
    let task = told.result();
    let state = match (task["status"].as_str(), task["result"]["isError"].as_bool()) {
        (Some("completed"), None | Some(false)) => "completed",
        (Some("completed"), Some(true)) | (Some("failed"), _) => "failed",
        (Some("cancelled"), _) => "cancelled",
        (Some("input_required"), _) => "asks",
        _ => panic!("{task}"),
    };
    let uri = format!("submission://{id}");
    let read = world.mcp("resources/read", json!({"uri": uri})).await;
    let view: Value = serde_json::from_str(&text(&read.result()["contents"][0]["text"])).expect("JSON");
    let session = format!("{}/{}", text(&view["agent"]), text(&view["thread"]));
    let said = if state == "completed" { text(&task["result"]["content"][0]["text"]) } else { String::new() };
    Shown { id: text(&task["taskId"]), session, state, text: said }
}

async fn by_a2a(world: &World, wire: Wire, id: &str) -> Shown {
    let got = world.a2a(wire, "GetTask", &json!({"id": id})).await;
    let task = got.result();
    let state = match task["status"]["state"].as_str() {
        Some("TASK_STATE_COMPLETED") => "completed",
        Some("TASK_STATE_FAILED") => "failed",
        Some("TASK_STATE_CANCELED") => "cancelled",
        Some("TASK_STATE_INPUT_REQUIRED") => "asks",
        _ => panic!("{task}"),
    };
    let said = text(&task["artifacts"][0]["parts"][0]["text"]);
    let said = if state == "completed" { said } else { String::new() };
    Shown { id: text(&task["id"]), session: text(&task["contextId"]), state, text: said }
}

/// All wires that know submissions by id show the same; the session's transcript, as ACP loads it, ends with the answer.
async fn agreed(world: &World, id: &str) -> Shown {
    let shown = by_thread_api(world, id).await;
    assert_eq!(by_mcp(world, id).await, shown);
    for wire in Wire::BOTH {
        assert_eq!(by_a2a(world, wire, id).await, shown);
    }
    let mut editor = Editor::open(world).await;
    let (updates, answer) = editor.load(&shown.session).await;
    assert!(answer.get("result").is_some(), "{answer}");
    if shown.state == "completed" {
        assert!(updates.last().is_some_and(|last| last.ends_with(&shown.text)), "{updates:#?}");
    }
    editor.leave().await;
    shown
}

/// A submission made by each face.
async fn made(world: &World, message: &str) -> Vec<String> {
    let by_thread = world.accept(&format!("by-thread-{message}"), "k", message).await;
    let by_mcp = world.task(json!({"message": message})).await;
    let by_rpc = world.a2a(Wire::Rpc, "SendMessage", &at_once(message)).await;
    let by_rest = world.a2a(Wire::Rest, "SendMessage", &at_once(message)).await;
    let mut editor = Editor::open(world).await;
    let session = editor.session().await;
    editor.prompt(&session, message).await;
    let (_, thread) = session.split_once('/').expect("agent/thread");
    let by_acp = loop {
        let page = world.send(Request::get(format!("/v1/agents/helper/threads/{thread}/submissions"))).await;
        let page = page.json().expect("JSON");
        let all = page["submissions"].as_array().expect("submissions");
        if let Some(run) = all.iter().find(|s| s["kind"] == "run") {
            break text(&run["id"]);
        }
        tokio::task::yield_now().await;
    };
    world.host.settled().await;
    editor.leave().await;
    vec![by_thread, text(&by_mcp["taskId"]), text(&by_rpc.task()["id"]), text(&by_rest.task()["id"]), by_acp]
}

/// Row 99: what completed, and what failed.
#[tokio::test(flavor = "multi_thread")]
async fn one_submission_is_the_same_on_every_wire() {
    let world = Setup::new(SCRIPT).world().await;
    for (message, state, said) in [("hi", "completed", "Hello."), ("fail", "failed", "")] {
        for id in made(&world, message).await {
            let shown = agreed(&world, &id).await;
            assert_eq!((shown.state, shown.text.as_str()), (state, said), "{message}: {shown:?}");
        }
    }
    world.check().await;
}

/// Row 99: what waits for a person is asked on every wire, and answered on any; what is cancelled on one is on all.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_on_every_wire_and_answered_on_any() {
    let world = Setup::new(SCRIPT).world().await;
    let ids = made(&world, "pay").await;
    for id in &ids {
        assert_eq!(agreed(&world, id).await.state, "asks");
    }
    let question = world.submission(&ids[0]).await["questions"][0].clone();
    let answer = json!({"call": question["call"], "decision": "approve"});
    world.send(Request::post(format!("/v1/submissions/{}/answer", ids[0]), &answer)).await;
    let asked = world.mcp_able("tasks/get", json!({"taskId": ids[1]})).await.result()["inputRequests"].clone();
    let key = asked.as_object().and_then(|asked| asked.keys().next()).expect("a question").clone();
    let responses = json!({key: {"action": "accept", "content": {"confirm": true}}});
    let updated = world.mcp_able("tasks/update", json!({"taskId": ids[1], "inputResponses": responses})).await;
    assert!(updated.answer.get("result").is_some(), "{}", updated.answer);
    let mut yes = to_send("yes");
    yes["message"]["taskId"] = json!(ids[2]);
    world.a2a(Wire::Rpc, "SendMessage", &yes).await;
    world.host.settled().await;
    for id in &ids[..3] {
        let shown = agreed(&world, id).await;
        assert_eq!((shown.state, shown.text.as_str()), ("completed", "Paid."), "{shown:?}");
    }
    world.a2a(Wire::Rest, "CancelTask", &json!({"id": ids[3]})).await;
    world.mcp_able("tasks/cancel", json!({"taskId": ids[4]})).await;
    world.host.settled().await;
    for id in &ids[3..] {
        assert_eq!(agreed(&world, id).await.state, "cancelled");
    }
    world.check().await;
}

/// The sessions that each wire lists.
async fn listed(world: &World) -> [Vec<String>; 3] {
    let threads = world.send(Request::get("/v1/threads")).await.json().expect("JSON");
    let threads = threads["threads"].as_array().expect("threads").iter();
    let resources = world.mcp("resources/list", json!({})).await;
    let resources = resources.result()["resources"].as_array().expect("resources").iter();
    let mut editor = Editor::open(world).await;
    let sessions = editor.ask("session/list", json!({})).await;
    editor.leave().await;
    let sessions = sessions["result"]["sessions"].as_array().expect("sessions").iter();
    [
        threads.map(|t| format!("{}/{}", text(&t["agent"]), text(&t["thread"]))).collect(),
        resources.map(|r| text(&r["uri"]).trim_start_matches("session://").to_owned()).collect(),
        sessions.map(|s| text(&s["sessionId"])).collect(),
    ]
    .map(|mut names: Vec<String>| {
        names.sort();
        names
    })
}

/// Row 100: a copy that its host was killed over, by whichever wire it was asked for, is on none until it is whole.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_fork_is_on_no_wire() {
    let fork = |to: &str| Request::post("/v1/agents/helper/threads/t/fork", &json!({"to": to}));
    let params = json!({"name": "session_fork", "arguments": {"session_id": "helper/t"}});
    let by_thread = fork("u").header("idempotency-key", "k");
    let by_mcp = modern(&writ_tests::mcp::body(1, "tools/call", params, json!({})));
    for request in [by_thread, by_mcp] {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let first = Setup::new(SCRIPT).store(inner.clone()).world().await;
        let text_of = |n: u32| json!([{"type": "text", "text": n.to_string()}]);
        let message = |n| json!({"role": "user", "content": text_of(n), "timestamp": 7});
        first.import("t", json!({}), &(0..200).map(message).collect::<Vec<_>>()).await;
        // After the acceptance and the claim, in the middle of the pages.
        let crash = Arc::new(CrashStore::new(inner.clone(), 2, Fault::KillBefore));
        let second = Setup::new(SCRIPT).store(crash.clone()).world().await;
        let begun = second.send(request).await;
        assert_ne!(begun.status / 100, 4, "{}", begun.text());
        crash.killed().await;
        let third = Setup::new(SCRIPT).store(inner).world().await;
        let staged = third.store.dump().await.expect("a dump").into_iter();
        let staged = staged.filter(|(key, _)| key.contains("/ses/") && key.matches('/').count() == 3).count();
        assert_eq!((staged, listed(&third).await), (2, [(); 3].map(|()| vec!["helper/t".to_owned()])));
        let read = third.mcp("resources/read", json!({"uri": "session://helper/u"})).await;
        assert_eq!(read.fault().1, -32602);
        let mut editor = Editor::open(&third).await;
        assert_eq!(code(&editor.load("helper/u").await.1), -32002);
        editor.leave().await;
        third.host.sweep().await.expect("a sweep");
        third.host.settled().await;
        let whole = listed(&third).await;
        assert!(whole.iter().all(|names| names.len() == 2 && *names == whole[0]), "{whole:?}");
        let copy = whole[0].iter().find(|name| *name != "helper/t").expect("the copy");
        let (_, thread) = copy.split_once('/').expect("agent/thread");
        assert_eq!(third.messages(thread).await, third.messages("t").await);
        third.check().await;
    }
}

/// What is no message, what nobody knows, and what is another's: each wire says so in its own words, and nothing is stored.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_input_gets_each_protocols_own_error() {
    let world = Setup::new(SCRIPT).world().await;
    let id = world.accept("t", "k", "hi").await;
    world.host.settled().await;
    let before = world.store.dump().await.unwrap();
    let mut editor = Editor::open(&world).await;
    let unknown = r#"{"jsonrpc":"2.0","id":7,"method":"no/such"}"#;
    for (body, error) in [("{", -32700), ("[]", -32600), (r#"{"id":7}"#, -32600), (unknown, -32601)] {
        let raw = |path: &str| Request { body: body.into(), ..Request::new("POST", path) };
        let mcp = raw("/mcp").header("accept", "application/json, text/event-stream");
        assert_eq!(world.told(mcp.header("mcp-protocol-version", "2025-11-25")).await.fault().1, error, "MCP: {body}");
        let a2a = world.send(raw("/a2a").header("a2a-version", "1.0")).await.json().expect("JSON");
        assert_eq!(a2a["error"]["code"], error, "A2A: {body}");
        editor.line(body).await;
        assert_eq!(code(&editor.next().await), error, "ACP: {body}");
    }
    editor.leave().await;
    let get = writ_tests::mcp::body(1, "tasks/get", json!({"taskId": id}), writ_tests::mcp::able());
    assert_eq!(world.told(modern(&get).principal("web/eve")).await.fault().1, -32602);
    let get = writ_tests::a2a::request(Wire::Rpc, "GetTask", &json!({"id": id})).principal("web/eve");
    assert_eq!(world.a2a_send(Wire::Rpc, get).await.fault().0, -32001);
    assert_eq!(world.store.dump().await.unwrap(), before);
}
