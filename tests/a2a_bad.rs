//! What A2A refuses, and how it says so.
#![cfg(not(target_family = "wasm"))]

use host_sim::data::Request;
use host_sim::store::Store;
use serde_json::{Value, json};
use writ_tests::a2a::{Wire, request, to_send};
use writ_tests::{OWNER, World};

const SCRIPT: &str = "[model]\nrepeat_last = true\n[[answer]]\ntext = \"Hello.\"\n";

/// Row 50: 1.0 is spoken, with any patch; nothing else is.
#[tokio::test(flavor = "multi_thread")]
async fn versions() {
    let world = World::new(SCRIPT).await;
    for (wire, code) in [(Wire::Rpc, -32009), (Wire::Rest, 400)] {
        let asked = |version: Option<&str>| {
            let mut asked = request(wire, "ListTasks", &json!({}));
            asked.headers.retain(|(name, _)| name != "a2a-version");
            match version {
                Some(version) => asked.header("A2A-Version", version),
                None => asked,
            }
        };
        for bad in [
            None,
            Some(""),
            Some("99.0"),
            Some("0.3"),
            Some("1"),
            Some("1.1"),
            Some("1.0."),
            Some("1.0.x"),
            Some("1.01"),
        ] {
            let fault = world.a2a_send(wire, asked(bad)).await.fault();
            assert_eq!(fault, (code, "VERSION_NOT_SUPPORTED".into()), "{bad:?}");
        }
        for good in ["1.0", "1.0.3", " 1.0 "] {
            world.a2a_send(wire, asked(Some(good))).await.result();
        }
        let mut by_query = asked(None);
        by_query.path.push_str(if by_query.path.contains('?') { "&A2A-Version=1.0" } else { "?A2A-Version=1.0" });
        world.a2a_send(wire, by_query).await.result();
    }
}

/// Rows 51, 77: what is no request.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_none() {
    let world = World::new(SCRIPT).await;
    let raw = async |path: &str, body: &str, wire: Wire| {
        let request = Request { body: body.as_bytes().to_vec(), ..Request::new("POST", path) };
        world.a2a_send(wire, request.header("a2a-version", "1.0").principal(OWNER)).await
    };
    for (body, code, reason) in [
        ("{", -32700, "JSON_PARSE_ERROR"),
        (r#"{"a":1,"a":2}"#, -32700, "JSON_PARSE_ERROR"),
        ("[]", -32600, "INVALID_REQUEST"),
        (r#"{"jsonrpc":"2.0","method":"GetTask","params":{}}"#, -32600, "INVALID_REQUEST"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600, "INVALID_REQUEST"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"GetTask"}"#, -32600, "INVALID_REQUEST"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}"#, -32602, "INVALID_PARAMS"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}"#, -32601, "METHOD_NOT_FOUND"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}"#, -32602, "INVALID_PARAMS"),
    ] {
        assert_eq!(raw("/a2a", body, Wire::Rpc).await.fault(), (code, reason.into()), "{body}");
    }
    for (body, reason) in [("{", "JSON_PARSE_ERROR"), ("[]", "INVALID_PARAMS"), ("", "INVALID_PARAMS")] {
        assert_eq!(raw("/a2a/message:send", body, Wire::Rest).await.fault(), (400, reason.into()), "{body}");
    }
    for (method, path) in
        [("GET", "/a2a"), ("GET", "/a2a/message:send"), ("DELETE", "/a2a/tasks/x"), ("POST", "/a2a/tasks")]
    {
        let response = world.send(Request::new(method, path)).await;
        assert_eq!(response.status, 405, "{method} {path}");
        assert!(response.header("allow").is_some());
    }
}

/// Rows 51, 62, 77: parameters that don't fit: each field is named; nothing is stored.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_do_not_fit() {
    let world = World::new(SCRIPT).await;
    world.ask("t", "k", "hi").await;
    let mut before = world.store.dump().await.expect("a dump");
    let part = |part: Value| json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [part]}});
    let with = |name: &str, value: Value| {
        let mut params = to_send("hi");
        params["message"][name] = value;
        params
    };
    let long = "x".repeat(600);
    let cases = [
        (json!({}), vec!["message"]),
        (json!({"message": "hi"}), vec!["message", "message"]),
        (json!({"message": {}}), vec!["message.messageId", "message.role", "message.parts"]),
        (with("messageId", json!(7)), vec!["message.messageId"]),
        (with("messageId", json!(long)), vec!["message.messageId"]),
        (with("role", json!("ROLE_AGENT")), vec!["message.role"]),
        (with("role", json!("user")), vec!["message.role"]),
        (with("parts", json!([])), vec!["message.parts"]),
        (with("parts", json!({})), vec!["message.parts", "message.parts"]),
        (with("parts", json!(vec![json!({"text": "x"}); 300])), vec!["message.parts", "message.parts"]),
        (with("referenceTaskIds", json!([7])), vec!["message.referenceTaskIds"]),
        (with("contextId", json!("../etc")), vec!["message.contextId"]),
        (part(json!("hi")), vec!["message.parts[0]"]),
        (part(json!({})), vec!["message.parts[0]"]),
        (part(json!({"text": 7})), vec!["message.parts[0].text"]),
        (part(json!({"text": "a", "data": 1})), vec!["message.parts[0].text"]),
        (
            json!({"message": to_send("hi")["message"], "configuration": {"historyLength": -1}}),
            vec!["configuration.historyLength"],
        ),
        (
            json!({"message": to_send("hi")["message"], "configuration": {"returnImmediately": 1}}),
            vec!["configuration.returnImmediately"],
        ),
        (
            json!({"message": to_send("hi")["message"], "metadata": {"urn:writ:a2a:submission": {"resultSchema": 3}}}),
            vec!["result_schema"],
        ),
    ];
    for (wire, code) in [(Wire::Rpc, -32602), (Wire::Rest, 400)] {
        for operation in ["SendMessage", "SendStreamingMessage"] {
            for (params, fields) in &cases {
                let reply = world.a2a(wire, operation, params).await;
                assert_eq!(reply.fault().0, code, "{params}");
                assert_eq!(reply.violations(), *fields, "{params}");
            }
            for of in [
                json!({"raw": "aGk="}),
                json!({"url": "https://x.example/a.png", "mediaType": "image/png"}),
                json!({"text": "hi", "mediaType": "text/html"}),
                json!({"data": 1, "mediaType": "text/plain"}),
            ] {
                let fault = world.a2a(wire, operation, &part(of.clone())).await.fault();
                let code = if wire == Wire::Rpc { -32005 } else { 400 };
                assert_eq!(fault, (code, "CONTENT_TYPE_NOT_SUPPORTED".into()), "{of}");
            }
        }
        assert_eq!(world.store.dump().await.expect("a dump"), before, "I2");
        // Media types are compared as such, and what is not known is passed over.
        let odd = json!({"text": "hi", "mediaType": "Text/Plain; charset=utf-8", "filename": "f", "color": "red"});
        let mut params = part(odd);
        params["later"] = json!({"x": null});
        params["configuration"] = Value::Null;
        world
            .a2a(wire, "GetTask", &json!({"id": world.a2a(wire, "SendMessage", &params).await.task()["id"]}))
            .await
            .result();
        let again = world.store.dump().await.expect("a dump");
        assert_ne!(again, before);
        break_off(&world, wire).await;
        world.check().await;
        before = world.store.dump().await.expect("a dump");
    }
}

/// Faults of other kinds keep their form.
async fn break_off(world: &World, wire: Wire) {
    let mut keyed = request(wire, "SendMessage", &to_send("hi")).header("idempotency-key", "a b");
    assert_eq!(world.a2a_send(wire, keyed.clone()).await.violations(), ["idempotency-key"]);
    keyed.headers.retain(|(name, _)| name != "idempotency-key");
    let mut refers = to_send("hi");
    refers["message"]["referenceTaskIds"] = json!(["00-00000000000000000000000000"]);
    assert_eq!(world.a2a(wire, "SendMessage", &refers).await.fault().1, "TASK_NOT_FOUND");
    let extended = keyed.header("a2a-extensions", "https://x.example, urn:writ:a2a:submission");
    let response = world.send(extended).await;
    assert_eq!(response.header("a2a-extensions"), Some("urn:writ:a2a:submission"));
    world.host.settled().await;
}
