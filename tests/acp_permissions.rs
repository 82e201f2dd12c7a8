//! ACP: tools that a person must permit.
#![cfg(not(target_family = "wasm"))]

use host_sim::data::Request;
use serde_json::{Value, json};
use writ_tests::acp::Editor;
use writ_tests::{Gate, World, host, until};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "both"
text = "May I?"
calls = [{ name = "send", arguments = { to = "Ada" } }, { name = "look" }, { name = "send", arguments = { to = "Bob" } }]
[[answer]]
when = "send"
text = "May I?"
calls = [{ name = "send", arguments = { to = "Ada" } }]
[[answer]]
text = "Hello."
[[tool]]
name = "send"
policy = "ask"
reply = "sent"
[[tool]]
name = "look"
reply = "seen"
"#;

async fn editor(world: &World) -> (Editor, String) {
    let mut editor = Editor::open(world).await;
    let session = editor.session().await;
    (editor, session)
}

async fn question(editor: &mut Editor) -> Value {
    editor.until(|line| line["method"] == "session/request_permission").await
}

fn chosen(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

/// Row 86. Asked once, with what the call is; what is allowed runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_runs_after_a_yes() {
    let world = World::new(SCRIPT).await;
    let (mut editor, session) = editor(&world).await;
    let from = editor.seen.len();
    let prompt = editor.prompt(&session, "send").await;
    let asked = question(&mut editor).await;
    assert_eq!(asked["params"]["toolCall"]["toolCallId"], "1.0");
    assert_eq!(asked["params"]["toolCall"]["rawInput"], json!({"to": "Ada"}));
    assert_eq!(asked["params"]["sessionId"], session.as_str());
    world.host.settled().await;
    editor.is_quiet().await;
    assert!(world.log.executions().is_empty(), "it ran before anybody said yes");
    editor.answer(&asked["id"], chosen("allow_once")).await;
    assert_eq!(editor.answer_to(&prompt).await["result"]["stopReason"], "end_turn");
    // A second answer finds nothing to answer.
    editor.answer(&asked["id"], chosen("reject_once")).await;
    editor.is_quiet().await;
    let told = [
        "agent_message 1: May I?",
        "tool_call: 1.0 pending",
        "tool_call_update: 1.0 in_progress",
        "tool_call_update: 1.0 completed",
        "agent_message 3: Hello.",
    ];
    assert_eq!(editor.short(from, &session), told);
    assert_eq!(editor.seen.iter().filter(|line| line["method"] == "session/request_permission").count(), 1);
    assert_eq!(world.log.executions().len(), 1);
    world.check().await;
}

/// Row 86. What is rejected fails, and the turn goes on; other calls of the answer are not touched by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_fails_after_a_no_and_the_turn_goes_on() {
    let world = World::new(SCRIPT).await;
    let (mut editor, session) = editor(&world).await;
    let from = editor.seen.len();
    let prompt = editor.prompt(&session, "both").await;
    let first = question(&mut editor).await;
    let second = match editor.seen.iter().find(|line| line["id"] != first["id"] && line["method"] == first["method"]) {
        Some(second) => second.clone(),
        None => question(&mut editor).await,
    };
    editor.answer(&second["id"], chosen("allow_once")).await;
    editor.answer(&first["id"], chosen("reject_once")).await;
    assert_eq!(editor.answer_to(&prompt).await["result"]["stopReason"], "end_turn");
    let told = editor.short(from, &session);
    let ended = |call: &str, status: &str| told.contains(&format!("tool_call_update: {call} {status}"));
    assert!(ended("1.0", "failed") && ended("1.1", "completed") && ended("1.2", "completed"), "{told:?}");
    assert!(!ended("1.0", "in_progress"), "{told:?}");
    assert_eq!(world.log.executions().len(), 2);
    world.check().await;
}

/// Row 86. A client that can't ask has not said yes.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_a_no() {
    let error = json!({"code": -32601, "message": "Never heard of it."});
    for (member, value, why) in [
        ("error", error, "Never heard of it."),
        ("error", json!(7), "it gives no reason"),
        ("result", json!({}), "neither a choice nor a cancellation"),
        ("result", json!({"outcome": {"outcome": "perhaps"}}), "neither a choice nor a cancellation"),
    ] {
        let world = World::new(SCRIPT).await;
        let (mut editor, session) = editor(&world).await;
        let prompt = editor.prompt(&session, "send").await;
        let asked = question(&mut editor).await;
        editor.line(&json!({"jsonrpc": "2.0", "id": asked["id"], member: value}).to_string()).await;
        assert_eq!(editor.answer_to(&prompt).await["result"]["stopReason"], "end_turn");
        assert!(world.log.executions().is_empty());
        let failed = editor.seen.iter().find(|line| line["params"]["update"]["status"] == "failed").expect("a failure");
        let text = failed["params"]["update"]["content"][0]["content"]["text"].as_str().expect("a text");
        assert!(text.contains(why), "{text}");
    }
}

/// Rows 86, 87. Cancelled while it waits for a yes: the client answers `cancelled`, before or after the turn has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_somebody_is_asked_is_the_answer() {
    for (by_session, by_answer) in [(true, true), (true, false), (false, true)] {
        let world = World::new(SCRIPT).await;
        let (mut editor, session) = editor(&world).await;
        let prompt = editor.prompt(&session, "send").await;
        let asked = question(&mut editor).await;
        if by_session {
            editor.notify("session/cancel", json!({"sessionId": session})).await;
        }
        if by_answer {
            editor.answer(&asked["id"], json!({"outcome": {"outcome": "cancelled"}})).await;
        }
        let answer = editor.answer_to(&prompt).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
        editor.is_quiet().await;
        assert!(world.log.executions().is_empty());
        assert_eq!(editor.turn(&session, "hi").await, "end_turn");
        world.check().await;
    }
}

/// Row 86. What is not asked any more, or never was, ends no turn, whatever is answered.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_no_question_changes_nothing() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    gate.let_go(20);
    let (mut editor, session) = editor(&world).await;
    let prompt = editor.prompt(&session, "send").await;
    let asked = question(&mut editor).await;
    // Somebody else is faster, and the turn goes on.
    let id = asked["id"].as_str().and_then(|id| id.split(':').nth(1)).expect("perm:SUBMISSION:CALL").to_owned();
    let yes = json!({"call": "1.0", "decision": "approve"});
    let answered = world.send(Request::post(format!("/v1/submissions/{id}/answer"), &yes)).await;
    assert_eq!(answered.status, 202, "{}", answered.text());
    until(|| !world.log.executions().is_empty()).await;
    let cancelled = json!({"outcome": {"outcome": "cancelled"}});
    for never in [asked["id"].clone(), json!(format!("perm:{id}:9.9")), json!(format!("perm:{id}:never")), json!(7)] {
        for outcome in [cancelled.clone(), chosen("reject_once"), json!({}), json!(7)] {
            editor.answer(&never, outcome).await;
        }
    }
    gate.open();
    assert_eq!(editor.answer_to(&prompt).await["result"]["stopReason"], "end_turn");
    assert_eq!(world.log.executions().len(), 1);
    world.check().await;
}

/// Row 86. Whoever loads the session after a restart is asked again, once, and an answer to the first question would still
/// count: its name is the same.
#[tokio::test(flavor = "multi_thread")]
async fn who_loads_the_session_is_asked_again() {
    let world = World::new(SCRIPT).await;
    let (mut editor, session) = editor(&world).await;
    editor.prompt(&session, "send").await;
    let first = question(&mut editor).await;
    world.host.settled().await;
    drop(editor);
    let later = host(&world.parts).await;
    later.sweep().await.expect("a sweep");
    let mut editor = Editor::open_on(&later).await;
    let (shown, _) = editor.load(&session).await;
    assert_eq!(shown, ["user_message 0: send", "agent_message 1: May I?", "tool_call: 1.0 pending"]);
    let again = question(&mut editor).await;
    assert_eq!((&again["id"], &again["params"]), (&first["id"], &first["params"]));
    later.settled().await;
    editor.is_quiet().await;
    let from = editor.seen.len();
    editor.answer(&again["id"], chosen("allow_once")).await;
    editor.until(|line| line["params"]["update"]["messageId"] == "3").await;
    let told = ["tool_call_update: 1.0 in_progress", "tool_call_update: 1.0 completed", "agent_message 3: Hello."];
    assert_eq!(editor.short(from, &session), told);
    later.settled().await;
    editor.is_quiet().await;
    assert_eq!(world.log.executions().len(), 1);
    world.check().await;
}
