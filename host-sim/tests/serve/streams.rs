//! Streams of the real component.

use std::sync::Arc;
use std::time::{Duration, Instant};

use host_sim::http::ServeOptions;
use host_sim::store::memory::MemoryStore;

use super::client::{Client, Event, TOKEN, ask, stream, submit, until};
use super::served::{Served, options};

/// Events up to the one that settles a submission.
async fn up_to_settled(client: &mut Client) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let event = client.event().await.expect("more events");
        let settled = event.kind == "settled";
        events.push(event);
        if settled {
            return events;
        }
    }
}

fn texts(events: &[Event]) -> usize {
    events.iter().filter(|event| event.kind == "text").count()
}

/// Shows A21.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_seen_live_is_what_is_seen_later() {
    let served = Served::start(options()).await;
    let id = submit(served.addr, "t", "k1", "long", &[]).await.json()["id"].as_str().expect("an id").to_owned();
    let mut viewer = stream(served.addr, "t", "?after=0", &[]).await;
    let first_text = async {
        loop {
            let event = viewer.event().await.expect("more events");
            if event.kind == "text" {
                return event;
            }
        }
    }
    .await;
    // It comes while the model is still speaking.
    let now = ask(served.addr, &format!("GET /v1/submissions/{id}"), &[], b"").await;
    assert_eq!(now.json()["state"], "running");
    let mut live = vec![first_text];
    live.extend(up_to_settled(&mut viewer).await);
    assert!(texts(&live) >= 4, "{live:?}");
    assert!(live.windows(2).all(|pair| pair[0].id < pair[1].id), "{live:?}");

    let later = up_to_settled(&mut stream(served.addr, "t", "?after=0", &[]).await).await;
    assert_eq!(live, later[later.len() - live.len()..]);
    assert!(later.iter().all(|event| event.data["type"] == event.kind));
    // Whatever place it is taken up from, nothing is missing and nothing comes twice.
    for at in [0, later.len() / 2, later.len() - 2] {
        let seen = later[at].id.expect("a number");
        let last = format!("last-event-id: {seen}");
        let rest = up_to_settled(&mut stream(served.addr, "t", "?after=0", &[&last]).await).await;
        assert_eq!(rest, later[at + 1..]);
        let rest = up_to_settled(&mut stream(served.addr, "t", &format!("?after={seen}"), &[]).await).await;
        assert_eq!(rest, later[at + 1..]);
    }
    // The stream of a submission ends by itself, with its outcome as the last word.
    let mut of_it = stream(served.addr, "t", &format!("?submission={id}"), &[]).await;
    let events = up_to_settled(&mut of_it).await;
    assert_eq!(events.last().expect("events").data["submission"], id.as_str());
    assert_eq!(of_it.event().await, None);
    // The next turn goes on counting, and the viewer is still there.
    submit(served.addr, "t", "k2", "hi", &[]).await;
    let second = up_to_settled(&mut viewer).await;
    assert!(second[0].id > later.last().expect("events").id, "{second:?}");
}

/// Shows B30.
#[tokio::test(flavor = "multi_thread")]
async fn what_happens_while_nobody_watches_is_seen_by_who_comes_then() {
    let served = Served::start(options()).await;
    submit(served.addr, "t", "k1", "long", &[]).await;
    // Again and again in the middle of an answer: each sees at once what there is, not with the next piece.
    let mut last = 0;
    until("the end", async || {
        let mut viewer = stream(served.addr, "t", &format!("?after={last}"), &[]).await;
        let event = viewer.event().await.expect("an event");
        assert!(event.id > Some(last), "{event:?} after {last}");
        last = event.id.expect("a number");
        (event.kind == "settled").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fast_model_is_told_in_pieces_of_a_twentieth_of_a_second() {
    let served = Served::start(options()).await;
    let began = Instant::now();
    submit(served.addr, "t", "k1", "fast", &[]).await;
    let events = up_to_settled(&mut stream(served.addr, "t", "?after=0", &[]).await).await;
    let most = began.elapsed().as_millis() as usize / 50 + 1;
    assert!((1..=most).contains(&texts(&events)), "{} pieces, {most} at most", texts(&events));
    let text: String = events.iter().filter_map(|event| event.data["text"].as_str()).collect();
    assert!("0123456789".repeat(10).starts_with(&text), "{text}");
}

/// Its hub hears nothing of what another host does to the same store.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_hint_costs_a_heartbeat() {
    let store = Arc::new(MemoryStore::default());
    let often = ServeOptions { heartbeat: Duration::from_millis(100), ..options() };
    let here = Served::with(often, store.clone(), Some(TOKEN)).await;
    let there = Served::with(options(), store, Some(TOKEN)).await;
    submit(there.addr, "t", "k1", "hi", &["prefer: wait=60"]).await;
    let mut viewer = stream(here.addr, "t", "?after=0", &[]).await;
    up_to_settled(&mut viewer).await;
    submit(there.addr, "t", "k2", "hi", &["prefer: wait=60"]).await;
    up_to_settled(&mut viewer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_was_never_given_is_refused() {
    let served = Served::start(options()).await;
    submit(served.addr, "t", "k1", "hi", &["prefer: wait=60"]).await;
    let path = "GET /v1/agents/helper/threads/t/stream";
    let status =
        async |query: &str, header: &str| ask(served.addr, &format!("{path}{query}"), &[header], b"").await.status;
    assert_eq!(status("?after=999999", "x: y").await, 422);
    assert_eq!(status("?after=x", "x: y").await, 422);
    assert_eq!(status("", "last-event-id: 999999").await, 422);
    assert_eq!(status("", "last-event-id: ../1").await, 422);
    assert_eq!(status("?submission=3f-unknown", "x: y").await, 404);
    let elsewhere = ask(served.addr, "GET /v1/agents/helper/threads/other/stream?after=1", &[], b"").await;
    assert_eq!(elsewhere.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_token_opens_the_streams_of_its_thread_only() {
    let served = Served::start(options()).await;
    for thread in ["t", "u"] {
        submit(served.addr, thread, "k1", "hi", &["prefer: wait=60"]).await;
    }
    let token = ask(served.addr, "POST /v1/agents/helper/threads/t/stream-token", &[], b"").await.json();
    let token = token["token"].as_str().expect("a token");
    let mut client = Client::open(served.addr).await;
    let head = |thread: &str| {
        let path = format!("/v1/agents/helper/threads/{thread}/stream?after=0&token={token}");
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
    };
    client.raw(head("t").as_bytes()).await;
    assert_eq!(client.head().await.expect("an answer").status, 200);
    assert!(client.event().await.is_some());
    let mut client = Client::open(served.addr).await;
    client.raw(head("u").as_bytes()).await;
    assert_eq!(client.answer().await.expect("an answer").status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_deleted_thread_ends_with_a_word() {
    let served = Served::start(options()).await;
    submit(served.addr, "t", "k1", "hi", &["prefer: wait=60"]).await;
    let mut viewer = stream(served.addr, "t", "?after=0", &[]).await;
    let last = up_to_settled(&mut viewer).await.pop().and_then(|event| event.id);
    assert_eq!(ask(served.addr, "DELETE /v1/agents/helper/threads/t", &[], b"").await.status, 202);
    let mut end = viewer.event().await.expect("a last word");
    while end.kind != "end" {
        assert!(end.id > last, "{end:?}");
        end = viewer.event().await.expect("a last word");
    }
    assert_eq!((end.id, &end.data["reason"]), (None, &"gone".into()));
    assert_eq!(viewer.event().await, None);
}
