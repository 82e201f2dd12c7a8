//! Deletion leaves nothing behind, whatever was under way, and the name is free for another thread (traps 2, 19, 24).
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use host_sim::data::{Request, Response};
use host_sim::store::memory::MemoryStore;
use host_sim::store::{Guard, Store, Write};
use serde_json::{Value, json};
use writ_tests::{CrashStore, Fault, OWNER, Setup, World, until};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "job"
text = "I work."
calls = [{ name = "work" }]
[[answer]]
when = "look"
calls = [{ name = "look" }, { name = "look" }]
[[answer]]
text = "Hello."
[[tool]]
name = "work"
delay_ms = 3600000
reply = "done"
[[tool]]
name = "look"
reply = "seen"
"#;

/// One partition, so that what is left behind can only be counted there.
async fn world() -> World {
    let world = Setup::new(SCRIPT).setting("partitions", json!(1)).world().await;
    world.ask("keep", "k", "hi").await;
    world
}

fn talk(n: u64) -> Vec<Value> {
    (0..n).map(|i| json!({"role": "user", "content": [{"type": "text", "text": i.to_string()}]})).collect()
}

async fn delete(world: &World, thread: &str) {
    let answer = world.delete(thread).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    world.host.settled().await;
}

async fn status(world: &World, path: String) -> u16 {
    world.send(Request::get(path)).await.status
}

/// Shows A10; trap 24.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_behind() {
    let world = world().await;
    let baseline = world.store.count().await.expect("a count");
    let mut ids = Vec::new();
    // Tools, errors, cancels, a queue, work under way, and a message in parts.
    ids.push(world.accept("t", "a", "look").await);
    ids.push(world.accept("t", "b", "hi").await);
    world.host.settled().await;
    ids.push(world.accept("t", "c", "job").await);
    until(|| world.log.executions().iter().any(|e| e.name == "work")).await;
    for n in 0..20 {
        ids.push(world.accept("t", &n.to_string(), "hi").await);
    }
    ids.push(world.accept("t", "large", &"x".repeat(250_000)).await);
    world.cancel(&ids[5]).await;
    delete(&world, "t").await;
    world.import("long", json!({}), &talk(130)).await;
    delete(&world, "long").await;
    assert_eq!(world.store.count().await.expect("a count"), baseline);
    for id in &ids {
        assert_eq!(status(&world, format!("/v1/submissions/{id}")).await, 404);
        assert_eq!(world.cancel(id).await.status, 404);
    }
    for route in ["", "/messages", "/submissions"] {
        assert_eq!(status(&world, format!("/v1/agents/helper/threads/t{route}")).await, 404);
    }
    // Again, and of what never was: the same answer.
    let (again, never) = (world.delete("t").await, world.delete("never").await);
    assert_eq!((again.status, again.text(), again.headers.clone()), (404, never.text(), never.headers.clone()));
    let listed = world.send(Request::get("/v1/threads")).await.json().expect("JSON");
    assert_eq!(listed["threads"].as_array().map(Vec::len), Some(1), "{listed}");
    world.check().await;
}

/// Trap 9: delete and create again with the same key must not give the old effect keys.
#[tokio::test(flavor = "multi_thread")]
async fn the_name_is_free_and_its_effects_are_new() {
    let world = world().await;
    let mut seen = Vec::new();
    for round in 0..3 {
        let done = world.ask("t", "k", "look").await;
        assert_eq!((&done["outcome"]["text"], &done["attempt"]), (&json!("Hello."), &json!(1)), "round {round}");
        assert_eq!(world.messages("t").await.len(), 5);
        delete(&world, "t").await;
    }
    for execution in world.log.executions() {
        assert_eq!(execution.count, 1);
        seen.push(execution.effect_key);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 6);
    world.check().await;
}

/// Trap 2: what is accepted while its thread is deleted is run in a new one, ended, or refused; never lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_races_admission_loses_nothing() {
    let world = world().await;
    for n in 0..20 {
        let thread = format!("t{n}");
        world.accept(&thread, "first", "hi").await;
        let (deleted, sent) = tokio::join!(world.delete(&thread), world.submit(&thread, "second", "hi"));
        assert!(matches!(deleted.status, 202), "{}", deleted.text());
        world.host.settled().await;
        match sent.status {
            200 | 202 => {
                let id = sent.json().expect("JSON")["id"].as_str().expect("an id").to_owned();
                let found = world.send(Request::get(format!("/v1/submissions/{id}"))).await;
                let state = found.json().expect("JSON")["state"].clone();
                assert!(found.status == 404 || state == "settled", "{}", found.text());
            }
            409 => assert_eq!(sent.json().expect("JSON")["code"], "deleting"),
            other => panic!("{other}: {}", sent.text()),
        }
        world.check().await;
    }
}

/// A copied message names the submission that made it. Its copy must not reach for what is kept with that one: neither
/// get stuck on a key of another partition, nor delete the recorded steps of somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_does_not_delete_the_steps_of_its_original() {
    for partitions in [1, 256] {
        let inner = Arc::new(MemoryStore::new());
        let setup = Setup::new(SCRIPT).setting("partitions", json!(partitions)).store(inner.clone());
        let world = setup.world().await;
        let victim = world.ask("victim", "k", "hi").await["id"].as_str().expect("an id").to_owned();
        let step = format!("p/{}/sub/{victim}/step/1.0/0", &victim[..2]);
        let write = Write { key: step.clone(), value: Some(b"{\"name\":\"pay\",\"value\":1}".to_vec()) };
        let guard = Guard { key: step.clone(), expect: None };
        inner.commit(guard, vec![write]).await.expect("a step");
        let messages = [
            json!({"role": "user", "content": []}),
            json!({"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "x", "arguments": {}}]}),
            json!({"role": "toolResult", "toolCallId": "c", "submission": victim, "call": "1.0", "steps": 1}),
        ];
        for name in ["a", "b", "c"] {
            world.import(name, json!({}), &messages).await;
            delete(&world, name).await;
            assert_eq!(status(&world, format!("/v1/agents/helper/threads/{name}")).await, 404);
        }
        assert!(inner.get_many(vec![step]).await.expect("a read")[0].is_some(), "somebody else's step is gone");
        assert_eq!(world.host.pending(None).await.expect("a page").work.len(), 0);
    }
}

async fn fork(world: &World, from: &str, to: &str) -> Response {
    world.post(from, "fork", &format!("fork-{to}"), &json!({"to": to})).await
}

/// Trap 19a, f: the source goes in the middle of a copy, and perhaps another of its name comes. Nothing mixed is
/// published, the fork fails as `source-gone`, and the address is free.
/// Shows trap 19.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_whose_source_goes_fails_and_frees_its_address() {
    for reborn in [false, true] {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let first = Setup::new(SCRIPT).store(inner.clone()).world().await;
        first.import("t", json!({}), &talk(200)).await;
        // The claim is applied; the host dies before the next page.
        let crash = Arc::new(CrashStore::new(inner.clone(), 1, Fault::KillBefore));
        let second = Setup::new(SCRIPT).store(crash.clone()).world().await;
        let begun = fork(&second, "t", "u").await;
        assert_eq!(begun.status, 202, "{}", begun.text());
        crash.killed().await;
        second.host.shutdown().await;

        let world = Setup::new(SCRIPT).store(inner.clone()).world().await;
        let id = begun.json().expect("JSON")["id"].as_str().expect("an id").to_owned();
        assert_eq!(world.submission(&id).await["reason"], "48 of 200 messages are copied.");
        for route in ["", "/messages", "/submissions"] {
            assert_eq!(status(&world, format!("/v1/agents/helper/threads/u{route}")).await, 404);
        }
        assert_eq!(world.submit("u", "k", "hi").await.json().expect("JSON")["code"], "forking");
        assert_eq!(world.delete("u").await.status, 409);
        world.check().await;

        delete(&world, "t").await;
        if reborn {
            world.import("t", json!({}), &talk(300)).await;
        }
        world.host.sweep().await.expect("a sweep");
        world.host.settled().await;
        let outcome = world.submission(&id).await["outcome"].clone();
        assert_eq!(outcome["error"]["code"], "source-gone", "{outcome}");
        assert_eq!(status(&world, "/v1/agents/helper/threads/u".into()).await, 404);
        let report = world.host.audit_all(|_| {}).await.expect("an audit");
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
        // All that is left of it is its record, which its retries are answered from.
        assert_eq!(report.keys, world.store.count().await.expect("a count"));
        assert_eq!(fork(&world, "t", "u").await.json().expect("JSON")["outcome"], outcome);
        assert_eq!(world.ask("u", "new", "hi").await["outcome"]["text"], "Hello.");
        assert_eq!(world.messages("u").await.len(), 2);
    }
}

/// A thread that is being deleted is no source any more.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_being_deleted_can_not_be_copied() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = Setup::new(SCRIPT).store(inner.clone()).world().await;
    first.ask("t", "k", "hi").await;
    let crash = Arc::new(CrashStore::new(inner, 1, Fault::KillBefore));
    let world = Setup::new(SCRIPT).store(crash.clone()).world().await;
    assert_eq!(world.delete("t").await.status, 202);
    crash.killed().await;
    assert_eq!(fork(&world, "t", "u").await.status, 404);
    let again = world.host.respond(Request::new("DELETE", "/v1/agents/helper/threads/t").principal(OWNER)).await;
    assert_eq!(again.expect("an answer").status, 202);
}
