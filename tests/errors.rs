//! A model's errors: each kind has its outcome, its place in the transcript, and its number of calls (design §5).
#![cfg(not(target_family = "wasm"))]

use host_sim::clock::Clock;
use host_sim::data::Request;
use host_sim::model::ModelError;
use serde_json::{Value, json};
use writ_tests::{START_MS, Setup, World, host, until};

fn failing(fail: &str) -> String {
    format!(
        "[[answer]]\nwhen = \"hi\"\ntext = \"Half an answer.\"\nfail = {{ {fail} }}\n[[answer]]\nwhen = \"ok\"\ntext = \"Fine.\"\n"
    )
}

/// A permanent error is told once: in the transcript, for people; in the outcome, for the caller. It is not retried, and
/// stays out of the next context (B19).
/// Shows C4.
#[tokio::test(flavor = "multi_thread")]
async fn each_permanent_kind_fails_once_and_stays_out_of_the_context() {
    for kind in ["quota", "refused", "invalid", "unauthorized", "cancelled", "unknown"] {
        for after in ["", ", after_chunks = 1"] {
            let world = World::new(&failing(&format!("kind = \"{kind}\", message = \"strange\"{after}"))).await;
            let done = world.ask("t", "k", "hi").await;
            let error = &done["outcome"]["error"];
            assert_eq!(error["code"], "model", "{done}");
            let text = error["message"].as_str().expect("a text");
            assert!(text.contains(kind) && text.contains("strange"), "{text}");
            assert_eq!((world.model.calls(), world.clock.now()), (1, START_MS), "{kind}");
            let messages = world.messages("t").await;
            let last = &messages[1];
            let stop = if kind == "cancelled" { "aborted" } else { "error" };
            assert_eq!(messages.len(), 2);
            assert_eq!((&last["stopReason"], &last["errorKind"]), (&json!(stop), &json!(kind)), "{last}");
            let content =
                if after.is_empty() { json!([]) } else { json!([{"type": "text", "text": "Half an answer."}]) };
            assert_eq!(last["content"], content, "{kind}{after}");
            assert_eq!(world.ask("t", "next", "ok").await["outcome"]["text"], "Fine.");
            assert_eq!(world.model.last_context(), ["user: hi", "user: ok"]);
            world.check().await;
        }
    }
}

/// Retries at 2, 4 and 8 s; nothing of them is in the transcript; then the error is for good.
/// Shows A6.
#[tokio::test(flavor = "multi_thread")]
async fn transient_errors_are_retried_three_times() {
    for (fail, times, seconds) in [
        ("kind = \"transient\", message = \"429\"", Some(1), 2),
        ("kind = \"transient\", message = \"429\"", Some(2), 2 + 4),
        ("kind = \"transient\", message = \"429\", after_chunks = 1", Some(3), 2 + 4 + 8),
        ("kind = \"transient\", message = \"429\"", None, 2 + 4 + 8),
        // A stream that ends without its end is transient too, and so is a text that says so.
        ("cut = true", Some(1), 2),
        ("cut = true", None, 2 + 4 + 8),
        ("kind = \"unknown\", message = \"HTTP 529: overloaded\"", Some(1), 2),
        ("kind = \"transient\", retry_after_ms = 500", Some(1), 0),
    ] {
        let script = match times {
            Some(times) => failing(&format!("{fail}, times = {times}")),
            None => failing(fail),
        };
        let world = World::new(&script).await;
        let done = world.ask("t", "k", "hi").await;
        let waited = world.clock.now() - START_MS;
        let expected = if fail.contains("500") { 500 } else { seconds * 1000 };
        assert_eq!(waited, expected, "{fail}, {times:?}: {done}");
        assert_eq!(done["attempt"], 1, "{fail}");
        let transcript = world.transcript("t").await;
        match times {
            Some(times) => {
                assert_eq!(done["outcome"]["text"], "Half an answer.", "{fail}");
                assert_eq!(world.model.calls(), times + 1);
                assert_eq!(transcript, ["user: hi", "assistant: Half an answer."]);
            }
            None => {
                assert_eq!(done["outcome"]["error"]["code"], "model", "{fail}");
                assert_eq!((world.model.calls(), transcript.len()), (4, 2));
                assert_eq!(world.messages("t").await[1]["errorKind"], "transient");
            }
        }
        world.check().await;
    }
}

/// A success resets the count: three transient errors, an answer, three more (B17).
#[tokio::test(flavor = "multi_thread")]
async fn a_success_resets_the_count_of_retries() {
    let script = "[[answer]]\ncalls = [{ name = \"look\" }]\n[[answer]]\ntext = \"Done.\"\n[[tool]]\nname = \"look\"\nreply = \"seen\"\n";
    let world = Setup::new(script).world().await;
    let transient = || ModelError::Transient { retry_after_ms: Some(1), message: "429".into() };
    for _ in 0..3 {
        world.model.fail_next(transient());
    }
    let id = world.accept("t", "k", "hi").await;
    until(|| world.model.calls() >= 4).await;
    world.host.settled().await;
    assert_eq!(world.submission(&id).await["outcome"]["text"], "Done.");
    assert_eq!(world.model.calls(), 5);
    world.check().await;
}

/// A provider's wait counts up to a minute. Beyond ten seconds the run ends and comes back: no attempt is spent.
/// Shows A3, A11, B38; trap 3.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_wait_is_parked_and_comes_back() {
    let world = Setup::new(&failing("kind = \"transient\", retry_after_ms = 600000, times = 1")).reach(0).world().await;
    let id = world.accept("t", "k", "hi").await;
    world.host.settled().await;
    let parked = world.submission(&id).await;
    assert_eq!(parked["state"], "retrying", "{parked}");
    assert!(parked["reason"].as_str().is_some_and(|r| r.contains(&(START_MS + 60_000).to_string())), "{parked}");
    let thread = world.send(Request::get("/v1/agents/helper/threads/t")).await.json().expect("JSON");
    assert_eq!(thread["operation"]["phase"], json!({"parked": {"due": START_MS + 60_000}}), "{thread}");
    world.check().await;

    // Woken too early, it writes nothing (P7g).
    let calls = world.store.calls();
    world.host.sweep().await.expect("a sweep");
    world.host.settled().await;
    assert_eq!((world.calls_since(calls).commits, world.model.calls()), (0, 1));

    world.clock.advance(60_000);
    world.host.settled().await;
    let done = world.submission(&id).await;
    assert_eq!((&done["outcome"]["text"], &done["attempt"]), (&json!("Half an answer."), &json!(1)), "{done}");
    assert_eq!(world.model.calls(), 2);
    world.check().await;
}

fn overflow() -> ModelError {
    ModelError::Overflow("prompt is too long".into())
}

const TALK: &str =
    "[model]\nrepeat_last = true\n[[answer]]\ntext = \"Hello.\"\n[summary]\ntext = \"They said hello.\"\n";

/// Overflow is answered by one compaction, and the turn goes on; a second one in a row fails (B31).
#[tokio::test(flavor = "multi_thread")]
async fn overflow_compacts_once_and_goes_on() {
    let world = World::new(TALK).await;
    world.ask("t", "a", "one").await;
    world.model.fail_next(overflow());
    assert_eq!(world.ask("t", "b", "two").await["outcome"]["text"], "Hello.");
    let compacted = ["user: one", "assistant: Hello.", "user: two", "summary: They said hello.", "assistant: Hello."];
    assert_eq!(world.transcript("t").await, compacted);
    assert_eq!((world.model.calls(), world.model.summaries()), (4, 1));
    let context = world.model.last_context();
    assert_eq!(context.len(), 2, "{context:#?}");
    assert!(context[0].contains("They said hello."), "{context:#?}");
    assert_eq!(context[1], "user: two");

    // The next turn goes on from the summary; so does a new host.
    assert_eq!(world.ask("t", "c", "three").await["outcome"]["text"], "Hello.");
    assert_eq!(world.model.last_context().len(), 4, "{:#?}", world.model.last_context());

    for _ in 0..2 {
        world.model.fail_next(overflow());
    }
    let done = world.ask("t", "d", "four").await;
    let last = world.messages("t").await.pop().expect("a message");
    assert_eq!(
        (&done["outcome"]["error"]["code"], &last["errorKind"]),
        (&json!("model"), &json!("overflow")),
        "{done}"
    );
    assert_eq!(world.model.summaries(), 2);
    world.check().await;
}

/// A message that waits, one that steers and a cancel come while a summary is being made: each is accepted at once and has
/// its effect, also when the host dies over the summary.
/// Shows A39, B32.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_during_a_compaction_is_not_lost() {
    for killed in [false, true] {
        let mut world = World::new(TALK).await;
        world.ask("t", "a", "one").await;
        world.model.hold_summaries();
        world.model.fail_next(overflow());
        let compacts = world.accept("t", "b", "two").await;
        until(|| world.model.summaries() == 1).await;
        let waits = world.accept("t", "c", "three").await;
        let steers = world.accept_body("t", "d", &json!({"message": "aside", "options": {"steer": true}})).await;
        let cancelled = world.accept("t", "e", "four").await;
        assert_eq!(world.cancel(&cancelled).await.status, 202);
        assert_eq!(world.transcript("t").await, ["user: one", "assistant: Hello.", "user: two"]);
        if killed {
            world.host.clone().shutdown().await;
            world.host = host(&world.parts).await;
            world.model.fail_next(overflow());
            world.host.sweep().await.expect("a sweep");
            until(|| world.model.summaries() == 2).await;
        }
        world.model.let_summaries_pass();
        world.host.settled().await;
        let mut transcript = world.transcript("t").await;
        transcript.retain(|line| !line.starts_with("notice"));
        // The host that was started anew finds the steering message before it begins its summary.
        let mut during = ["summary: They said hello.", "user(steer): aside"];
        if killed {
            during.reverse();
        }
        let [one, two, three] = ["user: one", "user: two", "user: three"];
        let hello = "assistant: Hello.";
        assert_eq!(transcript, [one, hello, two, during[0], during[1], hello, three, hello], "killed: {killed}");
        // The last context begins with the summary; what is not in that was summarised.
        let (context, source) = (world.model.last_context(), world.model.summary_requests().pop().expect("a request"));
        assert!(context[0].contains("They said hello."), "{context:#?}");
        for said in [one, two, "user: aside", hello, three] {
            let is_there = |messages: &[String]| messages.iter().any(|line| line == said);
            assert!(is_there(&context) != is_there(&source) || said == hello, "{said}: {source:?}, then {context:?}");
        }
        for (id, status) in
            [(compacts, "completed"), (waits, "completed"), (steers, "completed"), (cancelled, "aborted")]
        {
            assert_eq!(world.submission(&id).await["outcome"]["status"], status, "killed: {killed}");
        }
        world.check().await;
    }
}

/// The second summary is made of the first one and of what that kept, so that nothing falls between them.
/// Shows B33.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_summary_carries_the_first_one_on() {
    let world = World::new(TALK).await;
    world.ask("t", "a", "one").await;
    for message in ["two", "three"] {
        world.model.fail_next(overflow());
        world.ask("t", message, message).await;
        world.ask("t", &format!("{message}-on"), "go on").await;
    }
    let messages = world.messages("t").await;
    let summaries: Vec<&Value> = messages.iter().filter(|m| m["role"] == "summary").collect();
    let [first, second] = summaries[..] else { panic!("two compactions: {messages:#?}") };
    let numbers = |from: &Value, to: &Value| from.as_u64().expect("a number")..to.as_u64().expect("a number");
    let between = numbers(&first["kept"], &second["kept"]).map(|n| &messages[n as usize]);
    let between: Vec<String> = between.filter(|m| m["role"] != "summary").map(writ_tests::line).collect();
    assert!(between.contains(&"user: two".to_owned()), "the first one kept something: {between:?}");
    let asked = world.model.summary_requests().pop().expect("a request");
    assert_eq!(asked[0], "user: Summary of the conversation so far:\nThey said hello.");
    assert_eq!(asked[1..], between, "what lies between what the first and what the second one kept");
    world.check().await;
}

/// A model of 10,000 tokens; `big` is answered with the count of a context that is nearly full.
const COUNTED: &str = r#"
[model]
context_window = 10000
repeat_last = true
[summary]
text = "They said hello."
[[answer]]
when = "big"
text = "I read much."
usage = { input = 9000, output = 5 }
[[answer]]
when = "broken"
text = "I read"
usage = { input = 9000, output = 5 }
fail = { cut = true }
[[answer]]
text = "Hello."
"#;

/// What an answer says of its context's size holds until a compaction: the answer is kept, its count is not believed any
/// more. The count of an answer that broke off was never one.
/// Shows B31.
#[tokio::test(flavor = "multi_thread")]
async fn old_counts_of_tokens_cause_no_compaction() {
    let world = World::new(COUNTED).await;
    world.ask("t", "a", &format!("big {}", "x".repeat(8_000))).await;
    assert_eq!(world.model.summaries(), 0);
    world.ask("t", "b", "two").await;
    assert_eq!(world.model.summaries(), 1);
    let context = world.model.last_context();
    assert_eq!(context[1..], ["assistant: I read much.", "user: two"], "the answer with the old count was kept");
    for key in ["c", "d"] {
        world.ask("t", key, "on").await;
    }
    assert_eq!(world.model.summaries(), 1, "an old count was believed");

    world.ask("u", "a", "hi").await;
    let broken = world.ask("u", "b", "broken").await;
    assert_eq!(broken["outcome"]["error"]["code"], "model", "{broken}");
    assert_eq!(world.messages("u").await[3]["usage"]["input"], 9000, "the count is in the transcript");
    assert_eq!(world.ask("u", "c", "hi").await["outcome"]["text"], "Hello.");
    assert_eq!(world.model.summaries(), 1, "the count of an answer that broke off was believed");
    world.check().await;
}

/// C3: a summary that is no good is asked for once more, then the submission fails plainly; nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_summary_fails_plainly() {
    let longer = "x".repeat(2_000);
    let world = World::new(&TALK.replace("They said hello.", &longer)).await;
    world.ask("t", "a", "one").await;
    world.model.fail_next(overflow());
    let done = world.ask("t", "b", "two").await;
    assert_eq!(done["outcome"]["error"]["code"], "compaction", "{done}");
    assert_eq!(world.model.summaries(), 2);
    assert_eq!(world.transcript("t").await, ["user: one", "assistant: Hello.", "user: two"]);
    world.check().await;
}

/// Nothing to summarise: said plainly.
#[tokio::test(flavor = "multi_thread")]
async fn an_overflow_of_one_message_fails_plainly() {
    let world = World::new(TALK).await;
    world.model.fail_next(overflow());
    let done = world.ask("t", "a", "one").await;
    assert_eq!(done["outcome"]["error"]["code"], "overflow", "{done}");
    assert_eq!((world.model.calls(), world.transcript("t").await.len()), (1, 1));
    world.check().await;
}

/// A `length` stop is visible, and its calls are not run.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_answer_is_visible_and_its_calls_are_not_run() {
    let script = r#"
[[answer]]
text = "I will"
calls = [{ name = "pay" }, { name = "pay" }]
stop = "length"
[[answer]]
text = "Sorry."
[[answer]]
text = "And th"
stop = "length"
[[tool]]
name = "pay"
reply = "paid"
"#;
    let world = World::new(script).await;
    assert_eq!(world.ask("t", "a", "pay").await["outcome"]["text"], "Sorry.");
    let messages = world.messages("t").await;
    let stops: Vec<&Value> = messages.iter().map(|m| &m["stopReason"]).collect();
    assert_eq!(stops, [&Value::Null, &json!("length"), &Value::Null, &Value::Null, &json!("stop")]);
    for result in &messages[2..4] {
        assert_eq!((&result["outcome"], &result["isError"]), (&json!("notRun"), &json!(true)), "{result}");
    }
    assert!(world.log.executions().is_empty());
    let cut = world.ask("t", "b", "go on").await;
    assert_eq!(cut["outcome"]["error"]["code"], "length", "{cut}");
    assert_eq!(world.messages("t").await[6]["stopReason"], "length");
    world.check().await;
}

/// `pause` is stored and asked again, without an input between.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_goes_on() {
    let world = World::new("[[answer]]\ntext = \"First,\"\nstop = \"pause\"\n[[answer]]\ntext = \"then.\"\n").await;
    let done = world.ask("t", "k", "hi").await;
    assert_eq!(done["outcome"]["text"], "then.");
    assert_eq!(world.transcript("t").await, ["user: hi", "assistant: First,", "assistant: then."]);
    assert_eq!((world.messages("t").await[1]["stopReason"].as_str(), world.model.calls()), (Some("pause"), 2));
    world.check().await;
}

/// Bad calls never reach a tool: each has a result that says why, and the turn goes on.
#[tokio::test(flavor = "multi_thread")]
async fn bad_calls_are_answered_and_not_run() {
    let script = r#"
[[answer]]
calls = [
    { name = "nothing" }, { name = "look", arguments = "not json" }, { name = "look", arguments = { n = "x" } },
    { name = "look", arguments = { n = 1 } },
]
[[answer]]
text = "Done."
[[tool]]
name = "look"
reply = "seen"
parameters = { type = "object", properties = { n = { type = "integer" } } }
"#;
    let world = World::new(script).await;
    assert_eq!(world.ask("t", "k", "hi").await["outcome"]["text"], "Done.");
    let messages = world.messages("t").await;
    let outcomes: Vec<&Value> = messages[2..6].iter().map(|m| &m["outcome"]).collect();
    assert_eq!(outcomes, [&json!("notRun"), &json!("notRun"), &json!("notRun"), &Value::Null]);
    assert_eq!(world.log.executions().len(), 1);
    world.check().await;
}
