//! MCP: tools, what a call comes to, what it asks before it goes on, and resources.
#![cfg(not(target_family = "wasm"))]

use std::collections::BTreeMap;

use host_sim::data::{Body, Request};
use host_sim::store::Store;
use serde_json::{Value, json};
use writ_tests::mcp::{Told, able, body, legacy, modern};
use writ_tests::{Gate, Setup, World};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "look"
text = "Let me look."
calls = [{ name = "look" }]
[[answer]]
when = "look"
text = "Seen."
[[answer]]
when = "fail"
fail = { kind = "refused", message = "No." }
[[answer]]
when = "pay"
text = "I pay twice."
calls = [{ name = "pay", arguments = { order = 1 } }, { name = "pay", arguments = { order = 2 } }]
[[answer]]
when = "pay"
text = "Done."
[[answer]]
when = "typed"
text = "{\"n\": 7}"
[[answer]]
when = "long"
text = "0123456789 0123456789 0123456789 0123456789"
chunks = 4
[[answer]]
text = "Hello."
[[tool]]
name = "look"
reply = "seen"
[[tool]]
name = "pay"
policy = "ask"
reply = "paid"
"#;

type Stored = Vec<(String, Vec<u8>)>;

async fn stored(world: &World) -> Stored {
    world.store.dump().await.expect("a dump")
}

fn forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

fn told_of(told: &Told) -> &Value {
    &told.result()["structuredContent"]
}

fn text(told: &Told) -> &str {
    told.result()["content"][0]["text"].as_str().expect("a text")
}

fn paid(world: &World) -> usize {
    world.log.executions().iter().filter(|e| e.name == "pay").map(|e| e.count as usize).sum()
}

/// The answer and the names to go on with; a second call with the session's name goes on there.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_answered_and_can_be_gone_on_with() {
    let world = World::new(SCRIPT).await;
    let first = world.call(json!({"message": "hi"})).await;
    assert_eq!((text(&first), &first.result()["isError"]), ("Hello.", &json!(false)));
    let session = told_of(&first)["session_id"].as_str().expect("a session").to_owned();
    let thread = session.strip_prefix("helper/").expect("the agent's");
    let submission = world.submission(told_of(&first)["submission_id"].as_str().expect("an id")).await;
    assert_eq!((&submission["thread"], &submission["outcome"]["text"]), (&json!(thread), &json!("Hello.")));
    let second = world.call(json!({"message": "look", "session_id": session})).await;
    assert_eq!((text(&second), &told_of(&second)["session_id"]), ("Seen.", &json!(session)));
    assert_eq!(world.transcript(thread).await.len(), 6);
    // A typed result stands beside the names.
    let schema = json!({"type": "object", "required": ["n"]});
    let typed = world.call(json!({"message": "typed", "result_schema": schema})).await;
    assert_eq!(told_of(&typed)["result"], json!({"n": 7}));
    world.check().await;
}

/// What every agent's result says has the shape that its tool announces.
#[tokio::test(flavor = "multi_thread")]
async fn results_have_the_shape_that_is_announced() {
    let world = World::new(SCRIPT).await;
    let listed = world.mcp("tools/list", json!({})).await;
    let schema = listed.result()["tools"][0]["outputSchema"].clone();
    let input = listed.result()["tools"][0]["inputSchema"].clone();
    for schema in [&schema, &input] {
        jsonschema::draft202012::meta::validate(schema).expect("a schema");
    }
    for message in ["hi", "fail", "look"] {
        let told = world.call(json!({"message": message})).await;
        assert!(jsonschema::is_valid(&schema, told_of(&told)), "{message}: {}", told.answer);
    }
}

/// Row 19: an unknown tool is an error, a tool that fails is a result.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_a_result_and_an_unknown_tool_is_not() {
    let world = World::new(SCRIPT).await;
    for name in [json!("nobody"), json!(""), json!("Helper"), json!(7), Value::Null] {
        let told = world.mcp("tools/call", json!({"name": name, "arguments": {"message": "hi"}})).await;
        assert_eq!(told.fault(), (200, -32602), "{name}");
    }
    let failed = world.call(json!({"message": "fail"})).await;
    assert_eq!((failed.status, &failed.result()["isError"]), (200, &json!(true)));
    assert_eq!(told_of(&failed)["error"]["code"], "model");
    assert!(text(&failed).contains("No."), "{}", failed.answer);
}

/// Row 20: and the model is told what to do better.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_fit_store_nothing() {
    let world = World::new(SCRIPT).await;
    let known = world.call(json!({"message": "hi"})).await;
    let session = told_of(&known)["session_id"].clone();
    let before = stored(&world).await;
    for arguments in [
        json!({}),
        json!({"message": 7}),
        json!({"message": [{"type": "text", "text": "x"}]}),
        json!({"message": "x", "more": 1}),
        json!({"message": "x", "session_id": 7}),
        json!({"message": "x", "session_id": "no-slash"}),
        json!({"message": "x", "session_id": "other/thread"}),
        json!({"message": "x", "session_id": "helper/.."}),
        json!({"message": "x", "idempotency_key": ""}),
        json!({"message": "x", "idempotency_key": "é"}),
        json!({"message": "x", "idempotency_key": "k".repeat(257)}),
        json!({"message": "x", "result_schema": 7}),
        json!({"message": "x", "result_schema": {"type": "nonsense"}}),
    ] {
        let told = world.call(arguments.clone()).await;
        assert_eq!((told.status, &told.result()["isError"]), (200, &json!(true)), "{arguments}");
        assert!(!text(&told).is_empty() && told_of(&told)["error"]["code"].is_string(), "{arguments}");
    }
    for (name, arguments) in [
        ("session_fork", json!({})),
        ("session_fork", json!({"session_id": session, "at": -1})),
        ("session_fork", json!({"session_id": session, "at": 1.5})),
        ("session_fork", json!({"session_id": session, "at": 99})),
        ("session_fork", json!({"session_id": "helper/none"})),
        ("session_read", json!({"session_id": session, "limit": "x"})),
        ("session_read", json!({"session_id": "helper/none"})),
        ("session_read", json!({"session_id": session, "of": 1})),
        ("submission_interrupt", json!({})),
        ("submission_interrupt", json!({"submission_id": "none"})),
    ] {
        let told = world.mcp("tools/call", json!({"name": name, "arguments": arguments})).await;
        assert_eq!((told.status, &told.result()["isError"]), (200, &json!(true)), "{name} {arguments}");
    }
    for arguments in [json!([]), json!("x"), json!(7)] {
        let told = world.mcp("tools/call", json!({"name": "helper", "arguments": arguments})).await;
        assert_eq!(told.fault(), (200, -32602), "{arguments}");
    }
    let token = json!({"name": "helper", "arguments": {"message": "x"}, "_meta": {"progressToken": {}}});
    assert_eq!(world.mcp("tools/call", token).await.fault(), (200, -32602));
    assert_eq!(stored(&world).await, before);
}

/// Row 25: what the setting says that a tool needs is asked for before anything is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_may_need_what_the_client_has_not_declared() {
    let setting = json!({"tools": {"helper": {"requires": ["elicitation"]}}});
    let world = Setup::new(SCRIPT).setting("mcp", setting).world().await;
    let before = stored(&world).await;
    let told = world.call(json!({"message": "hi"})).await;
    assert_eq!(told.fault(), (400, -32021));
    assert_eq!(told.answer["error"]["data"], json!({"requiredCapabilities": {"elicitation": {}}}));
    let old = world.told(legacy(1, "tools/call", json!({"name": "helper", "arguments": {"message": "hi"}}))).await;
    assert_eq!((&old.result()["isError"], stored(&world).await), (&json!(true), before));
    let params = json!({"name": "helper", "arguments": {"message": "hi"}});
    let able = world.told(modern(&body(1, "tools/call", params, forms()))).await;
    assert_eq!(text(&able), "Hello.");
}

/// A tool with a schema of its own takes just that, and hands it on as JSON.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_may_have_arguments_of_its_own() {
    let input = json!({"type": "object", "required": ["order"], "properties": {"order": {"type": "integer"}}});
    let setting = json!({"tools": {"helper": {"input": input}}});
    let world = Setup::new(SCRIPT).setting("mcp", setting).world().await;
    let listed = world.mcp("tools/list", json!({})).await;
    assert_eq!(listed.result()["tools"][0]["inputSchema"], input);
    let bad = world.call(json!({"order": "seven"})).await;
    assert_eq!((&bad.result()["isError"], &told_of(&bad)["error"]["field"]), (&json!(true), &json!("arguments")));
    let good = world.call(json!({"order": 7})).await;
    let session = told_of(&good)["session_id"].as_str().expect("a session").to_owned();
    assert_eq!(world.transcript(&session["helper/".len()..]).await[0], r#"user: {"order":7}"#);
    let broken = Setup::new(SCRIPT).setting("mcp", json!({"tool": {}})).world().await;
    assert_eq!(broken.call(json!({"message": "hi"})).await.fault(), (500, -32603));
}

/// Row 26: only a client that can show a form is asked; what is missing is asked again, what is too much is passed over.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_asks_and_goes_on_with_the_answers() {
    let world = World::new(SCRIPT).await;
    let send = async |more: Value, capabilities: Value| {
        let mut params = json!({"name": "helper", "arguments": {"message": "pay"}});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        world.told(modern(&body(1, "tools/call", params, capabilities))).await
    };
    let asked = send(json!({}), forms()).await;
    let result = asked.result();
    assert_eq!((asked.status, &result["resultType"]), (200, &json!("input_required")));
    let requests = result["inputRequests"].as_object().expect("requests").clone();
    let keys: Vec<&String> = requests.keys().collect();
    assert_eq!(keys.len(), 2);
    for request in requests.values() {
        assert_eq!((&request["method"], &request["params"]["mode"]), (&json!("elicitation/create"), &json!("form")));
        assert!(request["params"]["message"].as_str().expect("a text").contains("pay"), "{request}");
        assert_eq!(request["params"]["requestedSchema"]["required"], json!(["confirm"]));
    }
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let state = &result["requestState"];
    // One answer, one that is none, and one that nobody asked for: the rest is asked again.
    let some = json!({keys[0]: yes, "made-up": yes});
    let again = send(json!({"inputResponses": some, "requestState": state}), forms()).await;
    let left: Vec<&String> = again.result()["inputRequests"].as_object().expect("requests").keys().collect();
    assert_eq!(left, [keys[1]]);
    let nothing = send(json!({"requestState": state}), forms()).await;
    assert_eq!(nothing.result()["inputRequests"], again.result()["inputRequests"]);
    let no = json!({"action": "accept", "content": {"confirm": false, "reason": "Once is enough."}});
    let rest = json!({keys[1]: no, keys[0]: no});
    let state = again.result()["requestState"].clone();
    let done = send(json!({"inputResponses": rest, "requestState": state}), forms()).await;
    assert_eq!((&done.result()["resultType"], text(&done)), (&json!("complete"), "Done."));
    assert_eq!(paid(&world), 1);
    let session = told_of(&done)["session_id"].as_str().expect("a session").to_owned();
    let transcript = world.transcript(&session["helper/".len()..]).await;
    assert!(transcript.iter().any(|line| line.contains("Once is enough.")), "{transcript:#?}");
    // Taken up once more it is the same submission, with its outcome.
    let late = send(json!({"requestState": state}), forms()).await;
    assert_eq!(told_of(&late), told_of(&done));
    // In a stream the question is the last frame.
    let mut params = json!({"name": "helper", "arguments": {"message": "pay"}, "_meta": {"progressToken": 1}});
    params["_meta"]["progressToken"] = json!("p");
    let streamed = world.told(modern(&body(1, "tools/call", params, forms()))).await;
    assert_eq!(streamed.result()["resultType"], "input_required");
    assert!(!streamed.before.is_empty());
    world.check().await;
}

/// Row 26 for those that can't be asked: they are told what it waits for, and somebody else may answer.
#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_asked_is_told_what_is_waited_for() {
    let world = World::new(SCRIPT).await;
    let params = json!({"name": "helper", "arguments": {"message": "pay"}});
    let urls = json!({"elicitation": {"url": {}}});
    for request in [
        modern(&body(1, "tools/call", params.clone(), json!({}))),
        modern(&body(1, "tools/call", params.clone(), urls)),
        legacy(1, "tools/call", params.clone()),
    ] {
        let told = world.told(request).await;
        assert_eq!(told.result()["isError"], true, "{}", told.answer);
        let details = told_of(&told);
        assert_eq!((&details["status"], &details["questions"][0]["tool"]), (&json!("waiting"), &json!("pay")));
        let id = details["submission_id"].as_str().expect("an id");
        assert_eq!(world.submission(id).await["state"], "waiting");
        assert!(told.answer["result"].get("inputRequests").is_none());
    }
    assert_eq!(paid(&world), 0);
}

/// Row 27: a state is good for one principal, one call and one hour.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_good_for_its_call_alone() {
    let world = Setup::new(SCRIPT).reach(0).world().await;
    let call = |message: &str, more: Value| {
        let mut params = json!({"name": "helper", "arguments": {"message": message}});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        modern(&body(1, "tools/call", params, forms()))
    };
    let asked = world.told(call("pay", json!({}))).await;
    let state = asked.result()["requestState"].as_str().expect("a state").to_owned();
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let keys = asked.result()["inputRequests"].as_object().expect("requests").keys();
    let answers: Value = keys.map(|key| (key.clone(), yes.clone())).collect::<serde_json::Map<_, _>>().into();
    let with = |state: Value| json!({"inputResponses": answers, "requestState": state});
    let before = stored(&world).await;
    let parts: Vec<&str> = state.split('.').collect();
    let mut forged = vec![
        json!(7),
        json!(""),
        json!("x".repeat(5000)),
        json!(format!("{state}0")),
        json!(format!("9{state}")),
        json!(format!("{}.{}.{}", parts[0], parts[1], "00".repeat(32))),
        json!(format!("{}.{}", parts[0], parts[1])),
    ];
    for at in [0, parts[0].len() + 4, state.len() - 1] {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        forged.push(json!(String::from_utf8(bytes).expect("ASCII")));
    }
    for state in forged {
        assert_eq!(world.told(call("pay", with(state.clone()))).await.fault(), (200, -32602), "{state}");
    }
    assert_eq!(world.told(call("pay ", with(json!(state)))).await.fault(), (200, -32602), "another call");
    let other = call("pay", with(json!(state))).principal("local/other");
    assert_eq!(world.told(other).await.fault(), (200, -32602), "another principal");
    world.clock.advance(3_600_000);
    let late = world.told(call("pay", with(json!(state)))).await;
    assert!(late.answer["error"]["message"].as_str().expect("a text").contains("expired"), "{}", late.answer);
    assert_eq!((stored(&world).await, paid(&world)), (before, 0));
}

/// Row 29.
#[tokio::test(flavor = "multi_thread")]
async fn equal_ids_of_two_clients_do_not_meet() {
    let world = World::new(SCRIPT).await;
    let call = |message: &str| {
        let params = json!({"name": "helper", "arguments": {"message": message}});
        modern(&body("same", "tools/call", params, json!({})))
    };
    let other = call("hi").principal("local/other");
    let (a, b, c) = tokio::join!(world.told(call("look")), world.told(call("hi")), world.told(other));
    assert_eq!((text(&a), text(&b), text(&c)), ("Seen.", "Hello.", "Hello."));
    for told in [&a, &b, &c] {
        assert_eq!(told.answer["id"], "same");
    }
    let sessions = [&a, &b, &c].map(|told| told_of(told)["session_id"].clone());
    assert!(sessions[0] != sessions[1] && sessions[1] != sessions[2]);
}

/// Progress rises, names its token, and comes before the answer. Who takes streams alone gets one, without progress.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_tells_its_progress() {
    let world = World::new(SCRIPT).await;
    let params = json!({"name": "helper", "arguments": {"message": "long"}, "_meta": {"progressToken": "p"}});
    let told = world.mcp("tools/call", params).await;
    let progress: Vec<f64> = told.before.iter().map(|f| f["params"]["progress"].as_f64().expect("a number")).collect();
    assert!(progress.len() >= 2 && progress.windows(2).all(|pair| pair[0] < pair[1]), "{progress:?}");
    assert!(told.before.iter().all(|f| f["params"]["progressToken"] == "p" && f.get("id").is_none()));
    assert!(text(&told).starts_with("0123456789"));
    assert_eq!(told.first.header("content-type"), Some("text/event-stream"));
    let mut quiet =
        modern(&body(9, "tools/call", json!({"name": "helper", "arguments": {"message": "hi"}}), json!({})));
    quiet.headers.retain(|(name, _)| name != "accept");
    let told = world.told(quiet.header("accept", "text/event-stream")).await;
    assert!(matches!(told.first.body, Body::Stream(_)));
    assert_eq!((told.before.len(), &told.answer["id"], text(&told)), (0, &json!(9), "Hello."));
}

/// What a host is told to do: how long to wait, and what to send when the caller leaves. Nothing for what can be asked
/// for again. (That a host does it is shown in host-sim/tests/serve/mcp.rs.)
#[tokio::test(flavor = "multi_thread")]
async fn only_what_would_be_lost_is_given_up() {
    let world = World::new(SCRIPT).await;
    let call = |arguments: Value| json!({"name": "helper", "arguments": arguments});
    let plain = world.call(json!({"message": "hi"})).await;
    let id = told_of(&plain)["submission_id"].as_str().expect("an id").to_owned();
    assert_eq!(plain.first.left, Some(format!("/v1/submissions/{id}/cancel")));
    let wait = plain.first.wait.as_ref().expect("a wait");
    assert_eq!(wait.ms, 300_000);
    // If it takes longer, that is said, and where to look.
    let late = plain.first.json().expect("JSON");
    assert_eq!(
        (&late["result"]["isError"], &late["result"]["structuredContent"]["submission_id"]),
        (&json!(true), &json!(id))
    );
    let mut streamed = call(json!({"message": "hi"}));
    streamed["_meta"] = json!({"progressToken": 1});
    assert!(world.mcp("tools/call", streamed).await.first.left.is_some());
    let keyed = world.call(json!({"message": "hi", "idempotency_key": "k"})).await;
    let old = world.told(legacy(1, "tools/call", call(json!({"message": "hi"})))).await;
    let task = world.mcp_able("tools/call", call(json!({"message": "hi"}))).await;
    let list = world.mcp("tools/list", json!({})).await;
    for told in [&keyed, &old, &task, &list] {
        assert_eq!(told.first.left, None);
    }
    // The path of a wait is for its owner alone.
    let then = wait.then.clone();
    assert_eq!(world.send(Request::get(&then).principal("local/other")).await.status, 422);
    let foreign = then.replace(&id, "50-k71a5bvrh7j2aspdem614x068y");
    let missing = world.send(Request::get(&foreign)).await;
    assert_eq!(missing.bytes(), world.send(Request::get(&then).principal("local/other")).await.bytes());
    assert_eq!(world.send(Request::get(format!("/mcp/calls/{id}?ask=x"))).await.status, 422);
}

/// Sessions are copied, read and stopped by tools; an agent of the same name hides the tool.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_have_tools() {
    let world = World::new(SCRIPT).await;
    let first = world.call(json!({"message": "look"})).await;
    let session = told_of(&first)["session_id"].clone();
    let tool = async |name: &str, arguments: Value| {
        world.mcp("tools/call", json!({"name": name, "arguments": arguments})).await
    };
    let fork = tool("session_fork", json!({"session_id": session, "at": 1})).await;
    let copy = told_of(&fork)["session_id"].clone();
    assert!(copy != session && text(&fork).contains(copy.as_str().expect("a name")));
    let read = tool("session_read", json!({"session_id": copy})).await;
    assert_eq!((&told_of(&read)["count"], &told_of(&read)["next"]), (&json!(1), &Value::Null));
    let page = tool("session_read", json!({"session_id": session, "after": 1, "limit": 2})).await;
    assert_eq!((&told_of(&page)["messages"][0]["role"], &told_of(&page)["next"]), (&json!("assistant"), &json!(3)));
    let told: Value = serde_json::from_str(text(&page)).expect("JSON");
    assert_eq!(&told, told_of(&page));
    let beyond = tool("session_read", json!({"session_id": session, "after": u32::MAX})).await;
    assert_eq!(told_of(&beyond)["messages"], json!([]));
    let params = json!({"name": "helper", "arguments": {"message": "pay"}});
    let asked = world.told(legacy(1, "tools/call", params)).await;
    let id = &told_of(&asked)["submission_id"];
    let stopped = tool("submission_interrupt", json!({"submission_id": id})).await;
    assert_eq!(told_of(&stopped)["status"], "interrupting");
    world.host.settled().await;
    let again = tool("submission_interrupt", json!({"submission_id": id})).await;
    assert_eq!(told_of(&again)["status"], "settled");
    let agents = json!({"agents": [{"name": "session_read", "model": "scripted"}]});
    let shadowed = Setup::new(SCRIPT).setting("agents", agents).world().await;
    let listed = shadowed.mcp("tools/list", json!({})).await;
    let mut names = BTreeMap::new();
    for tool in listed.result()["tools"].as_array().expect("tools") {
        *names.entry(tool["name"].as_str().expect("a name").to_owned()).or_insert(0) += 1;
    }
    assert_eq!(
        names,
        BTreeMap::from(["session_fork", "session_read", "submission_interrupt"].map(|n| (n.to_owned(), 1)))
    );
    let called = shadowed.mcp("tools/call", json!({"name": "session_read", "arguments": {"message": "hi"}})).await;
    assert_eq!(text(&called), "Hello.");
    world.check().await;
}

/// A call that is waited for, and whose session is deleted meanwhile, is answered in the protocol's own words.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_session_goes_is_answered() {
    let mut world = World::new(SCRIPT).await;
    let done = world.call(json!({"message": "hi"})).await;
    let session = told_of(&done)["session_id"].as_str().expect("a session").to_owned();
    let gate = Gate::close(&mut world).await;
    let body = body(
        7,
        "tools/call",
        json!({"name": "helper", "arguments": {"message": "hi", "session_id": session}}),
        json!({}),
    );
    let waits = world.send(modern(&body)).await.wait.expect("a wait");
    let (_, thread) = session.split_once('/').expect("agent/thread");
    assert_eq!(world.delete(thread).await.status, 202);
    gate.open();
    world.host.settled().await;
    let then = Request::get(waits.then.clone()).principal(writ_tests::OWNER);
    let told = world.send(then).await;
    let answer = told.json().expect("JSON");
    assert_eq!((told.status, &answer["id"], &answer["error"]["code"]), (200, &json!(7), &json!(-32602)), "{answer}");
    // Nobody else can say what such a path says, nor hear it.
    for (path, principal) in [
        (waits.then.clone(), "web/eve"),
        (waits.then.replace("signed=", "signed=00"), writ_tests::OWNER),
        (waits.then.replace("%22era%22%3A%22modern%22", "%22era%22%3A%22legacy%22"), writ_tests::OWNER),
        (waits.then.split_once('?').expect("a query").0.to_owned(), writ_tests::OWNER),
    ] {
        assert!(path != waits.then || principal != writ_tests::OWNER);
        let refused = world.send(Request::get(path.clone()).principal(principal)).await;
        assert_eq!(refused.status, 422, "{path}: {}", refused.text());
    }
}

/// A call with a key that was accepted finds its outcome after its agent has gone; a new one finds no such tool.
#[tokio::test(flavor = "multi_thread")]
async fn a_keyed_call_outlives_its_agent() {
    let world = World::new(SCRIPT).await;
    let call = |key: &str| json!({"name": "helper", "arguments": {"message": "hi", "idempotency_key": key}});
    let done = world.mcp("tools/call", call("k")).await;
    let later = world.redeployed(json!({"agents": [{"name": "other", "model": "scripted"}]})).await;
    let again = |key: &str| modern(&body(1, "tools/call", call(key), json!({}))).principal(writ_tests::OWNER);
    let told = later.respond(again("k")).await.expect("an answer").json().expect("JSON");
    assert_eq!(told["result"]["structuredContent"], *told_of(&done));
    let told = later.respond(again("new")).await.expect("an answer").json().expect("JSON");
    assert_eq!(told["error"]["code"], -32602, "{told}");
}

/// Row 22: and what is there can be found, listed and read by its owner.
#[tokio::test(flavor = "multi_thread")]
async fn resources_are_sessions_and_submissions() {
    let world = World::new(SCRIPT).await;
    let done = world.call(json!({"message": "look"})).await;
    let session = told_of(&done)["session_id"].as_str().expect("a session");
    let id = told_of(&done)["submission_id"].as_str().expect("an id");
    let read = async |uri: &str| world.mcp("resources/read", json!({"uri": uri})).await;
    let uri = format!("session://{session}");
    let listed = world.mcp("resources/list", json!({})).await;
    assert_eq!(listed.result()["resources"][0]["uri"], json!(uri));
    let transcript = read(&uri).await;
    let contents = &transcript.result()["contents"][0];
    assert_eq!((&contents["uri"], &contents["mimeType"]), (&json!(uri), &json!("application/json")));
    let page: Value = serde_json::from_str(contents["text"].as_str().expect("a text")).expect("JSON");
    assert_eq!((page["messages"].as_array().map(Vec::len), &page["next"]), (Some(4), &Value::Null));
    let rest = read(&format!("{uri}?after=3")).await;
    assert!(rest.result()["contents"][0]["text"].as_str().expect("a text").contains(r#""from":3"#));
    let submission = read(&format!("submission://{id}")).await;
    let shown: Value =
        serde_json::from_str(submission.result()["contents"][0]["text"].as_str().expect("a text")).expect("JSON");
    assert_eq!(shown["outcome"]["text"], "Seen.");
    let templates = world.mcp("resources/templates/list", json!({})).await;
    assert_eq!(templates.result()["resourceTemplates"].as_array().map(Vec::len), Some(2));
    for bad in [
        "session://helper/none",
        "session://helper",
        "session://helper/a/b",
        "session://helper/..",
        "session://helper/%zz",
        &format!("{uri}?after=x"),
        "submission://50-k71a5bvrh7j2aspdem614x068y",
        "submission://none",
        "file:///etc/passwd",
        "nothing",
        "",
    ] {
        let told = read(bad).await;
        assert_eq!((told.fault(), &told.answer["error"]["data"]["uri"]), ((200, -32602), &json!(bad)), "{bad}");
    }
    // Another's looks as what is missing.
    let foreign = |uri: &str| modern(&body(1, "resources/read", json!({"uri": uri}), able())).principal("local/other");
    for (there, missing) in
        [(uri.as_str(), "session://helper/none"), (&format!("submission://{id}"), "submission://none")]
    {
        let (there, missing) = (world.told(foreign(there)).await, world.told(foreign(missing)).await);
        assert_eq!(there.fault(), missing.fault());
        assert_eq!(there.answer["error"]["message"], missing.answer["error"]["message"]);
    }
    let listed = world.told(modern(&body(1, "resources/list", json!({}), able())).principal("local/other")).await;
    assert_eq!(listed.result()["resources"], json!([]));
    assert_eq!(world.mcp("prompts/get", json!({"name": "x"})).await.fault(), (200, -32602));
}
