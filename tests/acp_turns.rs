//! ACP: turns, how they are told, and how they end.
#![cfg(not(target_family = "wasm"))]

use std::sync::Arc;

use host_sim::data::Request;
use host_sim::store::memory::MemoryStore;
use serde_json::json;
use writ_tests::acp::{Editor, code};
use writ_tests::{Gate, MeanwhileStore, Setup, World, host, until};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "look"
text = "Let me look."
calls = [{ name = "look", arguments = { at = 7 } }]
[[answer]]
when = "wait"
text = "I wait."
calls = [{ name = "wait" }]
[[answer]]
when = "break"
text = "I break."
calls = [{ name = "broken" }, { name = "none" }]
[[answer]]
when = "flaky"
text = "one two three four"
chunks = 4
fail = { kind = "transient", times = 1, message = "429", after_chunks = 2 }
[[answer]]
when = "refuse"
text = "I"
fail = { kind = "refused", message = "No." }
[[answer]]
when = "fail"
text = "I can't."
fail = { kind = "quota", message = "No money." }
[[answer]]
when = "grow"
text = "one two three four"
chunks = 4
[[answer]]
text = "Hello."
[[tool]]
name = "look"
reply = "seen"
[[tool]]
name = "broken"
reply = "It is broken."
error = true
[[tool]]
name = "wait"
reply = "done"
delay_ms = 500000
"#;

async fn editor(world: &World) -> (Editor, String) {
    let mut editor = Editor::open(world).await;
    let session = editor.session().await;
    (editor, session)
}

/// Rows 83, 85. What grows is told once, and all of it before the answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_told_and_then_answered() {
    let world = World::new(SCRIPT).await;
    let (mut editor, session) = editor(&world).await;
    let from = editor.seen.len();
    assert_eq!(editor.turn(&session, "look").await, "end_turn");
    let told = [
        "agent_message 1: Let me look.",
        "tool_call: 1.0 pending",
        "tool_call_update: 1.0 in_progress",
        "tool_call_update: 1.0 completed",
        "agent_message 3: Hello.",
    ];
    assert_eq!(editor.short(from, &session), told);
    let call =
        editor.seen.iter().find(|line| line["params"]["update"]["sessionUpdate"] == "tool_call").expect("a call");
    assert_eq!(call["params"]["update"]["rawInput"], json!({"at": 7}));
    let seen = &editor
        .seen
        .iter()
        .rev()
        .find(|line| line["params"]["update"]["status"] == "completed")
        .expect("a result")["params"]["update"]["content"][0]["content"];
    assert_eq!(*seen, json!({"type": "text", "text": "seen"}));
    editor.is_quiet().await;
    world.check().await;
}

/// Row 85: a call that fails, and one of a tool that is not there.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_is_told_as_failed() {
    let world = World::new(SCRIPT).await;
    let (mut editor, session) = editor(&world).await;
    let from = editor.seen.len();
    assert_eq!(editor.turn(&session, "break").await, "end_turn");
    let calls: Vec<String> =
        editor.short(from, &session).into_iter().filter(|update| update.starts_with("tool_call")).collect();
    let told = [
        "tool_call: 1.0 pending",
        "tool_call: 1.1 pending",
        "tool_call_update: 1.0 in_progress",
        "tool_call_update: 1.1 failed",
        "tool_call_update: 1.0 failed",
    ];
    assert_eq!(calls, told);
}

/// Row 83: pieces come while the answer grows; each once.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_told_as_it_grows() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let (mut editor, session) = editor(&world).await;
    let from = editor.seen.len();
    let prompt = editor.prompt(&session, "grow").await;
    let mut pieces = Vec::new();
    for _ in 0..4 {
        gate.let_go(1);
        pieces.push(editor.update("agent_message_chunk").await["content"]["text"].as_str().expect("a text").to_owned());
    }
    assert_eq!(pieces.concat(), "one two three four");
    gate.open();
    assert_eq!(editor.answer_to(&prompt).await["result"]["stopReason"], "end_turn");
    assert_eq!(editor.short(from, &session), ["agent_message 1: one two three four"]);
}

/// Row 83: an answer that is begun again is another message to its reader, and the whole of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_begins_again_is_told_apart() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let (mut editor, session) = editor(&world).await;
    let from = editor.seen.len();
    let prompt = editor.prompt(&session, "flaky").await;
    for _ in 0..2 {
        gate.let_go(1);
        editor.update("agent_message_chunk").await;
    }
    gate.open();
    assert_eq!(editor.answer_to(&prompt).await["result"]["stopReason"], "end_turn");
    let told = editor.short(from, &session);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("agent_message 1: one"), "{told:?}");
    assert_eq!(told[1], "agent_message 1-1: one two three four");
    assert_eq!(editor.load(&session).await.0[1], "agent_message 1: one two three four");
}

/// Row 83: each way that a turn ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_says_why_it_stopped() {
    let world = World::new(SCRIPT).await;
    let (mut editor, session) = editor(&world).await;
    assert_eq!(editor.turn(&session, "refuse").await, "refusal");
    let id = editor.prompt(&session, "fail").await;
    let failed = editor.answer_to(&id).await;
    assert_eq!((code(&failed), &failed["error"]["data"]["code"]), (-32603, &json!("model")));
    assert!(failed["error"]["message"].as_str().is_some_and(|text| text.contains("No money.")), "{failed}");
    let small = Setup::new(SCRIPT).limits(json!({"turns": 1})).world().await;
    let (mut editor, session) = self::editor(&small).await;
    assert_eq!(editor.turn(&session, "look").await, "max_turn_requests");
    editor.is_quiet().await;
}

/// Rows 87, 98. Mid model call: by the session's cancel, and by that of the request.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_the_middle_of_an_answer_is_the_answer() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let (mut editor, session) = editor(&world).await;
    for by_request in [false, true] {
        let calls = world.model.calls();
        let prompt = editor.prompt(&session, "grow").await;
        until(|| world.model.calls() > calls).await;
        gate.let_go(1);
        editor.update("agent_message_chunk").await;
        match by_request {
            false => editor.notify("session/cancel", json!({"sessionId": session})).await,
            true => editor.notify("$/cancel_request", json!({"requestId": prompt})).await,
        }
        let answer = editor.answer_to(&prompt).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
        editor.is_quiet().await;
    }
    // When nothing is under way there is nothing to cancel.
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    editor.notify("session/cancel", json!({"sessionId": "helper/none"})).await;
    editor.notify("$/cancel_request", json!({"requestId": 999})).await;
    gate.open();
    assert_eq!(editor.turn(&session, "hi").await, "end_turn");
    world.check().await;
}

/// Row 87. Mid tool.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_the_middle_of_a_tool_is_the_answer() {
    let world = Setup::new(SCRIPT).reach(0).world().await;
    let (mut editor, session) = editor(&world).await;
    let from = editor.seen.len();
    let prompt = editor.prompt(&session, "wait").await;
    until(|| !world.log.executions().is_empty()).await;
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(editor.answer_to(&prompt).await["result"]["stopReason"], "cancelled");
    let last = editor.short(from, &session).pop().expect("updates");
    assert_eq!(last, "tool_call_update: 1.0 failed", "what was open is told to be at an end");
    editor.is_quiet().await;
}

/// Row 88. The cancel races the end of the answer, from both sides: there is one answer, and nothing after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_crosses_the_end_changes_nothing_twice() {
    let world = World::new(SCRIPT).await;
    let (mut editor, session) = editor(&world).await;
    let mut ended = std::collections::BTreeSet::new();
    for i in 0..40 {
        let prompt = editor.prompt(&session, "hi").await;
        for _ in 0..i {
            tokio::task::yield_now().await;
        }
        editor.notify("session/cancel", json!({"sessionId": session})).await;
        let answer = editor.answer_to(&prompt).await;
        ended.insert(answer["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned());
        // The client fails on a second answer.
        editor.is_quiet().await;
    }
    assert!(ended.iter().all(|stop| stop == "end_turn" || stop == "cancelled"), "{ended:?}");
    world.check().await;
}

/// Row 91. The host ends in the middle of a call; nobody knows what became of it, and the next turn goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_a_crash_interrupted_is_shown_so() {
    let world = Setup::new(SCRIPT).reach(0).world().await;
    let (mut editor, session) = editor(&world).await;
    editor.prompt(&session, "wait").await;
    until(|| !world.log.executions().is_empty()).await;
    world.host.clone().shutdown().await;
    drop(editor);
    let later = host(&world.parts).await;
    later.sweep().await.expect("a sweep");
    later.settled().await;
    let mut editor = Editor::open_on(&later).await;
    let (shown, _) = editor.load(&session).await;
    let told = [
        "user_message 0: wait",
        "agent_message 1: I wait.",
        "tool_call: 1.0 pending",
        "tool_call_update: 1.0 failed",
        "agent_thought 3-notice: Attempt 1 was interrupted; its work so far is kept.",
    ];
    assert_eq!(shown[..told.len()], told);
    let failed = editor.seen.iter().find(|line| line["params"]["update"]["status"] == "failed").expect("a failure");
    assert_eq!(failed["params"]["update"]["_meta"]["writ/outcome"], "interrupted");
    assert!(
        failed["params"]["update"]["content"][0]["content"]["text"].as_str().expect("text").contains("interrupted")
    );
    assert_eq!(world.log.executions().len(), 1, "it was not run again");
    assert_eq!(editor.turn(&session, "hi").await, "end_turn");
}

/// Row 91: clients that can show notices get one.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_is_one_for_those_who_can_show_it() {
    let world = Setup::new(SCRIPT).reach(0).world().await;
    let (mut editor, session) = editor(&world).await;
    editor.prompt(&session, "wait").await;
    until(|| !world.log.executions().is_empty()).await;
    world.host.clone().shutdown().await;
    let later = host(&world.parts).await;
    later.sweep().await.expect("a sweep");
    later.settled().await;
    let mut editor = Editor::start(&later);
    let capabilities = json!({"session": {"notices": {}}});
    editor.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities})).await;
    editor.load(&session).await;
    let notice = editor.seen.iter().find(|line| line["params"]["update"]["sessionUpdate"] == "notice");
    let title = &notice.expect("a notice")["params"]["update"]["title"];
    assert_eq!(title, "Attempt 1 was interrupted; its work so far is kept.");
}

/// Row 92. Who leaves in the middle of a turn finds it again: under way, with what is still to come, or done.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_outlives_the_client_that_asked_for_it() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let (mut editor, session) = editor(&world).await;
    editor.prompt(&session, "grow").await;
    editor.prompt(&session, "hi").await;
    until(|| world.model.calls() > 0).await;
    gate.let_go(1);
    editor.update("agent_message_chunk").await;
    editor.leave().await;
    let mut editor = Editor::open(&world).await;
    let (shown, answer) = editor.load(&session).await;
    assert_eq!((shown, &answer["result"]), (vec!["user_message 0: grow".to_owned()], &json!({})));
    let from = editor.seen.len();
    gate.open();
    editor.until(|line| line["params"]["update"]["messageId"] == "3").await;
    let told = ["agent_message 1: one two three four", "user_message 2: hi", "agent_message 3: Hello."];
    assert_eq!(editor.short(from, &session), told);
    world.host.settled().await;
    editor.is_quiet().await;
    let again = editor.load(&session).await.0;
    assert_eq!(again[1..], told);
    world.check().await;
}

/// Row 89: a turn that ends while its session is being loaded is told to its end all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_ends_during_a_load_is_told_to_its_end() {
    let store = Arc::new(MeanwhileStore::new(Arc::new(MemoryStore::new())));
    let mut world = Setup::new(SCRIPT).store(store.clone()).world().await;
    let gate = Gate::close(&mut world).await;
    let (mut first, session) = editor(&world).await;
    first.prompt(&session, "hi").await;
    until(|| world.model.calls() > 0).await;
    first.leave().await;
    let (_, thread) = session.split_once('/').expect("agent/thread");
    let path = format!("/v1/agents/helper/threads/{thread}/submissions");
    let listed = world.send(Request::get(path)).await.json().expect("JSON");
    let all = listed["submissions"].as_array().expect("submissions");
    let id = all.iter().find(|s| s["kind"] == "run").and_then(|s| s["id"].as_str()).expect("a turn").to_owned();
    // The load has read the head by then.
    let settled = store.until_settled(&id);
    store.before(format!("/sub/{id}"), async move {
        gate.open();
        settled.await;
    });
    let mut later = Editor::open(&world).await;
    let (shown, answer) = later.load(&session).await;
    assert_eq!((shown, &answer["result"]), (vec!["user_message 0: hi".to_owned()], &json!({})));
    later.until(|line| line["params"]["update"]["messageId"] == "1").await;
    assert_eq!(later.short(0, &session), ["user_message 0: hi", "agent_message 1: Hello."]);
    later.is_quiet().await;
    world.check().await;
}

/// Row 89: who loads a session twice in the middle of a turn is told of the rest once; and each load has one answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_load_takes_the_place_of_the_first() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let (mut editor, session) = editor(&world).await;
    editor.prompt(&session, "grow").await;
    until(|| world.model.calls() > 0).await;
    editor.leave().await;
    let mut editor = Editor::open(&world).await;
    let place = json!({"sessionId": session, "cwd": "/work", "mcpServers": []});
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(editor.send("session/load", place.clone()).await);
    }
    for id in &ids {
        let answer = editor.answer_to(id).await;
        assert!(answer["result"] == json!({}) || code(&answer) == -32800, "{answer}");
    }
    editor.load(&session).await;
    let from = editor.seen.len();
    gate.open();
    world.host.settled().await;
    editor.until(|line| line["params"]["update"]["content"]["text"].as_str().is_some_and(|t| t.ends_with("our"))).await;
    editor.is_quiet().await;
    assert_eq!(editor.short(from, &session), ["agent_message 1: one two three four"]);
}

/// Row 92: what was under way at the load can be cancelled by whoever loaded it.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_an_earlier_client_can_be_cancelled() {
    let mut world = World::new(SCRIPT).await;
    let _gate = Gate::close(&mut world).await;
    let (mut editor, session) = editor(&world).await;
    editor.prompt(&session, "grow").await;
    until(|| world.model.calls() > 0).await;
    editor.leave().await;
    let mut editor = Editor::open(&world).await;
    editor.load(&session).await;
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    world.host.settled().await;
    editor.is_quiet().await;
    let thread = session.strip_prefix("helper/").expect("the agent's");
    let stored =
        world.send(host_sim::data::Request::get(world.route(thread, "submissions"))).await.json().expect("JSON");
    let last = stored["submissions"].as_array().expect("submissions").last().expect("one").clone();
    assert_eq!(last["outcome"], json!({"status": "aborted", "reason": "cancelled"}));
}

/// Row 93. Two sessions go on side by side, each update under its own name; in one, prompts wait for each other.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_do_not_mix_and_prompts_of_one_wait() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let (mut editor, one) = editor(&world).await;
    let two = editor.session().await;
    let from = editor.seen.len();
    let first = editor.prompt(&one, "look").await;
    let other = editor.prompt(&two, "grow").await;
    let second = editor.prompt(&one, "grow").await;
    until(|| world.model.calls() == 2).await;
    gate.open();
    for id in [&first, &other, &second] {
        assert_eq!(editor.answer_to(id).await["result"]["stopReason"], "end_turn");
    }
    assert_eq!(editor.short(from, &two), ["agent_message 1: one two three four"]);
    let told = editor.short(from, &one);
    assert_eq!(told.last().map(String::as_str), Some("agent_message 5: one two three four"), "{told:?}");
    // Nothing of the second turn comes before the answer of the first.
    let at = |is: &dyn Fn(&serde_json::Value) -> bool| editor.seen.iter().position(is).expect("a line");
    let answered = at(&|line| line["id"] == first);
    let begins =
        at(&|line| line["params"]["update"]["messageId"] == "5" && line["params"]["sessionId"] == one.as_str());
    assert!(answered < begins, "{answered} {begins}");
    world.check().await;
}

/// Row 93: a cancel ends all prompts of its session, and none begins because another has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_what_waits_too() {
    let mut world = World::new(SCRIPT).await;
    let _gate = Gate::close(&mut world).await;
    let (mut editor, session) = editor(&world).await;
    let first = editor.prompt(&session, "grow").await;
    let second = editor.prompt(&session, "hi").await;
    until(|| world.model.calls() > 0).await;
    editor.notify("session/cancel", json!({"sessionId": session})).await;
    for id in [&first, &second] {
        assert_eq!(editor.answer_to(id).await["result"]["stopReason"], "cancelled");
    }
    assert_eq!(world.model.calls(), 1);
}

/// Row 83: a prompt with a key that comes again is the same turn, told again, on this connection or on the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_is_asked_again_is_the_same_turn() {
    let world = World::new(SCRIPT).await;
    let (mut editor, session) = editor(&world).await;
    editor.turn(&session, "hi").await;
    let prompt = |text: &str| {
        let prompt = json!([{"type": "text", "text": text}]);
        json!({"sessionId": session, "prompt": prompt, "_meta": {"writ/idempotencyKey": "k"}})
    };
    let from = editor.seen.len();
    let first = editor.ask("session/prompt", prompt("look")).await["result"].clone();
    let told = editor.short(from, &session);
    let asked = world.model.calls();
    let mut later = Editor::open_on(&host(&world.parts).await).await;
    let from = later.seen.len();
    assert_eq!(later.ask("session/prompt", prompt("look")).await["result"], first);
    assert_eq!(later.short(from, &session), told);
    assert_eq!(world.model.calls(), asked, "the model was not asked again");
    let conflict = later.ask("session/prompt", prompt("other")).await;
    assert_eq!((code(&conflict), &conflict["error"]["data"]["field"]), (-32602, &json!("message")));
}
