//! Hooks and results of an author's agents, renders that fail, and what an override changes.
#![cfg(not(target_family = "wasm"))]

use serde_json::{Value, json};
use writ_tests::{Fault, Heard, Setup, World, survive};

/// Commits that these conversations take and a few more.
const COMMITS_MAX: u32 = 20;

/// Answers of a model, in order.
fn answers(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("[[answer]]\ntext = '''{text}'''\n")).collect()
}

/// Submits a message and waits for its outcome, however many attempts that takes; also what was logged meanwhile.
async fn outcome(world: &World, message: &str) -> (Value, Vec<String>) {
    let (mut log, mut events) = (world.host.log(), world.host.watch());
    let accepted = world.submit("t", "k", message).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    while !events.recv().await.expect("an event").event.contains("\"settled\"") {}
    let id = accepted.json().expect("JSON")["id"].as_str().expect("an id").to_owned();
    let lines = std::iter::from_fn(|| log.try_recv().ok()).map(|line| line.text).collect();
    (world.submission(&id).await, lines)
}

async fn of_role(world: &World, role: &str) -> Vec<String> {
    world.transcript("t").await.into_iter().filter(|line| line.starts_with(role)).collect()
}

/// Shows B22.
#[tokio::test(flavor = "multi_thread")]
async fn the_start_hook_runs_once_for_each_message() {
    let script = answers(&["One.", "Two."]);
    let whole = [
        "user: hi",
        "user(note): greeting 1 for \"hi\"",
        "assistant: One.",
        "user: hi",
        "user(note): greeting 2 for \"hi\"",
        "assistant: Two.",
    ];
    let mut met = 0;
    for fault in Fault::ALL {
        for at in 0..COMMITS_MAX {
            let survived = survive(|_| Setup::example("greeter", &script), &["hi", "hi"], &[(at, fault)]).await;
            survived.world.check().await;
            let mut transcript = survived.world.transcript("t").await;
            transcript.retain(|line| !line.starts_with("notice"));
            assert_eq!(transcript, whole, "{fault:?} at commit {at}");
            met += survived.met;
            if survived.met == 0 {
                break;
            }
        }
    }
    assert!(met >= 5 * 7, "only {met} faults were met");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_model_call_sees_what_the_start_hook_did() {
    let mut world = Setup::example("greeter", &answers(&["One."])).world().await;
    let heard = Heard::listen(&mut world).await;
    world.ask("t", "k", "hi").await;
    assert_eq!(heard.instructions(), ["greeted: 1"]);
    assert!(heard.requests()[0].messages.contains("greeting 1"), "{}", heard.requests()[0].messages);
}

/// Shows B22.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_hook_that_fails_keeps_the_model_from_being_asked() {
    for (message, told) in [
        ("refuse", "the start hook failed: this message is refused"),
        ("chatter", "the start hook failed: it appended 18 messages; at most 16 are taken"),
    ] {
        let mut world = Setup::example("greeter", &answers(&["One."])).world().await;
        let heard = Heard::listen(&mut world).await;
        let (done, log) = outcome(&world, message).await;
        assert_eq!(done["outcome"]["error"]["code"], "retry-exhausted", "{done}");
        assert_eq!(heard.requests().len(), 0);
        assert!(log.iter().any(|line| line.contains(told)), "{log:?}");
        world.check().await;
    }
}

/// Shows B23.
#[tokio::test(flavor = "multi_thread")]
async fn the_finish_hook_may_go_on() {
    let script = answers(&["more 1", "more 2", "5"]);
    let mut met = 0;
    for fault in Fault::ALL {
        for at in 0..COMMITS_MAX {
            let survived = survive(|_| Setup::example("critic", &script), &["count"], &[(at, fault)]).await;
            let world = &survived.world;
            world.check().await;
            let done = world.submission(&survived.ids[0]).await;
            assert_eq!(done["outcome"]["result"], 5, "{fault:?} at commit {at}: {done}");
            let said = ["assistant: more 1", "assistant: more 2", "assistant: 5"];
            assert_eq!(of_role(world, "assistant").await, said, "{fault:?} at commit {at}");
            assert_eq!(of_role(world, "user(note)").await, ["user(note): Go on."; 2], "{fault:?} at commit {at}");
            met += survived.met;
            if survived.met == 0 {
                break;
            }
        }
    }
    assert!(met >= 5 * 5, "only {met} faults were met");
}

/// Shows B23.
#[tokio::test(flavor = "multi_thread")]
async fn a_settled_submission_runs_no_hook_again() {
    let mut world = Setup::example("critic", &answers(&["more", "5", "6"])).world().await;
    let heard = Heard::listen(&mut world).await;
    let done = world.ask("t", "k", "count").await;
    assert_eq!(world.ask("t", "k", "count").await, done);
    assert_eq!(heard.requests().len(), 2);
    // What the next message sees was set by two answers, not by three.
    world.ask("t", "l", "again").await;
    assert_eq!(heard.instructions(), ["finishes: 0", "finishes: 1", "finishes: 2"]);
}

/// Shows B23.
#[tokio::test(flavor = "multi_thread")]
async fn a_finish_hook_that_never_ends_meets_its_ceiling() {
    let script = format!("[model]\nrepeat_last = true\n{}", answers(&["more"]));
    let world = Setup::example("critic", &script).world().await;
    let done = world.ask("t", "k", "count").await;
    let error = json!({"code": "finish-ceiling", "message": "After 16 more rounds the finish hook still went on."});
    assert_eq!(done["outcome"], json!({"status": "failed", "error": error}));
    assert_eq!(of_role(&world, "assistant").await.len(), 17);
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finish_hook_that_fails_stores_no_answer() {
    let script = format!("[model]\nrepeat_last = true\n{}", answers(&["break"]));
    let world = Setup::example("critic", &script).world().await;
    let (done, log) = outcome(&world, "count").await;
    assert_eq!(done["outcome"]["error"]["code"], "retry-exhausted", "{done}");
    assert!(of_role(&world, "assistant").await.is_empty());
    assert!(log.iter().any(|line| line.contains("the finish hook failed: the hook broke")), "{log:?}");
    world.check().await;
}

/// Shows B27.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_result_is_corrected_on_the_second_try() {
    let world = Setup::example("critic", &answers(&["seven", "```json\n7\n```"])).world().await;
    let done = world.ask("t", "k", "count").await;
    assert_eq!(done["outcome"]["result"], 7, "{done}");
    let repairs = of_role(&world, "user(repair)").await;
    assert_eq!(repairs.len(), 1, "{repairs:?}");
    assert!(repairs[0].contains(r#"fits the schema {"type":"integer"}"#), "{repairs:?}");
    assert!(repairs[0].contains("it is not JSON"), "{repairs:?}");
    world.check().await;
}

/// Shows B27.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_stays_wrong_is_given_up_with_a_name() {
    let world = Setup::example("critic", &answers(&["seven", "\"eight\"", "9.5", "10"])).world().await;
    let done = world.ask("t", "k", "count").await;
    assert_eq!(done["outcome"]["status"], "failed", "{done}");
    assert_eq!(done["outcome"]["error"]["code"], "result-invalid", "{done}");
    assert_eq!(of_role(&world, "assistant").await.len(), 3);
    world.check().await;
}

/// Shows B27.
#[tokio::test(flavor = "multi_thread")]
async fn rounds_of_the_finish_hook_leave_the_result_its_repairs() {
    let world = Setup::example("critic", &answers(&["more", "more", "more", "seven", "eight", "9"])).world().await;
    let done = world.ask("t", "k", "count").await;
    assert_eq!(done["outcome"]["result"], 9, "{done}");
}

/// Shows B27.
#[tokio::test(flavor = "multi_thread")]
async fn the_schema_of_a_delivery_goes_before_that_of_the_agent() {
    let world = Setup::example("critic", &answers(&["true"])).world().await;
    let body = json!({"message": "count", "result_schema": {"type": "boolean"}});
    let accepted = world.submit_body("t", "k", &body).await.json().expect("JSON");
    world.host.settled().await;
    let done = world.submission(accepted["id"].as_str().expect("an id")).await;
    assert_eq!(done["outcome"]["result"], true, "{done}");
}

/// Shows A16, C7.
#[tokio::test(flavor = "multi_thread")]
async fn a_render_that_fails_consumes_its_attempt() {
    for (agent, told) in [("failing", "the moon is full"), ("twins", "the tool \"look\" is given twice")] {
        let mut world = Setup::example(agent, &answers(&["Never."])).world().await;
        let heard = Heard::listen(&mut world).await;
        let (done, log) = outcome(&world, "hi").await;
        assert_eq!(done["outcome"]["error"]["code"], "retry-exhausted", "{done}");
        assert_eq!(done["attempt"], 10, "{done}");
        assert_eq!(heard.requests().len(), 0);
        let text = format!("agent {agent:?} could not be rendered: {told}");
        assert!(log.iter().any(|line| line.contains(&text)), "{log:?}");
        world.check().await;
    }
}

/// Shows A2, A22, A31, C7.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_told_and_consumes_its_attempt() {
    let world = Setup::example("panicking", &answers(&["Never."])).world().await;
    let (done, log) = outcome(&world, "hi").await;
    assert_eq!(done["outcome"]["error"]["code"], "retry-exhausted", "{done}");
    assert_eq!(done["attempt"], 10, "{done}");
    // Once as the component logs it, and once with the run that it ended; each of ten times.
    let told = log.iter().filter(|line| line.contains("the oven is on fire in thread t")).count();
    let lost = log.iter().filter(|line| line.contains("trapped in `run`") && line.contains("the oven is on fire"));
    assert_eq!((told, lost.count()), (20, 10), "{log:?}");
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_changes_a_render_and_not_the_definition() {
    let tools = "[[tool]]\nname = \"read\"\nreply = \"r\"\n[[tool]]\nname = \"write\"\nreply = \"w\"\n";
    let script = answers(&["Yes."]) + tools;
    let changes = json!({"changeable": {"model": "other", "instructions": "As changed.", "tools": ["read"]}});
    let mut seen = Vec::new();
    // On a store each, and once with the override of another agent.
    for overrides in [json!({}), changes.clone(), json!({"counter": changes["changeable"]})] {
        let mut world = Setup::example("changeable", &script).setting("overrides", overrides).world().await;
        let heard = Heard::listen(&mut world).await;
        let done = world.ask("t", "k", "hi").await;
        assert_eq!(done["outcome"]["text"], "Yes.", "{done}");
        let request = heard.requests().remove(0);
        let tools: Value = serde_json::from_str(&request.tools).expect("JSON");
        let names: Vec<String> = tools.as_array().expect("tools").iter().map(|t| t["name"].to_string()).collect();
        seen.push((request.model, request.system, names.join(" ")));
    }
    let row = |model: &str, head: &str, tools: &str| {
        (model.to_owned(), format!("{head}\n\n# tone\nBe kind."), tools.to_owned())
    };
    let defined = row("defined", "As defined.", r#""read" "write""#);
    assert_eq!(seen, [defined.clone(), row("other", "As changed.", r#""read""#), defined]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_the_component_does_not_have_is_refused() {
    let world = Setup::example("nobody", "").world().await;
    let refused = world.submit("t", "k", "hi").await;
    assert_eq!(refused.status, 404, "{}", refused.text());
    // The first request of all wrote the store's format.
    let before = world.store.calls();
    assert_eq!(world.submit("t", "k", "hi").await.status, 404);
    assert_eq!(world.calls_since(before).commits, 0);
}
