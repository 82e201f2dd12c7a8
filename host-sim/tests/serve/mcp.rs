//! MCP over real sockets: who may ask, and what becomes of a call whose caller leaves.

use serde_json::{Value, json};

use super::client::{Answer, Client, ask, until};
#[cfg(unix)]
use super::process::Process;
use super::served::{Served, options};

const VERSION: &str = "mcp-protocol-version: 2026-07-28";

/// The body of a modern request.
fn body(method: &str, mut params: Value, capabilities: Value) -> Vec<u8> {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string().into_bytes()
}

fn call(arguments: Value, capabilities: Value) -> Vec<u8> {
    body("tools/call", json!({"name": "helper", "arguments": arguments}), capabilities)
}

const CALL: [&str; 3] = [VERSION, "mcp-method: tools/call", "mcp-name: helper"];

async fn post(served: &Served, extra: &[&str], body: &[u8]) -> Answer {
    ask(served.addr, "POST /mcp", extra, body).await
}

/// The state of the only submission of the only thread, once there is one.
async fn state(served: &Served) -> Option<(String, Value)> {
    let threads = ask(served.addr, "GET /v1/threads", &[], b"").await.json();
    let thread = threads["threads"][0]["thread"].as_str()?.to_owned();
    let path = format!("GET /v1/agents/helper/threads/{thread}/submissions");
    let submission = ask(served.addr, &path, &[], b"").await.json()["submissions"][0].clone();
    Some((submission["id"].as_str()?.to_owned(), submission))
}

/// Waits until the only submission is at work.
async fn running(served: &Served) -> String {
    until("the run", async || state(served).await.filter(|(_, s)| s["state"] == "running")).await.0
}

/// Waits for the outcome of the only submission.
async fn outcome(served: &Served) -> Value {
    let settled = async || state(served).await.filter(|(_, s)| s["state"] == "settled");
    until("the outcome", settled).await.1["outcome"].clone()
}

/// Row 17: nobody is served under another name, or from another site's page, on a loopback address; and nothing is done.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts_and_origins_are_refused() {
    let served = Served::start(options()).await;
    let port = served.addr.port();
    let sent = async |host: &str, origin: Option<&str>| {
        let body = call(json!({"message": "hi"}), json!({}));
        let origin = origin.map(|origin| format!("origin: {origin}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {host}\r\n{origin}authorization: Bearer {}\r\n{}\r\ncontent-length: {}\r\n\r\n",
            super::client::TOKEN,
            CALL.join("\r\n"),
            body.len(),
        );
        let mut client = Client::open(served.addr).await;
        client.raw(&[head.as_bytes(), &body].concat()).await;
        client.answer().await.expect("an answer")
    };
    for (host, origin) in [
        ("evil.example", None),
        ("evil.example:80", None),
        ("localhost", Some("http://evil.example")),
        ("localhost", Some("null")),
        ("127.0.0.1.evil.example", Some("http://localhost")),
    ] {
        assert_eq!(sent(host, origin).await.status, 403, "{host} {origin:?}");
    }
    assert!(state(&served).await.is_none(), "nothing was done");
    for name in ["localhost", "127.0.0.1", "[::1]"] {
        let host = format!("{name}:{port}");
        let answer = sent(&host, Some(&format!("http://{host}"))).await;
        assert_eq!((answer.status, &answer.json()["result"]["content"][0]["text"]), (200, &json!("Hello.")), "{host}");
    }
}

/// Row 30 in part: over the network nobody can say that he speaks through a pipe.
#[tokio::test(flavor = "multi_thread")]
async fn headers_of_the_host_mean_nothing_from_outside() {
    let served = Served::start(options()).await;
    let body = call(json!({"message": "hi"}), json!({}));
    let answer = post(&served, &["writ-transport: stdio", "writ-connection: 1"], &body).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32020)));
}

/// A call with neither key nor task is given up durably when its caller leaves: while it waits, and in a stream.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_given_up_with_its_connection() {
    for stream in [false, true] {
        let served = Served::start(options()).await;
        let mut params = json!({"name": "helper", "arguments": {"message": "never"}});
        if stream {
            params["_meta"] = json!({"progressToken": "p"});
        }
        let mut client = Client::open(served.addr).await;
        client.send("POST /mcp", &CALL, &body("tools/call", params, json!({}))).await;
        if stream {
            let event = client.event_after_head().await;
            assert_eq!(event.data["method"], "notifications/progress");
        }
        running(&served).await;
        drop(client);
        assert_eq!(outcome(&served).await, json!({"status": "aborted", "reason": "cancelled"}), "stream: {stream}");
    }
}

/// Row 43: and nothing else is: a task, a call with a key, and one of the other era go on.
#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_asked_for_again_goes_on() {
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let keyed = json!({"message": "late", "idempotency_key": "k"});
    let old = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "helper", "arguments": {"message": "late"}},
    });
    for (name, body, headers) in [
        ("task", call(json!({"message": "late"}), tasks), &CALL[..]),
        ("key", call(keyed, json!({})), &CALL[..]),
        ("legacy", old.to_string().into_bytes(), &["mcp-protocol-version: 2025-11-25"][..]),
    ] {
        let served = Served::start(options()).await;
        let mut client = Client::open(served.addr).await;
        client.send("POST /mcp", headers, &body).await;
        running(&served).await;
        drop(client);
        assert_eq!(outcome(&served).await["text"], "Here I am.", "{name}");
    }
}

/// Who has his answer has not left; and whoever leaves later changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_arrived_is_not_taken_back() {
    let served = Served::start(options()).await;
    let mut client = Client::open(served.addr).await;
    let answer = client.ask("POST /mcp", &CALL, &call(json!({"message": "long"}), json!({}))).await;
    assert!(answer.json()["result"]["content"][0]["text"].as_str().expect("a text").ends_with("sixteen"));
    drop(client);
    assert_eq!(outcome(&served).await["status"], "completed");
}

/// A server that stops is not a caller that leaves: what was called goes on at the next start, however it stops.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_gives_nothing_up() {
    for aborted in [false, true] {
        let options = host_sim::http::ServeOptions { drain: std::time::Duration::from_millis(300), ..options() };
        let mut served = Served::start(options).await;
        let mut clients = Vec::new();
        for stream in [false, true] {
            let mut params = json!({"name": "helper", "arguments": {"message": "never"}});
            if stream {
                params["_meta"] = json!({"progressToken": "p"});
            }
            let mut client = Client::open(served.addr).await;
            client.send("POST /mcp", &CALL, &body("tools/call", params, json!({}))).await;
            clients.push(client);
        }
        let both = async || {
            let threads = ask(served.addr, "GET /v1/threads", &[], b"").await.json();
            (threads["threads"].as_array()?.len() == 2).then_some(threads)
        };
        let threads = until("both threads", both).await;
        match aborted {
            true => {
                served.running.abort();
                let _ = (&mut served.running).await;
            }
            false => {
                served.drain.begin();
                super::client::soon("the end", &mut served.running).await.expect("no panic");
            }
        }
        // All that was told when the connections ended is known by now.
        for client in &mut clients {
            client.rest().await;
        }
        let host = served.host.clone();
        for thread in threads["threads"].as_array().expect("threads") {
            let name = thread["thread"].as_str().expect("a name");
            let path = format!("/v1/agents/helper/threads/{name}/submissions");
            let request = host_sim::data::Request::get(path).principal("local/operator");
            let submissions = host.respond(request).await.expect("an answer").json().expect("JSON");
            let submission = &submissions["submissions"][0];
            assert_eq!(submissions["submissions"].as_array().map(Vec::len), Some(1));
            // A cancel would be noted in the inbox behind it.
            let thread = host_sim::data::Request::get(format!("/v1/agents/helper/threads/{name}"));
            let thread = host.respond(thread.principal("local/operator")).await.expect("an answer");
            assert_eq!(thread.json().expect("JSON")["submissions"], 1, "aborted: {aborted} {submission}");
            assert_ne!(submission["state"], "settled");
        }
        super::client::soon("the host's end", host.shutdown()).await;
    }
}

/// Row 32: a task that was told of is there after a kill at that instant, and comes to its outcome.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_task_outlives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let process = Process::start(folder.path(), &[]).await;
    let arguments = call(json!({"message": "late"}), capabilities.clone());
    let task = ask(process.addr, "POST /mcp", &CALL, &arguments).await.json()["result"].clone();
    process.signal("-KILL").await;
    assert_eq!((&task["resultType"], process.end().await.0), (&json!("task"), None));
    let process = Process::start(folder.path(), &[]).await;
    let get = async || {
        let id = task["taskId"].as_str().expect("an id");
        let body = body("tasks/get", json!({"taskId": id}), capabilities.clone());
        let headers = [VERSION, "mcp-method: tasks/get", &format!("mcp-name: {id}")];
        ask(process.addr, "POST /mcp", &headers, &body).await.json()["result"].clone()
    };
    assert_eq!(get().await["taskId"], task["taskId"]);
    let done = until("the outcome", async || Some(get().await).filter(|task| task["status"] != "working")).await;
    assert_eq!((&done["status"], &done["result"]["content"][0]["text"]), (&json!("completed"), &json!("Here I am.")));
    process.signal("-TERM").await;
    assert_eq!(process.end().await.0, Some(0));
}
