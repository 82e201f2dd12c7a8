//! A client of A2A: one operation, by either binding, waited for as a host waits; and a reader of its streams.

use host_sim::data::{Body, Request, Response, Tail};
use host_sim::host::Host;
use serde_json::{Value, json};

use crate::{OWNER, World};

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// JSON-RPC.
    Rpc,
    /// HTTP+JSON.
    Rest,
}

impl Wire {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Rpc, Self::Rest];
}

/// What an operation came to.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The whole body.
    pub body: Value,
    /// By which binding.
    pub wire: Wire,
}

impl Reply {
    fn of(response: &Response, wire: Wire) -> Self {
        let body = response.json().unwrap_or_else(|e| panic!("{e}: {}", response.text()));
        Self { status: response.status, body, wire }
    }

    /// The result, which must be there.
    pub fn result(&self) -> &Value {
        assert_eq!(self.status, 200, "{:#}", self.body);
        assert!(self.body.get("error").is_none(), "{:#}", self.body);
        if self.wire == Wire::Rpc { &self.body["result"] } else { &self.body }
    }

    /// The task of a result of `SendMessage`.
    pub fn task(&self) -> &Value {
        let task = &self.result()["task"];
        assert!(task.is_object(), "{:#}", self.body);
        task
    }

    /// The error: its code (of JSON-RPC, or the HTTP status) and its reason. Its form is checked: row 77.
    pub fn fault(&self) -> (i64, String) {
        let error = &self.body["error"];
        let (code, details) = match self.wire {
            Wire::Rpc => {
                assert_eq!((self.status, &self.body["jsonrpc"]), (200, &json!("2.0")), "{:#}", self.body);
                (error["code"].as_i64().expect("a code"), &error["data"])
            }
            Wire::Rest => {
                assert_eq!(error["code"], json!(self.status), "{:#}", self.body);
                assert!(error["status"].as_str().is_some_and(|s| !s.is_empty() && s.to_ascii_uppercase() == s));
                (i64::from(self.status), &error["details"])
            }
        };
        assert!(error["message"].as_str().is_some_and(|text| text.len() > 10), "{:#}", self.body);
        let details = details.as_array().unwrap_or_else(|| panic!("no details: {:#}", self.body));
        let info = &details[0];
        assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo", "{:#}", self.body);
        assert_eq!(info["domain"], "a2a-protocol.org");
        (code, info["reason"].as_str().expect("a reason").to_owned())
    }

    /// The fields that the error names.
    pub fn violations(&self) -> Vec<String> {
        self.fault();
        let details = if self.wire == Wire::Rpc { &self.body["error"]["data"] } else { &self.body["error"]["details"] };
        let bad = details.as_array().into_iter().flatten().find(|d| d["fieldViolations"].is_array());
        let violations = bad.and_then(|d| d["fieldViolations"].as_array()).into_iter().flatten();
        violations.map(|v| v["field"].as_str().expect("a field").to_owned()).collect()
    }
}

/// A message of a user.
pub fn message(text: &str) -> Value {
    json!({"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// Parameters of `SendMessage`.
pub fn to_send(text: &str) -> Value {
    json!({"message": message(text)})
}

/// Those that are answered at once.
pub fn at_once(text: &str) -> Value {
    json!({"message": message(text), "configuration": {"returnImmediately": true}})
}

/// The request of an operation.
pub fn request(wire: Wire, operation: &str, params: &Value) -> Request {
    let request = match wire {
        Wire::Rpc => {
            Request::post("/a2a", &json!({"jsonrpc": "2.0", "id": "r 1%&", "method": operation, "params": params}))
        }
        Wire::Rest => rest(operation, params),
    };
    request.header("a2a-version", "1.0")
}

fn rest(operation: &str, params: &Value) -> Request {
    let tenant = params["tenant"].as_str().map(|t| format!("/{t}")).unwrap_or_default();
    let id = params["id"].as_str().or(params["taskId"].as_str()).unwrap_or_default();
    let query = || {
        let fields =
            params.as_object().into_iter().flatten().filter(|(name, _)| !["id", "tenant"].contains(&name.as_str()));
        let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned).replace('/', "%2F");
        let pairs: Vec<String> = fields.map(|(name, value)| format!("{name}={}", text(value))).collect();
        pairs.join("&")
    };
    let at = |path: String| format!("/a2a{tenant}{path}");
    match operation {
        "SendMessage" => Request::post(at("/message:send".into()), params),
        "SendStreamingMessage" => Request::post(at("/message:stream".into()), params),
        "GetTask" => Request::get(at(format!("/tasks/{id}?{}", query()))),
        "ListTasks" => Request::get(at(format!("/tasks?{}", query()))),
        "CancelTask" => Request::post(at(format!("/tasks/{id}:cancel")), &json!({})),
        "SubscribeToTask" => Request::post(at(format!("/tasks/{id}:subscribe")), &json!({})),
        "GetExtendedAgentCard" => Request::get(at("/extendedAgentCard".into())),
        "CreateTaskPushNotificationConfig" => Request::post(at(format!("/tasks/{id}/pushNotificationConfigs")), params),
        "ListTaskPushNotificationConfigs" => Request::get(at(format!("/tasks/{id}/pushNotificationConfigs"))),
        "GetTaskPushNotificationConfig" => Request::get(at(format!("/tasks/{id}/pushNotificationConfigs/c"))),
        "DeleteTaskPushNotificationConfig" => {
            Request::new("DELETE", at(format!("/tasks/{id}/pushNotificationConfigs/c")))
        }
        other => panic!("no path of {other}"),
    }
}

impl World {
    /// Does an operation as [`OWNER`], and waits as a host does for its caller.
    pub async fn a2a(&self, wire: Wire, operation: &str, params: &Value) -> Reply {
        self.a2a_send(wire, request(wire, operation, params)).await
    }

    /// Sends a request of this face, and waits as a host does for its caller.
    pub async fn a2a_send(&self, wire: Wire, request: Request) -> Reply {
        let owner = request.principal.clone().unwrap_or_else(|| OWNER.to_owned());
        let response = self.send(request).await;
        let Some(wait) = response.wait.clone() else { return Reply::of(&response, wire) };
        ended(&self.host, &wait.tail).await;
        Reply::of(&self.send(Request::get(wait.then).principal(owner)).await, wire)
    }

    /// Opens a stream.
    pub async fn a2a_stream(&self, wire: Wire, operation: &str, params: &Value) -> Updates {
        let response = self.send(request(wire, operation, params)).await;
        Updates::of(response, wire)
    }
}

/// Waits until a feed has ended.
pub async fn ended(host: &Host, tail: &Tail) {
    let wait = async {
        let mut after = tail.after;
        loop {
            let page = host.follow(&tail.feed, after).await.expect("a page");
            if page.end {
                return;
            }
            after = page.next;
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), wait).await.expect("the feed ends");
}

/// A stream of a task.
pub struct Updates {
    /// Where it goes on.
    pub tail: Tail,
    /// What it has told.
    pub told: Vec<Value>,
    /// Whether it has ended.
    pub ended: bool,
    wire: Wire,
}

impl Updates {
    fn of(response: Response, wire: Wire) -> Self {
        let text = response.text().into_owned();
        let Body::Stream(tail) = response.body else { panic!("{}: {text}", response.status) };
        Self { tail, told: Vec::new(), ended: false, wire }
    }

    /// The same stream from its beginning, for another reader.
    pub fn again(&self) -> Self {
        Self { tail: Tail { after: 0, ..self.tail.clone() }, told: Vec::new(), ended: false, wire: self.wire }
    }

    /// Reads all that is there now.
    pub async fn look(&mut self, host: &Host) {
        while !self.ended {
            let page = host.follow(&self.tail.feed, self.tail.after).await.expect("a page");
            for frame in &page.frames {
                assert_eq!(frame.name, None, "told bare");
                assert!(frame.number >= self.tail.after, "frame {} came after {}", frame.number, self.tail.after);
                let event: Value = serde_json::from_str(&frame.event).expect("JSON");
                self.told.push(match self.wire {
                    Wire::Rest => event,
                    Wire::Rpc => {
                        assert_eq!((&event["jsonrpc"], &event["id"]), (&json!("2.0"), &json!("r 1%&")));
                        event["result"].clone()
                    }
                });
            }
            self.ended = page.end;
            let more = page.next > self.tail.after;
            self.tail.after = self.tail.after.max(page.next);
            if !more {
                return;
            }
        }
    }

    /// Reads to the end.
    pub async fn finish(&mut self, host: &Host) {
        let read = async {
            while !self.ended {
                self.look(host).await;
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), read).await.expect("the stream ends");
    }

    /// Each item in short: `task SUBMITTED`, `status WORKING`, `piece append "text"`, `piece last "text"`.
    pub fn short(&self) -> Vec<String> {
        self.told.iter().map(short).collect()
    }

    /// The states, in order.
    pub fn states(&self) -> Vec<String> {
        let state = |v: &Value| {
            let state = v["task"]["status"]["state"].as_str().or(v["statusUpdate"]["status"]["state"].as_str());
            state.map(|s| s.trim_start_matches("TASK_STATE_").to_owned())
        };
        self.told.iter().filter_map(state).collect()
    }

    /// The text of the result as its pieces make it: appended, or anew.
    pub fn result(&self) -> String {
        let mut text = String::new();
        for update in self.told.iter().filter(|v| v["artifactUpdate"].is_object()).map(|v| &v["artifactUpdate"]) {
            assert_eq!(update["artifact"]["artifactId"], "result");
            if update["append"] != json!(true) {
                text.clear();
            }
            text.push_str(update["artifact"]["parts"][0]["text"].as_str().expect("a text"));
        }
        text
    }
}

fn short(item: &Value) -> String {
    let state = |v: &Value| v["status"]["state"].as_str().unwrap_or("?").trim_start_matches("TASK_STATE_").to_owned();
    let (kind, value) = item.as_object().and_then(|o| o.iter().next()).expect("one of the kinds");
    match kind.as_str() {
        "task" => format!("task {}", state(value)),
        "statusUpdate" => format!("status {}", state(value)),
        "artifactUpdate" => {
            let how = match (value["append"] == json!(true), value["lastChunk"] == json!(true)) {
                (true, _) => "append",
                (_, true) => "last",
                _ => "new",
            };
            format!("piece {how} {}", value["artifact"]["parts"][0]["text"])
        }
        other => panic!("{other}: {item}"),
    }
}
