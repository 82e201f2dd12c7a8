//! What is stored and what leaves the runtime is what earlier builds have stored and sent: golden files, to be changed
//! knowingly only. `WRIT_GOLDEN=write cargo test --test golden` writes them anew.
#![cfg(not(target_family = "wasm"))]

use std::path::{Path, PathBuf};

use host_sim::data::{Request, Response};
use serde_json::{Value, json};
use writ_tests::sim::{Map, Sim, agents, finish, submit};
use writ_tests::{Heard, OWNER, Setup};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

/// Compares lines, so that what has changed is seen.
fn compare(name: &str, now: &str, advice: &str) {
    let path = file(name);
    if std::env::var_os("WRIT_GOLDEN").is_some_and(|what| what == "write") {
        return std::fs::write(&path, now).expect("the golden file is written");
    }
    let before = std::fs::read_to_string(&path).expect("the golden file");
    let differ = before.lines().zip(now.lines()).find(|(before, now)| before != now);
    assert!(before == now, "{name} is another than before: {advice}\nfirst difference: {differ:#?}");
}

fn text(map: &Map) -> String {
    map.iter().map(|(key, value)| format!("{key} {}\n", String::from_utf8_lossy(value))).collect()
}

/// A store in the middle of a batch of calls, with a submission that waits; and what becomes of it.
fn stores() -> [(&'static str, Map); 2] {
    let sim = Sim::of(&Map::new());
    sim.free(|ports| submit(ports, "a"));
    let instance = sim.instance();
    // The claim, the answer with its calls and the first result go through; then the owner dies.
    sim.play(&instance, 1, 1, &[0, 0, 0, 0, 0, 0, 0, 0, 2]);
    sim.free(|ports| submit(ports, "b"));
    let open = sim.map();
    sim.settle(&instance);
    [("store-open.txt", open), ("store-settled.txt", sim.map())]
}

/// Every key and every byte.
/// Shows A42.
#[test]
fn what_is_stored_is_what_was_stored() {
    for (name, map) in stores() {
        let advice = "stores that exist must still be read. If that is so, write the file anew; if not, raise the version \
                      of the format";
        compare(name, &text(&map), advice);
    }
}

/// The stores in the golden files, whoever wrote them: the open one goes on to its outcomes, and nothing is broken.
/// Shows A42.
#[test]
fn a_store_that_was_stored_goes_on() {
    for name in ["store-open.txt", "store-settled.txt"] {
        let stored = std::fs::read_to_string(file(name)).expect("the golden file");
        let pair = |line: &str| line.split_once(' ').map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        let sim = Sim::of(&stored.lines().filter_map(pair).collect());
        let instance = sim.instance();
        sim.settle(&instance);
        // The same requests again: the same submissions.
        let ids: Vec<String> = ["a", "b"].map(|key| sim.free(|ports| submit(ports, key))).into();
        assert!(ids.iter().all(|id| stored.contains(&format!("/sub/{id} "))), "{name}: {ids:?} are not there");
        assert_eq!(finish(&sim, &instance, &ids), Vec::<String>::new(), "{name}");
        let run = sim.free(|ports| writ::run::drive(ports, &agents(), &instance, None));
        assert_eq!(run.outcome, writ::run::RunOutcome::Idle);
    }
}

const SCRIPT: &str = r#"
[[answer]]
when = "pay"
text = "I pay."
calls = [{ name = "pay", arguments = { cents = 700 } }]
[[answer]]
when = "pay"
text = "It is paid."
usage = { input = 20, output = 4, cost_microusd = 12 }
[[tool]]
name = "pay"
description = "Pays"
parameters = { type = "object", properties = { cents = { type = "integer" } } }
reply = "paid {cents}"
"#;

fn answer(response: &Response) -> Value {
    let headers: Vec<String> = response.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    json!({"status": response.status, "headers": headers, "body": response.json().unwrap_or(Value::Null)})
}

/// Requests to models, calls of tools, and answers to clients: what the far ends were written for.
/// Shows A42.
#[tokio::test(flavor = "multi_thread")]
async fn what_leaves_the_runtime_is_as_it_was() {
    let mut world = Setup::new(SCRIPT).world().await;
    let heard = Heard::listen(&mut world).await;
    let mut answers = Vec::new();
    answers.push(answer(&world.submit("t", "k", "pay").await));
    world.host.settled().await;
    answers.push(answer(&world.submit("t", "k", "pay").await));
    answers.push(answer(&world.submit("t", "k", "pay more").await));
    let id = answers[0]["body"]["id"].as_str().expect("an id").to_owned();
    for path in [
        format!("/v1/submissions/{id}"),
        "/v1/submissions/00-missing".into(),
        "/v1/threads".into(),
        "/v1/agents/helper/threads/t".into(),
        "/v1/agents/helper/threads/t/messages".into(),
        "/v1/agents/helper/threads/t/submissions".into(),
    ] {
        answers.push(answer(&world.send(Request::get(path).principal(OWNER)).await));
    }
    let parsed = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let models: Vec<Value> = heard
        .requests()
        .iter()
        .map(|r| {
            json!({
                "model": r.model, "system": r.system, "messages": parsed(&r.messages), "tools": parsed(&r.tools),
                "options": parsed(&r.options), "key": r.key, "turn": r.turn, "thread": r.thread,
            })
        })
        .collect();
    let tools: Vec<Value> = world
        .log
        .executions()
        .iter()
        .map(|e| json!({"name": e.name, "arguments": e.arguments, "effect_key": e.effect_key}))
        .collect();
    let all = json!({"answers": answers, "models": models, "tools": tools});
    let now = serde_json::to_string_pretty(&all).expect("JSON") + "\n";
    compare("outside.json", &now, "clients and far ends may rest on it. If none does, write the file anew");
    world.check().await;
}
