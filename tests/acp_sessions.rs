//! ACP: versions, sessions, and what is refused.
#![cfg(not(target_family = "wasm"))]

use serde_json::{Value, json};
use writ_tests::acp::{Editor, code};
use writ_tests::{Gate, World, host, until};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "look"
text = "Let me look."
calls = [{ name = "look", arguments = { at = 7 } }, { name = "look" }]
[[answer]]
text = "Hello."
[[tool]]
name = "look"
reply = "seen"
"#;

fn place(session: &str) -> Value {
    json!({"sessionId": session, "cwd": "/work", "mcpServers": []})
}

/// Rows 80, 81.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_agreed_on_before_anything_else() {
    let world = World::new(SCRIPT).await;
    let mut editor = Editor::start(&world.host);
    for method in ["session/new", "session/load", "session/resume", "session/list", "session/close", "session/delete"] {
        assert_eq!(code(&editor.ask(method, place("helper/t")).await), -32600, "{method}");
    }
    assert_eq!(code(&editor.ask("session/prompt", place("helper/t")).await), -32600);
    assert_eq!(code(&editor.ask("initialize", json!({})).await), -32602);
    for version in [1, 2, 999] {
        let agreed = editor.ask("initialize", json!({"protocolVersion": version})).await;
        assert_eq!(agreed["result"]["protocolVersion"], 1, "{agreed}");
        assert_eq!(agreed["result"]["authMethods"], json!([]));
        assert_eq!(agreed["result"]["agentCapabilities"]["loadSession"], true);
    }
    editor.session().await;
    world.check().await;
}

/// Row 82. A session is stored before it is named: it is there for whoever comes after a crash.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_is_there_for_good() {
    let world = World::new(SCRIPT).await;
    let mut editor = Editor::open(&world).await;
    let one = editor.session().await;
    let before = world.store.calls();
    let two = editor.session().await;
    assert_eq!(world.calls_since(before).commits, 1, "one commit makes a session");
    assert_ne!(one, two);
    let named = editor.seen.iter().filter(|line| line["params"]["sessionId"].is_string()).count();
    assert_eq!(named, 0, "no update names it before it is told");
    for cwd in [json!("work"), json!(""), json!("./work"), json!(7), Value::Null] {
        let refused = editor.ask("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
        assert_eq!(code(&refused), -32602, "{cwd}");
    }
    for cwd in ["C:\\work", "\\\\server\\work"] {
        let made = editor.ask("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
        assert!(made["result"]["sessionId"].is_string(), "{made}");
    }
    let later = host(&world.parts).await;
    let mut editor = Editor::open_on(&later).await;
    let (shown, answer) = editor.load(&one).await;
    assert_eq!((shown, &answer["result"]), (Vec::new(), &json!({})));
    let listed = editor.ask("session/list", json!({"cwd": "/work"})).await;
    let mut names: Vec<&str> = listed["result"]["sessions"]
        .as_array()
        .expect("sessions")
        .iter()
        .filter_map(|s| s["sessionId"].as_str())
        .collect();
    names.sort_unstable();
    let mut expected = [one.as_str(), two.as_str()];
    expected.sort_unstable();
    assert_eq!(names, expected);
    world.check().await;
}

/// Row 82. With a key the same request makes one session, also when it comes again after a crash.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_asked_for_again_is_the_same_one() {
    let world = World::new(SCRIPT).await;
    let mut editor = Editor::open(&world).await;
    let asked = |cwd: &str| json!({"cwd": cwd, "mcpServers": [], "_meta": {"writ/idempotencyKey": "mine"}});
    let first = editor.ask("session/new", asked("/work")).await["result"].clone();
    assert_eq!(editor.ask("session/new", asked("/work")).await["result"], first);
    let mut later = Editor::open_on(&host(&world.parts).await).await;
    assert_eq!(later.ask("session/new", asked("/work")).await["result"], first);
    let conflict = later.ask("session/new", asked("/elsewhere")).await;
    assert_eq!((code(&conflict), &conflict["error"]["data"]["code"]), (-32602, &json!("conflict")));
    let bad = json!({"cwd": "/work", "mcpServers": [], "_meta": {"writ/idempotencyKey": "two words"}});
    assert_eq!(code(&later.ask("session/new", bad).await), -32602);
}

/// Row 82. The agent is the one that the connection was started for, or the first one.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_of_the_agent_that_was_asked_for() {
    let world = World::new(SCRIPT).await;
    let mut editor = Editor::open(&world).await;
    assert!(editor.session().await.starts_with("helper/"));
    let mut other = Editor::start_at(&world.host, "/acp?agent=nobody");
    other.ask("initialize", json!({"protocolVersion": 1})).await;
    let refused = other.ask("session/new", json!({"cwd": "/work", "mcpServers": []})).await;
    assert_eq!(code(&refused), -32602);
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("helper")), "{refused}");
}

/// Row 84.
#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_prompted_is_refused_and_nothing_is_stored() {
    let world = World::new(SCRIPT).await;
    let mut editor = Editor::open(&world).await;
    let session = editor.session().await;
    let before = world.store.calls();
    let said = json!([{"type": "text", "text": "hi"}]);
    for unknown in ["helper/none", "none/none", "nonsense", "", "a/b/c"] {
        let refused = editor.ask("session/prompt", json!({"sessionId": unknown, "prompt": said})).await;
        assert_eq!(code(&refused), -32002, "{unknown}");
    }
    for prompt in [
        Value::Null,
        json!([]),
        json!("hi"),
        json!([{"type": "image", "data": "", "mimeType": "image/png"}]),
        json!([{"type": "video"}]),
    ] {
        let refused = editor.ask("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
        assert_eq!(code(&refused), -32602, "{prompt}");
    }
    assert_eq!(code(&editor.ask("session/prompt", json!({"prompt": said})).await), -32602);
    assert_eq!(world.calls_since(before).commits, 0);
    world.check().await;
}

/// Row 89. The transcript comes whole and in order, then the answer, and the same a second time.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_tells_everything_and_then_answers() {
    let world = World::new(SCRIPT).await;
    let mut editor = Editor::open(&world).await;
    let session = editor.session().await;
    editor.turn(&session, "look").await;
    for n in 0..40 {
        editor.turn(&session, &format!("hi {n}")).await;
    }
    let (first, answer) = editor.load(&session).await;
    assert_eq!(answer["result"], json!({}));
    let head = [
        "user_message 0: look",
        "agent_message 1: Let me look.",
        "tool_call: 1.0 pending",
        "tool_call: 1.1 pending",
        "tool_call_update: 1.0 completed",
        "tool_call_update: 1.1 completed",
        "agent_message 4: Hello.",
        "user_message 5: hi 0",
    ];
    assert_eq!(first[..head.len()], head);
    assert_eq!(first.len(), 7 + 80);
    assert_eq!(editor.load(&session).await.0, first);
    editor.is_quiet().await;
    for unknown in ["helper/none", "nonsense"] {
        assert_eq!(code(&editor.load(unknown).await.1), -32002);
    }
    assert_eq!(code(&editor.ask("session/load", json!({"sessionId": session, "cwd": "work"})).await), -32602);
    let thread = session.strip_prefix("helper/").expect("the agent's");
    assert_eq!(world.transcript(thread).await.len(), 85, "a load changes nothing");
    world.check().await;
}

/// Row 89: a message that does not fit a page of a feed, and one of many blocks, are told like any other.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_of_large_messages_is_whole() {
    let world = World::new(SCRIPT).await;
    let mut editor = Editor::open(&world).await;
    let session = editor.session().await;
    let large = "x".repeat(150_000);
    for _ in 0..30 {
        assert_eq!(editor.turn(&session, &large).await, "end_turn");
    }
    let blocks: Vec<Value> = (0..256).map(|n| json!({"type": "text", "text": format!("{n};")})).collect();
    editor.ask("session/prompt", json!({"sessionId": session, "prompt": blocks})).await;
    let (mut shown, _) = editor.load(&session).await;
    // They do not fit the model's window, either.
    shown.retain(|update| !update.starts_with("agent_thought"));
    assert_eq!(shown.len(), 62);
    assert!(shown[..60].chunks(2).all(|turn| turn[0].len() > large.len() && turn[1].ends_with("Hello.")));
    assert!(shown[60].ends_with("254;255;"), "{}", shown[60]);
}

/// Row 90.
#[tokio::test(flavor = "multi_thread")]
async fn a_resume_tells_nothing_and_the_conversation_goes_on() {
    let world = World::new(SCRIPT).await;
    let mut editor = Editor::open(&world).await;
    let session = editor.session().await;
    editor.turn(&session, "look").await;
    let mut later = Editor::open_on(&host(&world.parts).await).await;
    let answer = later.ask("session/resume", json!({"sessionId": session, "cwd": "/work"})).await;
    assert_eq!(answer["result"], json!({}));
    later.is_quiet().await;
    assert_eq!(later.turn(&session, "hi").await, "end_turn");
    assert_eq!(code(&later.ask("session/resume", json!({"sessionId": "helper/none", "cwd": "/work"})).await), -32002);
}

/// Row 94.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_page_by_page() {
    let world = World::new(SCRIPT).await;
    let mut editor = Editor::open(&world).await;
    let mut made = Vec::new();
    for _ in 0..110 {
        made.push(editor.session().await);
    }
    // Made by another face: it has no working directory, and is there all the same.
    world.ask("elsewhere", "k", "hi").await;
    made.push("helper/elsewhere".into());
    let (mut found, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let page = editor.ask("session/list", json!({"cursor": cursor})).await["result"].clone();
        for session in page["sessions"].as_array().expect("sessions") {
            assert!(session["cwd"].as_str().is_some_and(|cwd| cwd.starts_with('/')), "{session}");
            found.push(session["sessionId"].as_str().expect("a name").to_owned());
        }
        pages += 1;
        match page.get("nextCursor") {
            None => break,
            Some(next) => cursor = next.clone(),
        }
    }
    assert!(pages > 1);
    made.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, made);
    for bad in ["", "no", "1", "999.0", "0.x", "-1.0"] {
        assert_eq!(code(&editor.ask("session/list", json!({"cursor": bad})).await), -32602, "{bad:?}");
    }
    let none = editor.ask("session/list", json!({"cwd": "/nowhere"})).await;
    assert_eq!(none["result"]["sessions"], json!([]));
}

/// Row 95.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_cancels_and_a_delete_is_for_good() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let mut editor = Editor::open(&world).await;
    let session = editor.session().await;
    let prompt = editor.prompt(&session, "hi").await;
    until(|| world.model.calls() > 0).await;
    assert_eq!(editor.ask("session/close", json!({"sessionId": session})).await["result"], json!({}));
    assert_eq!(editor.answer_to(&prompt).await["result"]["stopReason"], "cancelled");
    gate.open();
    assert_eq!(editor.turn(&session, "hi").await, "end_turn", "it is still there");
    assert_eq!(code(&editor.ask("session/close", json!({"sessionId": "helper/none"})).await), -32002);
    for _ in 0..2 {
        assert_eq!(editor.ask("session/delete", json!({"sessionId": session})).await["result"], json!({}));
        assert_eq!(editor.ask("session/list", json!({})).await["result"]["sessions"], json!([]));
        assert_eq!(code(&editor.load(&session).await.1), -32002);
        world.host.settled().await;
    }
    assert_eq!(editor.ask("session/delete", json!({"sessionId": "nonsense"})).await["result"], json!({}));
    world.check().await;
}

/// Row 95: a session that is deleted in the middle of a turn ends it, with one answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_delete_in_the_middle_of_a_turn_ends_it() {
    let mut world = World::new(SCRIPT).await;
    let _gate = Gate::close(&mut world).await;
    let mut editor = Editor::open(&world).await;
    let session = editor.session().await;
    let prompt = editor.prompt(&session, "hi").await;
    until(|| world.model.calls() > 0).await;
    editor.ask("session/delete", json!({"sessionId": session})).await;
    assert_eq!(editor.answer_to(&prompt).await["result"]["stopReason"], "cancelled");
    editor.is_quiet().await;
}

/// Row 96.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_is_told_and_the_connection_goes_on() {
    let world = World::new(SCRIPT).await;
    let mut editor = Editor::open(&world).await;
    for method in ["nonsense", "_x", "_x/y", "session/set_mode", "session/set_config_option", "session/fork", "logout"]
    {
        assert_eq!(code(&editor.ask(method, json!({})).await), -32601, "{method}");
    }
    assert_eq!(code(&editor.ask("authenticate", json!({"methodId": "none"})).await), -32602);
    for method in ["nonsense", "_x", "session/cancel", "$/cancel_request"] {
        editor.notify(method, json!({})).await;
    }
    for (line, expected) in [
        ("{", -32700),
        ("\u{1}", -32700),
        ("[]", -32600),
        ("7", -32600),
        (r#"{"jsonrpc":"1.0","method":"initialize"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"initialize"}"#, -32600),
    ] {
        editor.line(line).await;
        let told = editor.next().await;
        assert_eq!((code(&told), &told["id"]), (expected, &Value::Null), "{line}");
    }
    for answer in ["1", "\"perm:\"", "\"perm:3f-x:1.0\"", "\"perm:nonsense\""] {
        editor
            .line(&format!(r#"{{"jsonrpc":"2.0","id":{answer},"result":{{"outcome":{{"outcome":"cancelled"}}}}}}"#))
            .await;
    }
    editor.line("").await;
    editor.is_quiet().await;
    let long = "x".repeat(300_000);
    let told = editor.ask("session/prompt", json!({"sessionId": long})).await;
    assert_eq!((code(&told), &told["error"]["data"]["limit"]), (-32600, &json!(262_144)));
    let session = editor.session().await;
    assert_eq!(editor.turn(&session, "hi").await, "end_turn");
}

/// Over the network there is no such face.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_pipe_leads_here() {
    let world = World::new(SCRIPT).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}});
    let response = world.send(host_sim::data::Request::post("/acp", &body)).await;
    assert_eq!(response.status, 404);
}
