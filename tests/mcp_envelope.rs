//! MCP: what stands around a method. Both eras, versions, headers, capabilities, errors and their codes.
#![cfg(not(target_family = "wasm"))]

use host_sim::data::Request;
use host_sim::store::Store;
use serde_json::{Value, json};
use writ_tests::mcp::{MODERN, TASKS, able, body, legacy, modern};
use writ_tests::{Setup, World};

const SCRIPT: &str = "[model]\nrepeat_last = true\n[[answer]]\ntext = \"Hello.\"\n";

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// A modern request whose headers are given.
fn with_headers(body: &Value, headers: &[(&str, &str)]) -> Request {
    headers.iter().fold(Request::post("/mcp", body), |request, (name, value)| request.header(name, *value))
}

fn call_body() -> Value {
    body(7, "tools/call", json!({"name": "helper", "arguments": {"message": "hi"}}), json!({}))
}

/// Rows 1, 2.
#[tokio::test(flavor = "multi_thread")]
async fn discover_says_what_there_is() {
    let world = World::new(SCRIPT).await;
    let told = world.mcp("server/discover", json!({})).await;
    let result = told.result();
    assert_eq!(told.status, 200);
    assert_eq!(result["supportedVersions"], json!([MODERN, "2025-11-25", "2025-06-18", "2025-03-26"]));
    assert_eq!(result["_meta"][SERVER_INFO]["name"], "writ");
    assert_eq!(result["cacheScope"], "private");
    assert!(result["ttlMs"].is_u64());
    for capability in ["tools", "prompts", "resources"] {
        assert!(result["capabilities"][capability].is_object(), "{capability}");
    }
    assert_eq!(result["capabilities"]["extensions"], json!({TASKS: {}}));
}

/// Rows 3, 4, 5: what every request has to say, with the id of the one that did not.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_its_meta_is_refused() {
    let world = World::new(SCRIPT).await;
    for strip in ["_meta", "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"] {
        let mut body = body("an-id", "tools/list", json!({}), json!({}));
        match strip {
            "_meta" => drop(body["params"].as_object_mut().expect("an object").remove(strip)),
            _ => drop(body["params"]["_meta"].as_object_mut().expect("an object").remove(strip)),
        }
        let told = world.told(modern(&body)).await;
        assert_eq!((told.fault(), &told.answer["id"]), ((400, -32602), &json!("an-id")), "{strip}");
    }
    let bad = [
        ("io.modelcontextprotocol/protocolVersion", json!(7)),
        ("io.modelcontextprotocol/clientCapabilities", json!([])),
    ];
    for (field, value) in bad {
        let mut body = body(1, "tools/list", json!({}), json!({}));
        body["params"]["_meta"][field] = value;
        assert_eq!(world.told(modern(&body)).await.fault(), (400, -32602), "{field}");
    }
    // A method that only the modern era has, from who says nothing at all.
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"});
    assert_eq!(world.told(Request::post("/mcp", &bare)).await.fault(), (400, -32602));
}

/// Row 6.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_version_is_told_the_known_ones() {
    let world = World::new(SCRIPT).await;
    let mut body = body(1, "tools/list", json!({}), json!({}));
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let told =
        world.told(with_headers(&body, &[("mcp-protocol-version", "2031-01-01"), ("mcp-method", "tools/list")])).await;
    assert_eq!(told.fault(), (400, -32022));
    let data = &told.answer["error"]["data"];
    assert_eq!((&data["requested"], &data["supported"][0]), (&json!("2031-01-01"), &json!(MODERN)));
}

/// Rows 7, 8, 9, 10, 11: headers have to say what the body says; nothing is done when they don't.
#[tokio::test(flavor = "multi_thread")]
async fn headers_must_agree_with_the_body() {
    let world = World::new(SCRIPT).await;
    let version = ("mcp-protocol-version", MODERN);
    let method = ("mcp-method", "tools/call");
    let name = ("mcp-name", "helper");
    let body = call_body();
    let before = world.store.dump().await.expect("a dump");
    for headers in [
        &[("mcp-protocol-version", "2025-11-25"), method, name][..],
        &[method, name],
        &[version, name],
        &[version, ("mcp-method", "tools/list"), name],
        &[version, ("mcp-method", "Tools/Call"), name],
        &[version, method],
        &[version, method, ("mcp-name", "other")],
        &[version, method, ("mcp-name", "Helper")],
        &[version, method, ("mcp-name", "=?base64?b3RoZXI=?=")],
        &[version, method, ("mcp-name", "=?base64?!?=")],
    ] {
        let told = world.told(with_headers(&body, headers)).await;
        assert_eq!((told.fault(), &told.answer["id"]), ((400, -32020), &json!(7)), "{headers:?}");
    }
    assert_eq!(world.store.dump().await.expect("a dump"), before);
    for name in ["helper", "  helper\t", "=?base64?aGVscGVy?="] {
        let told = world.told(with_headers(&body, &[version, method, ("mcp-name", name)])).await;
        assert_eq!(told.result()["content"][0]["text"], "Hello.", "{name}");
    }
    let mut shouted = with_headers(&body, &[version, method, name]);
    for (name, _) in &mut shouted.headers {
        name.make_ascii_uppercase();
    }
    assert_eq!(world.told(shouted).await.result()["content"][0]["text"], "Hello.");
}

/// Row 12: also what other eras have; there, too, and with their status.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_methods_are_told_so() {
    let world = World::new(SCRIPT).await;
    let removed = ["ping", "initialize", "tasks/list", "tasks/result", "logging/setLevel", "resources/subscribe"];
    for method in removed.into_iter().chain(["tools/lists", "completion/complete", ""]) {
        let told = world.told(modern(&body(1, method, json!({}), able()))).await;
        assert_eq!(told.fault(), (404, -32601), "{method}");
    }
    for method in ["tasks/get", "tools/lists", "resources/subscribe"] {
        let told = world.told(legacy(1, method, json!({}))).await;
        assert_eq!(told.fault(), (200, -32601), "{method}");
    }
}

/// Row 13.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_is_refused() {
    let world = World::new(SCRIPT).await;
    let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(600));
    let deep = "[".repeat(100_000);
    for (text, code) in [
        ("", -32700),
        ("{", -32700),
        ("\u{feff}{}", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32700),
        (r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}"#, -32700),
        (deep.as_str(), -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("null", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600),
        (long.as_str(), -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32602),
    ] {
        let request = Request { body: text.into(), ..Request::new("POST", "/mcp") };
        let shown: String = text.chars().take(80).collect();
        assert_eq!(world.told(request).await.fault(), (400, code), "{shown}");
    }
    let not_utf8 = Request { body: vec![b'"', 0xff, b'"'], ..Request::new("POST", "/mcp") };
    assert_eq!(world.told(not_utf8).await.fault(), (400, -32700));
    let large = Request { body: vec![b' '; 262_145], ..Request::new("POST", "/mcp") };
    assert_eq!(world.send(large).await.status, 413);
}

/// Row 14, and row 45 of the legacy era: a notification is taken, and not answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_notification_gets_no_answer() {
    let world = World::new(SCRIPT).await;
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let mut meta = body(1, "notifications/cancelled", json!({"requestId": 1}), json!({}));
    meta.as_object_mut().expect("an object").remove("id");
    for request in [Request::post("/mcp", &cancelled), Request::post("/mcp", &initialized), modern(&meta)] {
        let response = world.send(request).await;
        assert_eq!((response.status, response.bytes()), (202, &b""[..]));
        assert!(response.headers.is_empty(), "{:?}", response.headers);
    }
    let contradicted = with_headers(&meta, &[("mcp-protocol-version", MODERN), ("mcp-method", "notifications/other")]);
    assert_eq!(world.told(contradicted).await.fault(), (400, -32020));
}

/// Row 15.
#[tokio::test(flavor = "multi_thread")]
async fn only_post_is_taken() {
    let world = World::new(SCRIPT).await;
    for method in ["GET", "DELETE", "PUT"] {
        let response = world.send(Request::new(method, "/mcp").header("accept", "text/event-stream")).await;
        assert_eq!((response.status, response.header("allow")), (405, Some("POST")), "{method}");
    }
}

/// Row 16.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_the_transport_are_nothing() {
    let world = World::new(SCRIPT).await;
    let list = || modern(&body(1, "tools/list", json!({}), json!({})));
    let plain = world.send(list()).await;
    let stray = world.send(list().header("mcp-session-id", "made-up").header("last-event-id", "99")).await;
    assert_eq!((stray.status, stray.bytes()), (200, plain.bytes()));
    let initialized = world.send(legacy(1, "initialize", json!({"protocolVersion": "2025-11-25"}))).await;
    let called = world.told(modern(&call_body())).await;
    for response in [&plain, &initialized, &called.first] {
        assert_eq!(response.header("mcp-session-id"), None);
    }
}

/// Rows 18, 21: the same order each time, names that are fit; a cursor that no list has given is refused.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_steady_and_have_pages() {
    let names: Vec<String> = (0..200).map(|n| format!("agent-{}", n * 7 % 200)).collect();
    let agents: Vec<Value> = names.iter().map(|name| json!({"name": name, "model": "scripted"})).collect();
    let world = Setup::new(SCRIPT).setting("agents", json!({"agents": agents})).world().await;
    let list = async |params| world.mcp("tools/list", params).await.result().clone();
    let first = list(json!({})).await;
    assert_eq!(first.to_string(), list(json!({})).await.to_string());
    let second = list(json!({"cursor": first["nextCursor"]})).await;
    assert!(second.get("nextCursor").is_none());
    let tools: Vec<&Value> =
        [&first, &second].into_iter().flat_map(|p| p["tools"].as_array().expect("tools")).collect();
    let listed: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
    let expected: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(listed[..200], expected);
    assert_eq!(listed[200..], ["session_fork", "session_read", "submission_interrupt"]);
    for tool in &tools {
        let name = tool["name"].as_str().expect("a name");
        assert!(name.len() <= 128 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b)));
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
    }
    for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
        for cursor in [json!("0"), json!("-1"), json!("999"), json!("300.0"), json!("x"), json!(""), json!(7)] {
            let told = world.mcp(method, json!({"cursor": cursor})).await;
            assert_eq!(told.fault(), (200, -32602), "{method} {cursor}");
        }
    }
}

/// Rows 23, 24: and what may be kept says for how long and by whom. Nothing is logged to a client.
#[tokio::test(flavor = "multi_thread")]
async fn every_result_says_what_it_is() {
    let world = World::new(SCRIPT).await;
    let done = world.call(json!({"message": "hi"})).await;
    let session = done.result()["structuredContent"]["session_id"].as_str().expect("a session").to_owned();
    let uri = format!("session://{session}");
    for (method, params, cached) in [
        ("server/discover", json!({}), true),
        ("tools/list", json!({}), true),
        ("prompts/list", json!({}), true),
        ("resources/list", json!({}), true),
        ("resources/templates/list", json!({}), true),
        ("resources/read", json!({"uri": uri}), true),
        ("tools/call", json!({"name": "session_read", "arguments": {"session_id": session}}), false),
        ("tools/call", json!({"name": "helper", "arguments": {"message": 7}}), false),
    ] {
        let told = world.mcp(method, params).await;
        let result = told.result();
        assert_eq!(result["resultType"], "complete", "{method}");
        assert_eq!(result["_meta"][SERVER_INFO]["name"], "writ", "{method}");
        assert_eq!((result["ttlMs"].is_u64(), result["cacheScope"] == "private"), (cached, cached), "{method}");
    }
    let call = json!({
        "name": "helper", "arguments": {"message": "hi"},
        "_meta": {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"},
    });
    let told = world.mcp("tools/call", call).await;
    assert!(!told.before.is_empty());
    assert!(told.before.iter().all(|frame| frame["method"] == "notifications/progress"), "{:?}", told.before);
}

/// Row 44: and nothing is kept of it.
#[tokio::test(flavor = "multi_thread")]
async fn initialize_agrees_on_a_version() {
    let world = World::new(SCRIPT).await;
    let before = world.store.dump().await.expect("a dump");
    for (wanted, agreed) in [
        (json!("2025-11-25"), "2025-11-25"),
        (json!("2025-06-18"), "2025-06-18"),
        (json!("2025-03-26"), "2025-03-26"),
        (json!("2024-11-05"), "2025-11-25"),
        (json!("2026-07-28"), "2025-11-25"),
        (Value::Null, "2025-11-25"),
    ] {
        let params =
            json!({"protocolVersion": wanted, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let told = world.told(Request::post("/mcp", &request)).await;
        let result = told.result();
        assert_eq!((&result["protocolVersion"], &result["serverInfo"]["name"]), (&json!(agreed), &json!("writ")));
        assert!(result.get("resultType").is_none());
        assert_eq!(told.first.header("mcp-session-id"), None);
    }
    assert_eq!(world.store.dump().await.expect("a dump"), before);
}

/// Rows 45, 46, 47: both eras on one endpoint, in any order, with the same ids.
#[tokio::test(flavor = "multi_thread")]
async fn both_eras_are_served_side_by_side() {
    let world = World::new(SCRIPT).await;
    let arguments = json!({"name": "helper", "arguments": {"message": "hi"}});
    for round in 0..2 {
        let old = world.told(legacy(1, "tools/call", arguments.clone())).await;
        let new = world.mcp("tools/call", arguments.clone()).await;
        assert_eq!(old.result()["content"], new.result()["content"], "{round}");
        assert!(old.result().get("resultType").is_none() && old.result().get("_meta").is_none());
        assert_eq!(new.result()["resultType"], "complete");
        let listed = world.told(legacy(1, "tools/list", json!({}))).await;
        assert!(listed.result().get("ttlMs").is_none());
        let ping = world.told(legacy("p", "ping", json!({}))).await;
        assert_eq!(ping.answer, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    }
    // Without a version it is the first one of this transport.
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(world.told(Request::post("/mcp", &bare)).await.result()["tools"][0]["name"], "helper");
    let wrong = Request::post("/mcp", &bare).header("mcp-protocol-version", "1999-01-01");
    let told = world.told(wrong).await;
    assert_eq!(told.fault(), (400, -32022));
    assert_eq!(told.answer["error"]["data"]["supported"][1], "2025-11-25");
    // The header of the other era does not decide: the body does.
    let mixed = modern(&body(1, "tools/list", json!({}), json!({})));
    assert_eq!(world.told(mixed).await.result()["resultType"], "complete");
}

/// Over stdio there are no headers; the body says all. What is asked without `_meta` is of the legacy era.
#[tokio::test(flavor = "multi_thread")]
async fn stdio_needs_no_headers() {
    let world = World::new(SCRIPT).await;
    let stdio = |body: &Value| Request::post("/mcp", body).header("writ-transport", "stdio");
    let called = world.told(stdio(&call_body())).await;
    assert_eq!(called.result()["content"][0]["text"], "Hello.");
    let old = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(world.told(stdio(&old)).await.answer["result"], json!({}));
    let mut unknown = call_body();
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    assert_eq!(world.told(stdio(&unknown)).await.fault(), (400, -32022));
}

/// Nobody is let in without a token, as everywhere; and nothing is told before.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_unknown_is_let_in() {
    let world = World::new(SCRIPT).await;
    for path in ["/mcp", "/mcp/calls/50-k71a5bvrh7j2aspdem614x068y"] {
        let request = match path {
            "/mcp" => modern(&body(1, "server/discover", json!({}), json!({}))),
            _ => Request::get(path),
        };
        let response = world.host.respond(request).await.expect("an answer");
        assert_eq!((response.status, &response.json().expect("JSON")["code"]), (503, &json!("no-client-token")));
    }
}
