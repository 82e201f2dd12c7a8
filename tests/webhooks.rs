//! Configured targets are told how a submission ended: at least once, with one id, over crashes and with retries; and
//! never at the cost of the conversation.
#![cfg(not(target_family = "wasm"))]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use host_sim::data::Request;
use host_sim::host::Parts;
use host_sim::store::Store;
use host_sim::tools::{Call, Declaration, Policy, Reply, Tools};
use serde_json::{Value, json};
use writ_tests::{Setup, World, host, until};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "fail"
fail = { kind = "invalid", message = "no" }
[[answer]]
when = "pay"
text = "I pay twice."
calls = [{ name = "pay" }, { name = "pay" }]
[[answer]]
when = "pay"
text = "And once more."
calls = [{ name = "pay" }]
[[answer]]
when = "pay"
text = "Paid."
[[answer]]
text = "Hello."
[[tool]]
name = "pay"
policy = "ask"
reply = "paid"
"#;

/// A far end that keeps what it was told, and may be down; and a tool that asks.
#[derive(Default)]
struct FarEnd {
    told: Mutex<Vec<Value>>,
    down: AtomicBool,
    /// Never answers.
    hangs: AtomicBool,
}

impl FarEnd {
    fn told(&self) -> Vec<Value> {
        self.told.lock().unwrap().clone()
    }
}

#[async_trait]
impl Tools for FarEnd {
    fn describe(&self) -> Vec<Declaration> {
        let (name, description, parameters) = ("pay".into(), "Pays.".into(), json!({"type": "object"}));
        vec![Declaration { name, description, parameters, policy: Policy::Ask }]
    }

    async fn run(&self, call: Call) -> Reply {
        if call.name == "pay" {
            return Reply::text("paid");
        }
        let mut told: Value = serde_json::from_str(&call.arguments).unwrap();
        assert_eq!((call.name.as_str(), &told["id"]), ("writ-webhook", &json!(call.effect_key)));
        told["down"] = json!(self.down.load(Ordering::SeqCst));
        self.told.lock().unwrap().push(told);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.down.load(Ordering::SeqCst) { Reply::error("503: not now") } else { Reply::text("200") }
    }
}

/// Time stands still unless it is moved by hand.
async fn world(webhooks: Value) -> (World, Arc<FarEnd>) {
    of(Setup::new(SCRIPT).setting("webhooks", webhooks).reach(0)).await
}

async fn of(setup: Setup) -> (World, Arc<FarEnd>) {
    let mut world = setup.world().await;
    let far = Arc::new(FarEnd::default());
    world.parts = Parts { tools: far.clone(), ..world.parts.clone() };
    world.host = host(&world.parts).await;
    (world, far)
}

fn ops() -> Value {
    json!([{"name": "ops", "events": ["settled"]}])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_is_told_once_how_it_ended() {
    let (world, far) = world(ops()).await;
    let done = world.ask("t", "k", "hi").await;
    let told = far.told();
    assert_eq!(told.len(), 1, "{told:#?}");
    let body = &told[0]["body"];
    assert_eq!((&told[0]["target"], &body["type"]), (&json!("ops"), &json!("submission.settled")));
    let data = &body["data"];
    assert_eq!((&data["id"], &data["agent"], &data["thread"]), (&done["id"], &json!("helper"), &json!("t")));
    assert_eq!(data["outcome"], json!({"status": "completed"}));
    assert!(!body.to_string().contains("Hello."), "what was said is not told");
    // Asked again, nobody is told again; nothing is left for a restart.
    world.ask("t", "k", "hi").await;
    assert_eq!(far.told().len(), 1);
    assert_eq!(world.host.sweep().await.unwrap(), 0);
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_target_hears_what_it_asked_for() {
    let (world, far) = world(json!([
        {"name": "all", "events": ["settled"]},
        {"name": "trouble", "events": ["failed"]},
        {"name": "elsewhere", "events": ["settled"], "agents": ["other"]},
        {"name": "silent", "events": []},
    ]))
    .await;
    world.ask("t", "a", "hi").await;
    world.ask("t", "b", "fail").await;
    let mut heard: Vec<String> = far
        .told()
        .iter()
        .map(|t| format!("{} {} {}", t["target"], t["body"]["type"], t["body"]["data"]["key"]).replace('"', ""))
        .collect();
    heard.sort();
    assert_eq!(
        heard,
        ["all submission.settled a", "all submission.settled b", "trouble submission.failed b"],
        "{heard:#?}"
    );
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_down_is_told_later_with_the_same_id_and_explain_says_so() {
    let (world, far) = world(ops()).await;
    far.down.store(true, Ordering::SeqCst);
    let id = world.ask("t", "k", "hi").await["id"].as_str().unwrap().to_owned();
    assert_eq!(far.told().len(), 1);
    let explained = world.send(Request::get(format!("/v1/submissions/{id}/explain"))).await.json().unwrap();
    let facts = explained["facts"].as_array().unwrap();
    let fact = |what: &str| facts.iter().find(|f| f["key"].as_str().unwrap().ends_with(what)).map(|f| &f["value"]);
    assert!(fact("/notice/settled").is_some(), "{explained:#}");
    let sent = &fact("/sent/settled").unwrap()["targets"]["ops"];
    assert_eq!((&sent["done"], &sent["error"]), (&json!(false), &json!("503: not now")), "{explained:#}");
    world.clock.advance(4_999);
    world.host.settled().await;
    assert_eq!(far.told().len(), 1);
    far.down.store(false, Ordering::SeqCst);
    world.clock.advance(1);
    world.host.settled().await;
    let told = far.told();
    assert!(told.iter().all(|t| t["id"] == told[0]["id"] && t["body"] == told[0]["body"]), "{told:#?}");
    assert_eq!(told.iter().filter(|t| t["down"] == json!(false)).count(), 1, "{told:#?}");
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_stays_down_is_given_up_after_eight_tries() {
    let (world, far) = of(Setup::new(SCRIPT).setting("webhooks", ops()).reach(86_400_000)).await;
    far.down.store(true, Ordering::SeqCst);
    world.ask("t", "k", "hi").await;
    assert_eq!(far.told().len(), 8);
    assert_eq!(world.host.sweep().await.unwrap(), 0);
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_hangs_holds_nobody_up() {
    let (world, far) = world(ops()).await;
    far.hangs.store(true, Ordering::SeqCst);
    for key in ["a", "b", "c"] {
        let id = world.accept("t", key, "hi").await;
        for _ in 0..100_000 {
            if world.submission(&id).await["state"] == "settled" {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(world.submission(&id).await["state"], "settled", "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_dies_before_telling_is_followed_by_one_that_tells() {
    let (world, far) = world(ops()).await;
    far.hangs.store(true, Ordering::SeqCst);
    let id = world.accept("t", "k", "hi").await;
    until(|| far.told().len() == 1).await;
    let parts = world.parts.clone();
    drop(world.host);
    far.hangs.store(false, Ordering::SeqCst);
    let second = host(&parts).await;
    second.sweep().await.unwrap();
    second.settled().await;
    let told = far.told();
    assert_eq!((told.len(), &told[0]["id"]), (2, &told[1]["id"]), "{id}: {told:#?}");
    writ_tests::check(&second, &*world.store).await;
    assert_eq!(second.sweep().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_somebody_is_told_once() {
    let (world, far) = world(json!([{"name": "ops", "events": ["needs-you"]}])).await;
    // Accepted while its agent was there, begun after it was gone.
    world.send(Request::post("/v1/agents/helper/pause", &json!({}))).await;
    let id = world.accept("t", "k", "hi").await;
    let mut parts = world.parts.clone();
    parts.settings.insert("agents".into(), json!({"agents": []}).to_string());
    parts.tools = far.clone();
    // Gone for good: a run that only ends would begin the turn once it is resumed.
    world.host.shutdown().await;
    let second = host(&parts).await;
    // Not before: the first host would have begun it.
    let resume = Request::post("/v1/agents/helper/resume", &json!({})).principal(writ_tests::OWNER);
    assert_eq!(second.respond(resume).await.unwrap().status, 200);
    for _ in 0..3 {
        second.sweep().await.unwrap();
        second.settled().await;
        world.clock.advance(60_000);
    }
    second.settled().await;
    let told = far.told();
    assert_eq!(told.len(), 1, "{told:#?}");
    let data = &told[0]["body"]["data"];
    assert_eq!((&told[0]["body"]["type"], &data["id"]), (&json!("submission.needs-you"), &json!(id)));
    assert!(data["reason"].as_str().is_some_and(|r| r.contains("no agent")), "{data}");
    writ_tests::check(&second, &*world.store).await;
}

/// Each time that a turn waits for a person's word is told once, however many calls wait; what was asked is not told.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_told_each_time() {
    let (world, far) = world(json!([{"name": "ops", "events": ["needs-you"]}])).await;
    let id = world.accept("t", "k", "pay").await;
    for (round, calls) in [(1, ["1.0", "1.1"].as_slice()), (2, &["4.0"])] {
        world.host.settled().await;
        assert_eq!(far.told().len(), round, "{:#?}", far.told());
        let told = far.told().pop().unwrap();
        let data = &told["body"]["data"];
        assert_eq!((&told["body"]["type"], &data["id"]), (&json!("submission.needs-you"), &json!(id)));
        assert_eq!((&data["state"], &data["outcome"]), (&json!("waiting"), &Value::Null));
        assert!(data["reason"].as_str().is_some_and(|r| r.contains("pay")), "{data}");
        world.host.sweep().await.unwrap();
        world.host.settled().await;
        assert_eq!(far.told().len(), round, "told again");
        world.clock.advance(1_000);
        for call in calls {
            let answer = json!({"call": call, "decision": "approve"});
            let answered = world.send(Request::post(format!("/v1/submissions/{id}/answer"), &answer)).await;
            assert_eq!(answered.status, 202, "{}", answered.text());
        }
    }
    world.host.settled().await;
    assert_eq!(world.submission(&id).await["outcome"]["text"], "Paid.");
    assert_eq!(far.told().len(), 2);
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_is_deleted_takes_its_notices_along() {
    let (world, far) = world(ops()).await;
    let before = world.store.count().await.unwrap();
    far.down.store(true, Ordering::SeqCst);
    world.ask("t", "k", "hi").await;
    assert_eq!(world.delete("t").await.status, 202);
    world.host.settled().await;
    far.down.store(false, Ordering::SeqCst);
    world.clock.advance(5_000);
    world.host.settled().await;
    assert_eq!(far.told().len(), 1);
    world.check().await;
    // What stays are the partition's own keys: its queue and the heads of its lists.
    let after = world.store.dump().await.unwrap();
    assert!(after.iter().all(|(key, _)| !key.contains("/sub/") && !key.contains("/ses/")), "{before}: {after:#?}");
}

/// Slots that only wait for a target are moved with the others, and found.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_that_waits_outlives_the_maintenance_of_the_queue() {
    let (world, far) = of(Setup::new(SCRIPT).setting("webhooks", ops()).setting("partitions", json!(1)).reach(0)).await;
    far.down.store(true, Ordering::SeqCst);
    world.ask("first", "k", "hi").await;
    let mut quiet = world.parts.clone();
    quiet.settings.remove("webhooks");
    let quiet = host(&quiet).await;
    for n in 0..200 {
        let path = format!("/v1/agents/helper/threads/{n}/submissions");
        let accepted = quiet.respond(Request::post(path, &json!({"message": "hi"})).principal(writ_tests::OWNER)).await;
        assert_eq!(accepted.unwrap().status, 202);
        quiet.settled().await;
    }
    let moved = world.store.dump().await.unwrap();
    assert!(moved.iter().any(|(key, _)| key.ends_with("/moved")), "the slot was never moved");
    drop(world.host);
    far.down.store(false, Ordering::SeqCst);
    world.clock.advance(5_000);
    let second = host(&world.parts).await;
    second.sweep().await.unwrap();
    second.settled().await;
    assert_eq!(far.told().len(), 2);
    writ_tests::check(&second, &*world.store).await;
}
