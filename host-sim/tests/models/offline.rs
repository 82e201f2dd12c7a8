//! The offline model.

use std::sync::Arc;

use host_sim::model::Event;
use host_sim::model::StopReason;
use host_sim::model::offline::OfflineModel;
use serde_json::Value;
use serde_json::json;

use crate::support::TestClock;
use crate::support::ask;
use crate::support::request;
use crate::support::result;
use crate::support::text;
use crate::support::user;

fn model(word_ms: u64) -> OfflineModel {
    OfflineModel::new(Arc::new(TestClock::default()), word_ms)
}

fn called(events: &[Event]) -> Option<(String, Value)> {
    events.iter().find_map(|event| match event {
        Event::Call { name, arguments, .. } => Some((name.clone(), serde_json::from_str(arguments).unwrap())),
        _ => None,
    })
}

#[tokio::test]
async fn it_acknowledges_word_by_word_and_the_same_each_time() {
    let events = ask(&model(5), request(0, json!([user("good morning")]))).await;
    assert!(text(&events).starts_with("You said: good morning"));
    assert!(events.contains(&Event::Text("good ".to_owned())));
    assert_eq!(events.last(), Some(&Event::Stop(StopReason::End)));
    assert_eq!(events, ask(&model(0), request(0, json!([user("good morning")]))).await);
}

#[tokio::test]
async fn commands_become_calls_and_their_result_the_answer() {
    let cases = [
        ("/read a.md", "read", json!({"path": "a.md"})),
        ("/write a.md some  text", "write", json!({"path": "a.md", "content": "some  text"})),
        ("/list", "list", json!({})),
        ("/list notes/", "list", json!({"prefix": "notes/"})),
    ];
    for (asked, name, arguments) in cases {
        let events = ask(&model(0), request(0, json!([user(asked)]))).await;
        assert_eq!(called(&events), Some((name.to_owned(), arguments)));
        assert_eq!(events.last(), Some(&Event::Stop(StopReason::ToolUse)));
    }
    let after =
        json!([user("/list"), {"role": "assistant", "content": []}, result("call-0", "list", "a.md (1 bytes)")]);
    let events = ask(&model(0), request(1, after)).await;
    assert_eq!(text(&events), "The tool says:\na.md (1 bytes)");
    assert_eq!(called(&events), None);
}

#[tokio::test]
async fn it_explains_what_it_can_not_do() {
    for asked in ["/read", "/write a.md"] {
        assert!(text(&ask(&model(0), request(0, json!([user(asked)]))).await).contains("Please name"));
    }
    let without = host_sim::model::ModelRequest { tools: "[]".to_owned(), ..request(0, json!([user("/list")])) };
    let events = ask(&model(0), without).await;
    assert!(text(&events).contains("no tool `list`"));
    assert_eq!(called(&events), None);
}
