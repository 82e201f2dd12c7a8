//! A conversation through crashes: each host meets one fault, and the next one goes on from what is stored.

use std::sync::Arc;
use std::time::Duration;

use host_sim::store::Store;
use host_sim::store::memory::MemoryStore;
use host_sim::tools::scripted::Execution;
use serde_json::Value;

use crate::{CrashStore, Fault, Setup, World};

/// What there was when a host was killed.
pub struct Kill {
    /// Names of the steps that were recorded.
    pub steps: Vec<String>,
    /// Executions of tools so far.
    pub executions: usize,
}

/// How a conversation ended.
pub struct Survived {
    /// The last world.
    pub world: World,
    /// Ids of the submissions, in order.
    pub ids: Vec<String>,
    /// Executions of the host's tools, in all worlds.
    pub executions: Vec<Execution>,
    /// One for each host that was killed.
    pub kills: Vec<Kill>,
    /// Faults that were met.
    pub met: usize,
}

/// Submits messages to thread `t`, one after the other, each until it is answered. `setup` makes the world of host
/// number *n*, whose store meets fault *n* of `plan`; each kill is followed by another host.
pub async fn survive(setup: impl Fn(usize) -> Setup, messages: &[&str], plan: &[(u32, Fault)]) -> Survived {
    let all = async {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (mut ids, mut executions, mut kills) = (Vec::new(), Vec::new(), Vec::new());
        let mut met = 0;
        for (n, fault) in plan.iter().map(Some).chain([None]).enumerate() {
            let crash = fault.map(|(at, fault)| Arc::new(CrashStore::new(inner.clone(), *at, *fault)));
            let store = crash.clone().map_or(inner.clone(), |crash| crash as Arc<dyn Store>);
            let world = setup(n).store(store).world().await;
            let killed = tokio::select! {
                () = talk(&world, messages, &mut ids) => false,
                () = killed(crash.as_deref()) => true,
            };
            executions.extend(world.log.executions());
            met += usize::from(crash.as_deref().is_some_and(CrashStore::is_met));
            if !killed {
                return Survived { world, ids, executions, kills, met };
            }
            world.host.shutdown().await;
            kills.push(Kill { steps: steps(&*inner).await, executions: executions.len() });
        }
        unreachable!("the last host has no fault ahead")
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("it ends")
}

/// Goes on where it was: a message is repeated until it is answered, and its submission waited for.
async fn talk(world: &World, messages: &[&str], ids: &mut Vec<String>) {
    while world.host.sweep().await.is_err() {
        world.clock.advance(1_000);
    }
    world.host.settled().await;
    while let Some(message) = messages.get(ids.len()) {
        let response = world.submit("t", &format!("key-{}", ids.len()), message).await;
        if response.status == 503 {
            world.clock.advance(1_000);
            continue;
        }
        assert!(response.status < 300, "{}: {}", response.status, response.text());
        world.host.settled().await;
        ids.push(response.json().expect("JSON")["id"].as_str().expect("an id").to_owned());
    }
}

async fn killed(crash: Option<&CrashStore>) {
    match crash {
        Some(crash) => crash.killed().await,
        None => std::future::pending().await,
    }
}

/// The names of the recorded steps. Only here do the tests look at a key.
async fn steps(store: &dyn Store) -> Vec<String> {
    let kept = store.dump().await.expect("a dump").into_iter().filter(|(key, _)| key.contains("/step/"));
    kept.map(|(_, value)| {
        let step: Value = serde_json::from_slice(&value).expect("JSON");
        step["name"].as_str().expect("a name").to_owned()
    })
    .collect()
}
