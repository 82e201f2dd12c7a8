//! A client of MCP that says what it is told: requests of both eras, and what a host makes of their answers.

use host_sim::data::{Body, Request, Response};
use host_sim::host::Host;
use serde_json::{Value, json};

use crate::{OWNER, World};

/// The modern version.
pub const MODERN: &str = "2026-07-28";

/// The tasks extension.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The capabilities of a client that knows tasks and can show forms.
pub fn able() -> Value {
    json!({"elicitation": {}, "extensions": {TASKS: {}}})
}

/// The body of a modern request.
pub fn body(id: impl Into<Value>, method: &str, mut params: Value, capabilities: Value) -> Value {
    let meta = params.as_object_mut().expect("an object").entry("_meta").or_insert_with(|| json!({}));
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// A body with the headers that belong to it.
pub fn modern(body: &Value) -> Request {
    let method = body["method"].as_str().expect("a method");
    let name = ["name", "uri", "taskId"].into_iter().find_map(|field| body["params"][field].as_str());
    let request = Request::post("/mcp", body)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", method);
    match name {
        Some(name) => request.header("mcp-name", name),
        None => request,
    }
}

/// A legacy request.
pub fn legacy(id: impl Into<Value>, method: &str, params: Value) -> Request {
    let body = json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params});
    Request::post("/mcp", &body)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
}

/// What a request came to.
#[derive(Debug)]
pub struct Told {
    /// HTTP status.
    pub status: u16,
    /// The answer: the whole of it, or the last frame of its stream.
    pub answer: Value,
    /// What came before it, if it was a stream.
    pub before: Vec<Value>,
    /// As the component answered at first.
    pub first: Response,
}

impl Told {
    /// The result, which there must be.
    pub fn result(&self) -> &Value {
        assert!(self.answer.get("result").is_some(), "{} {}", self.status, self.answer);
        &self.answer["result"]
    }

    /// HTTP status and code of the error, which there must be.
    pub fn fault(&self) -> (u16, i64) {
        let code = self.answer["error"]["code"].as_i64();
        (self.status, code.unwrap_or_else(|| panic!("no error: {} {}", self.status, self.answer)))
    }
}

impl World {
    /// Sends a request and does what a host does: waits, or reads the stream, until there is an answer. What waits for
    /// something that does not happen is a failure.
    pub async fn told(&self, request: Request) -> Told {
        let headers = request.headers.clone();
        let principal = request.principal.clone().unwrap_or_else(|| OWNER.into());
        let first = self.send(request).await;
        if let Some(wait) = first.wait.clone() {
            self.ended(&wait.tail.feed, wait.tail.after).await;
            let then = Request { headers, ..Request::get(wait.then) };
            let answer = self.send(then.principal(principal)).await;
            return Told { status: answer.status, answer: answer.json().expect("JSON"), before: Vec::new(), first };
        }
        if let Body::Stream(tail) = &first.body {
            let mut before = self.ended(&tail.feed, tail.after).await;
            let answer = before.pop().expect("a last frame");
            return Told { status: first.status, answer, before, first };
        }
        let answer = if first.bytes().is_empty() { Value::Null } else { first.json().expect("JSON") };
        Told { status: first.status, answer, before: Vec::new(), first }
    }

    /// The frames of a feed up to its end, which must come once nothing is left to run.
    async fn ended(&self, feed: &str, after: u64) -> Vec<Value> {
        let (mut frames, mut next, mut last) = (Vec::new(), after, false);
        loop {
            let page = self.host.follow(feed, next).await.expect("the feed is there");
            for frame in &page.frames {
                assert_eq!(frame.name, None, "frames of MCP are told bare");
                frames.push(serde_json::from_str(&frame.event).expect("JSON"));
            }
            if page.end {
                return frames;
            }
            if page.next == next {
                assert!(!last, "the feed never ended: {feed}: {frames:#?}");
                self.host.settled().await;
                last = true;
            }
            next = page.next.max(next);
        }
    }

    /// A modern request of a client that can do nothing special.
    pub async fn mcp(&self, method: &str, params: Value) -> Told {
        self.told(modern(&body(1, method, params, json!({})))).await
    }

    /// A modern request of a client that is [`able`].
    pub async fn mcp_able(&self, method: &str, params: Value) -> Told {
        self.told(modern(&body(1, method, params, able()))).await
    }

    /// A modern call of the tool `helper`.
    pub async fn call(&self, arguments: Value) -> Told {
        self.mcp("tools/call", json!({"name": "helper", "arguments": arguments})).await
    }

    /// A modern call of the tool `helper` by a client that knows tasks: the task.
    pub async fn task(&self, arguments: Value) -> Value {
        let told = self.mcp_able("tools/call", json!({"name": "helper", "arguments": arguments})).await;
        assert_eq!(told.result()["resultType"], "task", "{}", told.answer);
        told.answer["result"].clone()
    }
}

/// All frames of a stream that are there now, and where it goes on.
pub async fn frames(host: &Host, response: &Response, after: u64) -> (Vec<Value>, u64, bool) {
    let Body::Stream(tail) = &response.body else { panic!("{} {}", response.status, response.text()) };
    let (mut frames, mut next) = (Vec::new(), after.max(tail.after));
    loop {
        let page = host.follow(&tail.feed, next).await.expect("the feed is there");
        frames.extend(page.frames.iter().map(|f| serde_json::from_str::<Value>(&f.event).expect("JSON")));
        if page.end || page.next <= next {
            return (frames, next.max(page.next), page.end);
        }
        next = page.next;
    }
}
