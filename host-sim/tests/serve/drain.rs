//! How a server stops.

use std::time::Duration;

use host_sim::http::ServeOptions;
use serde_json::json;

use super::client::{Client, ask, soon, stream, submit};
use super::served::{Served, options};

/// Shows A22.
#[tokio::test(flavor = "multi_thread")]
async fn a_drained_server_finishes_what_runs_and_takes_nothing_new() {
    let mut served = Served::start(options()).await;
    let id = submit(served.addr, "t", "k1", "late", &[]).await.json()["id"].as_str().expect("an id").to_owned();
    let mut viewer = stream(served.addr, "t", "?after=0", &[]).await;
    let mut kept = Client::open(served.addr).await;
    assert_eq!(kept.ask("GET /readyz", &[], b"").await.status, 200);
    served.drain.begin();
    let ready = kept.ask("GET /readyz", &[], b"").await;
    assert_eq!((ready.status, ready.json()), (503, json!({"status": "draining"})));
    let refused = submit(served.addr, "t", "k2", "hi", &[]).await;
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("draining")));
    assert_eq!(refused.header("retry-after"), Some("5"));
    let deleted = ask(served.addr, "DELETE /v1/agents/helper/threads/t", &[], b"").await;
    assert_eq!(deleted.status, 503);
    let read = kept.ask(&format!("GET /v1/submissions/{id}"), &[], b"").await;
    assert_eq!((read.status, &read.json()["state"]), (200, &json!("running")));
    // The run ends, and only then the stream.
    let mut kinds = Vec::new();
    let end = loop {
        let event = viewer.event().await.expect("a last word");
        if event.kind == "end" {
            break event;
        }
        kinds.push(event.kind);
    };
    assert_eq!((kinds.last().map(String::as_str), &end.data["reason"]), (Some("settled"), &json!("drain")));
    assert_eq!(viewer.event().await, None);
    soon("the end", &mut served.running).await.expect("no panic");
    assert!(tokio::net::TcpStream::connect(served.addr).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_too_long_is_left_for_the_next_start() {
    let mut served = Served::start(ServeOptions { drain: Duration::from_millis(500), ..options() }).await;
    let mut waiting = Client::open(served.addr).await;
    let path = "POST /v1/agents/helper/threads/t/submissions";
    waiting.send(path, &["prefer: wait=60", "idempotency-key: k1"], br#"{"message":"never"}"#).await;
    // It has been accepted when it can be seen.
    super::client::until("the thread", async || {
        (ask(served.addr, "GET /v1/agents/helper/threads/t", &[], b"").await.status == 200).then_some(())
    })
    .await;
    let mut viewer = stream(served.addr, "t", "?after=0", &[]).await;
    served.drain.begin();
    let mut end = viewer.event().await.expect("a last word");
    while end.kind != "end" {
        end = viewer.event().await.expect("a last word");
    }
    assert_eq!(end.data["reason"], "drain");
    // Who waits gets the receipt.
    let receipt = waiting.answer().await.expect("an answer");
    assert_eq!((receipt.status, &receipt.json()["state"]), (202, &json!("queued")));
    soon("the end", &mut served.running).await.expect("no panic");
    soon("the host's end", served.host.clone().shutdown()).await;
}
