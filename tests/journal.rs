//! A thread's journal: its numbers, its gaps, and what becomes of it in crashes, takeovers and deletions.
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use host_sim::data::Request;
use host_sim::store::memory::MemoryStore;
use host_sim::store::{Guard, Store, Write};
use serde_json::{Value, json};
use writ_tests::{Appends, AppendsStore, Frame, Gate, Setup, Viewer, World, gap, host, until};

const TEXT: &str = "The order is paid, and it is on its way to you.";

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "look"
text = "Let me look."
calls = [{ name = "look" }, { name = "look" }]
[[answer]]
text = "The order is paid, and it is on its way to you."
chunks = 10
[[tool]]
name = "look"
reply = "seen"
"#;

fn kinds(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|(_, event)| event["type"].as_str().expect("a type")).collect()
}

fn numbers(frames: &[Frame]) -> Vec<u64> {
    frames.iter().map(|(n, _)| *n).collect()
}

/// The slots of all journals, as stored.
async fn slots(store: &dyn Store) -> Vec<(String, Vec<u8>)> {
    let all = store.dump().await.expect("a dump");
    all.into_iter().filter(|(key, _)| key.contains("/j/")).collect()
}

/// A world whose answer in thread `t` has shown three pieces and waits for the fourth.
async fn in_an_answer(store: Arc<dyn Store>) -> (World, Arc<Gate>, String) {
    let mut world = Setup::new(SCRIPT).store(store).world().await;
    let gate = Gate::close(&mut world).await;
    let before = world.store.calls().appends;
    let id = world.accept("t", "k", "hi").await;
    gate.let_go(3);
    until(|| world.store.calls().appends == before + 3).await;
    (world, gate, id)
}

/// Another host on the store of a world takes over what is pending, and ends it.
async fn take_over(world: &mut World) {
    world.host = host(&world.parts).await;
    assert_eq!(world.host.sweep().await.expect("a sweep"), 1);
    world.host.settled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_rise_by_one_over_turns_and_tools() {
    let world = World::new(SCRIPT).await;
    let mut last = 0;
    for (turn, message) in ["look", "hi", "look"].into_iter().enumerate() {
        let id = world.ask("t", &turn.to_string(), message).await["id"].clone();
        let seen = world.seen("t", &format!("?after={last}")).await;
        let tool = ["attempt", "messages", "text", "messages", "messages", "text", "messages", "settled"];
        let plain = ["attempt", "messages", "text", "messages", "settled"];
        let expected: &[&str] = if message == "look" { &tool } else { &plain };
        let mut shown = kinds(&seen.frames);
        // Results are stored as they end: two in one commit, or each in its own.
        shown.dedup_by(|a, b| a == b && *a == "messages");
        let mut expected = expected.to_vec();
        expected.dedup_by(|a, b| a == b && *a == "messages");
        assert_eq!(shown, expected, "{:#?}", seen.frames);
        assert!(seen.frames.iter().all(|(_, event)| event["submission"] == id), "{:#?}", seen.frames);
        assert_eq!(seen.numbers(), (last + 1..=last + seen.frames.len() as u64).collect::<Vec<u64>>());
        last += seen.frames.len() as u64;
        assert_eq!(world.last_number("t").await, last);
    }
    // Every message of the transcript was told once, whole, under its number; results as they ended.
    let journal = world.journal("t").await;
    let mut told: Vec<Value> = journal
        .of("messages")
        .iter()
        .flat_map(|event| event["messages"].as_array().expect("messages").clone())
        .collect();
    told.sort_by_key(|message| message["number"].as_u64());
    let stored = world.messages("t").await;
    assert_eq!(told.iter().map(|m| &m["message"]).collect::<Vec<_>>(), stored.iter().collect::<Vec<_>>());
    assert!(told.iter().enumerate().all(|(n, m)| m["number"] == n && m["role"] == stored[n]["role"]), "{told:#?}");
    // Who reads the transcript learns from where to go on.
    let page = world.send(Request::get(world.route("t", "messages"))).await.json().expect("JSON");
    assert_eq!(page["journal"], last);
    world.check().await;
}

/// Shows A21: who comes later, or comes back, sees the same events under the same numbers, each once.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_seen_live_is_what_is_seen_later() {
    let (world, gate, id) = in_an_answer(Arc::new(MemoryStore::new())).await;
    let mut published = world.host.watch();
    let mut live = world.viewer("t", "?after=0").await;
    for pieces in 3..10 {
        live.look(&world.host).await.expect("the stream is there");
        assert_eq!(live.of("text").len(), pieces, "{:#?}", live.frames);
        assert!(TEXT.starts_with(&live.grown(1, 1)), "{:#?}", live.frames);
        // Nothing new, nothing shown.
        let seen = live.frames.len();
        live.look(&world.host).await.expect("the stream is there");
        assert_eq!(live.frames.len(), seen);
        gate.let_go(1);
        until(|| world.store.calls().appends == pieces as u64 + 1).await;
    }
    gate.open();
    world.host.settled().await;
    live.look(&world.host).await.expect("the stream is there");
    assert_eq!(live.grown(1, 1), TEXT);
    assert_eq!(live.frames.last().expect("frames").1["submission"], id);

    let later = world.journal("t").await;
    assert_eq!(later.frames, live.frames);
    for limit in [1, 3, 256] {
        assert_eq!(world.event_pages("t", limit).await, live.frames);
    }
    // What is published names the same numbers, in order; only a message may be told in short.
    // The last piece from before may still have been on its way when the watch began.
    let mut heard = std::iter::from_fn(|| published.try_recv().ok()).skip_while(|shown| shown.number < 6);
    for n in 6..=live.frames.len() as u64 {
        let shown = heard.next().expect("each number is published");
        let event: Value = serde_json::from_str(&shown.event).expect("JSON");
        let stored = &live.frames[n as usize - 1].1;
        assert_eq!((shown.number, &event["type"], &event["text"]), (n, &stored["type"], &stored["text"]));
    }
    assert!(heard.next().is_none());
    world.check().await;
}

/// `?after=` and `Last-Event-ID` are the same cursor; the header is newer. Without one a stream begins now.
#[tokio::test(flavor = "multi_thread")]
async fn from_every_cursor_there_is_exactly_the_rest() {
    let world = World::new(SCRIPT).await;
    world.ask("t", "a", "look").await;
    world.ask("t", "b", "hi").await;
    let whole = world.journal("t").await;
    let last = whole.frames.len() as u64;
    for after in 0..=last {
        assert_eq!(world.seen("t", &format!("?after={after}")).await.frames, whole.frames[after as usize..]);
        let request = Request::get(world.route("t", "stream?after=1")).header("last-event-id", after.to_string());
        let host_sim::data::Body::Stream(tail) = world.send(request).await.body else { panic!("no stream") };
        assert_eq!(tail.after, after);
    }
    assert_eq!(world.viewer("t", "").await.tail.after, last);
}

/// Shows trap 17: numbers that a killed host may have used are never used again. The hole is one gap, which says how
/// long the transcript was at the next event. Row 101.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_answer_leaves_one_gap() {
    let (mut world, _gate, id) = in_an_answer(Arc::new(MemoryStore::new())).await;
    let mut live = world.viewer("t", "?after=0").await;
    live.look(&world.host).await.expect("the stream is there");
    assert_eq!(kinds(&live.frames), ["attempt", "messages", "text", "text", "text"]);
    world.host.clone().shutdown().await;
    take_over(&mut world).await;

    let whole = world.journal("t").await;
    assert_eq!(whole.frames[..5], live.frames, "what was seen stays as it was");
    assert_eq!(kinds(&whole.frames[5..]), ["gap", "attempt", "messages", "text", "messages", "settled"]);
    let next = whole.frames[6].0;
    // The message, and the notice that its attempt was interrupted.
    assert_eq!(whole.frames[5], gap(6, next - 1, 2));
    assert_eq!(whole.of("attempt")[1], &json!({"type": "attempt", "submission": id, "attempt": 2, "agent": "helper"}));
    assert_eq!(whole.grown(2, 2), TEXT);
    let numbers = whole.numbers();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    // Who comes back inside the hole, or right before it, gets the same.
    for after in [5, 6, next - 2, next - 1] {
        let seen = world.seen("t", &format!("?after={after}")).await;
        let from = if after == next - 1 { 6 } else { 5 };
        assert_eq!(seen.numbers(), numbers[from..], "after {after}");
        let rest = gap(after + 1, next - 1, 2);
        assert!(from == 6 || seen.frames[0] == rest, "{:?}", seen.frames[0]);
    }
    // The live one goes on where it was, and the next turn has no hole.
    live.look(&world.host).await.expect("the stream is there");
    assert_eq!(live.frames, whole.frames);
    world.ask("t", "next", "hi").await;
    let more = world.seen("t", &format!("?after={}", whole.tail.after)).await.numbers();
    assert_eq!(more, (whole.tail.after + 1..=whole.tail.after + 5).collect::<Vec<u64>>());
    world.check().await;
}

/// Shows trap 16: an owner that was frozen in the middle of its answer, and wakes up after another one has taken over,
/// adds nothing to the journal.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_owner_tells_nothing_any_more() {
    let (mut world, gate, id) = in_an_answer(Arc::new(MemoryStore::new())).await;
    let frozen = world.host.clone();
    take_over(&mut world).await;
    let (whole, stored) = (world.journal("t").await.frames, slots(&*world.store).await);
    let before = world.store.calls().appends;
    gate.open();
    frozen.settled().await;
    assert!(world.store.calls().appends > before, "it did not even try");
    assert_eq!(world.journal("t").await.frames, whole);
    assert_eq!(slots(&*world.store).await, stored);
    assert_eq!(world.submission(&id).await["attempt"], 2);
    world.check().await;
}

/// Shows trap 16: the same when an owner has died, and its writes come late: after a takeover, after the thread's next turns,
/// after its deletion, and when another thread has its name.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_dropped() {
    for then in ["takeover", "ended", "cancelled", "deletion", "rebirth"] {
        let late = Arc::new(AppendsStore::new(Arc::new(MemoryStore::new()), Appends::Late));
        let (mut world, _gate, id) = in_an_answer(late.clone()).await;
        world.host.clone().shutdown().await;
        // What comes late from now on is the first owner's alone.
        world = Setup::new(SCRIPT).store(late.clone()).world().await;
        match then {
            "ended" => world.clock.advance(25 * 3_600_000),
            "cancelled" => assert_eq!(world.cancel(&id).await.status, 202),
            "deletion" | "rebirth" => assert_eq!(world.delete("t").await.status, 202),
            _ => {}
        }
        world.host.sweep().await.expect("a sweep");
        world.host.settled().await;
        if then == "rebirth" {
            world.ask("t", "k", "hi").await;
        }
        let stored = slots(&*world.store).await;
        let (calls, dropped) = late.come().await;
        // Those of the run that ended well are good at any time; the first owner's three are not.
        assert!(calls >= 3 && dropped >= 3, "{then}: {dropped} of {calls} were dropped");
        let came: Vec<String> =
            slots(&*world.store).await.into_iter().filter(|slot| !stored.contains(slot)).map(|(key, _)| key).collect();
        assert_eq!(came.len() as u32, calls - dropped, "{then}: {came:?}");
        assert_eq!(dropped, 3, "{then}");
        world.check().await;
    }
}

/// Shows trap 26, A10: what is deleted leaves no slot, and the next thread of its name counts on above it.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_born_again_counts_on() {
    let world = Setup::new(SCRIPT).setting("partitions", json!(1)).world().await;
    let mut last = 0;
    for round in 0..3u64 {
        world.ask("t", "k", "look").await;
        let whole = world.journal("t").await;
        let first = whole.frames.iter().position(|(_, event)| event["type"] != "gap").expect("an event");
        assert!(whole.frames[first].0 > last, "round {round}: {:?} after {last}", whole.frames[first]);
        // One gap stands for all that came before; it was another thread's. A new thread has one message then.
        let before: Vec<Frame> = (last > 0).then(|| gap(1, whole.frames[first].0 - 1, 0)).into_iter().collect();
        let shown: Vec<Frame> = whole.frames[..first].to_vec();
        assert_eq!(numbers(&shown), numbers(&before));
        assert_eq!(kinds(&whole.frames[first..]).first(), Some(&"attempt"));
        // An old cursor is none of the new thread's events.
        let seen = world.seen("t", &format!("?after={}", last.saturating_sub(1))).await;
        assert_eq!(seen.frames[seen.frames.len() - (whole.frames.len() - first)..], whole.frames[first..]);
        last = whole.tail.after;
        let mut watching = world.viewer("t", "?after=0").await;
        assert_eq!(world.delete("t").await.status, 202);
        world.host.settled().await;
        assert_eq!(slots(&*world.store).await, []);
        assert!(watching.look(&world.host).await.is_err(), "a stream of what is gone has nothing to say");
        assert_eq!(world.send(Request::get(world.route("t", "stream?after=0"))).await.status, 404);
        assert_eq!(world.send(Request::get(world.route("t", "events"))).await.status, 404);
        world.check().await;
    }
}

/// I12: a store that loses what is queued for the journal changes no turn. Facts are told all the same, under the same
/// numbers; what is lost is a gap.
#[tokio::test(flavor = "multi_thread")]
async fn lost_pieces_change_no_turn() {
    let mut seen: Vec<(Value, Vec<String>, Viewer)> = Vec::new();
    for fate in [None, Some(Appends::Lost), Some(Appends::HalfLost)] {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let store = fate.map_or(inner.clone(), |fate| Arc::new(AppendsStore::new(inner, fate)) as Arc<dyn Store>);
        let mut world = Setup::new(SCRIPT).store(store).world().await;
        let gate = Gate::close(&mut world).await;
        let mut log = world.host.log();
        gate.open();
        let done = world.ask("t", "k", "hi").await;
        let warned = log.try_recv().is_ok_and(|line| line.text.contains("journal writes"));
        assert_eq!(warned, fate.is_some(), "{fate:?}");
        seen.push((done["outcome"].clone(), world.transcript("t").await, world.journal("t").await));
        world.check().await;
    }
    let (outcome, transcript, sound) = &seen[0];
    let facts = |viewer: &Viewer| -> Vec<(u64, String)> {
        let facts = viewer.frames.iter().filter(|(_, e)| !matches!(e["type"].as_str(), Some("gap" | "text")));
        facts.map(|(n, event)| (*n, event["type"].to_string())).collect()
    };
    for lossy in &seen[1..] {
        assert_eq!((&lossy.0, &lossy.1, facts(&lossy.2)), (outcome, transcript, facts(sound)));
    }
    assert_eq!(kinds(&seen[1].2.frames), ["attempt", "messages", "gap", "messages", "settled"]);
    assert_eq!(seen[1].2.frames[2], gap(3, 12, 2));
    let half: Vec<u64> = seen[2].2.of("gap").iter().map(|e| e["from"].as_u64().expect("a number")).collect();
    assert_eq!(half, [4, 6, 8, 10, 12]);
}

/// The ring holds 20,000 numbers: what is older is one gap, and what took its place is never taken for it. Row 101.
#[tokio::test(flavor = "multi_thread")]
async fn the_ring_wraps() {
    let inner = Arc::new(MemoryStore::new());
    let world = Setup::new(SCRIPT).store(inner.clone()).world().await;
    world.ask("t", "a", "hi").await;
    let first = world.journal("t").await.frames;
    // As if 19,990 more had been used, and lost.
    skip(&*inner, 19_990).await;
    // Not enough to wrap: the first events are still there, then everything up to now is a gap.
    let mut turns = 0;
    loop {
        world.ask("t", &format!("b{turns}"), "hi").await;
        turns += 1;
        let (whole, last) = (world.journal("t").await, world.last_number("t").await);
        let low = last.saturating_sub(20_000);
        let kept: Vec<Frame> = first.iter().filter(|(n, _)| *n > low).cloned().collect();
        let from = usize::from(low > 0);
        assert!(from == 0 || whole.frames[0].1["from"] == 1, "{:?}", whole.frames[0]);
        assert_eq!(whole.frames[from..from + kept.len()], kept, "at {last}");
        let rest = &whole.frames[from + kept.len()..];
        let events: Vec<&Frame> = rest.iter().filter(|(_, e)| e["type"] != "gap").collect();
        assert_eq!(events.len(), 5 * turns, "at {last}");
        assert!(events.iter().all(|(n, _)| *n > 19_990 + first.len() as u64), "at {last}");
        world.check().await;
        if kept.is_empty() {
            break;
        }
    }
    assert!(turns > 1);
    // A whole ring is lost: all slots still hold what was there, and nothing of it is shown.
    skip(&*inner, 20_000).await;
    world.ask("t", "c", "hi").await;
    let whole = world.journal("t").await;
    assert_eq!(kinds(&whole.frames), ["gap", "attempt", "messages", "text", "messages", "settled"]);
    world.check().await;
    assert_eq!(world.delete("t").await.status, 202);
    world.host.settled().await;
    assert_eq!(slots(&*world.store).await, []);
}

/// The only thread's head goes on as if so many numbers had been used.
async fn skip(store: &dyn Store, numbers: u64) {
    let mut all = store.dump().await.expect("a dump").into_iter();
    let head = all.find(|(key, _)| key.contains("/ses/") && key.matches('/').count() == 3);
    let (key, value) = head.expect("a head");
    let mut moved: Value = serde_json::from_slice(&value).expect("JSON");
    for field in ["jupto", "jused"] {
        moved[field] = json!(moved[field].as_u64().expect("a number") + numbers);
    }
    let write = Write { key: key.clone(), value: Some(moved.to_string().into_bytes()) };
    store.commit(Guard { key, expect: Some(value) }, vec![write]).await.expect("a commit");
}

/// A cursor that the journal never gave is told so; a foreign thread has no cursors at all. Row 102.
#[tokio::test(flavor = "multi_thread")]
async fn cursors_are_checked() {
    let world = World::new(SCRIPT).await;
    world.ask("t", "k", "hi").await;
    let last = world.last_number("t").await;
    for route in ["stream", "events"] {
        for (query, field) in [(format!("?after={}", last + 1), "after"), ("?after=-1".into(), "after")] {
            let answer = world.send(Request::get(world.route("t", &format!("{route}{query}")))).await;
            let problem = answer.json().expect("JSON");
            assert_eq!((answer.status, &problem["field"]), (422, &json!(field)), "{problem}");
        }
        let beyond = Request::get(world.route("t", &format!("{route}?after={}", last + 1)));
        assert_eq!(world.send(beyond).await.json().expect("JSON")["limit"], last);
        let (foreign, never) = (world.route("t", &format!("{route}?after=1")), world.route("u", route));
        let foreign = world.send(Request::get(foreign).principal("local/eve")).await;
        let never = world.send(Request::get(never)).await;
        assert_eq!((foreign.status, foreign.text(), &foreign.headers), (404, never.text(), &never.headers));
    }
    let odd = Request::get(world.route("t", "stream")).header("last-event-id", "soon");
    assert_eq!(world.send(odd).await.json().expect("JSON")["field"], "last-event-id");
}

/// An answer of many pieces costs the journal few writes: all of them in its first half minute, then fewer and fewer.
/// Each carries all text since the one before, and the turn's commits are as ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_costs_few_appends() {
    // A piece each 50 ms, for five minutes.
    let text = "word ".repeat(6_000);
    let script = format!("[[answer]]\ntext = {text:?}\nchunks = 6000\ndelay_ms = 50\n");
    let world = World::new(&script).await;
    let before = world.store.calls();
    let done = world.ask("t", "k", "hi").await;
    let cost = world.calls_since(before);
    assert_eq!(done["outcome"]["text"], text);
    assert_eq!(cost.commits, 1 + 1 + 2, "{cost:?}");
    // A block of numbers is all that it may use.
    assert!((1024..2048).contains(&cost.appends), "{cost:?}");
    let journal = world.journal("t").await;
    assert!(text.starts_with(&journal.grown(1, 1)) && journal.grown(1, 1).len() > text.len() / 2);
    assert_eq!(journal.of("text").len() as u64, cost.appends);
    assert_eq!(journal.of("gap").len(), 0);
    world.check().await;
}
