//! A pause stands until it is taken away: nothing begins, what runs stops at a turn boundary, and no attempt is spent.
#![cfg(not(target_family = "wasm"))]

use host_sim::data::{Request, Response};
use host_sim::store::Store;
use serde_json::{Value, json};
use writ_tests::{Setup, World, host, until};

const HOUR_MS: u64 = 3_600_000;

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "job"
text = "I work."
calls = [{ name = "work" }]
[[answer]]
when = "job"
text = "Worked."
[[answer]]
text = "Hello."
[[tool]]
name = "work"
delay_ms = 3600000
reply = "done"
"#;

async fn world() -> World {
    Setup::new(SCRIPT).limits(json!({"deadlineMs": 10 * HOUR_MS})).reach(0).world().await
}

async fn post(world: &World, path: String) -> Response {
    world.send(Request::post(path, &json!({}))).await
}

async fn pause(world: &World, id: &str) -> Value {
    let paused = post(world, format!("/v1/submissions/{id}/pause")).await;
    assert_eq!(paused.status, 202, "{}", paused.text());
    paused.json().unwrap()
}

async fn resume(world: &World, id: &str) {
    let resumed = post(world, format!("/v1/submissions/{id}/resume")).await;
    assert_eq!(resumed.status, 202, "{}", resumed.text());
}

/// A submission whose tool is at work.
async fn at_work(world: &World, thread: &str) -> String {
    let before = world.log.executions().len();
    let id = world.accept(thread, "a", "job").await;
    until(|| world.log.executions().len() > before).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_stops_at_a_turn_and_goes_on_with_no_new_attempt() {
    let world = world().await;
    let id = at_work(&world, "t").await;
    let paused = pause(&world, &id).await;
    assert_eq!(paused["state"], "paused", "{paused}");
    assert!(paused["reason"].as_str().is_some_and(|r| r.contains("goes on to its end")), "{paused}");
    world.clock.advance(HOUR_MS);
    world.host.settled().await;
    // The call went on to its result; the model was not asked again.
    assert_eq!(world.transcript("t").await, ["user: job", r#"assistant: I work. [work {}]"#, "toolResult: done"]);
    assert_eq!((world.model.calls(), &world.submission(&id).await["state"]), (1, &json!("paused")));
    // Neither time nor a restart changes that, and nothing is written meanwhile.
    let before = world.store.dump().await.unwrap();
    world.clock.advance(HOUR_MS);
    let second = host(&world.parts).await;
    second.sweep().await.unwrap();
    second.settled().await;
    assert_eq!(world.store.dump().await.unwrap(), before);
    resume(&world, &id).await;
    world.host.settled().await;
    let done = world.submission(&id).await;
    assert_eq!((&done["outcome"]["text"], &done["attempt"]), (&json!("Worked."), &json!(1)), "{done}");
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_not_begun_and_keeps_its_place() {
    let world = world().await;
    at_work(&world, "t").await;
    let second = world.accept("t", "b", "second").await;
    let third = world.accept("t", "c", "third").await;
    pause(&world, &second).await;
    world.clock.advance(HOUR_MS);
    world.host.settled().await;
    let states =
        [&world.submission(&second).await["state"], &world.submission(&third).await["state"]].map(Value::to_string);
    assert_eq!(states, ["\"paused\"", "\"queued\""]);
    assert_eq!(world.submission(&second).await["attempt"], 0);
    resume(&world, &second).await;
    world.host.settled().await;
    let all = world.transcript("t").await;
    assert_eq!(all[4..], ["user: second", "assistant: Hello.", "user: third", "assistant: Hello."]);
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_attempt_waits_for_the_resume_too() {
    let world = world().await;
    let id = at_work(&world, "t").await;
    pause(&world, &id).await;
    // A second host takes nothing over from what looks like a dead one.
    let second = host(&world.parts).await;
    second.sweep().await.unwrap();
    second.settled().await;
    assert_eq!(world.submission(&id).await["attempt"], 1);
    world.clock.advance(HOUR_MS);
    world.host.settled().await;
    resume(&world, &id).await;
    world.host.settled().await;
    assert_eq!(world.submission(&id).await["outcome"]["status"], "completed");
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_paused_can_be_cancelled_and_runs_out_of_time() {
    let world = world().await;
    for (thread, end) in [("cancelled", "aborted"), ("late", "failed")] {
        let id = at_work(&world, thread).await;
        pause(&world, &id).await;
        world.clock.advance(HOUR_MS);
        world.host.settled().await;
        match end {
            "aborted" => assert_eq!(world.cancel(&id).await.status, 202),
            _ => world.clock.advance(10 * HOUR_MS),
        }
        world.host.settled().await;
        assert_eq!(world.submission(&id).await["outcome"]["status"], end, "{thread}");
        // Its outcome took the mark away: there is nothing left to resume.
        let again = post(&world, format!("/v1/submissions/{id}/resume")).await;
        assert_eq!(again.status, 200);
    }
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_paused_for_all_its_threads_and_for_its_owner_alone() {
    let world = world().await;
    let paused = post(&world, "/v1/agents/helper/pause".into()).await;
    assert_eq!((paused.status, paused.json().unwrap()), (200, json!({"agent": "helper", "paused": true})));
    let ids = [world.accept("t", "a", "hi").await, world.accept("u", "a", "hi").await];
    let foreign = Request::post("/v1/agents/helper/threads/t/submissions", &json!({"message": "hi"}));
    let foreign = world.send(foreign.principal("other/one")).await.json().unwrap();
    world.host.settled().await;
    for id in &ids {
        let seen = world.submission(id).await;
        assert_eq!((&seen["state"], &seen["attempt"]), (&json!("paused"), &json!(0)), "{seen}");
    }
    let path = format!("/v1/submissions/{}", foreign["id"].as_str().unwrap());
    let other = world.send(Request::get(path).principal("other/one")).await.json().unwrap();
    assert_eq!(other["state"], "settled", "{other}");
    let listed = world.send(Request::get("/v1/agents")).await.json().unwrap();
    assert_eq!(listed["agents"][0]["paused"], true);

    assert_eq!(post(&world, "/v1/agents/helper/resume".into()).await.status, 200);
    // Nobody knows all its threads: they look again after a while.
    world.clock.advance(10_000);
    world.host.settled().await;
    for id in &ids {
        assert_eq!(world.submission(id).await["outcome"]["text"], "Hello.");
    }
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_twice_changes_nothing_and_what_is_not_there_is_said() {
    let world = world().await;
    let id = at_work(&world, "t").await;
    pause(&world, &id).await;
    let before = world.store.calls();
    pause(&world, &id).await;
    assert_eq!(world.calls_since(before).commits, 0);
    for (path, status, code) in [
        ("/v1/submissions/00-00000000000000000000000000/pause".to_owned(), 404, "not-found"),
        ("/v1/agents/nobody/pause".to_owned(), 404, "unknown-agent"),
    ] {
        let refused = post(&world, path.clone()).await;
        assert_eq!((refused.status, &refused.json().unwrap()["code"]), (status, &json!(code)), "{path}");
    }
    let foreign = Request::post(format!("/v1/submissions/{id}/resume"), &json!({})).principal("other/one");
    assert_eq!(world.send(foreign).await.status, 404);
    assert_eq!(world.submission(&id).await["state"], "paused");
}
