//! The document of the thread API is true: routes, examples, and every answer of the component.
#![cfg(not(target_family = "wasm"))]

use std::collections::BTreeSet;
use std::sync::Arc;

use host_sim::data::{Request, Response};
use host_sim::host::Parts;
use host_sim::store::memory::MemoryStore;
use serde_json::{Value, json};
use writ::faces::{Access, ROUTES};
use writ_tests::{Broken, BrokenStore, Described, Gate, Seen, Setup, World, host, until};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "look"
text = "Let me look."
calls = [{ name = "look", arguments = { order = 7 } }]
usage = { input = 10, output = 5, cost_microusd = 12 }
[[answer]]
when = "flaky"
fail = { kind = "transient", times = 1, message = "429", after_chunks = 1 }
text = "Hello."
chunks = 2
[[answer]]
when = "pay"
text = "I pay."
calls = [{ name = "pay", arguments = { order = 7 } }]
[[answer]]
when = "pay"
text = "Not paid."
[[answer]]
when = "fail"
fail = { kind = "refused", message = "No." }
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

const BODY_BYTES_MAX: usize = 262_144;

/// Codes of the server in front, which the component never gives.
const OF_THE_SERVER: [&str; 6] = ["bad-header", "bad-host", "bad-method", "bad-body", "busy", "draining"];

#[test]
fn routes_and_document_agree() {
    let document = Described::load();
    let routes: BTreeSet<(String, &str)> = ROUTES.iter().map(|r| (r.method.to_owned(), r.path)).collect();
    let described: BTreeSet<(String, &str)> = document.operations().iter().map(|(m, p, ..)| (m.clone(), *p)).collect();
    assert_eq!(routes, described);
    let mut ids = BTreeSet::new();
    for (method, path, operation, item) in document.operations() {
        let route = ROUTES.iter().find(|r| r.method == method && r.path == path).expect("a route");
        let security = operation.get("security").unwrap_or(&document.0["security"]);
        let expected = match route.access {
            Access::Open => json!([]),
            Access::Client => json!([{"client": []}]),
            Access::Viewer => json!([{"client": []}, {"streamToken": []}]),
        };
        assert_eq!(*security, expected, "{method} {path}");
        let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no operationId"));
        assert!(ids.insert(id), "{id} stands there twice");
        // Every `{name}` of the path is described, and nothing else is.
        let parameters = [&item["parameters"], &operation["parameters"]].into_iter().filter_map(Value::as_array);
        let parameters: Vec<&Value> = parameters.flatten().map(|p| document.resolve(p)).collect();
        let mut named: Vec<String> = path.split('/').filter(|part| part.starts_with('{')).map(str::to_owned).collect();
        let in_path = parameters.iter().filter(|p| p["in"] == "path");
        let mut described: Vec<String> =
            in_path.map(|p| format!("{{{}}}", p["name"].as_str().expect("a name"))).collect();
        named.sort();
        described.sort();
        assert_eq!(named, described, "{method} {path}");
    }
}

/// Each example fits the schema beside it, and each reference leads somewhere.
#[test]
fn examples_are_right() {
    fn walk(document: &Described, value: &Value, at: &str, found: &mut usize) {
        if value.get("$ref").is_some() {
            document.resolve(value);
        }
        let mut examples: Vec<(&Value, &Value)> = Vec::new();
        if let (Some(schema), Some(example)) = (value.get("schema"), value.get("example")) {
            examples.push((schema, example));
        }
        if let Some(all) = value.get("examples").and_then(Value::as_array) {
            examples.extend(all.iter().map(|example| (value, example)));
        }
        for (schema, example) in examples {
            let misfits = document.misfits(schema, example);
            assert!(misfits.is_empty(), "{at}: {misfits:#?}");
            *found += 1;
        }
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(name, value)| walk(document, value, &format!("{at}/{name}"), found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(document, value, at, found)),
            _ => {}
        }
    }
    let (document, mut found) = (Described::load(), 0);
    walk(&document, &document.0, "", &mut found);
    assert!(found > 60, "only {found} examples");
    // What can be answered has an example.
    for (method, path, operation, _) in document.operations() {
        for (status, response) in operation["responses"].as_object().expect("responses") {
            for (media, content) in document.resolve(response)["content"].as_object().expect("a body") {
                assert!(content.get("example").is_some(), "{method} {path} {status} {media} has no example");
            }
        }
    }
}

/// A world, and what of the document it has shown.
struct Drive {
    world: World,
    document: Described,
    seen: Seen,
}

impl Drive {
    /// Asks, and holds the answer against the document.
    async fn ask(&mut self, status: u16, request: Request) -> Value {
        let response = self.world.send(request.clone()).await;
        self.hold(status, &request, &response)
    }

    fn hold(&mut self, status: u16, request: &Request, response: &Response) -> Value {
        self.document.check(request, response, &mut self.seen);
        assert_eq!(response.status, status, "{} {}: {}", request.method, request.path, response.text());
        response.json().unwrap_or_default()
    }

    async fn get(&mut self, status: u16, path: &str) -> Value {
        self.ask(status, Request::get(path)).await
    }

    async fn post(&mut self, status: u16, path: &str, key: &str, body: Value) -> Value {
        self.ask(status, Request::post(path, &body).header("idempotency-key", key)).await
    }
}

const T: &str = "/v1/agents/helper/threads";

fn submissions(thread: &str) -> String {
    format!("{T}/{thread}/submissions")
}

/// A request to a route, with fit parameters.
fn request_of(route: &writ::faces::Route, agent: &str, thread: &str, id: &str) -> Request {
    let parameters = [("{agent}", agent), ("{thread}", thread), ("{from}", "0"), ("{id}", id)];
    let path = parameters.iter().fold(route.path.to_owned(), |path, (name, value)| path.replace(name, value));
    let body = match route.path.rsplit('/').next() {
        Some("submissions") => json!({"message": "hi"}),
        Some("fork") => json!({"to": "fork-of-t"}),
        Some("import") => json!({"session": {}, "count": 1, "digest": "00"}),
        Some("answer") => json!({"call": "1.0", "decision": "approve"}),
        Some("{from}") => json!({"messages": [{"role": "user", "content": []}]}),
        _ => json!({}),
    };
    if route.method == "POST" { Request::post(path, &body) } else { Request::new(route.method, path) }
}

/// The component's answers are as the document says, in all its routes and errors; and all that it says was answered.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_as_described() {
    let broken = Arc::new(BrokenStore::new(Arc::new(MemoryStore::new())));
    let limits = json!({"approvalMs": 3_600_000});
    let world = Setup::new(SCRIPT).limits(limits).store(broken.clone()).world().await;
    let mut drive = Drive { world, document: Described::load(), seen: Seen::default() };
    let id = life(&mut drive).await;
    refusals(&mut drive, &id).await;
    everywhere(&mut drive, &broken, &id).await;
    settings(&mut drive, &id).await;
    pauses(&mut drive).await;
    approvals(&mut drive).await;
    events(&mut drive, &broken).await;

    let Drive { document, seen, .. } = drive;
    let (mut answers, mut codes) = (BTreeSet::new(), BTreeSet::new());
    for (_, _, operation, _) in document.operations() {
        for (status, response) in operation["responses"].as_object().expect("responses") {
            let status: u16 = status.parse().expect("a status");
            answers.insert((operation["operationId"].as_str().expect("an id").to_owned(), status));
            let schema = &document.resolve(response)["content"]["application/problem+json"]["schema"];
            let all = schema["allOf"][1]["properties"]["code"]["enum"].as_array().into_iter().flatten();
            let all = all.map(|code| code.as_str().expect("a code")).filter(|code| !OF_THE_SERVER.contains(code));
            codes.extend(all.map(|code| (status, code.to_owned())));
        }
    }
    assert_eq!(answers.difference(&seen.answers).collect::<Vec<_>>(), Vec::<&(String, u16)>::new(), "never answered");
    assert_eq!(codes.difference(&seen.codes).collect::<Vec<_>>(), Vec::<&(u16, String)>::new(), "never answered");
    let types = document.0["components"]["schemas"]["Event"]["discriminator"]["mapping"].as_object().expect("types");
    assert_eq!(types.keys().cloned().collect::<BTreeSet<_>>(), seen.events);
}

/// Conversations, copies, imports: what goes well. The id of a settled submission of `t`.
async fn life(drive: &mut Drive) -> String {
    let first = drive.post(202, &submissions("t"), "a", json!({"message": "look"})).await;
    let id = first["id"].as_str().expect("an id").to_owned();
    drive.world.host.settled().await;
    drive.post(200, &submissions("t"), "a", json!({"message": "look"})).await;
    for (key, message, options) in [("b", "flaky", json!({})), ("c", "fail", json!({"deadline_ms": 60_000}))] {
        let request = Request::post(submissions("t"), &json!({"message": message, "options": options}));
        drive.ask(202, request.header("idempotency-key", key).header("prefer", "wait=1")).await;
        drive.world.host.settled().await;
    }
    for path in ["/healthz", "/v1/openapi.json", "/v1/agents", "/v1/threads", "/v1/threads?cursor=0.0"] {
        drive.get(200, path).await;
    }
    for path in [format!("/v1/submissions/{id}"), format!("/v1/submissions/{id}/explain"), format!("{T}/t")] {
        drive.get(200, &path).await;
    }
    for route in ["submissions?limit=1", "messages?after=1&limit=2", "events?limit=1", "stream", "stream?after=0"] {
        drive.get(200, &format!("{T}/t/{route}")).await;
    }
    drive.post(200, &format!("/v1/submissions/{id}/cancel"), "", json!({})).await;
    drive.post(201, &format!("{T}/t/stream-token"), "", json!({})).await;
    drive.post(200, &format!("{T}/t/fork"), "fork", json!({"to": "short"})).await;
    for way in ["pause", "resume"] {
        drive.post(200, &format!("/v1/submissions/{id}/{way}"), "", json!({})).await;
        drive.post(200, &format!("/v1/agents/helper/{way}"), "", json!({})).await;
    }

    let message = |n: u64| json!({"role": "user", "content": [{"type": "text", "text": n.to_string()}]});
    let opening = json!({"session": {}, "count": 120, "digest": "00"});
    let copy = drive.post(202, &format!("{T}/long/import"), "i", opening.clone()).await;
    let copy = copy["id"].as_str().expect("an id").to_owned();
    drive.post(409, &format!("/v1/submissions/{copy}/pause"), "", json!({})).await;
    drive.post(409, &format!("{T}/long/import/7"), "", json!({"messages": [message(0)]})).await;
    drive.post(409, &submissions("long"), "early", json!({"message": "hi"})).await;
    drive.ask(409, Request::new("DELETE", format!("{T}/long"))).await;
    for from in [0, 48, 96] {
        let page: Vec<Value> = (from..120.min(from + 48)).map(message).collect();
        let status = if from == 96 { 200 } else { 202 };
        drive.post(status, &format!("{T}/long/import/{from}"), "", json!({"messages": page})).await;
    }
    drive.post(200, &format!("{T}/long/import"), "i", opening).await;
    drive.post(202, &format!("{T}/long/fork"), "f", json!({"to": "copy", "at": null})).await;
    drive.world.host.settled().await;
    drive.post(200, &format!("{T}/long/fork"), "f", json!({"to": "copy", "at": null})).await;
    id
}

/// What single routes refuse.
async fn refusals(drive: &mut Drive, id: &str) {
    let never = format!("{}-{}", &id[..2], "0".repeat(26));
    for route in ROUTES.iter().filter(|route| route.path.contains('{')) {
        // What nobody has paused goes on: that is no error.
        let status = if route.path == "/v1/agents/{agent}/resume" { 200 } else { 404 };
        drive.ask(status, request_of(route, "helpr", "never", &never)).await;
        if route.path.contains("{thread}") {
            drive.ask(422, request_of(route, ".odd", "t", id)).await;
        }
    }
    for (path, key, body, status) in [
        (submissions("t"), "a", json!({"message": "other"}), 409),
        (submissions("t"), "x", json!({"message": "hi", "msg": 1}), 422),
        (format!("{T}/t/fork"), "x", json!({"to": "long"}), 409),
        (format!("{T}/t/fork"), "x", json!({"to": "new", "at": 99}), 422),
        (format!("{T}/t/import"), "x", json!({"session": {}, "count": 1, "digest": ""}), 409),
        (format!("{T}/new/import"), "x", json!({"session": {}, "count": 1_000_001, "digest": ""}), 422),
        (
            format!("{T}/new/import"),
            "x",
            json!({"session": {"state": {"a": "b".repeat(17_000)}}, "count": 1, "digest": ""}),
            413,
        ),
    ] {
        drive.post(status, &path, key, body).await;
    }
    for route in ["submissions?after=x", "messages?limit=-1", "events?after=99999999", "stream?after=99999999"] {
        drive.get(422, &format!("{T}/t/{route}")).await;
    }
    for route in ["submissions", "fork", "import", "import/0"] {
        let request = Request { body: b"{".to_vec(), ..Request::new("POST", format!("{T}/new/{route}")) };
        let problem = drive.ask(422, request).await;
        assert_eq!(problem["code"], "invalid-json");
    }
    // A method that a path does not take: the document says which it takes.
    for (_, path, ..) in drive.document.operations() {
        let request = Request::new("PATCH", path.replace("{agent}", "helper").replace("{thread}", "t"));
        let response = drive.world.send(request).await;
        let taken = drive.document.operations().into_iter().filter(|(_, p, ..)| *p == path);
        let taken: Vec<String> = taken.map(|(method, ..)| method).collect();
        let mut allowed: Vec<&str> = response.header("allow").unwrap_or_default().split(", ").collect();
        allowed.sort_unstable();
        assert_eq!((response.status, &response.json().expect("JSON")["code"]), (405, &json!("method")), "{path}");
        assert_eq!(allowed.len(), taken.len(), "{path}: {allowed:?}");
        assert!(taken.iter().all(|method| allowed.contains(&method.as_str())), "{path}: {allowed:?}");
    }
}

/// What every route answers to a bad path, a large body, a stranger, and with a store that is gone, damaged or busy.
async fn everywhere(drive: &mut Drive, broken: &BrokenStore, id: &str) {
    for route in ROUTES {
        let request = || request_of(route, "helper", "t", id);
        drive.ask(400, Request { path: format!("{}?x=%zz", request().path), ..request() }).await;
        drive.ask(413, Request { body: vec![b' '; BODY_BYTES_MAX + 1], ..request() }).await;
        let reads = route.path != "/v1/openapi.json";
        if reads {
            for (how, status) in [(Broken::Gone, 503), (Broken::Damaged, 500)] {
                broken.break_it(how);
                drive.ask(status, request()).await;
                broken.break_it(Broken::No);
            }
        }
    }
    broken.break_it(Broken::Busy);
    drive.post(503, &submissions("t"), "busy", json!({"message": "hi"})).await;
    drive.post(503, "/v1/agents/helper/pause", "", json!({})).await;
    broken.break_it(Broken::No);
}

/// What depends on how the server is configured.
async fn settings(drive: &mut Drive, id: &str) {
    let with = |drive: &Drive, name: &str, value: &str| {
        let mut parts: Parts = drive.world.parts.clone();
        parts.settings.insert(name.into(), value.into());
        parts
    };
    let auth = json!({"clients": [{"digest": "00", "principal": "web/ada"}]}).to_string();
    for (value, status) in [("{}", 503), ("7", 503), (auth.as_str(), 401)] {
        let host = host(&with(drive, "auth", value)).await;
        for route in ROUTES.iter().filter(|route| route.access != Access::Open) {
            let request = request_of(route, "helper", "t", id).header("authorization", "Bearer x");
            let response = host.respond(request.clone()).await.expect("an answer");
            drive.hold(status, &request, &response);
        }
    }
    let host = host(&with(drive, "agents", "7")).await;
    for request in [
        Request::get("/v1/agents"),
        Request::post("/v1/agents/helper/pause", &json!({})),
        Request::post(submissions("u"), &json!({"message": "hi"})),
        Request::post(format!("{T}/u/import"), &json!({"session": {}, "count": 1, "digest": "00"})),
    ] {
        let request = request.principal(writ_tests::OWNER);
        let response = host.respond(request.clone()).await.expect("an answer");
        drive.hold(500, &request, &response);
    }
    let odd = Request::get("/v1/threads").principal("nobody");
    let response = drive.world.host.respond(odd.clone()).await.expect("an answer");
    drive.hold(401, &odd, &response);
}

/// A submission that stops at a turn boundary and goes on, and as many paused agents as there may be.
async fn pauses(drive: &mut Drive) {
    let sound = drive.world.host.clone();
    let gate = Gate::close(&mut drive.world).await;
    let asked = drive.world.model.calls();
    let paused = drive.post(202, &submissions("t"), "paused", json!({"message": "look"})).await;
    let path = format!("/v1/submissions/{}", paused["id"].as_str().expect("an id"));
    until(|| drive.world.model.calls() > asked).await;
    assert_eq!(drive.post(202, &format!("{path}/pause"), "", json!({})).await["state"], "paused");
    // It sees what comes from now on, so it begins before the run may go on.
    let mut viewer = drive.world.viewer("t", "").await;
    gate.open();
    for (way, event) in [("pause", "paused"), ("resume", "resumed")] {
        drive.post(202, &format!("{path}/{way}"), "", json!({})).await;
        while viewer.of(event).is_empty() {
            tokio::task::yield_now().await;
            viewer.look(&drive.world.host).await.expect("the stream is there");
        }
    }
    drive.world.host.settled().await;
    drive.world.host = sound;

    let agents: Vec<Value> = (0..1001).map(|n| json!({"name": format!("a{n}"), "model": "scripted"})).collect();
    let many = drive.world.redeployed(json!({"agents": agents})).await;
    for n in 0..1001 {
        let request = Request::post(format!("/v1/agents/a{n}/pause"), &json!({})).principal(writ_tests::OWNER);
        let response = many.respond(request.clone()).await.expect("an answer");
        if n % 100 == 0 {
            drive.hold(if n < 1000 { 200 } else { 429 }, &request, &response);
        }
    }
}

/// A call that waits for a person: every answer that it may get.
async fn approvals(drive: &mut Drive) {
    let asked = drive.post(202, &submissions("t"), "asks", json!({"message": "pay"})).await;
    drive.world.host.settled().await;
    let path = format!("/v1/submissions/{}", asked["id"].as_str().expect("an id"));
    let waiting = drive.get(200, &path).await;
    let call = waiting["questions"][0]["call"].clone();
    let answer = format!("{path}/answer");
    for (status, code, body) in [
        (409, "closed", json!({"call": "0.0", "decision": "approve"})),
        (409, "other-arguments", json!({"call": call, "decision": "approve", "hash": "sha256:00"})),
        (422, "invalid", json!({"call": call, "decision": "maybe"})),
        (422, "invalid", json!({"call": call, "decision": "approve", "reason": "so"})),
    ] {
        assert_eq!(drive.post(status, &answer, "", body).await["code"], code);
    }
    let deny = json!({"call": call, "decision": "deny", "reason": "No."});
    drive.post(202, &answer, "", deny.clone()).await;
    drive.world.host.settled().await;
    drive.post(200, &answer, "", deny).await;
    let changed = drive.post(409, &answer, "", json!({"call": call, "decision": "approve"})).await;
    assert_eq!(changed["code"], "answered");

    let late = drive.post(202, &submissions("t"), "late", json!({"message": "pay"})).await;
    drive.world.host.settled().await;
    let path = format!("/v1/submissions/{}", late["id"].as_str().expect("an id"));
    let waiting = drive.get(200, &path).await;
    let body = json!({"call": waiting["questions"][0]["call"], "decision": "approve"});
    // The same whether the run has noticed or not.
    drive.world.clock.advance(2 * 3_600_000);
    assert_eq!(drive.post(409, &format!("{path}/answer"), "", body).await["code"], "expired");
    drive.world.host.sweep().await.expect("a sweep");
    drive.world.host.settled().await;
}

/// A thread that is busy, full, and deleted; and every type of event.
async fn events(drive: &mut Drive, broken: &BrokenStore) {
    let sound = drive.world.host.clone();
    let _gate = Gate::close(&mut drive.world).await;
    let asked = drive.world.model.calls();
    let first = drive.post(202, &submissions("busy"), "0", json!({"message": "hi"})).await;
    let id = first["id"].as_str().expect("an id").to_owned();
    until(|| drive.world.model.calls() > asked).await;
    for key in 1..=256 {
        drive.post(202, &submissions("busy"), &key.to_string(), json!({"message": "hi"})).await;
    }
    drive.post(429, &submissions("busy"), "257", json!({"message": "hi"})).await;
    for path in [format!("{T}/busy"), format!("{T}/busy/submissions"), format!("/v1/submissions/{id}")] {
        drive.get(200, &path).await;
    }
    let gone = drive.world.viewer("busy", &format!("?submission={id}")).await;
    drive.post(202, &submissions("waits"), "k", json!({"message": "hi"})).await;
    until(|| drive.world.model.calls() > asked + 1).await;
    broken.break_it(Broken::Idle);
    drive.post(202, &format!("/v1/submissions/{id}/cancel"), "", json!({})).await;
    drive.ask(202, Request::new("DELETE", format!("{T}/busy"))).await;
    drive.post(409, &submissions("busy"), "late", json!({"message": "hi"})).await;
    std::mem::replace(&mut drive.world.host, sound).shutdown().await;
    broken.break_it(Broken::No);

    // A redeploy has taken the agent away: the thread goes, and the other one's submission waits.
    let without = drive.world.redeployed(json!({"agents": []})).await;
    without.sweep().await.expect("a sweep");
    let mut waits = drive.world.viewer("waits", "?after=0").await;
    while waits.of("waiting").is_empty() {
        tokio::task::yield_now().await;
        waits.look(&without).await.expect("the stream is there");
    }
    drive.get(200, &format!("{T}/waits")).await;
    let waiting = drive.get(200, &format!("{T}/waits/submissions")).await;
    assert_eq!(waiting["submissions"][0]["state"], "waiting");
    without.shutdown().await;
    for thread in ["busy", "waits"] {
        drive.ask(202, Request::new("DELETE", format!("{T}/{thread}"))).await;
    }
    drive.world.host.sweep().await.expect("a sweep");
    drive.world.host.settled().await;

    for mut viewer in [drive.world.journal("t").await, waits, gone] {
        let _ = viewer.look(&drive.world.host).await;
        for (_, event) in &viewer.frames {
            drive.document.check_event(event, &mut drive.seen);
        }
    }
}
