//! Same name, same request: one record per id, one run, one outcome for ever; a refused request changes nothing (I2, I3,
//! I13), and what is bad is refused with a document that says what is wrong.
#![cfg(not(target_family = "wasm"))]

use host_sim::config::{Config, Input};
use host_sim::data::{Request, Response};
use host_sim::store::Store;
use serde_json::{Value, json};
use writ_tests::{OWNER, Setup, World};

const HELLO: &str = "[model]\nrepeat_last = true\n[[answer]]\ntext = \"Hello.\"\n";

/// A route's name, and a request of it for an id.
type Route = (&'static str, fn(&str) -> Request);

/// Everything of an answer that a caller sees.
fn shown(response: &Response) -> (u16, Vec<(String, String)>, String) {
    (response.status, response.headers.clone(), response.text().into_owned())
}

async fn dump(world: &World) -> Vec<(String, Vec<u8>)> {
    world.store.dump().await.expect("a dump")
}

/// Shows B14.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_again_gets_the_same_outcome_and_costs_nothing() {
    let world = World::new(HELLO).await;
    let done = world.ask("t", "k", "hi").await;
    let first = world.submit("t", "k", "hi").await;
    let (dumped, calls) = (dump(&world).await, world.store.calls());
    for _ in 0..3 {
        let again = world.submit("t", "k", "hi").await;
        assert_eq!(shown(&again), shown(&first));
        assert_eq!(again.json().expect("JSON"), done);
        assert!(again.work.is_empty(), "{:?}", again.work);
    }
    // The same request in another spelling: a text is a block, defaults may be written out.
    let spelled = json!({"options": {"steer": false}, "message": [{"text": "hi", "type": "text"}]});
    assert_eq!(shown(&world.submit_body("t", "k", &spelled).await), shown(&first));
    world.host.settled().await;
    assert_eq!(world.calls_since(calls).commits, 0);
    assert_eq!(world.model.calls(), 1);
    assert_eq!(dump(&world).await, dumped);
    world.check().await;
}

/// Shows B14, B28; trap 22.
#[tokio::test(flavor = "multi_thread")]
async fn another_request_with_the_key_is_a_conflict_that_names_the_field() {
    let world = World::new(HELLO).await;
    let body = json!({"message": "hi", "result_schema": {"type": "string"}, "options": {"deadline_ms": 60000}});
    let id = world.accept_body("t", "k", &body).await;
    world.host.settled().await;
    let before = dump(&world).await;
    let others = [
        ("message", json!("ho"), "message"),
        ("result_schema", json!({"type": "number"}), "result_schema"),
        ("options", json!({"deadline_ms": 60001}), "options.deadline_ms"),
        ("options", json!({"deadline_ms": 60000, "steer": true}), "options.steer"),
    ];
    for (name, value, field) in others {
        let mut other = body.clone();
        other[name] = value;
        let refused = world.submit_body("t", "k", &other).await;
        let problem = refused.json().expect("JSON");
        assert_eq!(refused.status, 409, "{problem}");
        assert_eq!((&problem["code"], &problem["field"]), (&json!("conflict"), &json!(field)));
        assert_eq!(problem["id"], id.as_str());
    }
    // Another kind of request conflicts too.
    let fork = world.post("s", "fork", "k", &json!({"to": "t"})).await;
    assert_eq!(fork.status, 409, "{}", fork.text());
    assert_eq!(dump(&world).await, before);
    world.check().await;
}

/// I13: status, headers, body and the number of reads are those of a thing that is missing.
/// Shows trap 8.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_foreign_answers_as_what_is_missing() {
    let world = World::new(HELLO).await;
    let id = world.accept("t", "k", "hi").await;
    world.host.settled().await;
    // The same partition, and no such submission.
    let missing = format!("{}-00000000000000000000000000", &id[..2]);
    let before = dump(&world).await;
    let routes: [Route; 3] = [
        ("status", |id| Request::get(format!("/v1/submissions/{id}"))),
        ("explain", |id| Request::get(format!("/v1/submissions/{id}/explain"))),
        ("cancel", |id| Request::post(format!("/v1/submissions/{id}/cancel"), &json!({}))),
    ];
    for (name, request) in routes {
        assert!(world.send(request(&id)).await.status < 300, "{name}");
        compare(&world, name, request(&id), request(&missing)).await;
    }
    let of = |thread: &str, route: &str| format!("/v1/agents/helper/threads/{thread}{route}");
    for route in ["", "/messages", "/submissions"] {
        compare(&world, route, Request::get(of("t", route)), Request::get(of("none", route))).await;
    }
    let fork = |thread: &str| Request::post(of(thread, "/fork"), &json!({"to": "u"}));
    compare(&world, "fork", fork("t"), fork("none")).await;
    let page = |thread: &str| Request::post(of(thread, "/import/0"), &json!({"messages": [{"role": "user"}]}));
    compare(&world, "import", page("t"), page("none")).await;
    let delete = |thread: &str| Request::new("DELETE", of(thread, ""));
    compare(&world, "delete", delete("t"), delete("none")).await;
    assert_eq!(dump(&world).await, before);

    // The same thread and key of another owner are another submission.
    let path = of("t", "/submissions");
    let request = Request::post(path, &json!({"message": "mine"})).header("idempotency-key", "k");
    let theirs = world.send(request.principal("local/mallory")).await.json().expect("JSON");
    assert!(theirs["id"].is_string() && theirs["id"] != id.as_str(), "{theirs}");
    let threads = world.send(Request::get("/v1/threads").principal("local/mallory")).await.json().expect("JSON");
    world.host.settled().await;
    assert_eq!(threads["threads"].as_array().map(Vec::len), Some(1), "{threads}");
    world.check().await;
}

async fn compare(world: &World, name: &str, foreign: Request, missing: Request) {
    let mut answers = Vec::new();
    for request in [foreign, missing] {
        let calls = world.store.calls();
        let response = world.send(request.principal("local/mallory")).await;
        let cost = world.calls_since(calls);
        assert_eq!((response.status, cost.commits), (404, 0), "{name}: {}", response.text());
        assert!(response.work.is_empty(), "{name}");
        answers.push((shown(&response), cost.reads, cost.keys_read));
    }
    assert_eq!(answers[0], answers[1], "{name}");
}

/// A27: concurrent calls with one id are one run.
/// Shows B29; traps 5, 32.
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_clients_with_one_id_get_one_run() {
    let world = World::new(HELLO).await;
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let host = world.host.clone();
            let request = Request::post("/v1/agents/helper/threads/t/submissions", &json!({"message": "hi"}));
            let request = request.header("idempotency-key", "k").principal(OWNER);
            tokio::spawn(async move { host.respond(request).await.expect("an answer") })
        })
        .collect();
    let mut receipts = Vec::new();
    for client in clients {
        let response = client.await.expect("no panic");
        assert!(matches!(response.status, 200 | 202), "{}", response.text());
        let view = response.json().expect("JSON");
        receipts.push(["id", "hash", "accept", "created", "deadline"].map(|name| view[name].clone()));
    }
    assert!(receipts.iter().all(|r| *r == receipts[0]), "{receipts:#?}");
    world.host.settled().await;
    let mut answers = Vec::new();
    for _ in 0..16 {
        answers.push(shown(&world.submit("t", "k", "hi").await));
    }
    assert!(answers.iter().all(|a| *a == answers[0] && a.0 == 200), "{answers:#?}");
    assert_eq!(world.model.calls(), 1);
    assert_eq!(world.transcript("t").await, ["user: hi", "assistant: Hello."]);
    world.check().await;
}

/// Trap 8: a key is scoped to owner and thread.
#[tokio::test(flavor = "multi_thread")]
async fn one_key_in_two_threads_is_two_submissions() {
    let world = World::new(HELLO).await;
    let (a, b) = (world.ask("t", "k", "hi").await, world.ask("u", "k", "ho").await);
    assert_ne!(a["id"], b["id"]);
    assert_eq!((a["outcome"]["status"].as_str(), world.model.calls()), (Some("completed"), 2));
    // Without a key each request is a submission of its own.
    let bare = || Request::post("/v1/agents/helper/threads/t/submissions", &json!({"message": "hi"}));
    let (c, d) = (world.send(bare()).await, world.send(bare()).await);
    assert_ne!(c.json().expect("JSON")["id"], d.json().expect("JSON")["id"]);
    world.host.settled().await;
    assert_eq!(world.transcript("t").await.len(), 6);
    world.check().await;
}

/// Trap 21: a redeploy must not refuse the retry of what was accepted.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_gets_its_outcome_after_the_agent_is_gone() {
    let world = World::new(HELLO).await;
    let done = world.ask("t", "k", "hi").await;
    let host = world.redeployed(json!({"agents": []})).await;
    let send = |key: &str| {
        let path = "/v1/agents/helper/threads/t/submissions";
        Request::post(path, &json!({"message": "hi"})).header("idempotency-key", key).principal(OWNER)
    };
    let again = host.respond(send("k")).await.expect("an answer");
    assert_eq!((again.status, again.json().expect("JSON")), (200, done));
    let new = host.respond(send("other")).await.expect("an answer");
    assert_eq!((new.status, new.json().expect("JSON")["code"].as_str()), (404, Some("unknown-agent")));
    world.check().await;
}

/// A fork that was accepted answers its retry when its source is gone, for the same reason.
/// Shows trap 19.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_gets_its_outcome_after_its_source_is_gone() {
    let world = World::new(HELLO).await;
    world.ask("t", "k", "hi").await;
    let forked = world.post("t", "fork", "f", &json!({"to": "u"})).await;
    assert_eq!(forked.status, 200, "{}", forked.text());
    assert_eq!(world.delete("t").await.status, 202);
    world.host.settled().await;
    let again = world.post("t", "fork", "f", &json!({"to": "u"})).await;
    assert_eq!(shown(&again), shown(&forked));
    let other = world.post("t", "fork", "g", &json!({"to": "v"})).await;
    assert_eq!(other.status, 404, "{}", other.text());
    world.check().await;
}

/// What is sent, the status, the code, and the field that the document names.
type Bad = (&'static str, Request, u16, &'static str, Option<&'static str>);

fn bad_requests() -> Vec<Bad> {
    let at = |path: &str, body: &Value| Request::post(path, body).principal(OWNER);
    let to = |body: &str| {
        let mut request = at("/v1/agents/helper/threads/t/submissions", &json!({}));
        request.body = body.as_bytes().to_vec();
        request
    };
    let hi = json!({"message": "hi"});
    let named = |agent: &str, thread: &str| at(&format!("/v1/agents/{agent}/threads/{thread}/submissions"), &hi);
    let keyed = |key: String| named("helper", "t").header("idempotency-key", key);
    let method = |method: &str, path: &str| Request::new(method, path).principal(OWNER);
    let long = "x".repeat(129);
    vec![
        ("slash in a name", named("helper", "a/b"), 404, "not-found", None),
        ("escaped slash in a name", named("helper", "a%2Fb"), 422, "invalid", Some("thread")),
        ("escaped slash in an agent", named("a%2fb", "t"), 422, "invalid", Some("agent")),
        ("dots", named("helper", ".."), 422, "invalid", Some("thread")),
        ("a dot first", named("helper", ".a"), 422, "invalid", Some("thread")),
        ("empty name", named("helper", ""), 422, "invalid", Some("thread")),
        ("129 characters", named("helper", &long), 422, "invalid", Some("thread")),
        ("bad escape", named("helper", "%zz"), 400, "bad-path", None),
        ("not UTF-8", named("helper", "%ff"), 400, "bad-path", None),
        ("unknown agent", named("nobody", "t"), 404, "unknown-agent", None),
        ("300 KiB", to(&json!({"message": "x".repeat(300 * 1024)}).to_string()), 413, "too-large", None),
        ("not JSON", to("{\"message\": "), 422, "invalid-json", None),
        ("a lone surrogate", to("{\"message\": \"\\ud800\"}"), 422, "invalid-json", None),
        ("a key twice", to("{\"message\": \"a\", \"message\": \"b\"}"), 422, "invalid-json", None),
        ("2^53", to("{\"message\": \"a\", \"result_schema\": {\"x\": 9007199254740992}}"), 422, "invalid-json", None),
        ("an endless number", to("{\"message\": \"a\", \"x\": 1e999}"), 422, "invalid-json", None),
        ("deep nesting", to(&format!("{}1{}", "[".repeat(5000), "]".repeat(5000))), 422, "invalid-json", None),
        ("an unknown field", to("{\"message\": \"a\", \"msg\": 1}"), 422, "invalid", Some("msg")),
        ("an unknown option", to("{\"message\": \"a\", \"options\": {\"x\": 1}}"), 422, "invalid", Some("options.x")),
        ("no message", to("{}"), 422, "invalid", Some("message")),
        (
            "a bad schema",
            to("{\"message\": \"a\", \"result_schema\": {\"type\": \"nonsense\"}}"),
            422,
            "invalid",
            Some("result_schema"),
        ),
        ("key of 257 bytes", keyed("k".repeat(257)), 422, "invalid", Some("idempotency-key")),
        ("key with an accent", keyed("clé".into()), 422, "invalid", Some("idempotency-key")),
        ("key with a space", keyed("a b".into()), 422, "invalid", Some("idempotency-key")),
        ("empty key", keyed(String::new()), 422, "invalid", Some("idempotency-key")),
        ("nobody asks", Request::post("/v1/agents/helper/threads/t/submissions", &hi), 503, "no-client-token", None),
        ("a principal without realm", named("helper", "t").principal("ada"), 401, "bad-principal", None),
        ("a principal of three", named("helper", "t").principal("a/b/c"), 401, "bad-principal", None),
        ("an empty subject", named("helper", "t").principal("a/"), 401, "bad-principal", None),
        ("PUT", method("PUT", "/v1/agents/helper/threads/t/submissions"), 405, "method", None),
        ("POST of messages", method("POST", "/v1/agents/helper/threads/t/messages"), 405, "method", None),
        ("GET of a fork", method("GET", "/v1/agents/helper/threads/t/fork"), 405, "method", None),
        ("DELETE of a submission", method("DELETE", "/v1/submissions/00-0"), 405, "method", None),
        ("POST of threads", method("POST", "/v1/threads"), 405, "method", None),
        ("another version", method("GET", "/v2/threads"), 404, "not-found", None),
        ("no route", method("GET", "/v1/nothing"), 404, "not-found", None),
        ("no route of a thread", method("GET", "/v1/agents/helper/threads/t/nothing"), 404, "not-found", None),
        ("no route of a submission", method("GET", "/v1/submissions/00-0/x/y"), 404, "not-found", None),
        ("no id", method("GET", "/v1/submissions/%2e%2e"), 404, "not-found", None),
        ("bad number", method("GET", "/v1/agents/helper/threads/t0/messages?after=-1"), 422, "invalid", Some("after")),
        ("fork into itself", at("/v1/agents/helper/threads/t0/fork", &json!({"to": "t0"})), 422, "invalid", Some("to")),
        (
            "fork into a slash",
            at("/v1/agents/helper/threads/t0/fork", &json!({"to": "a/b"})),
            422,
            "invalid",
            Some("to"),
        ),
        (
            "import for nobody",
            at("/v1/agents/nobody/threads/t/import", &json!({"session": {}, "count": 1, "digest": ""})),
            404,
            "unknown-agent",
            None,
        ),
    ]
}

/// Shows B40; trap 23.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_bad_is_refused_clearly_and_changes_nothing() {
    let world = World::new(HELLO).await;
    world.ask("t0", "k", "hi").await;
    let before = dump(&world).await;
    for (name, request, status, code, field) in bad_requests() {
        let response = world.host.respond(request).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let problem = response.json().unwrap_or_else(|e| panic!("{name}: {e}: {}", response.text()));
        assert_eq!((response.status, problem["code"].as_str()), (status, Some(code)), "{name}: {problem}");
        assert_eq!(problem["field"].as_str(), field, "{name}: {problem}");
        assert_eq!(response.header("content-type"), Some("application/problem+json"), "{name}");
        assert_eq!(problem["status"], status, "{name}");
        assert_eq!(problem["type"], format!("urn:writ:problem:{code}"), "{name}");
        assert!(problem["detail"].as_str().is_some_and(|d| d.len() > 20), "{name}: {problem}");
        if status == 413 {
            assert_eq!(problem["limit"], 262_144, "{name}: {problem}");
        }
        assert!(response.work.is_empty(), "{name}");
        assert_eq!(dump(&world).await, before, "{name} changed the store");
    }
    world.check().await;
}

/// What the host makes of a configuration is what the component reads: docs/config.md, `src/auth.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_the_configuration_stand_for_whom_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("writ.toml");
    let text = "[auth]\nclient_token = 'token-of-the-operator'\nstream_key = '00112233445566778899aabbccddeeff'\n\
        [[auth.users]]\nname = 'example.com/ann'\ntoken = 'token-of-somebody-else'\n\
        [[webhooks]]\nname = 'w'\nurl = 'https://a.test'\nsecret = 'a-secret-of-the-webhook'\nevents = ['settled']\n";
    std::fs::write(&file, text).expect("a file");
    let config = Config::load(&Input { file: Some(file), ..Input::default() }).expect("a configuration");
    let mut setup = Setup::new("[[answer]]\ntext = \"Hello.\"\n");
    setup.settings.extend(config.component_settings());
    let world = setup.world().await;
    let status = |token: &'static str, path: &'static str| {
        let request = match token {
            "" => Request::get(path),
            _ => Request::get(path).header("authorization", format!("Bearer {token}")),
        };
        let host = world.host.clone();
        async move { host.respond(request).await.expect("the component answers").status }
    };
    world.ask("mine", "k", "hi").await;
    let thread = "/v1/agents/helper/threads/mine";
    assert_eq!(status("token-of-the-operator", thread).await, 200, "`local/operator`, as the command line is");
    assert_eq!(status("token-of-somebody-else", thread).await, 404, "another user");
    assert_eq!(status("token-of-nobody-at-all", thread).await, 401);
    assert_eq!(status("", thread).await, 401);
    world.check().await;
}
