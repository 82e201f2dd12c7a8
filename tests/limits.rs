//! Nothing that a model, a tool or a crowd of requests does makes a commit outgrow the store's limits or sticks for ever
//! (I14). Every refusal of the store is a broken rule here (see `RulesStore`).
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use host_sim::data::Request;
use host_sim::store::memory::MemoryStore;
use host_sim::store::{Guard, Store, Write};
use serde_json::{Value, json};
use writ_tests::{OWNER, Setup, World, host, until};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "slow"
text = "At last."
delay_ms = 3600000
[[answer]]
text = "Hello."
"#;

/// One partition, ten threads at work, and as many quick submissions that the next accept is number 64.
async fn crowded(inner: Arc<MemoryStore>, before: u64) -> World {
    let world = Setup::new(SCRIPT).setting("partitions", json!(1)).store(inner).world().await;
    for n in 0..10 {
        world.accept(&format!("busy{n}"), "k", "slow").await;
    }
    until(|| world.clock.waiting() == 10).await;
    for n in 10..before {
        world.accept("quick", &n.to_string(), "hi").await;
    }
    until(|| world.model.calls() as u64 == before).await;
    world
}

/// Maintenance rides in every 16th accept, but not in one that brings 48 messages along.
#[tokio::test(flavor = "multi_thread")]
async fn maintenance_and_a_birth_with_messages_fit_no_commit_together() {
    let world = crowded(Arc::default(), 62).await;
    let messages: Vec<Value> = (0..48).map(|_| json!({"role": "user", "content": []})).collect();
    world.import("source", json!({}), &messages).await;
    let forked = world.post("source", "fork", "f", &json!({"to": "copy"})).await;
    assert_eq!(forked.status, 200, "{}", forked.text());
    assert_eq!(forked.json().expect("JSON")["accept"], 63);
    // The next multiple of 16 does what was left.
    for n in 0..16 {
        world.accept("quick", &format!("more{n}"), "hi").await;
    }
    world.clock.advance(3_600_000);
    world.host.settled().await;
    world.check().await;
}

/// A slot that a race left behind names a submission that has another one: maintenance must not put `moved` twice, or
/// no accept of the partition would ever be committed again.
/// Shows A31; trap 11.
#[tokio::test(flavor = "multi_thread")]
async fn two_slots_of_one_submission_do_not_stop_the_partition() {
    let inner = Arc::new(MemoryStore::new());
    let world = crowded(inner.clone(), 63).await;
    let live = inner.get_many(vec!["p/00/queue/3".into()]).await.expect("a read").remove(0);
    let (settled, again) = ("p/00/queue/20".to_owned(), "p/00/queue/21".to_owned());
    let twice = [settled, again].map(|key| Write { key, value: live.clone() });
    let guard = Guard { key: twice[0].key.clone(), expect: None };
    inner.commit(guard, twice.to_vec()).await.expect("two slots more");
    for n in 0..40 {
        world.accept("quick", &format!("more{n}"), "hi").await;
    }
    world.clock.advance(3_600_000);
    world.host.settled().await;
    // Slots that were moved while their model was asked stay behind as hints; a run for one finds nothing to do.
    let calls = world.store.calls();
    world.host.sweep().await.expect("a sweep");
    world.host.settled().await;
    assert_eq!(world.calls_since(calls).commits, 0);
    world.check().await;
}

/// An answer whose escapes make it larger than a message may be is refused; its calls are not opened without it.
/// Shows A18.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_can_not_be_stored_is_an_error() {
    let text = "\t".repeat(1_000_000);
    let script = format!(
        "[[answer]]\ntext = \"{text}\"\ncalls = [{{ name = \"look\" }}]\n[[answer]]\ntext = \"Fine.\"\n[[tool]]\nname = \"look\"\nreply = \"seen\"\n"
    );
    let world = World::new(&script).await;
    let done = world.ask("t", "k", "hi").await;
    assert_eq!(done["outcome"]["error"]["code"], "model", "{done}");
    assert!(world.log.executions().is_empty());
    assert_eq!(world.ask("t", "next", "hi").await["outcome"]["text"], "Fine.");
    world.check().await;
}

/// Ids come from providers, and stand in the head while their call is open.
#[tokio::test(flavor = "multi_thread")]
async fn an_endless_call_id_is_an_error() {
    let id = "x".repeat(300_000);
    let script = format!(
        "[[answer]]\ncalls = [{{ id = \"{id}\", name = \"look\" }}]\n[[tool]]\nname = \"look\"\nreply = \"seen\"\n"
    );
    let world = World::new(&script).await;
    let done = world.ask("t", "k", "hi").await;
    assert_eq!((&done["outcome"]["error"]["code"], &done["attempt"]), (&json!("model"), &json!(1)), "{done}");
    assert_eq!((world.model.calls(), world.log.executions().len()), (1, 0));
    world.check().await;
}

fn calls(n: usize, delay_ms: u64, policy: &str) -> String {
    let calls = vec!["{ name = \"look\" }"; n].join(", ");
    format!(
        "[[answer]]\ncalls = [{calls}]\n[[answer]]\ntext = \"Done.\"\n[[tool]]\nname = \"look\"\nreply = \"seen\"\n\
         delay_ms = {delay_ms}\npolicy = \"{policy}\"\n"
    )
}

/// Shows trap 29.
#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_the_limit_are_dropped_and_it_is_said() {
    let world = World::new(&calls(40, 0, "plain")).await;
    assert_eq!(world.ask("t", "k", "hi").await["outcome"]["text"], "Done.");
    assert_eq!(world.log.executions().len(), 32);
    let transcript = world.transcript("t").await;
    assert_eq!(transcript.len(), 1 + 1 + 32 + 1);
    assert!(transcript[1].contains("40 calls were made at once"), "{}", transcript[1]);
    world.check().await;
}

/// The widest commit: rest of 32 calls, the ends of many attempts, outcome, and inputs of others.
/// Shows A7, A32, A38, B11, C5; trap 29.
#[tokio::test(flavor = "multi_thread")]
async fn the_widest_rest_fits_one_commit() {
    for policy in ["replay-safe", "plain"] {
        let world = World::new(&calls(32, 3_600_000, policy)).await;
        let id = world.accept("t", "k", "hi").await;
        let open = if policy == "plain" { 0 } else { 5 };
        until(|| world.log.executions().len() == 32).await;
        let mut last = world.host.clone();
        for round in 1..=open {
            last.shutdown().await;
            last = host(&world.parts).await;
            last.sweep().await.expect("a sweep");
            until(|| world.log.executions().len() == 32 * (round + 1)).await;
        }
        last.shutdown().await;
        // Nobody runs while these are accepted and cancelled: they all wait for one decision.
        let post = |path: String, body: Value| Request::post(path, &body).principal(OWNER);
        let mut waiting = Vec::new();
        for n in 0..6 {
            let crashed = host(&world.parts).await;
            let path = "/v1/agents/helper/threads/t/submissions".to_owned();
            let request = post(path, json!({"message": "hi"})).header("idempotency-key", n.to_string());
            let key = silent(&world, request).await;
            waiting.push(key);
            crashed.shutdown().await;
        }
        for id in waiting.iter().chain([&id]) {
            silent(&world, post(format!("/v1/submissions/{id}/cancel"), json!({}))).await;
        }
        let next = host(&world.parts).await;
        next.sweep().await.expect("a sweep");
        next.settled().await;
        for id in waiting.iter().chain([&id]) {
            let request = Request::get(format!("/v1/submissions/{id}")).principal(OWNER);
            let done = next.respond(request).await.expect("an answer").json().expect("JSON");
            assert_eq!(done["outcome"], json!({"status": "aborted", "reason": "cancelled"}), "{done}");
        }
        writ_tests::check(&next, &*world.store).await;
    }
}

/// A request to a host whose store takes one commit and then no more, as if it died right after it; the id.
async fn silent(world: &World, request: Request) -> String {
    let crash = Arc::new(writ_tests::CrashStore::new(world.store.clone(), 1, writ_tests::Fault::KillBefore));
    let mut parts = world.parts.clone();
    parts.store = crash;
    let host = host(&parts).await;
    let answer = host.respond(request).await.expect("an answer");
    assert!(answer.status < 300, "{}", answer.text());
    host.shutdown().await;
    answer.json().expect("JSON")["id"].as_str().expect("an id").to_owned()
}

/// A page of messages ends early rather than grow beyond what a call may hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_messages_ends_early() {
    let reply = "x".repeat(900_000);
    let script = format!(
        "[model]\nrepeat_last = true\n[[answer]]\ntext = \"Hello.\"\n[summary]\ntext = \"Large things.\"\n\
         [[answer]]\nwhen = \"load\"\ncalls = [{}]\n[[answer]]\nwhen = \"load\"\ntext = \"Loaded.\"\n\
         [[tool]]\nname = \"load\"\nreply = \"{reply}\"\n",
        ["{ name = \"load\" }"; 4].join(", ")
    );
    let world = World::new(&script).await;
    for n in 0..8 {
        let done = world.ask("t", &n.to_string(), "load").await;
        assert_eq!(done["state"], "settled", "{done}");
    }
    let head = world.send(Request::get("/v1/agents/helper/threads/t")).await.json().expect("JSON");
    let messages = world.messages("t").await;
    assert_eq!(head["messages"].as_u64(), Some(messages.len() as u64));
    assert!(messages.iter().filter(|m| m["role"] == "toolResult").count() >= 32);
    world.check().await;
}

/// Messages of half a megabyte on every wire: pages end in time, and the component's memory (I14) is never the limit.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_large_messages_fit_every_wire() {
    let (reply, text) = ("x".repeat(450_000), "y".repeat(550_000));
    let script = format!(
        "[model]\nrepeat_last = true\n[[answer]]\ntext = \"Hello.\"\n[summary]\ntext = \"Large things.\"\n\
         [[answer]]\nwhen = \"load\"\ncalls = [{}]\n[[answer]]\nwhen = \"load\"\ntext = \"Loaded.\"\n\
         [[answer]]\nwhen = \"say\"\ntext = \"{text}\"\n[[tool]]\nname = \"load\"\nreply = \"{reply}\"\n",
        ["{ name = \"load\" }"; 32].join(", ")
    );
    let world = World::new(&script).await;
    let mut ids = Vec::new();
    for (n, message) in ["load", "load", "say", "say", "say"].into_iter().enumerate() {
        let done = world.ask("t", &n.to_string(), message).await;
        assert_eq!(done["state"], "settled", "{message}: attempt {}", done["attempt"]);
        assert!(done["attempt"] == 1 && (message == "load" || done["outcome"]["status"] == "completed"), "{message}");
        ids.push(done["id"].as_str().expect("an id").to_owned());
    }
    let messages = world.messages("t").await;
    assert_eq!(messages.iter().filter(|m| m.to_string().len() > 450_000).count(), 2 * 32 + 3);

    // Outcomes: a few a page, and all of them over the pages.
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let path = format!("/v1/agents/helper/threads/t/submissions?after={after}");
        let page = world.send(Request::get(path)).await.json().expect("JSON");
        let shown = page["submissions"].as_array().expect("submissions");
        assert!(!shown.is_empty() && page.to_string().len() < 3_000_000);
        seen.extend(shown.iter().map(|one| one["id"].as_str().expect("an id").to_owned()));
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seen, ids);

    // MCP: by the tool, and by the resource.
    let mut read = Vec::new();
    let mut next = json!(0);
    while next.is_u64() {
        let arguments = json!({"session_id": "helper/t", "after": next, "limit": 256});
        let told = world.mcp("tools/call", json!({"name": "session_read", "arguments": arguments})).await;
        let page = &told.result()["structuredContent"];
        read.extend(page["messages"].as_array().expect("messages").clone());
        next = page["next"].clone();
    }
    assert_eq!(read.len(), messages.len());
    let resource = world.mcp("resources/read", json!({"uri": "session://helper/t?after=1"})).await;
    let text = resource.result()["contents"][0]["text"].as_str().expect("a text");
    assert!((450_000..3_000_000).contains(&text.len()), "{}", text.len());

    // A2A: what was said, without what the tools gave.
    for wire in writ_tests::a2a::Wire::BOTH {
        let task = world.a2a(wire, "GetTask", &json!({"id": ids[4]})).await;
        assert_eq!(task.result()["artifacts"][0]["parts"][0]["text"].as_str().map(str::len), Some(550_000));
        let task = world.a2a(wire, "GetTask", &json!({"id": ids[1]})).await;
        let said = task.result()["history"].to_string();
        assert!(said.contains("load") && said.len() < 10_000, "{}", said.len());
    }

    // ACP: the whole transcript.
    let mut editor = writ_tests::acp::Editor::open(&world).await;
    let (shown, answer) = editor.load("helper/t").await;
    assert!(answer.get("result").is_some(), "{answer}");
    assert_eq!(shown.iter().filter(|update| update.ends_with("completed")).count(), 2 * 32);
    world.check().await;
}

/// An audit of many pages, between which its thread grows by whole batches: where a page ended, none begins in the middle
/// of one.
/// Shows trap 33.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_of_a_thread_that_grows_meanwhile_finds_nothing() {
    let hello = "[model]\nrepeat_last = true\n[[answer]]\nwhen = \"hi\"\ntext = \"Hello.\"\n";
    let script = hello.to_owned() + &calls(32, 0, "plain").replacen("[[answer]]", "[[answer]]\nwhen = \"all\"", 1);
    let world = Setup::new(&script).setting("partitions", json!(1)).world().await;
    for n in 0..60 {
        world.ask("t", &n.to_string(), "hi").await;
    }
    let (mut page, mut pages) = (None, 0);
    loop {
        let found = world.host.audit(page).await.expect("a page");
        assert!(found.findings.is_empty(), "page {pages}: {:#?}", found.findings);
        pages += 1;
        page = found.next;
        if page.is_none() {
            break;
        }
        for n in 0..2 {
            world.ask("t", &format!("{pages}.{n}"), "all of them").await;
        }
        assert!(pages < 100, "an audit must end, whatever grows meanwhile");
    }
    assert!(pages > 4, "only {pages} pages");
    world.check().await;
}
