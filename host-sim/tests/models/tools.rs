//! Scripted tools with their log, and the toolbox.

use std::sync::Arc;

use host_sim::script::Script;
use host_sim::tools::Policy;
use host_sim::tools::Tools;
use host_sim::tools::scripted::ExecutionLog;
use host_sim::tools::scripted::ScriptedTools;
use host_sim::tools::toolbox::Toolbox;
use host_sim::tools::toolbox::ToolboxError;
use serde_json::json;

use crate::support::TestClock;
use crate::support::call;
use crate::support::said;

const SCRIPT: &str = r#"
    [[tool]]
    name = "lookup"
    policy = "replay-safe"
    reply = "order {order} is paid"
    delay_ms = 30
    [[tool]]
    name = "count"
    replies = ["one", "two"]
    [[tool]]
    name = "broken"
    reply = "no"
    error = true
"#;

fn tools(clock: Arc<TestClock>, log: ExecutionLog) -> ScriptedTools {
    ScriptedTools::new(Arc::new(Script::parse(SCRIPT).unwrap()), clock, Arc::new(log))
}

#[tokio::test]
async fn replies_follow_the_script() {
    let clock = Arc::new(TestClock::default());
    let tools = tools(clock.clone(), ExecutionLog::in_memory());
    let policies: Vec<Policy> = tools.describe().iter().map(|tool| tool.policy).collect();
    assert_eq!(policies, [Policy::ReplaySafe, Policy::Plain, Policy::Plain]);
    assert_eq!(tools.describe()[0].parameters, json!({"type": "object"}));
    assert_eq!(said(&tools.run(call("a", "lookup", json!({"order": 7}))).await), Ok("order 7 is paid".to_owned()));
    assert_eq!(*clock.waits.lock().unwrap(), [30]);
    assert_eq!(said(&tools.run(call("b", "broken", json!({}))).await), Err("no".to_owned()));
    let error = said(&tools.run(call("c", "nope", json!({}))).await).unwrap_err();
    assert!(error.contains("`nope`") && error.contains("lookup, count, broken"), "{error}");
}

#[tokio::test]
async fn the_log_outlives_a_process_and_a_torn_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    let open = || tools(Arc::default(), ExecutionLog::open(&path).unwrap());
    let count = |key: &str| call(key, "count", json!({"n": 1}));

    let first = open();
    assert_eq!(said(&first.run(count("a")).await), Ok("one".to_owned()));
    drop(first);
    let mut torn = std::fs::read_to_string(&path).unwrap();
    torn.push_str("{\"effect_key\":\"a\",");
    std::fs::write(&path, torn).unwrap();

    let second = open();
    // The same call again keeps its number; another one, and all that follow, get the next.
    assert_eq!(said(&second.run(count("a")).await), Ok("one".to_owned()));
    assert_eq!(said(&second.run(count("b")).await), Ok("two".to_owned()));
    assert_eq!(said(&second.run(count("c")).await), Ok("two".to_owned()));
    assert_eq!((second.log().count("a"), second.log().count("b"), second.log().count("z")), (2, 1, 0));

    let third = open();
    let log = third.log().executions();
    let seen: Vec<(&str, u32)> = log.iter().map(|run| (run.effect_key.as_str(), run.count)).collect();
    assert_eq!(seen, [("a", 1), ("a", 2), ("b", 1), ("c", 1)]);
    assert_eq!(log[0].arguments, json!({"n": 1}));
}

#[tokio::test]
async fn an_execution_is_logged_even_if_it_never_ends() {
    let tools = tools(Arc::default(), ExecutionLog::in_memory());
    let mut running = tools.run(call("a", "lookup", json!({})));
    let pending = std::future::poll_fn(|context| std::task::Poll::Ready(running.as_mut().poll(context).is_pending()));
    assert!(pending.await);
    drop(running);
    assert_eq!(tools.log().count("a"), 1);
}

#[tokio::test]
async fn a_toolbox_joins_and_refuses_duplicates_by_name() {
    let one = |script: &str| -> Arc<dyn Tools> {
        let script = Arc::new(Script::parse(script).unwrap());
        Arc::new(ScriptedTools::new(script, Arc::new(TestClock::default()), Arc::new(ExecutionLog::in_memory())))
    };
    let a = || one("[[tool]]\nname = \"a\"\nreply = \"from a\"\n");
    let b = || one("[[tool]]\nname = \"b\"\nreply = \"from b\"\n");
    let toolbox = Toolbox::new(vec![("first".to_owned(), a()), ("second".to_owned(), b())]).unwrap();
    let names: Vec<String> = toolbox.describe().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(said(&toolbox.run(call("k", "b", json!({}))).await), Ok("from b".to_owned()));
    let error = said(&toolbox.run(call("k", "c", json!({}))).await).unwrap_err();
    assert_eq!(error, "There is no tool `c`. Known tools: a, b.");

    let error = Toolbox::new(vec![("first".to_owned(), a()), ("second".to_owned(), a())]).err().unwrap();
    assert_eq!(error.to_string(), "tool `a` is in first and in second; rename one of them");
    let many =
        |count: usize| -> String { (0..count).map(|n| format!("[[tool]]\nname = \"t{n}\"\nreply = \"\"\n")).collect() };
    assert!(Toolbox::new(vec![("x".to_owned(), one(&many(255))), ("y".to_owned(), a())]).is_ok());
    let error = Toolbox::new(vec![("x".to_owned(), one(&many(256))), ("y".to_owned(), a())]).err();
    assert_eq!(error, Some(ToolboxError::TooMany(257)));
}
