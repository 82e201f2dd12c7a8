//! Who is let in: client tokens, stream tokens, and that it fails closed.
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use host_sim::data::{Body, Request, Response};
use host_sim::store::Store;
use host_sim::store::memory::MemoryStore;
use serde_json::{Value, json};
use writ::faces::{Access, ROUTES};
use writ::id::{hex, sha256_hex};
use writ_tests::{Setup, World};

const SCRIPT: &str = "[model]\nrepeat_last = true\n[[answer]]\ntext = \"Hello.\"\n";

const ADA: &str = "sesame-of-ada";
const BOB: &str = "sesame-of-bob";
const KEY: &str = "00112233445566778899aabbccddeeff";

/// Ten minutes, in milliseconds.
const TOKEN_MS: u64 = 10 * 60 * 1000;

/// A world that lets two users in.
async fn world(store: Arc<dyn Store>, key: Option<&str>) -> World {
    let client = |token: &str, principal: &str| json!({"digest": sha256_hex(token.as_bytes()), "principal": principal});
    let auth = json!({"clients": [client(ADA, "web/ada"), client(BOB, "web/bob")], "stream_key": key});
    Setup::new(SCRIPT).store(store).setting("auth", auth).reach(0).world().await
}

async fn two_users() -> World {
    world(Arc::new(MemoryStore::new()), None).await
}

/// Asks as whoever the request says it is. An error shows no secret.
async fn ask(world: &World, request: Request) -> Response {
    let response = world.host.respond(request).await.expect("an answer");
    if response.status >= 400 {
        let shown = format!("{:?} {}", response.headers, response.text());
        let format = world.store.get_many(vec!["format".into()]).await.expect("a read")[0].clone().unwrap_or_default();
        let format: Value = serde_json::from_slice(&format).unwrap_or_default();
        let own = format["token_key"].as_str().unwrap_or("no key yet").to_owned();
        for secret in ["sesame", &sha256_hex(ADA.as_bytes()), &sha256_hex(BOB.as_bytes()), KEY, &own] {
            assert!(!shown.contains(secret), "{secret} is shown: {shown}");
        }
    }
    response
}

async fn ask_as(world: &World, token: &str, request: Request) -> Response {
    ask(world, request.header("authorization", format!("Bearer {token}"))).await
}

fn code(response: &Response) -> (u16, String) {
    let code = response.json().expect("JSON")["code"].as_str().unwrap_or_default().to_owned();
    (response.status, code)
}

/// A request to a route, with something for each of its parameters.
fn request_of(method: &str, path: &str) -> Request {
    let parameters =
        [("{agent}", "helper"), ("{thread}", "t"), ("{from}", "0"), ("{id}", "5b-00000000000000000000000000")];
    let path = parameters.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
    match method {
        "POST" => Request::post(path, &json!({"message": "hi"})),
        _ => Request::new(method, path),
    }
}

/// With nobody configured nobody is let in, whatever he brings; and nothing is stored.
#[tokio::test(flavor = "multi_thread")]
async fn it_fails_closed() {
    let settings = [
        (None, "no-client-token"),
        (Some(json!({})), "no-client-token"),
        (Some(json!({"clients": []})), "no-client-token"),
        (Some(json!("sesame")), "bad-settings"),
        (Some(json!({"clients": [{"digest": ADA}]})), "bad-settings"),
        (Some(json!({"clients": [], "sesame": 1})), "bad-settings"),
    ];
    for (auth, expected) in settings {
        let mut setup = Setup::new(SCRIPT);
        if let Some(auth) = &auth {
            setup = setup.setting("auth", auth.clone());
        }
        let world = setup.world().await;
        for route in ROUTES.iter().filter(|route| route.access != Access::Open) {
            for header in [None, Some("Bearer sesame-of-ada"), Some("Bearer ")] {
                let mut request = request_of(route.method, route.path);
                request.headers.extend(header.map(|value| ("authorization".to_owned(), value.to_owned())));
                let response = ask(&world, request).await;
                assert_eq!(code(&response), (503, expected.into()), "{auth:?}: {} {}", route.method, route.path);
                assert!(response.work.is_empty() && response.header("www-authenticate").is_none());
                // Repeating it does not help, so nobody is told when to.
                assert_eq!(response.header("retry-after").is_some(), expected != "no-client-token");
            }
        }
        assert_eq!(world.store.count().await.expect("a count"), 0);
        for route in ROUTES.iter().filter(|route| route.access == Access::Open) {
            assert_eq!(ask(&world, request_of(route.method, route.path)).await.status, 200, "{}", route.path);
        }
        // Whom the host names needs no token.
        assert_eq!(world.send(Request::get("/v1/agents")).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_is_refused() {
    let world = two_users().await;
    ask_as(&world, ADA, request_of("GET", "/v1/threads")).await;
    let before = world.store.dump().await.expect("a dump");
    let digest = sha256_hex(ADA.as_bytes());
    let long = format!("Bearer {}", "a".repeat(5000));
    let wrong: Vec<String> = [
        "Bearer sesame-of-eve",
        "Bearer sesame-of-ad",
        "Bearer sesame-of-adaa",
        "Bearer SESAME-OF-ADA",
        "Bearer",
        "Bearer ",
        "Basic c2VzYW1l",
        "sesame-of-ada",
        "",
        &format!("Bearer {digest}"),
        &long,
    ]
    .map(str::to_owned)
    .into();
    for route in ROUTES.iter().filter(|route| route.access != Access::Open) {
        for header in wrong.iter().map(Some).chain([None]) {
            let mut request = request_of(route.method, route.path);
            request.headers.extend(header.map(|value| ("authorization".to_owned(), value.clone())));
            let response = ask(&world, request).await;
            assert_eq!(code(&response), (401, "unauthorized".into()), "{header:?}: {} {}", route.method, route.path);
            assert_eq!(response.header("www-authenticate"), Some("Bearer realm=\"writ\""));
        }
    }
    assert_eq!(world.store.dump().await.expect("a dump"), before);
    // The scheme's case does not matter.
    let request = request_of("GET", "/v1/threads").header("authorization", format!("bearer {ADA}"));
    assert_eq!(ask(&world, request).await.status, 200);
}

/// A principal is `realm/subject`, whoever names it.
#[tokio::test(flavor = "multi_thread")]
async fn a_principal_has_a_realm_and_a_subject() {
    let long = format!("web/{}", "a".repeat(253));
    for principal in ["ada", "/ada", "web/", "web/a/b", "", &long] {
        let auth = json!({"clients": [{"digest": sha256_hex(ADA.as_bytes()), "principal": principal}]});
        let world = Setup::new(SCRIPT).setting("auth", auth).world().await;
        let response = ask_as(&world, ADA, Request::get("/v1/threads")).await;
        assert_eq!(code(&response), (401, "bad-principal".into()), "{principal:?}");
        let response = ask(&world, Request::get("/v1/threads").principal(principal)).await;
        assert_eq!(code(&response), (401, "bad-principal".into()), "{principal:?}");
    }
}

/// I13: what is another's answers as what never was: the same status, headers and body.
#[tokio::test(flavor = "multi_thread")]
async fn users_see_only_their_own() {
    let world = two_users().await;
    let submit = Request::post("/v1/agents/helper/threads/t/submissions", &json!({"message": "hi"}));
    let submit = submit.header("idempotency-key", "k");
    let receipt = ask_as(&world, ADA, submit.clone()).await.json().expect("JSON");
    world.host.settled().await;
    let id = receipt["id"].as_str().expect("an id");
    let never = format!("{}-{}", &id[..2], "0".repeat(26));
    for route in ROUTES.iter().filter(|r| r.access != Access::Open && (r.path.contains("{id}") || r.method == "GET")) {
        // What is answered wants a body and a question: tests/approvals.rs shows it.
        if !route.path.contains('{') || route.path.ends_with("/answer") {
            continue;
        }
        let request = |id: &str, thread: &str| {
            let path = route.path.replace("{id}", id).replace("{agent}", "helper").replace("{thread}", thread);
            Request { path, ..request_of(route.method, "/") }
        };
        let (foreign, missing) =
            (ask_as(&world, BOB, request(id, "t")).await, ask_as(&world, BOB, request(&never, "never")).await);
        assert_eq!(foreign.status, 404, "{} {}", route.method, route.path);
        assert_eq!((foreign.text(), &foreign.headers), (missing.text(), &missing.headers), "{}", route.path);
        let own = ask_as(&world, ADA, request(id, "t")).await;
        assert!(own.status < 300, "{} {}: {}", route.method, route.path, own.text());
    }
    let others = ["fork", "stream-token", ""];
    for route in others {
        let (method, body) = if route.is_empty() { ("DELETE", "") } else { ("POST", r#"{"to":"u"}"#) };
        let request =
            Request { body: body.into(), ..Request::new(method, world.route("t", route).trim_end_matches('/')) };
        assert_eq!(ask_as(&world, BOB, request).await.status, 404, "{route}");
    }
    // The same name and the same key are another thread and another submission.
    let other = ask_as(&world, BOB, submit).await;
    assert_eq!(other.status, 202);
    assert_ne!(other.json().expect("JSON")["id"], id);
    world.host.settled().await;
    for token in [ADA, BOB] {
        let threads = ask_as(&world, token, Request::get("/v1/threads")).await.json().expect("JSON");
        assert_eq!(threads["threads"].as_array().map(Vec::len), Some(1));
    }
}

/// A user's thread, and a token for its streams.
async fn token_of(world: &World, user: &str, thread: &str) -> String {
    let submit = Request::post(world.route(thread, "submissions"), &json!({"message": "hi"}));
    let submit = submit.header("idempotency-key", "k");
    assert!(ask_as(world, user, submit).await.status < 300);
    world.host.settled().await;
    let answer = ask_as(world, user, Request::post(world.route(thread, "stream-token"), &json!({}))).await;
    assert_eq!(answer.status, 201);
    let answer = answer.json().expect("JSON");
    let token = answer["token"].as_str().expect("a token").to_owned();
    assert_eq!(answer["path"], format!("{}?token={token}", world.route(thread, "stream")));
    assert_eq!(answer["expires"], host_sim::clock::Clock::now(&*world.clock) + TOKEN_MS);
    token
}

async fn view(world: &World, thread: &str, token: &str) -> Response {
    let response = ask(world, Request::get(world.route(thread, &format!("stream?after=0&token={token}")))).await;
    match &response.body {
        Body::Stream(tail) => assert!(response.status == 200 && !tail.feed.is_empty()),
        Body::Bytes(_) => {
            assert_eq!(code(&response), (401, "unauthorized".into()));
            assert_eq!(response.header("www-authenticate"), Some("Bearer realm=\"writ\""));
            assert!(token.is_empty() || !response.text().contains(token));
        }
    }
    response
}

/// Row 102.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_token_opens_the_streams_of_one_thread_for_ten_minutes() {
    let world = two_users().await;
    let token = token_of(&world, ADA, "t").await;
    let (of_u, of_bob) = (token_of(&world, ADA, "u").await, token_of(&world, BOB, "t").await);
    assert_eq!(view(&world, "t", &token).await.status, 200);
    assert_eq!(view(&world, "u", &of_u).await.status, 200);
    // Of another thread, and of a thread that is not there.
    for (thread, token) in [("t", &of_u), ("u", &token), ("u", &of_bob), ("never", &token)] {
        assert_eq!(view(&world, thread, token).await.status, 401, "{thread}");
    }
    // Two threads of one name: each token opens that of its owner.
    let feed = |response: Response| match response.body {
        Body::Stream(tail) => tail.feed,
        Body::Bytes(_) => panic!("no stream"),
    };
    assert_ne!(feed(view(&world, "t", &token).await), feed(view(&world, "t", &of_bob).await));
    // It is good for nothing else.
    for route in ROUTES.iter().filter(|route| route.access == Access::Client) {
        let mut request = request_of(route.method, route.path);
        request.path = format!("{}?token={token}", request.path);
        assert_eq!(ask(&world, request).await.status, 401, "{}", route.path);
        let request = request_of(route.method, route.path);
        assert_eq!(ask_as(&world, &token, request).await.status, 401, "{}", route.path);
    }
    world.clock.advance(TOKEN_MS - 1);
    assert_eq!(view(&world, "t", &token).await.status, 200);
    world.clock.advance(1);
    let expired = view(&world, "t", &token).await;
    assert!(expired.text().contains("expired"), "{}", expired.text());
}

/// Row 102.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_stream_token_is_none() {
    let world = two_users().await;
    let token = token_of(&world, ADA, "t").await;
    let parts: Vec<&str> = token.split('.').collect();
    let [expires, owner, mac] = parts[..] else { panic!("{token}") };
    let bob = hex(b"web/bob");
    let later = (expires.parse::<u64>().expect("a time") + 1).to_string();
    let mut bad: Vec<String> = [
        format!("{later}.{owner}.{mac}"),
        format!("{expires}.{bob}.{mac}"),
        format!("{expires}.{}.{mac}", hex(b"web/adb")),
        format!("{expires}.{owner}."),
        format!("{expires}.{owner}"),
        format!("{expires}.{owner}.{mac}.{mac}"),
        format!("{expires}..{mac}"),
        format!(".{owner}.{mac}"),
        format!("{expires}.{owner}.{}", &mac[..mac.len() - 2]),
        format!("{expires}.{owner}.{mac}00"),
        format!("{expires}.zz.{mac}"),
        format!("{expires}.ff.{mac}"),
        format!("99999999999999999999.{owner}.{mac}"),
        format!("-1.{owner}.{mac}"),
        "garbage".into(),
        "..".into(),
        String::new(),
        "a".repeat(5000),
        "%F0%9F%94%91".into(),
    ]
    .into();
    // Each digit of the signature counts.
    for at in 0..mac.len() {
        let mut changed = mac.as_bytes().to_vec();
        changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
        bad.push(format!("{expires}.{owner}.{}", String::from_utf8(changed).expect("ASCII")));
    }
    for token in &bad {
        assert_eq!(view(&world, "t", token).await.status, 401, "{token}");
    }
    assert_eq!(view(&world, "t", &token).await.status, 200);
}

/// The key of stream tokens is the setting's, or the store's own: a new one ends all tokens.
#[tokio::test(flavor = "multi_thread")]
async fn stream_tokens_rest_on_their_key() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (own, with_key) = (world(store.clone(), None).await, world(store.clone(), Some(KEY)).await);
    let (a, b) = (token_of(&own, ADA, "t").await, token_of(&with_key, ADA, "t").await);
    assert_ne!(a, b);
    for (world, token, status) in [(&own, &a, 200), (&own, &b, 401), (&with_key, &a, 401), (&with_key, &b, 200)] {
        assert_eq!(view(world, "t", token).await.status, status);
    }
    // Another host on the same store, or with the same setting, takes them as well.
    assert_eq!(view(&world(store.clone(), None).await, "t", &a).await.status, 200);
    assert_eq!(view(&world(store.clone(), Some(KEY)).await, "t", &b).await.status, 200);
    // A key that is none is an error of whoever configures; it signs nothing.
    for key in ["", "sesame", "0011", "001122334455667788990011223344", "é"] {
        let world = world(store.clone(), Some(key)).await;
        let request = Request::post(world.route("t", "stream-token"), &json!({}));
        assert_eq!(code(&ask_as(&world, ADA, request).await), (503, "unavailable".into()), "{key}");
        let request = Request::get(world.route("t", &format!("stream?token={a}")));
        assert_eq!(code(&ask(&world, request).await), (503, "unavailable".into()), "{key}");
    }
}
