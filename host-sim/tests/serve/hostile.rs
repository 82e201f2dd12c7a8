//! Input that no decent client sends. Each gets an error or a closed connection, nothing panics, and the next decent
//! client is served.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use host_sim::http::ServeOptions;
use serde_json::json;

use super::client::{Client, TOKEN, ask, submit};
use super::served::{Served, options};

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics of this process, wherever they are.
fn count_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let here = panic.location().is_some_and(|at| at.file().contains("tests/serve"));
            PANICS.fetch_add(usize::from(!here), Ordering::SeqCst);
            hook(panic);
        }));
    });
}

fn head(line: &str, more: &str) -> Vec<u8> {
    format!("{line}\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n{more}\r\n").into_bytes()
}

fn post(body: &[u8]) -> Vec<u8> {
    let line = "POST /v1/agents/helper/threads/hostile/submissions HTTP/1.1";
    [head(line, &format!("content-length: {}\r\n", body.len())), body.to_vec()].concat()
}

/// Name, bytes, and the statuses that are right; none: the connection is closed without a word.
fn cases() -> Vec<(&'static str, Vec<u8>, &'static [u16])> {
    let many_headers: String = (0..10_000).map(|n| format!("x-{n}: y\r\n")).collect();
    let get = "GET /v1/agents HTTP/1.1";
    vec![
        ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[]),
        ("zeros", vec![0; 100_000], &[400]),
        ("no end of line", vec![b'A'; 1 << 20], &[400, 431]),
        ("10,000 headers", head(get, &many_headers), &[431]),
        ("300 headers", head(get, &many_headers[..300 * 8]), &[431]),
        ("a header of 1 MB", head(get, &format!("x: {}\r\n", "y".repeat(1 << 20))), &[431]),
        ("a path of 60 KB", head(&format!("GET /{} HTTP/1.1", "x".repeat(60_000)), ""), &[414]),
        ("a path that is not UTF-8", [&b"GET /\xff\xfe HTTP/1.1\r\n"[..], &head("x: y", "")].concat(), &[400]),
        ("escapes that are not UTF-8", head("GET /%ff%fe HTTP/1.1", ""), &[400]),
        ("broken escapes", head("GET /%zz HTTP/1.1", ""), &[400]),
        ("a header that is not UTF-8", [&b"GET / HTTP/1.1\r\nx: \xff\r\n"[..], &head("y: z", "")].concat(), &[400]),
        ("a header with a zero", head(get, "x: a\0b\r\n"), &[400]),
        ("a folded header", head(get, "x: a\r\n b\r\n"), &[400]),
        ("a space before the colon", head(get, "x : a\r\n"), &[400]),
        ("two lengths", head("POST / HTTP/1.1", "content-length: 1\r\ncontent-length: 2\r\n"), &[400]),
        ("a negative length", head("POST / HTTP/1.1", "content-length: -1\r\n"), &[400]),
        ("a huge length", head("POST / HTTP/1.1", "content-length: 99999999999999999999\r\n"), &[400]),
        ("an odd encoding", head("POST / HTTP/1.1", "transfer-encoding: gzip\r\n"), &[400]),
        (
            "a broken chunk",
            [head("POST /v1/agents HTTP/1.1", "transfer-encoding: chunked\r\n"), b"zz\r\n".to_vec()].concat(),
            &[400],
        ),
        (
            "a huge chunk",
            [head("POST / HTTP/1.1", "transfer-encoding: chunked\r\n"), b"ffffffffffffffff0\r\n".to_vec()].concat(),
            &[400],
        ),
        ("CONNECT", head("CONNECT evil.example:80 HTTP/1.1", ""), &[400, 403]),
        ("OPTIONS *", head("OPTIONS * HTTP/1.1", ""), &[400]),
        ("another host's target", head("GET http://evil.example/ HTTP/1.1", ""), &[403]),
        ("an odd method", head("BREW /v1/agents HTTP/1.1", ""), &[405]),
        ("a long method", head(&format!("{} / HTTP/1.1", "A".repeat(10_000)), ""), &[400]),
        ("an unknown version", head("GET / HTTP/7.1", ""), &[400]),
        ("a body that is not UTF-8", post(b"{\"message\": \"\xff\xfe\"}"), &[422]),
        ("no JSON", post(b"message=hi"), &[422]),
        ("JSON 10,000 deep", post(format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)).as_bytes()), &[422]),
        (
            "objects 10,000 deep",
            post(format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000)).as_bytes()),
            &[422],
        ),
        (
            "a message 10,000 deep",
            post(format!("{{\"message\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000)).as_bytes()),
            &[422],
        ),
        ("a number beyond all bounds", post(br#"{"message":"x","options":{"deadline_ms":1e999}}"#), &[422]),
        ("a number of 100,000 digits", post(format!("{{\"message\":{}}}", "9".repeat(100_000)).as_bytes()), &[422]),
        ("half a surrogate", post(br#"{"message":"\ud800"}"#), &[422]),
        ("a key given twice", post(br#"{"message":"x","message":"y"}"#), &[422]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_input_hurts_nobody_else() {
    count_panics();
    let served = Served::start(ServeOptions { head: Duration::from_secs(3), ..options() }).await;
    let mut all = Vec::new();
    for (name, bytes, right) in cases() {
        let mut client = Client::open(served.addr).await;
        client.raw(&bytes).await;
        let answer = client.answer().await.map(|answer| answer.status);
        if !answer.map_or(right.is_empty(), |status| right.contains(&status)) {
            all.push(format!("{name}: {answer:?}, right is {right:?}"));
        }
        let healthy = ask(served.addr, "GET /healthz", &[], b"").await;
        assert_eq!(healthy.status, 200, "after {name}");
    }
    assert!(all.is_empty(), "{all:#?}");
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
    let decent = submit(served.addr, "t", "k1", "hi", &["prefer: wait=60"]).await;
    assert_eq!(decent.json()["outcome"]["text"], "Hello.");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_slow_or_stops_in_the_middle_is_let_go() {
    count_panics();
    let slow = ServeOptions { head: Duration::from_millis(300), body: Duration::from_millis(300), ..options() };
    let served = Served::start(slow).await;
    let began = std::time::Instant::now();
    // Nothing at all, half a head, a head that trickles, and a connection that idles after a request.
    assert!(Client::open(served.addr).await.rest().await.is_empty());
    let mut half = Client::open(served.addr).await;
    half.raw(b"GET / HTTP/1.1\r\nhost: loc").await;
    assert!(half.rest().await.is_empty());
    let mut trickle = Client::open(served.addr).await;
    for byte in b"GET / HTTP/1.1\r\nhost: localhost\r\nx: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
    {
        trickle.raw(&[*byte]).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(trickle.rest().await.is_empty());
    let mut idle = Client::open(served.addr).await;
    assert_eq!(idle.ask("GET /healthz", &[], b"").await.status, 200);
    assert!(idle.rest().await.is_empty());
    // A body that doesn't come.
    let mut body = Client::open(served.addr).await;
    body.send("POST /v1/agents/helper/threads/t/submissions", &["content-length: 100"], b"").await;
    let answer = body.answer().await.expect("an answer");
    assert_eq!((answer.status, &answer.json()["code"]), (408, &json!("too-slow")));
    assert!(body.rest().await.is_empty());
    assert!(began.elapsed() < Duration::from_secs(20));
    // A body that breaks off.
    let mut cut = Client::open(served.addr).await;
    cut.send("POST /v1/agents/helper/threads/t/submissions", &["content-length: 100"], b"").await;
    cut.raw(b"{\"mess").await;
    drop(cut);
    assert_eq!(ask(served.addr, "GET /v1/agents/helper/threads/t", &[], b"").await.status, 404);
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let served = Served::start(options()).await;
    let mut client = Client::open(served.addr).await;
    let mut all = Vec::new();
    for path in ["/healthz", "/nothing", "/readyz", "/v1/agents"] {
        all.extend(head(&format!("GET {path} HTTP/1.1"), ""));
    }
    all.extend(post(br#"{"message":"hi"}"#));
    client.raw(&all).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(client.answer().await.expect("an answer").status);
    }
    assert_eq!(statuses, [200, 404, 200, 200, 202]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_wait_for_their_turn() {
    let served = Served::start(ServeOptions { connections: 2, ..options() }).await;
    let mut one = Client::open(served.addr).await;
    let mut two = Client::open(served.addr).await;
    for client in [&mut one, &mut two] {
        assert_eq!(client.ask("GET /healthz", &[], b"").await.status, 200);
    }
    let mut three = Client::open(served.addr).await;
    three.send("GET /healthz", &[], b"").await;
    let early = tokio::time::timeout(Duration::from_millis(300), three.head()).await;
    assert!(early.is_err(), "a third connection was served beside two");
    drop(one);
    assert_eq!(three.head().await.expect("an answer").status, 200);
}
