//! The comparison: what it allows, and that it catches everything else.

use host_sim::compare::Report;
use host_sim::compare::compare;
use serde_json::Value;
use serde_json::json;

use crate::replay::calling;
use crate::replay::recording;
use crate::replay::session;
use crate::support::assistant;
use crate::support::result;
use crate::support::user;

/// The session as a faithful store would have it.
fn stored() -> Vec<Value> {
    let mut stored = session();
    let mut closed = result("c3", "read", "never started");
    closed["outcome"] = json!("notRun");
    closed["isError"] = json!(true);
    stored.insert(10, closed);
    stored
}

fn against(stored: &[Value]) -> Report {
    compare(stored, &recording(&session()))
}

#[test]
fn a_faithful_copy_has_no_differences() {
    let report = against(&stored());
    assert!(report.is_same(), "{report}");
    assert_eq!(report.messages, 12);
    assert_eq!(report.closed_open, [10]);
    let copy = compare(&session(), &recording(&session()));
    assert!(copy.is_same() && copy.closed_open.is_empty());
    assert_eq!(serde_json::to_value(&copy).unwrap()["messages"], 12);
}

#[test]
fn interrupted_results_and_notices_are_allowed_and_listed() {
    let mut stored = stored();
    stored[3] = json!({"role": "toolResult", "toolCallId": "c2", "toolName": "read", "isError": true,
        "outcome": "interrupted", "content": [{"type": "text", "text": "unknown"}]});
    stored.insert(4, json!({"role": "notice", "kind": "attempt-ended", "content": []}));
    let report = against(&stored);
    assert!(report.is_same(), "{report}");
    assert_eq!((report.interrupted, report.notices, report.closed_open), (vec![3], vec![4], vec![11]));
}

#[test]
fn pieces_of_a_text_are_one_text() {
    let mut stored = stored();
    stored[6]["content"] =
        json!([{"type": "text", "text": "going"}, {"type": "text", "text": ""}, {"type": "text", "text": " on"}]);
    // After the calls, where there is no text that it could join.
    let blocks = stored[1]["content"].as_array_mut().unwrap();
    blocks.push(json!({"type": "text", "text": ""}));
    assert!(against(&stored).is_same());
}

#[test]
fn each_kind_of_difference_is_caught() {
    type Change = fn(&mut Vec<Value>);
    let cases: [(&str, Change, usize, &str); 15] = [
        ("text", |all| all[6]["content"][0]["text"] = json!("going off"), 6, "content[0].text"),
        ("user text", |all| all[0]["content"][0]["text"] = json!("start"), 0, "content[0].text"),
        ("call name", |all| all[1]["content"][1]["name"] = json!("write"), 1, "content[1].name"),
        ("call id", |all| all[1]["content"][1]["id"] = json!("c9"), 1, "content[1].id"),
        ("arguments", |all| all[1]["content"][2]["arguments"] = json!({"n": 2}), 1, "content[2].arguments"),
        ("result text", |all| all[2]["content"][0]["text"] = json!("uno"), 2, "content[0].text"),
        ("result error", |all| all[2]["isError"] = json!(true), 2, "isError"),
        ("result outcome", |all| all[2]["outcome"] = json!("denied"), 2, "outcome"),
        ("not run", |all| all[2]["outcome"] = json!("notRun"), 2, "outcome"),
        ("missing call", |all| drop(all[1]["content"].as_array_mut().unwrap().pop()), 1, "content[2]"),
        ("twice", |all| all.insert(9, user("more")), 9, "message"),
        ("answer twice", |all| all.push(assistant("done")), 13, "message"),
        ("missing", |all| drop(all.remove(3)), 3, "message"),
        ("missing at the end", |all| drop(all.pop()), 12, "message"),
        ("unknown role", |all| all.insert(0, json!({"role": "summary", "content": []})), 0, "message"),
    ];
    for (what, change, index, field) in cases {
        let mut stored = stored();
        change(&mut stored);
        let report = against(&stored);
        let found: Vec<(usize, &str)> = report.differences.iter().map(|d| (d.index, d.field.as_str())).collect();
        assert_eq!(found, [(index, field)], "{what}: {report}");
    }
}

#[test]
fn order_counts() {
    let mut stored = stored();
    stored.swap(2, 3);
    assert!(!against(&stored).is_same());
}

#[test]
fn only_calls_that_the_recording_left_open_may_be_closed() {
    let mut closed = result("c1", "read", "never started");
    closed["outcome"] = json!("notRun");
    // Of a call that was not in the aborted answer.
    let mut other = session();
    other.insert(10, closed.clone());
    assert_eq!(against(&other).differences.len(), 1);
    // Of an answer that did not end badly.
    let recorded = [user("hi"), calling("", &["c1"], "stop"), user("more"), assistant("ok")];
    let stored = [recorded[0].clone(), recorded[1].clone(), closed, recorded[2].clone(), recorded[3].clone()];
    assert_eq!(compare(&stored, &recording(&recorded)).differences.len(), 1);
    // An interrupted result may not stand in for another call's.
    let mut stored = self::stored();
    stored[3] = json!({"role": "toolResult", "toolCallId": "c8", "toolName": "read", "outcome": "interrupted",
        "isError": true, "content": []});
    let report = against(&stored);
    assert!(!report.is_same() && report.interrupted.is_empty());
}

#[test]
fn reports_are_short_and_readable() {
    let mut stored = stored();
    stored[6]["content"][0]["text"] = json!("going ".to_owned() + &"x".repeat(5000));
    let report = against(&stored).to_string();
    assert!(report.contains("message 6, content[0].text: expected going on, got going xxx"), "{report}");
    assert!(report.len() < 600);
    let many: Vec<Value> = (0..1200).map(|n| user(&n.to_string())).collect();
    let report = compare(&many, &recording(&[]));
    assert_eq!((report.differences.len(), report.unlisted), (1000, 200));
    assert!(!report.is_same());
}
