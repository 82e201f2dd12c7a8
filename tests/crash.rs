//! A crash at every commit of every scenario: nothing is lost, nothing is done twice, and the audit is clean (design §10).
#![cfg(not(target_family = "wasm"))]

use std::collections::BTreeMap;
use std::sync::Arc;

use host_sim::data::Request;
use host_sim::store::Store;
use host_sim::store::memory::MemoryStore;
use serde_json::{Value, json};
use writ_tests::{CrashStore, Fault, Setup, World, line};

/// What a client does, in order; each request is repeated until it is answered.
#[derive(Clone)]
enum Act {
    /// Submits `message` with a key.
    Submit(&'static str, Value),
    /// Waits until nothing is left to do.
    Settle,
    /// Cancels the submission of a key.
    Cancel(&'static str),
    /// Forks thread `t` into `u`.
    Fork(Option<u64>),
    /// Deletes thread `t`.
    Delete,
}

struct Scenario {
    name: &'static str,
    script: String,
    acts: Vec<Act>,
    /// Keys and the outcomes that are right for them.
    outcomes: Vec<(&'static str, &'static [&'static str])>,
    /// Most commits that it takes without faults, and a few more for recovery.
    commits: u32,
}

fn submit(key: &'static str, message: &str) -> Act {
    Act::Submit(key, json!({"message": message}))
}

fn tool(name: &str, policy: &str) -> String {
    format!("[[tool]]\nname = \"{name}\"\npolicy = \"{policy}\"\nreply = \"done\"\n")
}

fn scenarios() -> Vec<Scenario> {
    let call = |names: &[&str]| {
        let calls: Vec<String> = names.iter().map(|n| format!("{{ name = \"{n}\" }}")).collect();
        format!("[[answer]]\ntext = \"I call.\"\ncalls = [{}]\n[[answer]]\ntext = \"Done.\"\n", calls.join(", "))
    };
    let said = "[model]\nrepeat_last = true\n[[answer]]\ntext = \"Hello.\"\n".to_owned();
    vec![
        Scenario {
            name: "a plain turn",
            script: said.clone(),
            acts: vec![submit("a", "hi"), Act::Settle],
            outcomes: vec![("a", &["completed"])],
            commits: 6,
        },
        Scenario {
            name: "one plain tool",
            script: call(&["pay"]) + &tool("pay", "plain"),
            acts: vec![submit("a", "pay"), Act::Settle],
            outcomes: vec![("a", &["completed"])],
            commits: 8,
        },
        Scenario {
            name: "one replay-safe tool",
            script: call(&["look"]) + &tool("look", "replay-safe"),
            acts: vec![submit("a", "look"), Act::Settle],
            outcomes: vec![("a", &["completed"])],
            commits: 8,
        },
        Scenario {
            name: "three tools at once",
            script: call(&["pay", "look", "pay"]) + &tool("pay", "plain") + &tool("look", "replay-safe"),
            acts: vec![submit("a", "both"), Act::Settle],
            outcomes: vec![("a", &["completed"])],
            commits: 10,
        },
        Scenario {
            name: "a transient error",
            script: "[[answer]]\ntext = \"Hello.\"\nfail = { kind = \"transient\", message = \"429\", times = 1 }\n"
                .into(),
            acts: vec![submit("a", "hi"), Act::Settle],
            outcomes: vec![("a", &["completed"])],
            commits: 8,
        },
        Scenario {
            name: "a permanent error with calls",
            script: "[[answer]]\ntext = \"I\"\nfail = { kind = \"refused\", message = \"no\" }\n".into(),
            acts: vec![submit("a", "hi"), Act::Settle],
            outcomes: vec![("a", &["failed"])],
            commits: 6,
        },
        Scenario {
            name: "a queue of three",
            script: said.clone(),
            acts: vec![submit("a", "1"), submit("b", "2"), submit("c", "3"), Act::Settle],
            outcomes: vec![("a", &["completed"]), ("b", &["completed"]), ("c", &["completed"])],
            commits: 12,
        },
        Scenario {
            name: "a cancel",
            script: said.clone(),
            acts: vec![submit("a", "1"), submit("b", "2"), Act::Cancel("b"), Act::Cancel("a"), Act::Settle],
            outcomes: vec![("a", &["completed", "aborted"]), ("b", &["completed", "aborted"])],
            commits: 12,
        },
        Scenario {
            name: "a steering message",
            script: call(&["look"]) + "[[answer]]\ntext = \"And more.\"\n" + &tool("look", "replay-safe"),
            acts: vec![
                submit("a", "1"),
                Act::Submit("b", json!({"message": "2", "options": {"steer": true}})),
                Act::Settle,
            ],
            outcomes: vec![("a", &["completed"]), ("b", &["completed"])],
            commits: 12,
        },
        Scenario {
            name: "a short fork",
            script: said.clone(),
            acts: vec![submit("a", "1"), Act::Settle, Act::Fork(Some(2)), Act::Settle],
            outcomes: vec![("a", &["completed"])],
            commits: 7,
        },
        Scenario {
            name: "a deletion in the middle of work",
            script: call(&["pay"]) + &tool("pay", "plain"),
            acts: vec![submit("a", "pay"), submit("b", "again"), Act::Delete, Act::Settle],
            outcomes: vec![],
            commits: 12,
        },
    ]
}

/// A client that keeps its receipts.
struct Client {
    receipts: BTreeMap<&'static str, String>,
    next: usize,
}

impl Client {
    /// Goes on where it was. Every request that was not answered is repeated.
    async fn go_on(&mut self, world: &World, acts: &[Act]) {
        while let Some(act) = acts.get(self.next) {
            let mut tries = 0;
            while !self.act(world, act).await {
                tries += 1;
                assert!(tries < 20, "never answered");
                world.clock.advance(1_000);
            }
            self.next += 1;
        }
    }

    async fn act(&mut self, world: &World, act: &Act) -> bool {
        let response = match act {
            Act::Settle => {
                world.host.settled().await;
                return true;
            }
            Act::Submit(key, body) => world.submit_body("t", key, body).await,
            Act::Cancel(key) => {
                let path = format!("/v1/submissions/{}/cancel", self.receipts[key]);
                world.send(Request::post(path, &json!({}))).await
            }
            Act::Fork(at) => {
                let body = json!({"to": "u", "at": at});
                let request = Request::post("/v1/agents/helper/threads/t/fork", &body);
                world.send(request.header("idempotency-key", "fork")).await
            }
            Act::Delete => world.send(Request::new("DELETE", "/v1/agents/helper/threads/t")).await,
        };
        if let Act::Submit(key, _) = act
            && response.status < 300
        {
            let id = response.json().expect("JSON")["id"].as_str().expect("an id").to_owned();
            if let Some(before) = self.receipts.insert(key, id.clone()) {
                assert_eq!(before, id, "a repeated request got another id");
            }
        }
        assert!(matches!(response.status, 200 | 202 | 404 | 409 | 503), "{}: {}", response.status, response.text());
        response.status != 503
    }
}

/// Plays a scenario with one fault; `false`: the fault lies behind its end.
async fn play(scenario: &Scenario, at: u32, fault: Fault) -> bool {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let crash = Arc::new(CrashStore::new(inner.clone(), at, fault));
    let first = Setup::new(&scenario.script).store(crash.clone()).world().await;
    let mut client = Client { receipts: BTreeMap::new(), next: 0 };
    let log = first.log.clone();
    let killed = tokio::select! {
        () = client.go_on(&first, &scenario.acts) => false,
        () = crash.killed() => true,
    };
    let mut worlds = vec![first];
    if killed {
        worlds.pop().expect("the first world").host.shutdown().await;
        let second = Setup::new(&scenario.script).store(inner.clone()).world().await;
        second.host.sweep().await.expect("a sweep");
        client.go_on(&second, &scenario.acts).await;
        worlds.push(second);
    }
    let world = worlds.pop().expect("a world");
    world.host.sweep().await.expect("a sweep");
    world.host.settled().await;
    judge(scenario, &client, &world).await;

    // Plain tools ran at most once for each call, and every execution of a call carried one effect key.
    let mut executions = log.executions();
    if killed {
        executions.extend(world.log.executions());
    }
    let mut plain: BTreeMap<String, u32> = BTreeMap::new();
    for execution in executions.iter().filter(|e| e.name == "pay") {
        *plain.entry(execution.effect_key.clone()).or_default() += 1;
    }
    assert!(plain.values().all(|n| *n == 1), "a plain tool ran twice: {plain:?}");
    crash.is_met()
}

async fn judge(scenario: &Scenario, client: &Client, world: &World) {
    world.check().await;
    // Nothing is left in the queue: what has settled took its slot along.
    let dump = world.store.dump().await.expect("a dump");
    let slots: Vec<&str> = dump.iter().map(|(key, _)| key.as_str()).filter(|key| key.contains("/queue/")).collect();
    assert!(slots.is_empty(), "slots were left behind: {slots:?}");
    for (key, right) in &scenario.outcomes {
        let before = world.submission(&client.receipts[key]).await;
        let status = before["outcome"]["status"].as_str().unwrap_or("none");
        assert!(right.contains(&status), "{key} ended as {before}");
    }
    if scenario.outcomes.is_empty() {
        return;
    }
    let messages = world.messages("t").await;
    for (key, _) in &scenario.outcomes {
        let of = |m: &&Value| m["role"] == "user" && m["submission"] == client.receipts[key].as_str();
        let inputs = messages.iter().filter(of).count();
        assert!(inputs <= 1, "an input was delivered twice: {:#?}", messages.iter().map(line).collect::<Vec<_>>());
    }
    // The same request again gets the same answer, and nothing runs.
    let calls = world.store.calls();
    for act in &scenario.acts {
        if let Act::Submit(key, body) = act {
            let again = world.submit_body("t", key, body).await;
            assert_eq!(again.status, 200, "{}", again.text());
            assert_eq!(again.json().expect("JSON"), world.submission(&client.receipts[key]).await);
        }
    }
    assert_eq!(world.calls_since(calls).commits, 0, "a repeated request wrote something");
}

/// Shows A4, A29, A30, A34, A38, B1, B3, B7, B8, C6; traps 10, 27.
#[tokio::test(flavor = "multi_thread")]
async fn every_commit_of_every_scenario_may_crash() {
    let mut plans = 0;
    for scenario in scenarios() {
        for fault in Fault::ALL {
            let mut met = 0;
            for at in 0..scenario.commits {
                let plan = format!("{}: {fault:?} at commit {at}", scenario.name);
                let played = std::panic::AssertUnwindSafe(play(&scenario, at, fault));
                match tokio::time::timeout(std::time::Duration::from_secs(30), played.0).await {
                    Ok(true) => met += 1,
                    Ok(false) => break,
                    Err(_) => panic!("{plan}: it does not end"),
                }
                plans += 1;
                eprintln!("ok {plan}");
            }
            assert!(met > 1, "{}: {fault:?} was never met", scenario.name);
        }
    }
    assert!(plans > 200, "only {plans} plans");
}
