//! An author's component with std, under the real host: its tools, their steps, and the thread's state.
#![cfg(not(target_family = "wasm"))]

use serde_json::{Value, json};
use writ_tests::{Fault, Heard, Setup, Survived, World, line, survive};

/// The refund of `examples/triage`, and the report that its result schema wants.
const REFUND: &str = include_str!("../examples/triage/refund.toml");

/// Commits that a refund takes and a few more.
const COMMITS_MAX: u32 = 16;

/// One answer a call of `tool` with these arguments, and a last one.
fn calls(tool: &str, arguments: &[&str]) -> String {
    let answer = |a: &&str| format!("[[answer]]\ncalls = [{{ name = \"{tool}\", arguments = {a} }}]\n");
    arguments.iter().map(answer).collect::<String>() + "[[answer]]\ntext = \"Done.\"\n"
}

async fn results(world: &World) -> Vec<String> {
    world.transcript("t").await.into_iter().filter(|line| line.starts_with("toolResult")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_does_its_work() {
    let mut world = Setup::example("triage", REFUND).world().await;
    let heard = Heard::listen(&mut world).await;
    let done = world.ask("t", "k", "Pay order 7 back, my lawyer says.").await;
    assert_eq!(done["outcome"]["status"], "completed", "{done}");
    assert_eq!(done["outcome"]["result"], json!({"category": "billing", "summary": "Order 7 is paid back."}));
    assert_eq!(
        world.transcript("t").await,
        [
            "user: Pay order 7 back, my lawyer says.",
            "user(note): A lawyer is mentioned: stay factual, and offer a call from a person.",
            "assistant: I pay it back. [refund {\"cents\":1200,\"order\":7}]",
            "toolResult: paid: \"receipt of 7\"",
            "assistant: {\"category\": \"billing\", \"summary\": \"Order 7 is paid back.\"}",
        ]
    );
    let head = "You sort and answer support tickets. This is ticket 1. Paid back before: ";
    let skill = "\n\n# tone\nShort sentences. No blame. Never promise a date.";
    let (before, after) = (format!("{head}null.{skill}"), format!("{head}{}.{skill}", r#"{"cents":1200,"order":7}"#));
    assert_eq!(heard.instructions(), [before, after]);
    let tools: Value = serde_json::from_str(&heard.requests()[0].tools).expect("JSON");
    let names: Vec<&Value> = tools.as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["urgency", "refund", "order_lookup"]);

    // Each step has a key of its own, and the step can hand it to a far end by itself.
    let [pay, mail] = &world.log.executions()[..] else { panic!("two executions") };
    assert_ne!(pay.effect_key, mail.effect_key);
    assert_eq!(mail.arguments["key"], mail.effect_key.as_str());
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pure_tools_of_the_example_compute() {
    let world =
        Setup::example("triage", &calls("urgency", &[r#"{ text = "URGENT: all is down, please!" }"#, "{ text = 7 }"]))
            .world()
            .await;
    world.ask("t", "k", "how urgent?").await;
    let results = results(&world).await;
    assert_eq!(results[0], "toolResult: 8");
    assert!(results[1].starts_with("toolResult(notRun): The arguments don't fit: /text"), "{}", results[1]);
}

/// Shows B20.
#[tokio::test(flavor = "multi_thread")]
async fn steps_survive_a_crash_at_every_commit() {
    let (mut met, mut again) = (0, 0);
    for fault in Fault::ALL {
        for at in 0..COMMITS_MAX {
            let survived = survive(|_| Setup::example("triage", REFUND), &["pay it back"], &[(at, fault)]).await;
            again += judge_refund(&survived, &format!("{fault:?} at commit {at}")).await;
            if survived.met == 0 {
                break;
            }
            met += survived.met;
        }
    }
    assert!(met >= 5 * 8, "only {met} faults were met");
    assert!(again > 0, "no step was ever interrupted");
}

/// Shows A14.
#[tokio::test(flavor = "multi_thread")]
async fn steps_survive_a_crash_of_their_recovery() {
    let mut met = 0;
    for first in 1..COMMITS_MAX {
        for second in 0..COMMITS_MAX {
            let plan = [(first, Fault::KillAfter), (second, Fault::KillBefore), (1, Fault::KillAfter)];
            let survived = survive(|_| Setup::example("triage", REFUND), &["pay it back"], &plan).await;
            judge_refund(&survived, &format!("{plan:?}")).await;
            met += survived.met;
            if survived.met < 2 {
                break;
            }
        }
    }
    assert!(met > 60, "only {met} faults were met");
}

/// One outcome, the right transcript, one effect key a step, and no execution of what was recorded. Returns how many
/// executions were repeated.
async fn judge_refund(survived: &Survived, plan: &str) -> usize {
    let world = &survived.world;
    world.check().await;
    let done = world.submission(&survived.ids[0]).await;
    assert_eq!(done["outcome"]["result"]["category"], "billing", "{plan}: {done}");
    assert_eq!(results(world).await, ["toolResult: paid: \"receipt of 7\""], "{plan}");
    let mut again = 0;
    for (step, tool) in [("pay", "bank_pay"), ("mail", "mail_send")] {
        let all: Vec<(usize, &str)> = survived
            .executions
            .iter()
            .enumerate()
            .filter(|(_, e)| e.name == tool)
            .map(|(n, e)| (n, e.effect_key.as_str()))
            .collect();
        assert!(!all.is_empty(), "{plan}: {tool} never ran");
        assert!(all.iter().all(|(_, key)| *key == all[0].1), "{plan}: {tool} ran under several keys: {all:?}");
        for kill in survived.kills.iter().filter(|kill| kill.steps.iter().any(|name| name == step)) {
            let last = all[all.len() - 1].0;
            assert!(last < kill.executions, "{plan}: {tool} ran again after its step was recorded");
        }
        again += all.len() - 1;
    }
    again
}

/// Shows A5, B6, B21.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_call_of_a_tool_that_is_gone_is_not_run_again() {
    let setup = |n| {
        let setup = Setup::example("triage", REFUND);
        // After the first host the agent has this tool no more.
        if n == 0 { setup } else { setup.setting("overrides", json!({"triage": {"tools": ["urgency"]}})) }
    };
    let mut seen = 0;
    for at in 1..COMMITS_MAX {
        let survived = survive(setup, &["pay it back"], &[(at, Fault::KillAfter)]).await;
        let world = &survived.world;
        world.check().await;
        let [kill] = &survived.kills[..] else { break };
        assert_eq!(survived.executions.len(), kill.executions, "the second host ran a tool that it doesn't have");
        let results = results(world).await;
        seen += results.iter().filter(|line| line.contains("the tool has changed since")).count();
    }
    assert!(seen > 1, "no call was ever open at a crash");
}

/// A call that was open when the host died, and whose tool has another policy in the next host: whatever the two policies
/// are, it is not run again, and says why.
/// Shows B21.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_call_of_a_tool_with_another_policy_is_not_run_again() {
    let policies = ["plain", "replay-safe", "stepped", "ask"];
    for (before, after) in
        policies.iter().flat_map(|a| policies.map(|b| (*a, b))).filter(|(a, b)| *a != "ask" && a != b)
    {
        let script = |policy: &str| {
            calls("look", &["{ }"]) + &format!("[[tool]]\nname = \"look\"\npolicy = \"{policy}\"\nreply = \"seen\"\n")
        };
        // Of a plain call nothing has to be known of today's tool.
        let why = if before == "plain" { "was open: no result" } else { "the tool has changed since: no result" };
        let setup = |n| Setup::new(&script(if n == 0 { before } else { after }));
        // The call is open before its result is committed: it was not run yet, or it was.
        for (plan, executions) in [((3, Fault::KillAfter), 0), ((4, Fault::KillBefore), 1)] {
            let survived = survive(setup, &["look"], &[plan]).await;
            let executed: Vec<usize> = survived.kills.iter().map(|kill| kill.executions).collect();
            assert_eq!((executed, survived.executions.len()), (vec![executions], executions), "{before} to {after}");
            let results = results(&survived.world).await;
            let [result] = &results[..] else { panic!("one result: {results:?}") };
            assert!(
                result.starts_with("toolResult(interrupted): ") && result.contains(why),
                "{before} to {after}: {result}"
            );
            let done = survived.world.submission(&survived.ids[0]).await;
            assert_eq!(done["outcome"]["text"], "Done.", "{done}");
            survived.world.check().await;
        }
    }
}

/// A call that may be run again is, and this time it fails: an ordinary error that the model sees, in one more attempt.
/// Shows B21.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_call_that_fails_when_run_again_is_an_error() {
    for policy in ["replay-safe", "stepped"] {
        let tool = format!("[[tool]]\nname = \"look\"\npolicy = \"{policy}\"\nreply = \"it is dark\"\n");
        let setup = |n| Setup::new(&format!("{}{tool}error = {}\n", calls("look", &["{ }"]), n > 0));
        let survived = survive(setup, &["look"], &[(4, Fault::KillBefore)]).await;
        let messages = survived.world.messages("t").await;
        let result = messages.iter().find(|m| m["role"] == "toolResult").expect("a result");
        assert_eq!((&result["isError"], line(result).as_str()), (&json!(true), "toolResult: it is dark"), "{policy}");
        assert_eq!(survived.executions.len(), 2, "{policy}");
        let done = survived.world.submission(&survived.ids[0]).await;
        assert_eq!((&done["outcome"]["text"], &done["attempt"]), (&json!("Done."), &json!(2)), "{done}");
        survived.world.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_can_t_get_round_an_approval() {
    let script = REFUND.replace("name = \"bank_pay\"", "name = \"bank_pay\"\npolicy = \"ask\"");
    let world = Setup::example("triage", &script).world().await;
    world.ask("t", "k", "pay").await;
    let told = "toolResult: the host's tool \"bank_pay\" needs a person's approval, and a tool can't ask for one";
    assert_eq!(results(&world).await, [told]);
    assert!(world.log.executions().is_empty());
}

/// Shows B20.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_step_may_not_do_is_an_error_that_the_model_sees() {
    let world = Setup::example(
        "repeater",
        "[[answer]]\ncalls = [{ name = \"twice\" }, { name = \"nested\" }, { name = \"stateful\" }, \
         { name = \"once\" }, { name = \"once\" }]\n\
         [[answer]]\ntext = \"Done.\"\n",
    )
    .world()
    .await;
    let done = world.ask("t", "k", "go").await;
    assert_eq!(done["outcome"]["text"], "Done.", "{done}");
    let results = results(&world).await;
    assert_eq!(results[0], "toolResult: the step \"a\" was used before in this call; name each differently");
    assert_eq!(results[1], "toolResult: a step can't have steps of its own");
    assert_eq!(results[2], "toolResult: a step can't set state; set it outside of the step");
    // Another call begins anew.
    assert_eq!(results[3..], ["toolResult: 3", "toolResult: 3"]);
    let errors: Vec<Value> = world.messages("t").await.iter().map(|m| m["isError"].clone()).collect();
    assert_eq!(errors[2..7], [json!(true), json!(true), json!(true), json!(false), json!(false)]);
    world.check().await;
}

/// Shows B25.
#[tokio::test(flavor = "multi_thread")]
async fn state_is_seen_by_the_next_render() {
    let script = calls("count", &["{ }", "{ fail = true }", "{ }"]);
    let mut world = Setup::example("counter", &script).world().await;
    let heard = Heard::listen(&mut world).await;
    world.ask("t", "k", "count").await;
    assert_eq!(
        results(&world).await,
        ["toolResult: it was 0", "toolResult: it failed after it had set state", "toolResult: it was 1"]
    );
    assert_eq!(heard.instructions(), ["n is 0", "n is 1", "n is 1", "n is 2"]);
    // It belongs to the thread.
    world.ask("u", "k", "count").await;
    assert_eq!(heard.instructions()[4], "n is 0");
    world.check().await;
}

/// Shows B25.
#[tokio::test(flavor = "multi_thread")]
async fn state_counts_only_with_its_result() {
    let script = calls("count", &["{ }", "{ }", "{ }"]);
    let mut lost = 0;
    for fault in Fault::ALL {
        for at in 0..COMMITS_MAX {
            let survived = survive(|_| Setup::example("counter", &script), &["count"], &[(at, fault)]).await;
            survived.world.check().await;
            let results = results(&survived.world).await;
            assert_eq!(results.len(), 3, "{fault:?} at {at}: {results:?}");
            // A count whose result was not recorded has left no trace.
            let (counted, unknown): (Vec<_>, Vec<_>) = results.iter().partition(|r| r.starts_with("toolResult: "));
            for (n, result) in counted.iter().enumerate() {
                assert_eq!(**result, format!("toolResult: it was {n}"), "{fault:?} at {at}: {results:?}");
            }
            assert!(unknown.iter().all(|r| r.starts_with("toolResult(interrupted): ")), "{results:?}");
            lost += unknown.len();
            if survived.met == 0 {
                break;
            }
        }
    }
    assert!(lost > 2, "only {lost} counts were interrupted");
}

#[tokio::test(flavor = "multi_thread")]
async fn ceilings_of_state_and_steps_are_errors_that_the_model_sees() {
    let takes = ["{ state = 16000 }", "{ state = 17000 }", "{ value = 196000 }", "{ value = 197000 }"];
    let takes = [&takes[..], &["{ steps = 256 }", "{ steps = 257 }"]].concat();
    let mut world = Setup::example("greedy", &calls("take", &takes)).world().await;
    let heard = Heard::listen(&mut world).await;
    let done = world.ask("t", "k", "take").await;
    assert_eq!(done["outcome"]["text"], "Done.", "{done}");
    let taken = "toolResult: taken";
    assert_eq!(
        results(&world).await,
        [
            taken,
            "toolResult: the thread's state would be 17011 bytes; at most 16384 are kept",
            taken,
            "toolResult: the value of step \"large\" is 197027 bytes; at most 196608 are kept",
            taken,
            "toolResult: a call may record 256 steps; \"256\" is one too many",
        ]
    );
    assert_eq!(heard.instructions()[2], "kept: 16000");
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_with_std_reaches_nothing_outside() {
    let world = Setup::example("outside", &calls("look", &["{ }"])).world().await;
    world.ask("t", "k", "look").await;
    let found = results(&world).await.remove(0);
    let found: Value = serde_json::from_str(found.trim_start_matches("toolResult: ")).expect("JSON");
    let nothing = json!({"args": 0, "vars": 0, "read": false, "written": false, "connected": false, "spawned": false,
        "std": 2});
    assert_eq!(found, nothing);

    // It imports WASI, which is empty; the default component does not even import it.
    let is_own = |name: &String| name.starts_with("writ:runtime/");
    let (own, wasi): (Vec<String>, Vec<String>) = world.host.imports().into_iter().partition(is_own);
    assert!(own.iter().any(|name| name == "writ:runtime/kv@0.1.0"), "{own:?}");
    assert!(!wasi.is_empty() && wasi.iter().all(|name| name.starts_with("wasi:")), "{wasi:?}");
    let default = World::new("").await.host.imports();
    assert!(default.iter().all(is_own), "{default:?}");
}

/// Shows C5.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_tool_leaves_its_recorded_steps() {
    let script = calls("fall", &["{ }"]) + "[[tool]]\nname = \"note\"\nreply = \"noted\"\n";
    let world = Setup::example("fragile", &script).world().await;
    let mut log = world.host.log();
    let mut events = world.host.watch();
    let accepted = world.submit("t", "k", "climb").await.json().expect("JSON");
    while !events.recv().await.expect("an event").event.contains("\"settled\"") {}
    let done = world.submission(accepted["id"].as_str().expect("an id")).await;
    assert_eq!(done["outcome"]["error"]["code"], "retry-exhausted", "{done}");
    assert_eq!(world.log.executions().len(), 1, "the recorded step was executed again");
    let lines: Vec<String> = std::iter::from_fn(|| log.try_recv().ok()).map(|line| line.text).collect();
    assert!(lines.iter().any(|line| line.contains("the ladder broke")), "{lines:?}");
    let transcript: Vec<String> = world.messages("t").await.iter().map(line).collect();
    assert!(transcript[2].starts_with("toolResult(interrupted): The submission ended"), "{transcript:#?}");
    world.check().await;
}

#[test]
fn the_guide_shows_the_example_as_it_is() {
    let source = include_str!("../examples/triage/src/lib.rs");
    let guide = include_str!("../docs/agents.md");
    let mut shown = 0;
    // The first block is the smallest agent there is; the others are pieces of the example.
    for block in guide.split("```rust\n").skip(2) {
        for line in block.split("```").next().unwrap_or_default().lines().map(str::trim) {
            assert!(source.lines().any(|l| l.trim() == line), "not in examples/triage: {line}");
            shown += 1;
        }
    }
    assert!(shown > 15, "only {shown} lines are shown");
}
