//! Requests and answers.

use serde_json::json;

use super::client::{Client, TOKEN, ask, submit, until};
use super::served::{Served, options};

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_is_accepted_waited_for_and_replayed_by_its_key() {
    let served = Served::start(options()).await;
    let first = submit(served.addr, "t", "k1", "hi", &[]).await;
    assert_eq!(first.status, 202, "{first:?}");
    let id = first.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(first.header("location"), Some(format!("/v1/submissions/{id}").as_str()));
    let record = until("the outcome", async || {
        let record = ask(served.addr, &format!("GET /v1/submissions/{id}"), &[], b"").await;
        (record.json()["state"] == "settled").then_some(record)
    })
    .await;
    assert_eq!(record.json()["outcome"]["text"], "Hello.");
    let again = submit(served.addr, "t", "k1", "hi", &[]).await;
    assert_eq!((again.status, again.body), (200, record.body));
    let other = submit(served.addr, "t", "k1", "ho", &[]).await;
    assert_eq!((other.status, &other.json()["field"]), (409, &json!("message")));
    assert_eq!(other.header("content-type"), Some("application/problem+json"));
}

/// Shows B30.
#[tokio::test(flavor = "multi_thread")]
async fn a_preferred_wait_is_answered_with_the_outcome_or_in_time_without() {
    let served = Served::start(options()).await;
    let waited = submit(served.addr, "t", "k1", "late", &["prefer: wait=60"]).await;
    assert_eq!((waited.status, &waited.json()["outcome"]["text"]), (200, &json!("Here I am.")));
    let began = std::time::Instant::now();
    let receipt = submit(served.addr, "u", "k2", "never", &["prefer: wait=1"]).await;
    assert_eq!(receipt.status, 202, "{receipt:?}");
    assert!(began.elapsed() >= std::time::Duration::from_secs(1));
    // Who leaves while waiting cancels nothing.
    let mut leaver = Client::open(served.addr).await;
    let body = br#"{"message":"late"}"#;
    leaver
        .send("POST /v1/agents/helper/threads/v/submissions", &["prefer: wait=60", "idempotency-key: k3"], body)
        .await;
    until("the thread", async || {
        (ask(served.addr, "GET /v1/agents/helper/threads/v", &[], b"").await.status == 200).then_some(())
    })
    .await;
    drop(leaver);
    let outcome = submit(served.addr, "v", "k3", "late", &["prefer: wait=60"]).await;
    assert_eq!((outcome.status, &outcome.json()["outcome"]["status"]), (200, &json!("completed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_without_a_token_and_the_open_routes_stay_open() {
    let store = std::sync::Arc::new(host_sim::store::memory::MemoryStore::default());
    let closed = Served::with(options(), store, None).await;
    let refused = ask(closed.addr, "GET /v1/agents", &[], b"").await;
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("no-client-token")));
    assert_eq!(ask(closed.addr, "GET /healthz", &[], b"").await.status, 200);

    let served = Served::start(options()).await;
    for token in ["", "Basic abc", "Bearer", "Bearer wrong", &format!("Bearer {TOKEN}x")] {
        let mut client = Client::open(served.addr).await;
        let head = format!("GET /v1/agents HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\n\r\n");
        client.raw(head.as_bytes()).await;
        let answer = client.answer().await.expect("an answer");
        assert_eq!(answer.status, 401, "{token}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("wrong"));
    }
    assert_eq!(ask(served.addr, "GET /v1/agents", &[], b"").await.status, 200);
    let ready = ask(served.addr, "GET /readyz", &[], b"").await;
    assert_eq!((ready.status, ready.json()), (200, json!({"status": "ready"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_an_id_and_is_not_sniffed() {
    let served = Served::start(options()).await;
    for path in ["/healthz", "/readyz", "/nothing", "/v1/agents"] {
        let answer = ask(served.addr, &format!("GET {path}"), &[], b"").await;
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("x-request-id").map(str::len), Some(16), "{path}");
        let named = ask(served.addr, &format!("GET {path}"), &["x-request-id: mine-7"], b"").await;
        assert_eq!(named.header("x-request-id"), Some("mine-7"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_told_with_limit_and_size() {
    let served = Served::start(options()).await;
    let path = "POST /v1/agents/helper/threads/t/submissions";
    let mut fits = br#"{"message":"hi"}"#.to_vec();
    fits.resize(262_144, b' ');
    assert_eq!(ask(served.addr, path, &[], &fits).await.status, 202);
    for size in [262_145, 3 << 20] {
        let mut client = Client::open(served.addr).await;
        // Who sends first and then listens gets to listen.
        assert!(client.send(path, &[], &vec![b'x'; size]).await);
        let answer = client.answer().await.expect("an answer");
        assert_eq!(answer.status, 413);
        let problem = answer.json();
        assert_eq!((&problem["code"], &problem["status"]), (&json!("too-large"), &json!(413)));
        assert_eq!((&problem["limit"], &problem["value"]), (&json!(262_144), &json!(size)));
        let detail = problem["detail"].as_str().expect("a text");
        assert!(detail.contains("262144") && detail.contains(&size.to_string()), "{detail}");
    }
    // Without a length, its size is not known.
    let mut client = Client::open(served.addr).await;
    client.send(path, &["transfer-encoding: chunked"], b"").await;
    for _ in 0..5 {
        client.raw(format!("10000\r\n{}\r\n", "x".repeat(0x10000)).as_bytes()).await;
    }
    client.raw(b"0\r\n\r\n").await;
    let answer = client.answer().await.expect("an answer");
    assert_eq!((answer.status, answer.json().get("value")), (413, None));
    // Who asks first is refused before anything is sent.
    let mut client = Client::open(served.addr).await;
    client.send(path, &["expect: 100-continue", "content-length: 300000"], b"").await;
    assert_eq!(client.head().await.expect("an answer").status, 413);
    // Headers, and a path.
    let many: Vec<String> = (0..127).map(|n| format!("x-{n}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let answer = ask(served.addr, "GET /healthz", &many, b"").await;
    assert_eq!((answer.status, &answer.json()["limit"], &answer.json()["value"]), (431, &json!(128), &json!(129)));
    assert_eq!(ask(served.addr, "GET /healthz", &many[1..], b"").await.status, 200);
    let answer = ask(served.addr, &format!("GET /{}", "x".repeat(8192)), &[], b"").await;
    assert_eq!((answer.status, &answer.json()["limit"]), (414, &json!(8192)));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_and_other_names_are_refused_on_loopback() {
    let served = Served::start(options()).await;
    let ask = async |headers: &str| {
        let mut client = Client::open(served.addr).await;
        client.raw(format!("GET /healthz HTTP/1.1\r\n{headers}\r\n").as_bytes()).await;
        client.answer().await.expect("an answer")
    };
    for good in ["host: localhost\r\n", "host: 127.0.0.1:1\r\norigin: http://localhost:3000\r\n"] {
        assert_eq!(ask(good).await.status, 200, "{good}");
    }
    let rebound = ask("host: evil.example:8787\r\n").await;
    assert_eq!((rebound.status, &rebound.json()["code"]), (403, &json!("foreign-host")));
    let crossed = ask("host: localhost\r\norigin: https://evil.example\r\n").await;
    assert_eq!((crossed.status, &crossed.json()["code"]), (403, &json!("foreign-origin")));
    assert_eq!(ask("").await.status, 400);
}
