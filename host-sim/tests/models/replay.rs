//! Recordings, and playing them back.

use std::sync::Arc;
use std::sync::Mutex;

use async_trait::async_trait;
use host_sim::model::Event;
use host_sim::model::Model;
use host_sim::model::ModelError;
use host_sim::model::StopReason;
use host_sim::model::replay::ReplayModel;
use host_sim::model::replay::Steer;
use host_sim::recording::Input;
use host_sim::recording::LINE_BYTES_MAX;
use host_sim::recording::MESSAGES_MAX;
use host_sim::recording::Recording;
use host_sim::recording::RecordingError;
use host_sim::tools::Policy;
use host_sim::tools::Tools;
use host_sim::tools::replay::ReplayTools;
use serde_json::Value;
use serde_json::json;

use crate::support::TestClock;
use crate::support::ask;
use crate::support::assistant;
use crate::support::call;
use crate::support::drain;
use crate::support::refusal;
use crate::support::request;
use crate::support::result;
use crate::support::said;
use crate::support::text;
use crate::support::user;

/// A recording of these messages.
pub fn recording(messages: &[Value]) -> Recording {
    let line = |message: &Value| json!({"type": "message", "message": message}).to_string() + "\n";
    Recording::read(messages.iter().map(line).collect::<String>().as_bytes()).unwrap()
}

/// An answer that calls `read` once for each id.
pub fn calling(text: &str, ids: &[&str], stop: &str) -> Value {
    let mut content = vec![json!({"type": "text", "text": text})];
    content.extend(ids.iter().map(|id| json!({"type": "toolCall", "id": id, "name": "read", "arguments": {"n": 1}})));
    json!({"role": "assistant", "content": content, "stopReason": stop, "errorMessage": "stopped"})
}

/// A session with a steer, a pause, and an aborted answer with an open call.
pub fn session() -> Vec<Value> {
    vec![
        user("begin"),
        calling("looking", &["c1", "c2"], "toolUse"),
        result("c1", "read", "one"),
        result("c2", "read", "two"),
        user("wait"),
        user("no, go on"),
        assistant("going on"),
        assistant("and on"),
        user("more"),
        calling("half", &["c3"], "aborted"),
        user("again"),
        assistant("done"),
    ]
}

#[derive(Default)]
struct Steers(Mutex<Vec<usize>>);

#[async_trait]
impl Steer for Steers {
    async fn steer(&self, input: usize) {
        self.0.lock().unwrap().push(input);
    }
}

fn bench(messages: &[Value]) -> (ReplayModel, Arc<Steers>) {
    let steers = Arc::new(Steers::default());
    (ReplayModel::new(Arc::new(recording(messages)), steers.clone()), steers)
}

#[test]
fn inputs_and_tools_are_found() {
    let recording = recording(&session());
    let inputs = [(0, false), (4, true), (5, true), (8, false), (10, false)];
    assert_eq!(recording.inputs, inputs.map(|(message, steer)| Input { message, steer }));
    assert_eq!(recording.tools(), ["read"]);
}

#[test]
fn foreign_lines_are_passed_over_and_bad_ones_named() {
    let good = "\u{feff}{\"type\":\"session\",\"x\":1}\r\n\n{\"type\":\"label\"}\n\
        {\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"a\\ud83d\",\"new\":1}}\n\
        {\"type\":\"message\",\"message\":{\"role\":\"notice\",\"kind\":\"attempt-ended\",\"content\":[]}}\n\
        {\"type\":\"message\",\"message\":{\"role\":\"summary\",\"content\":[]}}\n\
        {\"type\":\"message\",\"message\":{\"role\":\"bashExecution\",\"command\":\"ls\"}}";
    let read = Recording::read(good.as_bytes()).unwrap();
    assert_eq!(read.messages.len(), 1);
    assert_eq!(read.messages[0].text(), "a\u{fffd}");
    assert_eq!(read.asides.iter().map(|(before, _)| *before).collect::<Vec<_>>(), [1, 1]);

    let cases = [
        ("{\"type\":\"x\"}\n{broken\n", 2, "key must be a string"),
        ("[]\n", 1, "not a JSON object"),
        ("{\"type\":\"message\"}\n", 1, "without `message`"),
        ("{\"type\":\"message\",\"message\":{\"content\":[]}}\n", 1, "without `role`"),
        ("{\"type\":\"message\",\"message\":{\"role\":\"user\"}}\n", 1, "`content`"),
        (
            "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}}",
            1,
            "without `text`",
        ),
        ("{\"type\":\"message\",\"message\":{\"role\":\"toolResult\",\"content\":[]}}\n", 1, "without `toolCallId`"),
    ];
    for (text, at, what) in cases {
        match Recording::read(text.as_bytes()) {
            Err(RecordingError::Line { line, reason }) => {
                assert_eq!(line, at, "{text}");
                assert!(reason.contains(what), "{text}: {reason}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    let missing = Recording::load("no/such/file").unwrap_err();
    assert!(missing.to_string().contains("no/such/file"));
}

#[test]
fn limits_hold_at_the_boundary() {
    for end in ["", "\n"] {
        let line = |bytes: usize| format!("{{\"type\":\"x\",\"y\":\"{}\"}}{end}", "y".repeat(bytes - 19));
        assert_eq!(line(50).trim().len(), 50);
        assert!(Recording::read(line(LINE_BYTES_MAX).as_bytes()).is_ok());
        let error = Recording::read(line(LINE_BYTES_MAX + 1).as_bytes()).unwrap_err();
        assert!(error.to_string().contains("line 1: longer than"), "{error}");
    }
    let line = "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":[]}}\n";
    assert_eq!(Recording::read(line.repeat(MESSAGES_MAX).as_bytes()).unwrap().messages.len(), MESSAGES_MAX);
    let error = Recording::read(line.repeat(MESSAGES_MAX + 1).as_bytes()).unwrap_err();
    assert!(error.to_string().contains("line 100001"), "{error}");
}

#[tokio::test]
async fn a_whole_session_is_played() {
    let session = session();
    let (model, steers) = bench(&session);
    let upto = |count: usize| json!(session[..count]);

    let events = ask(&model, request(0, upto(1))).await;
    assert_eq!(text(&events), "looking");
    assert!(events.iter().filter(|event| matches!(event, Event::Text(_))).count() > 1);
    let calls = events.iter().filter(|event| matches!(event, Event::Call { name, .. } if name == "read")).count();
    assert_eq!(calls, 2);
    assert_eq!(events.last(), Some(&Event::Stop(StopReason::ToolUse)));

    // Two steers come in, one after the other; asking again before one has arrived hands it over again.
    for (count, input) in [(4, 1), (4, 1), (5, 2)] {
        let error = refusal(&model, request(1, upto(count))).await;
        assert!(matches!(error, ModelError::Transient { retry_after_ms: Some(0), .. }));
        assert_eq!(steers.0.lock().unwrap().last(), Some(&input));
    }
    let events = ask(&model, request(1, upto(6))).await;
    assert_eq!(text(&events), "going on");
    assert_eq!(events.last(), Some(&Event::Stop(StopReason::Pause)));
    let events = ask(&model, request(2, upto(7))).await;
    assert_eq!(events.last(), Some(&Event::Stop(StopReason::End)));

    let (events, error) = drain(model.start(request(3, upto(9))).await.unwrap()).await;
    assert_eq!(text(&events), "half");
    assert!(events.iter().any(|event| matches!(event, Event::Call { id, .. } if id == "c3")));
    assert_eq!(error, Some(ModelError::Cancelled("stopped".to_owned())));
    // An aborted answer is left out of what a model is asked with.
    let mut kept = session[..9].to_vec();
    kept.push(user("again"));
    assert_eq!(text(&ask(&model, request(4, json!(kept))).await), "done");
    assert_eq!(*steers.0.lock().unwrap(), [1, 1, 2]);

    let error = refusal(&model, request(5, json!(session))).await;
    assert!(matches!(error, ModelError::Invalid(why) if why.contains("5 answers") && why.contains("number 5")));
}

#[tokio::test]
async fn a_steer_with_the_words_of_the_message_before_it_is_not_lost() {
    let session =
        [user("go on"), calling("", &["c1"], "toolUse"), result("c1", "read", ""), user("go on"), assistant("ok")];
    let (model, steers) = bench(&session);
    assert!(matches!(refusal(&model, request(1, json!(session[..3]))).await, ModelError::Transient { .. }));
    assert_eq!(*steers.0.lock().unwrap(), [1]);
    assert_eq!(text(&ask(&model, request(1, json!(session[..4]))).await), "ok");
}

#[tokio::test]
async fn a_session_elsewhere_is_told_where_it_left() {
    let session = session();
    let (model, steers) = bench(&session);
    let long = "x".repeat(5000);
    let cases = [
        (0, json!([user("start")]), "answer 0: expected the last user message (input 0) \"begin\", got \"start\""),
        (0, json!([]), "got none"),
        (3, json!(session[..6]), "(input 3) \"more\""),
        (1, json!([user("begin"), result("c1", "read", ""), user("stop")]), "(input 2) \"no, go on\", got \"stop\""),
        (0, json!([user(&long)]), "x\"…"),
    ];
    for (turn, messages, expected) in cases {
        match refusal(&model, request(turn, messages)).await {
            ModelError::Invalid(why) => {
                assert!(why.contains(expected), "{why}");
                assert!(why.len() < 400, "{why}");
            }
            other => panic!("{other}"),
        }
    }
    assert!(steers.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn endings_blocks_and_usage_are_kept() {
    let answer = |stop: &str| {
        json!({"role": "assistant", "stopReason": stop, "usage": {"input": 3, "output": 4, "costMicrousd": 5},
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}]})
    };
    let stops = [("stop", StopReason::End), ("length", StopReason::Length), ("pause", StopReason::Pause)];
    for (recorded, expected) in stops {
        let (model, _) = bench(&[user("hi"), answer(recorded)]);
        let events = ask(&model, request(0, json!([user("hi")]))).await;
        assert_eq!(events[0], Event::Block(r#"{"thinking":"hm","type":"thinking"}"#.to_owned()));
        assert!(matches!(events[2], Event::Usage(usage) if usage.cost_microusd == Some(5)));
        assert_eq!(events[3], Event::Stop(expected));
    }
    let (model, _) = bench(&[user("hi"), answer("error")]);
    let (_, error) = drain(model.start(request(0, json!([user("hi")]))).await.unwrap()).await;
    assert!(matches!(error, Some(ModelError::Invalid(_))));
    assert_eq!(model.describe("any").await.unwrap().context_window, u32::MAX / 2);
}

#[tokio::test]
async fn delays_are_on_the_clock() {
    let clock = Arc::new(TestClock::default());
    let (model, _) = bench(&[user("hi"), assistant("abc")]);
    ask(&model.with_delay(clock.clone(), 10), request(0, json!([user("hi")]))).await;
    assert_eq!(*clock.waits.lock().unwrap(), [10, 20, 30]);
    let tools = ReplayTools::new(Arc::new(recording(&session()))).with_delay(clock.clone(), 5);
    tools.run(call("k", "read", json!({}))).await;
    assert_eq!(clock.waits.lock().unwrap().last(), Some(&35));
}

#[tokio::test]
async fn tools_give_the_recorded_results() {
    let mut failed = result("c2", "read", "two");
    failed["isError"] = json!(true);
    let session = [
        user("hi"),
        calling("", &["c1", "c2"], "toolUse"),
        result("c1", "read", "one"),
        failed,
        calling("", &["same"], "toolUse"),
        result("same", "read", "three"),
        calling("", &["same"], "toolUse"),
        result("same", "read", "four"),
    ];
    let tools = ReplayTools::new(Arc::new(recording(&session)));
    assert_eq!(tools.describe().len(), 1);
    assert_eq!(tools.describe()[0].policy, Policy::Plain);
    let run = async |key: &str, id: &str, arguments: Value| {
        let call = host_sim::tools::Call { call_id: id.to_owned(), ..call(key, "read", arguments) };
        said(&tools.run(call).await)
    };
    let args = || json!({"n": 1});
    assert_eq!(run("b", "c2", args()).await, Err("two".to_owned()));
    assert_eq!(run("a", "c1", args()).await, Ok("one".to_owned()));
    // Where an id comes twice, order decides, and the effect key keeps a call's result.
    assert_eq!(run("c", "same", args()).await, Ok("three".to_owned()));
    assert_eq!(run("c", "same", args()).await, Ok("three".to_owned()));
    assert_eq!(run("d", "same", args()).await, Ok("four".to_owned()));
    assert!(run("e", "same", args()).await.unwrap_err().contains("no result for call `same`"));
    assert!(run("f", "other", json!({"n": 2})).await.is_err());
    assert_eq!(run("g", "other", args()).await, Ok("one".to_owned()));
}
