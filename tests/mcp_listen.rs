//! MCP: `subscriptions/listen`, from the journal of one session.
#![cfg(not(target_family = "wasm"))]

use host_sim::data::Response;
use serde_json::{Value, json};
use writ_tests::mcp::{TASKS, able, body, frames, modern};
use writ_tests::{Gate, World};

const SCRIPT: &str = r#"
[model]
repeat_last = true
[[answer]]
when = "pay"
text = "I pay."
calls = [{ name = "pay", arguments = { order = 1 } }]
[[answer]]
when = "pay"
text = "Done."
[[answer]]
text = "Hello."
[[tool]]
name = "pay"
policy = "ask"
reply = "paid"
"#;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

async fn listen(world: &World, notifications: Value, capabilities: Value) -> Response {
    let params = json!({"notifications": notifications});
    world.send(modern(&body("sub", "subscriptions/listen", params, capabilities))).await
}

/// All that a listener sees, in steps: each look gives what is new.
struct Listener<'a> {
    world: &'a World,
    response: Response,
    after: u64,
    ended: bool,
}

impl<'a> Listener<'a> {
    async fn open(world: &'a World, notifications: Value) -> Self {
        let response = listen(world, notifications, able()).await;
        assert_eq!((response.status, response.header("content-type")), (200, Some("text/event-stream")));
        Self { world, response, after: 0, ended: false }
    }

    async fn look(&mut self) -> Vec<Value> {
        let (seen, after, ended) = frames(&self.world.host, &self.response, self.after).await;
        (self.after, self.ended) = (after, ended);
        for frame in &seen {
            let meta =
                if frame.get("result").is_some() { &frame["result"]["_meta"] } else { &frame["params"]["_meta"] };
            assert_eq!(meta[SUBSCRIPTION], "sub", "{frame}");
        }
        seen
    }
}

fn short(frame: &Value) -> String {
    match frame["method"].as_str() {
        None => format!("result {}", frame["result"]["resultType"].as_str().unwrap_or("none")),
        Some("notifications/tasks") => format!("task {}", frame["params"]["status"].as_str().unwrap_or("none")),
        Some("notifications/resources/updated") => "updated".into(),
        Some(method) => method.rsplit('/').next().unwrap_or_default().into(),
    }
}

fn shorts(frames: &[Value]) -> Vec<String> {
    frames.iter().map(short).collect()
}

/// Row 28: acknowledged first, then how things stand, then what changes, tagged; and a result at the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_told_of_to_its_end() {
    let mut world = World::new(SCRIPT).await;
    let gate = Gate::close(&mut world).await;
    let task = world.task(json!({"message": "pay"})).await;
    let id = &task["taskId"];
    let wanted = json!({"taskIds": [id], "toolsListChanged": true, "madeUp": 7});
    let mut listener = Listener::open(&world, wanted).await;
    let begun = listener.look().await;
    assert_eq!(shorts(&begun[..2]), ["acknowledged", "task working"]);
    assert_eq!(begun[0]["params"]["notifications"], json!({"taskIds": [id]}));
    gate.open();
    world.host.settled().await;
    let asked = listener.look().await;
    let last = asked.last().expect("a frame");
    assert_eq!((short(last).as_str(), &last["params"]["taskId"]), ("task input_required", id));
    let key = last["params"]["inputRequests"].as_object().expect("requests").keys().next().expect("a key").clone();
    assert!(listener.look().await.is_empty() && !listener.ended);
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    world.mcp_able("tasks/update", json!({"taskId": id, "inputResponses": {key: yes}})).await;
    world.host.settled().await;
    let rest = listener.look().await;
    let end = rest.len() - 2;
    assert_eq!(
        (shorts(&rest[end..]), listener.ended),
        (vec!["task completed".to_owned(), "result complete".into()], true)
    );
    let told = world.mcp_able("tasks/get", json!({"taskId": id})).await;
    assert_eq!(rest[end]["params"]["result"], told.result()["result"]);
    assert_eq!(rest[end + 1]["id"], "sub");
    // Who listens when all is over is told how it stands, and that it is over.
    let mut late = Listener::open(&world, json!({"taskIds": [id]})).await;
    assert_eq!(shorts(&late.look().await), ["acknowledged", "task completed", "result complete"]);
}

/// Row 28: nothing of what was not asked for; a session is told of as long as it lives.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_was_asked_for_is_told() {
    let world = World::new(SCRIPT).await;
    let arguments = |message: &str| json!({"message": message, "session_id": "helper/t"});
    let first = world.task(arguments("hi")).await;
    world.host.settled().await;
    let mut session = Listener::open(&world, json!({"resourceSubscriptions": ["session://helper/t"]})).await;
    assert_eq!(shorts(&session.look().await), ["acknowledged"]);
    let submission = format!("submission://{}", first["taskId"].as_str().expect("an id"));
    let mut over = Listener::open(&world, json!({"resourceSubscriptions": [submission]})).await;
    assert_eq!(shorts(&over.look().await), ["acknowledged"]);
    let second = world.task(arguments("hi")).await;
    world.host.settled().await;
    let seen = session.look().await;
    assert!(!seen.is_empty() && shorts(&seen).iter().all(|kind| kind == "updated"), "{seen:#?}");
    assert_eq!(seen[0]["params"]["uri"], "session://helper/t");
    assert!(over.look().await.is_empty(), "another submission of the session");
    let mut both = Listener::open(&world, json!({"taskIds": [first["taskId"], second["taskId"]]})).await;
    assert_eq!(shorts(&both.look().await).len(), 4);
    world.send(host_sim::data::Request::new("DELETE", "/v1/agents/helper/threads/t")).await;
    world.host.settled().await;
    assert_eq!(shorts(&session.look().await), ["result complete"]);
    assert!(session.ended);
}

/// Nothing that could be told is acknowledged, and over.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_to_nothing_is_over_at_once() {
    let world = World::new(SCRIPT).await;
    for wanted in [json!({}), json!({"toolsListChanged": true, "promptsListChanged": true})] {
        let mut listener = Listener::open(&world, wanted).await;
        let seen = listener.look().await;
        assert_eq!(shorts(&seen), ["acknowledged", "result complete"]);
        assert_eq!(seen[0]["params"]["notifications"], json!({}));
    }
}

/// What can't be told of is refused: another's, what is of two sessions, too much; and tasks for who does not know them.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_told_is_refused() {
    let world = World::new(SCRIPT).await;
    let (a, b) = (world.task(json!({"message": "hi"})).await, world.task(json!({"message": "hi"})).await);
    world.host.settled().await;
    for (wanted, says) in [
        (json!({"taskIds": [a["taskId"], b["taskId"]]}), "one session"),
        (json!({"taskIds": ["none"]}), "no such task"),
        (json!({"taskIds": vec![a["taskId"].clone(); 17]}), "16"),
        (json!({"taskIds": "x"}), "list"),
        (json!({"taskIds": [7]}), "list"),
        (json!({"resourceSubscriptions": ["session://helper/none"]}), "no such resource"),
        (json!({"resourceSubscriptions": ["file:///x"]}), "no such resource"),
        (json!([]), "notifications"),
        (Value::Null, "notifications"),
    ] {
        let response = listen(&world, wanted.clone(), able()).await.json().expect("JSON");
        assert_eq!(response["error"]["code"], -32602, "{wanted}");
        assert!(response["error"]["message"].as_str().expect("a text").contains(says), "{response}");
    }
    let undeclared = listen(&world, json!({"taskIds": [a["taskId"]]}), json!({})).await;
    assert_eq!(undeclared.status, 400);
    let error = &undeclared.json().expect("JSON")["error"];
    assert_eq!(
        (&error["code"], &error["data"]["requiredCapabilities"]["extensions"]),
        (&json!(-32021), &json!({TASKS: {}}))
    );
    let params = json!({"notifications": {"taskIds": [a["taskId"]]}});
    let foreign = modern(&body(1, "subscriptions/listen", params, able())).principal("local/other");
    assert_eq!(world.told(foreign).await.fault(), (200, -32602));
}
