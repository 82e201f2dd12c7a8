//! What comes from outside — messages, cancels, steering, deadlines, budgets — is never dropped and takes effect at most
//! once (I8), wherever the work stands.
#![cfg(not(target_family = "wasm"))]

use host_sim::data::Request;
use serde_json::{Value, json};
use writ_tests::{Setup, World, host, until};

const HOUR_MS: u64 = 3_600_000;

/// `slow`: the model takes an hour, `job`: a tool does. The clock jumps over neither by itself.
const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "slow"
text = "At last."
delay_ms = 3600000
[[answer]]
when = "job"
text = "I work."
calls = [{ name = "work" }]
[[answer]]
when = "job"
text = "Worked."
[[answer]]
when = "wait"
fail = { kind = "transient", retry_after_ms = 60000, message = "429" }
[[answer]]
text = "Hello."
[[tool]]
name = "work"
delay_ms = 3600000
reply = "done"
"#;

/// Time is moved by hours here: no deadline but those that a test sets.
async fn endless(script: &str) -> World {
    Setup::new(script).limits(json!({"deadlineMs": 1_000_000_000_000u64})).world().await
}

async fn world() -> World {
    endless(SCRIPT).await
}

async fn busy(world: &World, thread: &str) -> String {
    let before = world.model.calls();
    let id = world.accept(thread, "busy", "slow").await;
    until(|| world.model.calls() > before).await;
    id
}

/// A thread whose tool is at work.
async fn at_work(world: &World, thread: &str, body: &Value) -> String {
    let before = world.log.executions().len();
    let id = world.accept_body(thread, "busy", body).await;
    until(|| world.log.executions().len() > before).await;
    id
}

async fn state(world: &World, id: &str) -> String {
    world.submission(id).await["state"].as_str().expect("a state").to_owned()
}

/// Asks again and again until the submission is in a state.
async fn reaches(world: &World, id: &str, wanted: &str) {
    for _ in 0..10_000 {
        if state(world, id).await == wanted {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{id} is {}, not {wanted}", state(world, id).await);
}

/// Lets time pass, an hour at a time, until a submission has settled.
async fn passes(world: &World, id: &str) -> Value {
    for _ in 0..10_000 {
        let now = world.submission(id).await;
        if now["state"] == "settled" {
            return now["outcome"].clone();
        }
        world.clock.advance(HOUR_MS);
        tokio::task::yield_now().await;
    }
    panic!("{id} does not settle");
}

fn cancelled() -> Value {
    json!({"status": "aborted", "reason": "cancelled"})
}

/// Shows A20, B13.
#[tokio::test(flavor = "multi_thread")]
async fn submissions_of_a_thread_run_in_order() {
    let world = world().await;
    busy(&world, "t").await;
    let mut last = String::new();
    for n in 0..20 {
        last = world.accept("t", &n.to_string(), &format!("number {n}")).await;
    }
    let waiting = world.submission(&last).await;
    assert_eq!((waiting["state"].as_str(), waiting["attempt"].as_u64()), (Some("queued"), Some(0)), "{waiting}");
    assert!(waiting["reason"].as_str().is_some_and(|r| r.contains("behind")), "{waiting}");
    passes(&world, &last).await;
    let mut expected = vec!["user: slow".to_owned(), "assistant: At last.".to_owned()];
    expected.extend((0..20).flat_map(|n| [format!("user: number {n}"), "assistant: Hello.".to_owned()]));
    assert_eq!(world.transcript("t").await, expected);
    world.check().await;
}

/// B15 and trap 13: what waits ends at once, though the thread is busy, and no model is asked for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_what_waits_takes_effect_at_once() {
    for thread in ["model", "tool"] {
        let world = world().await;
        let current = match thread {
            "model" => busy(&world, thread).await,
            _ => at_work(&world, thread, &json!({"message": "job"})).await,
        };
        let waits = world.accept(thread, "waits", "hi").await;
        assert_eq!(world.cancel(&waits).await.status, 202);
        reaches(&world, &waits, "settled").await;
        assert_eq!(world.submission(&waits).await["outcome"], cancelled());
        assert_eq!((state(&world, &current).await.as_str(), world.model.calls()), ("running", 1));
        assert_eq!(passes(&world, &current).await["status"], "completed");
        world.host.settled().await;
        let inputs: Vec<String> =
            world.transcript(thread).await.into_iter().filter(|l| l.starts_with("user")).collect();
        assert_eq!(inputs.len(), 1, "{inputs:?}");
        world.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_during_a_model_call_ends_it() {
    let world = world().await;
    let id = busy(&world, "t").await;
    assert_eq!(world.cancel(&id).await.status, 202);
    reaches(&world, &id, "settled").await;
    assert_eq!(world.submission(&id).await["outcome"], cancelled());
    assert_eq!(world.transcript("t").await, ["user: slow"]);
    assert_eq!(world.model.calls(), 1);
    // The thread is free again.
    assert_eq!(world.ask("t", "next", "hi").await["outcome"]["text"], "Hello.");
    world.check().await;
}

/// The open call gets its result, and the result says that the effect may still happen (A43, C5).
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_during_a_tool_brings_it_to_rest() {
    let world = world().await;
    let id = at_work(&world, "t", &json!({"message": "job"})).await;
    assert_eq!(world.cancel(&id).await.status, 202);
    reaches(&world, &id, "settled").await;
    assert_eq!(world.submission(&id).await["outcome"], cancelled());
    let transcript = world.transcript("t").await;
    assert_eq!(transcript[..2], ["user: job", "assistant: I work. [work {}]"]);
    assert!(transcript[2].starts_with("toolResult(interrupted): ") && transcript[2].contains("may still happen"));
    assert_eq!((transcript.len(), world.model.calls(), world.log.executions().len()), (3, 1, 1));
    world.check().await;
}

/// B18: a cancel during back-off asks no model any more; a long back-off is parked, and costs no attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_during_back_off_asks_no_model() {
    let world = Setup::new(SCRIPT).reach(0).world().await;
    let id = world.accept("t", "k", "wait").await;
    reaches(&world, &id, "retrying").await;
    world.host.settled().await;
    let thread = world.send(Request::get("/v1/agents/helper/threads/t")).await.json().expect("JSON");
    assert!(thread["operation"]["phase"]["parked"]["due"].is_u64(), "{thread}");
    assert_eq!(world.cancel(&id).await.status, 202);
    world.host.settled().await;
    let done = world.submission(&id).await;
    assert_eq!((&done["outcome"], done["attempt"].as_u64()), (&cancelled(), Some(1)));
    world.clock.advance(HOUR_MS);
    world.host.settled().await;
    assert_eq!(world.model.calls(), 1);
    world.check().await;
}

/// B15: too late, again, unknown.
/// Shows A32; trap 36.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_after_the_end_changes_nothing() {
    let world = world().await;
    let done = world.ask("t", "k", "hi").await;
    let id = done["id"].as_str().expect("an id");
    let calls = world.store.calls();
    for _ in 0..2 {
        let late = world.cancel(id).await;
        assert_eq!((late.status, late.json().expect("JSON")), (200, done.clone()));
    }
    assert_eq!(world.cancel("00-00000000000000000000000000").await.status, 404);
    assert_eq!(world.cancel("nonsense").await.status, 404);
    world.host.settled().await;
    assert_eq!(world.calls_since(calls).commits, 0);

    // Twice while it runs is once.
    let id = busy(&world, "u").await;
    let calls = world.store.calls();
    let (a, b) = tokio::join!(world.cancel(&id), world.cancel(&id));
    assert!(a.status <= 202 && b.status <= 202);
    reaches(&world, &id, "settled").await;
    world.host.settled().await;
    let applied = world.calls_since(calls).applied;
    assert_eq!(applied, 2, "the wish, and its effect");
    world.check().await;
}

/// Cancel against completion has exactly one winner, and what it decided stays (I3; the rules' store checks it too).
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_races_the_end_has_one_winner() {
    let world = world().await;
    let mut outcomes = Vec::new();
    for n in 0..40 {
        let thread = format!("t{n}");
        let id = world.accept(&thread, "k", "hi").await;
        for _ in 0..n * 8 {
            tokio::task::yield_now().await;
        }
        let answer = world.cancel(&id).await;
        world.host.settled().await;
        let done = world.submission(&id).await;
        let status = done["outcome"]["status"].as_str().expect("an outcome").to_owned();
        let lines = world.transcript(&thread).await.len();
        match (status.as_str(), lines) {
            ("completed", 2) => {}
            // Cancelled before it began, or before its answer was stored.
            ("aborted", 0 | 1) => assert_eq!(answer.status, 202),
            other => panic!("{other:?}: {done}"),
        }
        assert_eq!(world.cancel(&id).await.json().expect("JSON"), done);
        outcomes.push(status);
    }
    world.check().await;
}

/// After the batch, before the next model call; the steering submission settles by it.
/// Shows A20.
#[tokio::test(flavor = "multi_thread")]
async fn steering_is_delivered_between_tools_and_model() {
    let world = world().await;
    let id = at_work(&world, "t", &json!({"message": "job"})).await;
    let ordinary = world.accept("t", "later", "hi").await;
    let steer = world.accept_body("t", "s", &json!({"message": "job: faster", "options": {"steer": true}})).await;
    let doomed = world.accept_body("t", "d", &json!({"message": "no", "options": {"steer": true}})).await;
    assert_eq!(world.cancel(&doomed).await.status, 202);
    reaches(&world, &doomed, "settled").await;
    assert_eq!(state(&world, &steer).await, "queued");
    passes(&world, &id).await;
    passes(&world, &ordinary).await;
    let transcript = world.transcript("t").await;
    assert_eq!(
        transcript[..4],
        ["user: job", "assistant: I work. [work {}]", "toolResult: done", "user(steer): job: faster"],
        "{transcript:#?}"
    );
    assert_eq!(transcript[transcript.len() - 2..], ["user: hi", "assistant: Hello."], "{transcript:#?}");
    assert!(!transcript.iter().any(|l| l.contains("no")), "{transcript:#?}");
    assert_eq!(world.submission(&doomed).await["outcome"], cancelled());
    assert_eq!(world.submission(&steer).await["outcome"]["status"], "completed");
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steering_an_idle_thread_is_an_ordinary_submission() {
    let world = world().await;
    let id = world.accept_body("t", "s", &json!({"message": "hi", "options": {"steer": true}})).await;
    world.host.settled().await;
    assert_eq!(world.submission(&id).await["outcome"]["text"], "Hello.");
    assert_eq!(world.transcript("t").await, ["user: hi", "assistant: Hello."]);
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_inbox_refuses_and_loses_nothing() {
    let world = world().await;
    busy(&world, "t").await;
    let mut last = String::new();
    for n in 0..256 {
        last = world.accept("t", &format!("k{n}"), "hi").await;
    }
    let refused = world.submit("t", "one-more", "hi").await;
    let problem = refused.json().expect("JSON");
    assert_eq!((refused.status, problem["code"].as_str()), (429, Some("inbox-full")), "{problem}");
    assert_eq!((problem["limit"].as_u64(), refused.header("retry-after")), (Some(256), Some("1")));
    // What was accepted is still answered, and a cancel is never refused.
    assert_eq!(world.submit("t", "k7", "hi").await.status, 202);
    assert_eq!(world.cancel(&last).await.status, 202);
    reaches(&world, &last, "settled").await;
    let id = world.accept("t", "k254", "hi").await;
    assert_eq!(passes(&world, &id).await["status"], "completed");
    world.host.settled().await;
    assert_eq!(world.transcript("t").await.len(), 2 + 255 * 2);
    assert_eq!(world.submit("t", "one-more", "hi").await.status, 202);
    world.host.settled().await;
    world.check().await;
}

/// Shows A15, C5; trap 34.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_what_waits_what_runs_and_what_a_tool_does() {
    let world =
        endless(&(SCRIPT.to_owned() + "[[answer]]\nwhen = \"think\"\nstop = \"pause\"\ndelay_ms = 3600000\n")).await;
    let deadline = |message: &str, ms: u64| json!({"message": message, "options": {"deadline_ms": ms}});
    // Queued: no input, no model.
    let first = busy(&world, "queued").await;
    let waits = world.accept_body("queued", "k", &deadline("hi", 1_000)).await;
    passes(&world, &first).await;
    let calls = world.model.calls();
    let outcome = passes(&world, &waits).await;
    assert_eq!((&outcome["status"], &outcome["error"]["code"]), (&json!("failed"), &json!("deadline")), "{outcome}");
    assert_eq!(world.transcript("queued").await, ["user: slow", "assistant: At last."]);
    assert_eq!(world.model.calls(), calls);
    assert_eq!(world.submission(&waits).await["attempt"], 0);
    // Between two model calls.
    let id = world.accept_body("running", "k", &deadline("think", 1_000)).await;
    until(|| world.model.calls() > calls).await;
    assert_eq!(passes(&world, &id).await["error"]["code"], "deadline");
    assert_eq!(world.model.calls(), calls + 1);
    // In a tool: it is not waited for, and its call is closed.
    let id = at_work(&world, "tool", &deadline("job", 60_000)).await;
    world.clock.advance(60_000);
    reaches(&world, &id, "settled").await;
    assert_eq!(world.submission(&id).await["outcome"]["error"]["code"], "deadline");
    assert!(world.transcript("tool").await[2].starts_with("toolResult(interrupted): "));
    world.check().await;
}

/// Shows A19, B10.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_ends_what_goes_on_for_ever() {
    let script = r#"
[model]
repeat_last = true
[[answer]]
text = "Again."
calls = [{ name = "look" }]
usage = { input = 60, output = 40, cost_microusd = 5 }
[[tool]]
name = "look"
reply = "seen"
"#;
    for (limits, answers) in [(json!({"turns": 3}), 3), (json!({"tokens": 450}), 5), (json!({"costMicrousd": 10}), 2)] {
        let world = Setup::new(script).limits(limits.clone()).world().await;
        let done = world.ask("t", "k", "go").await;
        assert_eq!(done["outcome"]["error"]["code"], "budget", "{limits}: {done}");
        assert_eq!((world.model.calls(), world.log.executions().len()), (answers, answers), "{limits}");
        // At rest: each call has its result.
        assert_eq!(world.transcript("t").await.len(), 1 + 2 * answers);
        world.check().await;
    }
}

/// A19, B10: a submission whose host dies each time is given up, and says so.
/// Shows A2, A12, A25.
#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_counted_and_end() {
    let world = world().await;
    let id = busy(&world, "t").await;
    world.host.clone().shutdown().await;
    for attempt in 2..=10 {
        let calls = world.model.calls();
        let next = host(&world.parts).await;
        next.sweep().await.expect("a sweep");
        until(|| world.model.calls() > calls).await;
        let request = Request::get(format!("/v1/submissions/{id}")).principal(writ_tests::OWNER);
        let now = next.respond(request).await.expect("an answer").json().expect("JSON");
        assert_eq!((now["attempt"].as_u64(), now["state"].as_str()), (Some(attempt), Some("running")), "{now}");
        next.shutdown().await;
    }
    let last = host(&world.parts).await;
    last.sweep().await.expect("a sweep");
    last.settled().await;
    let request = Request::get(format!("/v1/submissions/{id}")).principal(writ_tests::OWNER);
    let done = last.respond(request).await.expect("an answer").json().expect("JSON");
    assert_eq!(
        (&done["outcome"]["error"]["code"], &done["attempt"]),
        (&json!("retry-exhausted"), &json!(10)),
        "{done}"
    );
    assert_eq!(world.model.calls(), 10);
    writ_tests::check(&last, &*world.store).await;
}
