//! The scripted model: which answer, in which pieces, when, and every way to fail.

use std::sync::Arc;
use std::task::Poll;

use host_sim::clock::Clock;
use host_sim::model::Event;
use host_sim::model::Model;
use host_sim::model::ModelError;
use host_sim::model::StopReason;
use host_sim::model::Usage;
use host_sim::model::scripted::ScriptedModel;
use host_sim::script::Script;
use serde_json::json;

use crate::support::TestClock;
use crate::support::ask;
use crate::support::assistant;
use crate::support::drain;
use crate::support::refusal;
use crate::support::request;
use crate::support::text;
use crate::support::user;

fn model(script: &str) -> ScriptedModel {
    ScriptedModel::new(Arc::new(Script::parse(script).unwrap()), Arc::new(TestClock::default()))
}

#[tokio::test]
async fn an_answer_comes_in_pieces_with_calls_usage_and_stop() {
    let model = model(
        r#"
        [[answer]]
        text = "abcdef"
        chunks = 3
        blocks = [ { type = "thinking", thinking = "hm" } ]
        calls = [ { name = "a", arguments = { n = 7 } }, { name = "b", id = "x", arguments = "{broken" } ]
        usage = { input = 10, cost_microusd = 12 }
        "#,
    );
    let call = |id: &str, name: &str, arguments: &str| Event::Call {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    assert_eq!(
        ask(&model, request(0, json!([user("hi")]))).await,
        [
            Event::Block(r#"{"thinking":"hm","type":"thinking"}"#.to_owned()),
            Event::Text("ab".to_owned()),
            Event::Text("cd".to_owned()),
            Event::Text("ef".to_owned()),
            call("call-0-0", "a", r#"{"n":7}"#),
            call("x", "b", "{broken"),
            Event::Usage(Usage { input_tokens: Some(10), output_tokens: None, cost_microusd: Some(12) }),
            Event::Stop(StopReason::ToolUse),
        ]
    );
}

#[tokio::test]
async fn turn_and_message_choose_the_answer_whatever_came_before() {
    let script = r#"
        [[answer]]
        text = "first"
        [[answer]]
        when = "refund"
        text = "let me look"
        [[answer]]
        text = "second"
        stop = "pause"
    "#;
    // A new model each time, as after a restart.
    let cases = [
        (0, json!([user("hi")]), "first"),
        (1, json!([user("hi"), assistant("first"), user("more")]), "second"),
        (1, json!([user("hi"), assistant("first"), user("a refund")]), "let me look"),
        (2, json!([user("hi"), assistant("first"), user("a refund"), assistant("let me look")]), "second"),
        (0, json!([user("refund")]), "let me look"),
        (9, json!([user("refund")]), "let me look"),
        (1, json!([{"role": "user", "content": "refund"}, assistant("let me look")]), "second"),
    ];
    for (turn, messages, expected) in cases {
        let events = ask(&model(script), request(turn, messages.clone())).await;
        assert_eq!(text(&events), expected, "turn {turn}, {messages}");
    }
}

#[tokio::test]
async fn a_script_that_has_run_out_says_so_or_repeats() {
    let script = "[[answer]]\ntext = \"a\"\n[[answer]]\ntext = \"b\"\n";
    let error = refusal(&model(script), request(2, json!([user("hi")]))).await;
    assert!(matches!(&error, ModelError::Invalid(why) if why.contains("2 answers") && why.contains("number 2")));
    let repeating = model(&format!("[model]\nrepeat_last = true\n{script}"));
    assert_eq!(text(&ask(&repeating, request(7, json!([user("hi")]))).await), "b");
    let empty = model("[model]\nrepeat_last = true\n");
    assert!(matches!(refusal(&empty, request(0, json!([]))).await, ModelError::Invalid(_)));
}

#[tokio::test]
async fn every_kind_of_failure_comes_before_the_stream_or_in_it() {
    let message = || "m".to_owned();
    let kinds = [
        ("cancelled", ModelError::Cancelled(message())),
        ("invalid", ModelError::Invalid(message())),
        ("overflow", ModelError::Overflow(message())),
        ("quota", ModelError::Quota(message())),
        ("refused", ModelError::Refused(message())),
        ("transient", ModelError::Transient { retry_after_ms: None, message: message() }),
        ("unauthorized", ModelError::Unauthorized(message())),
        ("unknown", ModelError::Unknown(message())),
    ];
    for (kind, expected) in kinds {
        let answer = |more: &str| {
            format!("[[answer]]\ntext = \"abcd\"\nchunks = 2\nfail = {{ kind = \"{kind}\", message = \"m\"{more} }}\n")
        };
        assert_eq!(refusal(&model(&answer("")), request(0, json!([user("hi")]))).await, expected);
        for (after, given) in [(0, ""), (1, "ab"), (2, "abcd"), (9, "abcd")] {
            let model = model(&answer(&format!(", after_chunks = {after}")));
            let (events, error) = drain(model.start(request(0, json!([user("hi")]))).await.unwrap()).await;
            assert_eq!((text(&events).as_str(), error.as_ref()), (given, Some(&expected)));
            assert!(!events.iter().any(|event| matches!(event, Event::Stop(_))));
        }
    }
}

#[tokio::test]
async fn failures_are_counted_per_request_key() {
    let model = model("[[answer]]\ntext = \"ok\"\nfail = { kind = \"transient\", retry_after_ms = 500, times = 2 }\n");
    let asked = |key: &str| host_sim::model::ModelRequest { key: key.to_owned(), ..request(0, json!([user("hi")])) };
    for key in ["a", "b"] {
        for _ in 0..2 {
            let error = refusal(&model, asked(key)).await;
            assert!(matches!(error, ModelError::Transient { retry_after_ms: Some(500), .. }));
        }
        assert_eq!(text(&ask(&model, asked(key)).await), "ok");
    }
}

#[tokio::test]
async fn a_cut_stream_ends_without_its_stop_event() {
    for (after, given) in [("", "abcd"), (", after_chunks = 1", "ab")] {
        let script = format!("[[answer]]\ntext = \"abcd\"\nchunks = 2\nfail = {{ cut = true, times = 1{after} }}\n");
        let model = model(&script);
        let events = ask(&model, request(0, json!([user("hi")]))).await;
        assert_eq!(text(&events), given);
        assert!(!events.iter().any(|event| matches!(event, Event::Stop(_))));
        let events = ask(&model, request(0, json!([user("hi")]))).await;
        assert_eq!(events.last(), Some(&Event::Stop(StopReason::End)));
    }
}

#[tokio::test]
async fn delays_are_on_the_clock_before_each_piece() {
    let clock = Arc::new(TestClock::default());
    let script = Script::parse("[[answer]]\ntext = \"abcd\"\nchunks = 2\ndelay_ms = 200\n").unwrap();
    let model = ScriptedModel::new(Arc::new(script), clock.clone());
    let mut completion = model.start(request(0, json!([user("hi")]))).await.unwrap();
    assert_eq!(completion.next(9).await.unwrap(), [Event::Text("ab".to_owned())]);
    assert_eq!(*clock.waits.lock().unwrap(), [200]);
    // A dropped wait loses nothing, and is not begun anew: its due time stays.
    let mut dropped = completion.next(9);
    let poll = std::future::poll_fn(|context| Poll::Ready(dropped.as_mut().poll(context).is_pending())).await;
    assert!(poll);
    drop(dropped);
    clock.wait_until(300).await;
    let rest = completion.next(9).await.unwrap();
    assert_eq!(rest, [Event::Text("cd".to_owned()), Event::Stop(StopReason::End)]);
    assert_eq!(*clock.waits.lock().unwrap(), [200, 300, 400]);
    assert!(completion.next(9).await.unwrap().is_empty());
}

#[tokio::test]
async fn next_takes_no_more_than_asked_for() {
    let model = model("[[answer]]\ntext = \"abc\"\nchunks = 3\n");
    let mut completion = model.start(request(0, json!([user("hi")]))).await.unwrap();
    let sizes = [0, 2, 9].map(|max| (max, [1, 2, 1]));
    for (index, (max, expected)) in sizes.into_iter().enumerate() {
        assert_eq!(completion.next(max).await.unwrap().len(), expected[index]);
    }
}

#[tokio::test]
async fn summaries_and_names() {
    let summary = |model: ScriptedModel| async move {
        let asked = host_sim::model::ModelRequest {
            options: r#"{"purpose": "summary"}"#.to_owned(),
            ..request(0, json!([user("a"), user("b")]))
        };
        text(&ask(&model, asked).await)
    };
    assert_eq!(summary(model("")).await, "A summary of 2 messages.");
    assert_eq!(summary(model("[summary]\ntext = \"short\"\n")).await, "short");
    let named = model("[model]\nname = \"known\"\ncontext_window = 5\n");
    assert_eq!(named.describe("known").await.unwrap().context_window, 5);
    assert_eq!(named.describe("known").await.unwrap().max_output, 8192);
    assert!(matches!(named.describe("m").await, Err(ModelError::Invalid(why)) if why.contains("only `known`")));
    assert!(matches!(refusal(&named, request(0, json!([]))).await, ModelError::Invalid(_)));
    assert!(model("").describe("any").await.is_ok());
}
