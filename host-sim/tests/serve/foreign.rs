//! A component that does odd things: the test guest.

use std::time::Duration;

use host_sim::http::ServeOptions;
use serde_json::json;
use tokio::net::TcpSocket;

use super::client::{Client, ask, until};
use super::kit::Kit;
use super::served::{Served, options};

async fn kit() -> Kit {
    tokio::task::spawn_blocking(super::kit::engine).await.expect("the guest is built");
    Kit::new()
}

async fn served(options: ServeOptions) -> Served {
    Served::over(kit().await.host, options).await
}

async fn stream(served: &Served, feed: &str) -> Client {
    let mut client = Client::open(served.addr).await;
    client.send(&format!("GET /stream/{feed}"), &[], b"").await;
    assert_eq!(client.head().await.expect("an answer").status, 200);
    client
}

/// Shows A22.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_a_word_whatever_ends_it() {
    let served = served(options()).await;
    let mut whole = stream(&served, "feed").await;
    assert_eq!(whole.block().await.as_deref(), Some("data: {}"));
    assert_eq!(whole.block().await, None);
    let mut gone = stream(&served, "goes").await;
    assert_eq!(gone.event().await.map(|event| (event.id, event.kind)), Some((Some(8), "last".into())));
    assert_eq!(gone.event().await.map(|event| event.data), Some(json!({"type": "end", "reason": "gone"})));
    assert_eq!(gone.event().await, None);
    for feed in ["breaks", "traps"] {
        let mut broken = stream(&served, feed).await;
        assert_eq!(
            broken.event().await.map(|event| event.data),
            Some(json!({"type": "end", "reason": "error"})),
            "{feed}"
        );
        assert_eq!(broken.event().await, None);
    }
    assert_eq!(ask(served.addr, "GET /echo", &[], b"").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_stream_shows_that_it_lives() {
    let served = served(ServeOptions { heartbeat: Duration::from_millis(50), ..options() }).await;
    let mut quiet = stream(&served, "quiet").await;
    for _ in 0..3 {
        assert!(quiet.block().await.expect("a comment").starts_with(':'));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_is_dropped_and_may_come_again() {
    let served = served(ServeOptions { stall: Duration::from_millis(300), streams: 1, ..options() }).await;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut idle = Client::over(socket.connect(served.addr).await.expect("it listens"));
    idle.send("GET /stream/flood", &[], b"").await;
    assert_eq!(idle.head().await.expect("an answer").status, 200);
    // It holds the only place until it is found to take nothing.
    let next = async || {
        let mut client = Client::open(served.addr).await;
        client.send("GET /stream/flood", &[], b"").await;
        client.head().await.map(|head| (head.status, head.header("retry-after").map(str::to_owned), client))
    };
    let (status, retry, _) = next().await.expect("an answer");
    assert_eq!((status, retry.as_deref()), (503, Some("1")));
    let mut again = until("the place", async || next().await.filter(|(status, ..)| *status == 200)).await.2;
    // Who takes what comes is not dropped, however much it is.
    for n in 0..2_000 {
        assert_eq!(again.event().await.and_then(|event| event.id), Some(8 + n));
    }
    // The first one got what the sockets held, and then the connection ended in the middle.
    let held = idle.rest().await;
    assert!(!held.is_empty() && !held.ends_with(b"0\r\n\r\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_gives_its_place_back() {
    let served = served(ServeOptions { streams: 1, ..options() }).await;
    for feed in ["quiet", "flood", "quiet"] {
        drop(
            until("the place", async || {
                let mut client = Client::open(served.addr).await;
                client.send(&format!("GET /stream/{feed}"), &[], b"").await;
                client.head().await.filter(|head| head.status == 200).map(|_| client)
            })
            .await,
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_its_feed_or_in_time() {
    let served = served(options()).await;
    let then = |feed: &str| format!("POST /wait/{feed}");
    // The guest's `/echo` shows that the headers came along.
    let ended = ask(served.addr, &then("feed"), &["x-mine: kept"], b"/echo").await;
    assert_eq!((ended.header("x-mine"), ended.body.as_slice()), (Some("kept"), &b"nobody "[..]));
    let began = std::time::Instant::now();
    for feed in ["quiet", "breaks"] {
        let late = ask(served.addr, &then(feed), &[], b"/echo").await;
        assert_eq!(late.body, b"not yet", "{feed}");
    }
    assert!(began.elapsed() >= Duration::from_secs(2));
    // Its end can't be asked for: what was said first stays true.
    let lost = ask(served.addr, &then("feed"), &[], b"/bad-status").await;
    assert_eq!((lost.status, lost.body.as_slice()), (200, &b"not yet"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_of_the_component_breaks_the_framing() {
    let served = served(options()).await;
    let mut client = Client::open(served.addr).await;
    for _ in 0..2 {
        let answer = client.ask("GET /framing", &[], b"").await;
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"whole"[..]));
        assert_eq!((answer.header("x-good"), answer.header("x-more")), (Some("kept"), None));
        for path in ["/bad-status", "/switch"] {
            let answer = client.ask(&format!("GET {path}"), &[], b"").await;
            assert_eq!((answer.status, &answer.json()["code"]), (500, &json!("contract")), "{path}");
        }
    }
    let trapped = client.ask("POST /trap", &[], b"a secret of the component").await;
    assert_eq!((trapped.status, &trapped.json()["code"]), (500, &json!("trapped")));
    assert!(!String::from_utf8_lossy(&trapped.body).contains("secret"));
    assert!(trapped.json()["detail"].as_str().expect("a text").contains("same idempotency key"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_caller_leaves_is_answered_to_its_end() {
    let mut kit = kit().await;
    let served = Served::over(kit.host.clone(), ServeOptions { requests: 1, ..options() }).await;
    let mut leaver = Client::open(served.addr).await;
    leaver.send("POST /tools", &[], b"gate").await;
    kit.seen.expect("gate").await;
    let busy = async || {
        let answer = ask(served.addr, "GET /echo", &[], b"").await;
        (answer.status == 503).then(|| answer.json()["code"].clone())
    };
    assert_eq!(busy().await, Some(json!("busy")));
    drop(leaver);
    // Were it dropped with its caller, its place would be free soon.
    for _ in 0..20 {
        assert!(busy().await.is_some());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    kit.tools.gate.add_permits(1);
    until("the place", async || busy().await.is_none().then_some(())).await;
    assert_eq!(kit.tools.gate.available_permits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_a_request_that_was_let_in_before() {
    let mut kit = kit().await;
    let mut served = Served::over(kit.host.clone(), options()).await;
    let mut slow = Client::open(served.addr).await;
    slow.send("POST /tools", &["content-length: 4", "expect: 100-continue"], b"").await;
    assert_eq!(slow.head().await.map(|head| head.status), Some(100));
    let mut called = Client::open(served.addr).await;
    called.send("POST /tools", &[], b"gate").await;
    kit.seen.expect("gate").await;
    served.drain.begin();
    until("the drain", async || (ask(served.addr, "GET /readyz", &[], b"").await.status == 503).then_some(())).await;
    for _ in 0..20 {
        assert!(!served.running.is_finished());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    kit.tools.gate.add_permits(2);
    slow.raw(b"gate").await;
    for client in [&mut slow, &mut called] {
        assert_eq!(client.answer().await.expect("an answer").body, b"0:passed");
    }
    super::client::soon("the end", &mut served.running).await.expect("no panic");
}
