//! A2A's agent card: public, cached, and true about where and who.
#![cfg(not(target_family = "wasm"))]

use host_sim::data::Request;
use serde_json::{Value, json};
use writ_tests::a2a::{Wire, request, to_send};
use writ_tests::{Setup, World};

const SCRIPT: &str = "[model]\nrepeat_last = true\n[[answer]]\ntext = \"Hello.\"\n";
const CARD: &str = "/.well-known/agent-card.json";

async fn card(world: &World) -> Value {
    let response = world.host.respond(Request::get(CARD).header("host", "agents.example:81")).await.expect("an answer");
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    response.json().expect("JSON")
}

/// Row 48: without a token; all that is required; kept by its tag.
#[tokio::test(flavor = "multi_thread")]
async fn the_card_is_public_and_cached() {
    let world = World::new(SCRIPT).await;
    let first = world.host.respond(Request::get(CARD).header("host", "agents.example:81")).await.expect("an answer");
    let shown = first.json().expect("JSON");
    for (name, value) in [
        ("name", json!("helper")),
        ("description", json!("The agent helper.")),
        ("defaultInputModes", json!(["text/plain", "application/json"])),
        ("defaultOutputModes", json!(["text/plain", "application/json"])),
        ("securitySchemes", json!({"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}})),
        ("skills", json!([{"id": "helper", "name": "helper", "description": "The agent helper.", "tags": ["agent"]}])),
        (
            "supportedInterfaces",
            json!([
                {"url": "http://agents.example:81/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": "http://agents.example:81/a2a", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            ]),
        ),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    assert!(shown["version"].as_str().is_some_and(|v| !v.is_empty()));
    let capabilities = &shown["capabilities"];
    for (name, value) in [("streaming", true), ("pushNotifications", false), ("extendedAgentCard", false)] {
        assert_eq!(capabilities[name], json!(value), "{name}");
    }
    assert_eq!(capabilities["extensions"][0]["uri"], "urn:writ:a2a:submission");
    let tag = first.header("etag").expect("a tag").to_owned();
    assert_eq!(first.header("cache-control"), Some("public, max-age=300"));
    for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".into()] {
        let request = Request::get(CARD).header("host", "agents.example:81").header("if-none-match", &known);
        let again = world.host.respond(request).await.expect("an answer");
        assert_eq!((again.status, again.header("etag"), again.text().len()), (304, Some(tag.as_str()), 0), "{known}");
    }
    let other = Request::get(CARD).header("host", "agents.example:81").header("if-none-match", "\"x\"");
    assert_eq!(world.host.respond(other).await.expect("an answer").status, 200);
}

/// Row 48: who is here when there are several; a host that is no name is not repeated.
#[tokio::test(flavor = "multi_thread")]
async fn the_card_names_every_agent() {
    let agent = |name: &str| json!({"name": name, "model": "scripted", "description": format!("I am {name}.")});
    let agents = json!({"agents": [agent("clerk"), agent("helper")]});
    let tenants = |card: &Value| -> Vec<Value> {
        let all = card["supportedInterfaces"].as_array().expect("interfaces");
        assert!(all.iter().all(|i| i["url"].as_str().is_some_and(|u| u.ends_with("/a2a"))), "{all:?}");
        all.iter().step_by(2).map(|i| i["tenant"].clone()).collect()
    };
    let world = Setup::new(SCRIPT).setting("agents", agents.clone()).world().await;
    let shown = card(&world).await;
    assert_eq!(tenants(&shown), [json!("clerk"), json!("helper")]);
    assert_eq!((&shown["name"], shown["skills"].as_array().map(Vec::len)), (&json!("Writ"), Some(2)));
    let own = json!({"agent": "helper", "url": "https://a.example/", "name": "Office", "version": "7",
        "description": "Ours.", "provider": {"organization": "O", "url": "https://o.example"}});
    let world = Setup::new(SCRIPT).setting("agents", agents).setting("a2a", own).world().await;
    let shown = card(&world).await;
    assert_eq!((tenants(&shown), shown["skills"].as_array().map(Vec::len)), (vec![Value::Null], Some(2)));
    assert_eq!(shown["supportedInterfaces"][0]["url"], "https://a.example/a2a");
    assert_eq!(
        (&shown["name"], &shown["version"], &shown["description"]),
        (&json!("Office"), &json!("7"), &json!("Ours."))
    );
    let world = World::new(SCRIPT).await;
    let hostile = Request::get(CARD).header("host", "a\"/><script>");
    let shown = world.host.respond(hostile).await.expect("an answer").json().expect("JSON");
    assert_eq!(shown["supportedInterfaces"][0]["url"], "http://localhost/a2a");
}

/// Row 79: nobody is let in without a token, nobody at all when none is configured; the card is there all the same.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_card_needs_no_token() {
    let digest = writ::id::sha256_hex(b"sesame");
    let auth = json!({"clients": [{"digest": digest, "principal": "web/ada"}]});
    for (auth, expected) in [(None, 503), (Some(auth), 401)] {
        let mut setup = Setup::new(SCRIPT);
        if let Some(auth) = auth.clone() {
            setup = setup.setting("auth", auth);
        }
        let world = setup.world().await;
        for wire in Wire::BOTH {
            for operation in
                ["SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask"]
            {
                let mut params = to_send("hi");
                params["id"] = json!("00-00000000000000000000000000");
                let response = world.host.respond(request(wire, operation, &params)).await.expect("an answer");
                assert_eq!(response.status, expected, "{operation}: {}", response.text());
                let response = request(wire, operation, &params).header("authorization", "Bearer wrong");
                assert_eq!(world.host.respond(response).await.expect("an answer").status, expected);
            }
        }
        let later = Request::get("/a2a/answers/00-00000000000000000000000000");
        assert_eq!(world.host.respond(later).await.expect("an answer").status, expected);
        card(&world).await;
        if auth.is_some() {
            let good = request(Wire::Rpc, "ListTasks", &json!({})).header("authorization", "Bearer sesame");
            assert_eq!(world.host.respond(good).await.expect("an answer").status, 200);
        }
    }
}

/// Row 76: what the card does not declare is refused.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_declared_is_refused() {
    let world = Setup::new(SCRIPT).setting("a2a", json!({"streaming": false})).world().await;
    assert_eq!(card(&world).await["capabilities"]["streaming"], json!(false));
    for (wire, code) in [(Wire::Rpc, -32004), (Wire::Rest, 400)] {
        for operation in ["SendStreamingMessage", "SubscribeToTask", "GetExtendedAgentCard"] {
            let mut params = to_send("hi");
            params["id"] = json!("x");
            let fault = world.a2a(wire, operation, &params).await.fault();
            assert_eq!(fault, (code, "UNSUPPORTED_OPERATION".into()), "{operation}");
        }
        let code = if wire == Wire::Rpc { -32003 } else { 400 };
        for what in ["Create", "Get", "List", "Delete"] {
            let plural = if what == "List" { "s" } else { "" };
            let operation = format!("{what}TaskPushNotificationConfig{plural}");
            let fault =
                world.a2a(wire, &operation, &json!({"taskId": "x", "id": "c", "url": "https://x.example"})).await;
            assert_eq!(fault.fault(), (code, "PUSH_NOTIFICATION_NOT_SUPPORTED".into()), "{operation}");
        }
        let mut with_push = to_send("hi");
        with_push["configuration"] = json!({"taskPushNotificationConfig": {"url": "https://x.example"}});
        let fault = world.a2a(wire, "SendMessage", &with_push).await.fault();
        assert_eq!(fault, (code, "PUSH_NOTIFICATION_NOT_SUPPORTED".into()));
    }
    assert_eq!(world.model.calls(), 0);
}
