//! A tool that is declared `ask` runs only after a person has said yes; the question waits as long as it has to, and the answer
//! counts once.
#![cfg(not(target_family = "wasm"))]

use host_sim::data::{Request, Response};
use host_sim::store::Store;
use serde_json::{Value, json};
use writ_tests::{OWNER, Setup, World, host};

const HOUR_MS: u64 = 3_600_000;

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "pay"
text = "I look and pay."
calls = [{ name = "look" }, { name = "pay", arguments = { order = 7 } }]
[[answer]]
when = "pay"
text = "Done."
[[answer]]
when = "twice"
text = "I pay twice."
calls = [{ name = "pay", arguments = { order = 1 } }, { name = "pay", arguments = { order = 2 } }]
[[answer]]
when = "twice"
text = "Done."
[[answer]]
text = "Hello."
[[tool]]
name = "look"
reply = "seen"
[[tool]]
name = "pay"
policy = "ask"
reply = "paid"
parameters = { type = "object", required = ["order"] }
"#;

async fn world() -> World {
    let limits = json!({"deadlineMs": 100 * HOUR_MS, "approvalMs": 24 * HOUR_MS});
    Setup::new(SCRIPT).limits(limits).reach(0).world().await
}

/// A submission that waits for a person, as the API shows it.
async fn asking(world: &World, message: &str) -> Value {
    let id = world.accept("t", message, message).await;
    world.host.settled().await;
    let view = world.submission(&id).await;
    assert_eq!(view["state"], "waiting", "{view}");
    view
}

async fn answer(world: &World, view: &Value, body: &Value) -> Response {
    let path = format!("/v1/submissions/{}/answer", view["id"].as_str().expect("an id"));
    let response = world.send(Request::post(path, body)).await;
    world.host.settled().await;
    response
}

fn yes(view: &Value, i: usize) -> Value {
    json!({"call": view["questions"][i]["call"], "hash": view["questions"][i]["hash"], "decision": "approve"})
}

fn no(view: &Value, i: usize) -> Value {
    json!({"call": view["questions"][i]["call"], "decision": "deny", "reason": "Ask first."})
}

fn code(response: &Response) -> (u16, String) {
    let code = response.json().expect("JSON")["code"].as_str().unwrap_or_default().to_owned();
    (response.status, code)
}

fn paid(world: &World) -> Vec<u32> {
    world.log.executions().iter().filter(|e| e.name == "pay").map(|e| e.count).collect()
}

/// The other calls of the answer run at once; the one that needs a word waits over restarts, and costs neither an attempt
/// nor a write. Shows A37, A38; trap 3.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_waits_and_costs_nothing() {
    let world = world().await;
    let view = asking(&world, "pay").await;
    let [question] = view["questions"].as_array().expect("questions").as_slice() else { panic!("{view}") };
    assert_eq!((&question["tool"], &question["arguments"]), (&json!("pay"), &json!({"order": 7})));
    assert!(view["reason"].as_str().is_some_and(|r| r.contains("approval of pay (call 1.1)")), "{view}");
    assert_eq!(paid(&world), [0_u32; 0]);
    let before = world.store.dump().await.unwrap();
    for hours in 1..=12 {
        world.clock.advance(HOUR_MS);
        let again = host(&world.parts).await;
        again.sweep().await.unwrap();
        again.settled().await;
        again.shutdown().await;
        assert_eq!(world.store.dump().await.unwrap(), before, "after {hours} hours and a restart");
    }
    let said = answer(&world, &view, &yes(&view, 0)).await;
    assert_eq!(said.status, 202, "{}", said.text());
    let done = world.submission(view["id"].as_str().expect("an id")).await;
    assert_eq!((&done["outcome"]["text"], &done["attempt"]), (&json!("Done."), &json!(1)), "{done}");
    assert_eq!(paid(&world), [1]);
    let messages = world.send(Request::get("/v1/agents/helper/threads/t/messages")).await.json().unwrap();
    let approval = &messages["messages"][3]["approval"];
    assert_eq!((&approval["verdict"], &approval["by"]), (&json!("approved"), &json!(OWNER)), "{messages}");
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_is_told_to_the_model_and_nothing_runs() {
    let world = world().await;
    let view = asking(&world, "pay").await;
    assert_eq!(answer(&world, &view, &no(&view, 0)).await.status, 202);
    assert_eq!(
        world.transcript("t").await[3..],
        ["toolResult(denied): A person denied this call: it was not run. Why: Ask first.", "assistant: Done."]
    );
    assert_eq!(paid(&world), [0_u32; 0]);
    world.check().await;
}

/// The first answer wins, whenever the second one comes; the same one again is taken as said. Shows A38.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_counts_once() {
    let world = world().await;
    let view = asking(&world, "twice").await;
    assert_eq!(answer(&world, &view, &yes(&view, 0)).await.status, 202);
    // The first call has run; the batch is still open for the second.
    assert_eq!(answer(&world, &view, &yes(&view, 0)).await.status, 202);
    assert_eq!(code(&answer(&world, &view, &no(&view, 0)).await), (409, "answered".into()));
    assert_eq!(paid(&world), [1]);
    assert_eq!(answer(&world, &view, &no(&view, 1)).await.status, 202);
    let before = world.store.dump().await.unwrap();
    assert_eq!(answer(&world, &view, &yes(&view, 0)).await.status, 200);
    assert_eq!(answer(&world, &view, &no(&view, 1)).await.status, 200);
    assert_eq!(code(&answer(&world, &view, &yes(&view, 1)).await), (409, "answered".into()));
    assert_eq!(paid(&world), [1]);
    assert_eq!(world.store.dump().await.unwrap(), before);
    world.check().await;
}

/// An answer is bound to its call and to its arguments; what is foreign answers like what is missing (I13).
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_something_else_changes_nothing() {
    let world = world().await;
    let view = asking(&world, "pay").await;
    let before = world.store.dump().await.unwrap();
    for (call, hash) in [("1.0", None), ("1.2", None), ("1", None), ("x", None), ("99999999999999999999.0", None)] {
        let body = json!({"call": call, "hash": hash as Option<&str>, "decision": "approve"});
        assert_eq!(code(&answer(&world, &view, &body).await), (409, "closed".into()), "{call}");
    }
    let other = json!({"call": "1.1", "hash": "sha256:00", "decision": "approve"});
    assert_eq!(code(&answer(&world, &view, &other).await), (409, "other-arguments".into()));
    let long = json!({"call": "1.1", "decision": "deny", "reason": "x".repeat(1001)});
    let refused = answer(&world, &view, &long).await;
    assert_eq!((refused.status, &refused.json().unwrap()["limit"]), (422, &json!(1000)));
    let id = view["id"].as_str().expect("an id");
    let missing = format!("{}-{}", &id[..2], "0".repeat(26));
    let ask = async |id: &str, who: &str| {
        let request = Request::post(format!("/v1/submissions/{id}/answer"), &yes(&view, 0)).principal(who);
        let response = world.host.respond(request).await.expect("an answer");
        (response.status, response.headers.clone(), response.bytes().to_vec())
    };
    assert_eq!(ask(id, "web/eve").await, ask(&missing, "web/eve").await);
    assert_eq!(world.store.dump().await.unwrap(), before);
    world.check().await;
}

/// Shows trap 12: that nobody answered is an answer too, and one of the two wins.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_answers_in_time_is_denied() {
    let world = world().await;
    let view = asking(&world, "pay").await;
    world.clock.advance(24 * HOUR_MS);
    assert_eq!(code(&answer(&world, &view, &yes(&view, 0)).await), (409, "expired".into()));
    world.host.settled().await;
    let done = world.submission(view["id"].as_str().expect("an id")).await;
    assert_eq!((&done["outcome"]["text"], &done["attempt"]), (&json!("Done."), &json!(1)), "{done}");
    assert_eq!(
        world.transcript("t").await[3],
        "toolResult(denied): Nobody approved this call in time: it was not run."
    );
    assert_eq!(code(&answer(&world, &view, &yes(&view, 0)).await), (409, "expired".into()));
    assert_eq!(paid(&world), [0_u32; 0]);
    world.check().await;
}

/// A call that waited surely was not run, and its result says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_wait() {
    let world = world().await;
    let view = asking(&world, "pay").await;
    let id = view["id"].as_str().expect("an id");
    assert_eq!(world.cancel(id).await.status, 202);
    world.host.settled().await;
    assert_eq!(world.submission(id).await["outcome"], json!({"status": "aborted", "reason": "cancelled"}));
    let last = world.transcript("t").await.pop().expect("messages");
    assert_eq!(last, "toolResult(notRun): The submission ended before anybody had approved this call: it was not run.");
    assert_eq!(code(&answer(&world, &view, &yes(&view, 0)).await), (409, "closed".into()));
    world.check().await;
}

/// What was answered while it is paused is taken when it is resumed; a thread that goes takes its questions along.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_holds_an_answer_back_and_a_deletion_ends_it() {
    let world = world().await;
    world.accept("t", "k", "hi").await;
    world.host.settled().await;
    assert_eq!(world.delete("t").await.status, 202);
    world.host.settled().await;
    let keys = world.store.count().await.unwrap();
    let view = asking(&world, "twice").await;
    let path = format!("/v1/submissions/{}", view["id"].as_str().expect("an id"));
    world.send(Request::post(format!("{path}/pause"), &json!({}))).await;
    world.host.settled().await;
    assert_eq!(answer(&world, &view, &yes(&view, 0)).await.status, 202);
    assert_eq!(paid(&world), [0_u32; 0]);
    world.check().await;
    world.send(Request::post(format!("{path}/resume"), &json!({}))).await;
    world.host.settled().await;
    assert_eq!(paid(&world), [1]);
    world.send(Request::post(format!("{path}/pause"), &json!({}))).await;
    assert_eq!(answer(&world, &view, &yes(&view, 1)).await.status, 202);
    // With an answer in its inbox that no run has taken.
    assert_eq!(world.delete("t").await.status, 202);
    world.host.settled().await;
    assert_eq!(paid(&world), [1]);
    assert_eq!(world.store.count().await.unwrap(), keys, "nothing is left behind");
    world.check().await;
}

/// An agent that is gone when the answer comes: the call waits for it, open and not begun, and then runs once.
#[tokio::test(flavor = "multi_thread")]
async fn an_approved_call_waits_for_its_agent() {
    let world = world().await;
    let view = asking(&world, "pay").await;
    let path = format!("/v1/submissions/{}/answer", view["id"].as_str().expect("an id"));
    let without = world.redeployed(json!({"agents": []})).await;
    let said = without.respond(Request::post(path, &yes(&view, 0)).principal(OWNER)).await.expect("an answer");
    assert_eq!(said.status, 202, "{}", said.text());
    without.settled().await;
    world.check().await;
    without.shutdown().await;
    world.clock.advance(HOUR_MS);
    let again = host(&world.parts).await;
    again.sweep().await.unwrap();
    again.settled().await;
    let done = world.submission(view["id"].as_str().expect("an id")).await;
    assert_eq!((&done["outcome"]["text"], &done["attempt"]), (&json!("Done."), &json!(1)), "{done}");
    assert_eq!(paid(&world), [1]);
    world.check().await;
}

/// Any tool can be made one that asks, by the agent's definition or an operator's override.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_have_a_person_asked() {
    let mut world = world().await;
    world.parts.settings.insert("overrides".into(), json!({"helper": {"ask": ["look"]}}).to_string());
    world.host = host(&world.parts).await;
    let view = asking(&world, "pay").await;
    assert_eq!(view["questions"][0]["tool"], "look", "{view}");
    assert_eq!(answer(&world, &view, &yes(&view, 0)).await.status, 202);
    let looked = world.log.executions().iter().filter(|e| e.name == "look").count();
    let next = world.submission(view["id"].as_str().expect("an id")).await;
    assert_eq!((looked, &next["questions"][0]["tool"]), (1, &json!("pay")), "{next}");
    world.check().await;
}

/// Viewers are told of the question, with the arguments, and of the answer.
#[tokio::test(flavor = "multi_thread")]
async fn viewers_see_the_question_and_the_answer() {
    let world = world().await;
    let view = asking(&world, "pay").await;
    answer(&world, &view, &yes(&view, 0)).await;
    let seen = world.journal("t").await;
    let [question] = seen.of("question")[..] else { panic!("{:#?}", seen.frames) };
    let expected = &view["questions"][0];
    let told = &question["questions"][0];
    for field in ["call", "tool", "arguments", "hash", "expires"] {
        assert_eq!(told[field], expected[field], "{field}");
    }
    let [answered] = seen.of("answered")[..] else { panic!("{:#?}", seen.frames) };
    assert_eq!((&answered["call"], &answered["decision"]), (&expected["call"], &json!("approved")));
}
