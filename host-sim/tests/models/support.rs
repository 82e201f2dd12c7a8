//! A clock that moves only when somebody waits, a store in memory, and short ways to ask and call.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

use async_trait::async_trait;
use host_sim::clock::Clock;
use host_sim::model::Completion;
use host_sim::model::Event;
use host_sim::model::Model;
use host_sim::model::ModelError;
use host_sim::model::ModelRequest;
use host_sim::store::COMMIT_BYTES_MAX;
use host_sim::store::COMMIT_WRITES_MAX;
use host_sim::store::Guard;
use host_sim::store::KEY_BYTES_MAX;
use host_sim::store::Outcome;
use host_sim::store::READ_KEYS_MAX;
use host_sim::store::Store;
use host_sim::store::StoreError;
use host_sim::store::VALUE_BYTES_MAX;
use host_sim::store::Value;
use host_sim::store::Write;
use host_sim::store::partition;
use host_sim::tools::Call;
use host_sim::tools::Reply;
use serde_json::json;

/// Remembers what was waited for.
#[derive(Default)]
pub struct TestClock {
    now: Mutex<u64>,
    pub waits: Mutex<Vec<u64>>,
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> u64 {
        *self.now.lock().unwrap()
    }

    async fn wait_until(&self, until: u64) {
        // A real wait gives way at least once: whoever drops it here must lose nothing.
        tokio::task::yield_now().await;
        let mut now = self.now.lock().unwrap();
        *now = (*now).max(until);
        self.waits.lock().unwrap().push(until);
    }
}

/// What a store does with its next commit instead of the plain thing.
#[derive(Clone, Copy)]
pub enum Fault {
    UnknownApplied,
    UnknownNotApplied,
    Unavailable,
    /// Applies it, reports it unknown, and lets somebody else's commit follow.
    Overtaken,
}

#[derive(Default)]
pub struct TestStore {
    pub faults: Mutex<VecDeque<Fault>>,
    values: Mutex<BTreeMap<String, Value>>,
    guards: Mutex<BTreeSet<Value>>,
    pub commits: Mutex<u32>,
}

impl TestStore {
    pub fn keys(&self) -> Vec<String> {
        self.values.lock().unwrap().keys().cloned().collect()
    }

    fn apply(&self, guard: &Guard, writes: &[Write]) -> Outcome {
        let mut values = self.values.lock().unwrap();
        let current = values.get(&guard.key).cloned();
        if current != guard.expect {
            return Outcome::Stale(current);
        }
        for write in writes {
            let value = write.value.clone().expect("a workspace deletes nothing");
            if write.key == guard.key {
                assert!(self.guards.lock().unwrap().insert(value.clone()), "a guard value came back");
            }
            values.insert(write.key.clone(), value);
        }
        *self.commits.lock().unwrap() += 1;
        Outcome::Committed
    }
}

#[async_trait]
impl Store for TestStore {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        assert!(keys.len() <= READ_KEYS_MAX);
        tokio::task::yield_now().await;
        let values = self.values.lock().unwrap();
        Ok(keys.iter().map(|key| values.get(key).cloned()).collect())
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        assert!(writes.len() <= COMMIT_WRITES_MAX);
        assert!(writes.iter().any(|write| write.key == guard.key), "a commit writes its guard");
        let mut bytes = 0;
        for write in &writes {
            assert_eq!(partition(&write.key), "host/ws");
            assert!(write.key.len() <= KEY_BYTES_MAX, "key of {} bytes", write.key.len());
            let value = write.value.as_ref().map_or(0, Vec::len);
            assert!(value <= VALUE_BYTES_MAX, "{} has {value} bytes", write.key);
            bytes += write.key.len() + value;
        }
        assert!(bytes <= COMMIT_BYTES_MAX);
        tokio::task::yield_now().await;
        let fault = self.faults.lock().unwrap().pop_front();
        match fault {
            None => Ok(self.apply(&guard, &writes)),
            Some(Fault::UnknownApplied) => {
                self.apply(&guard, &writes);
                Err(StoreError::Unknown("applied".to_owned()))
            }
            Some(Fault::UnknownNotApplied) => Err(StoreError::Unknown("not applied".to_owned())),
            Some(Fault::Unavailable) => Err(StoreError::Unavailable("gone".to_owned())),
            Some(Fault::Overtaken) => {
                assert_eq!(self.apply(&guard, &writes), Outcome::Committed);
                let mut values = self.values.lock().unwrap();
                let head = values.get_mut(&guard.key).unwrap();
                let mut other: serde_json::Value = serde_json::from_slice(head).unwrap();
                other["nonce"] = json!("somebody else's");
                *head = other.to_string().into_bytes();
                Err(StoreError::Unknown("applied, and overtaken".to_owned()))
            }
        }
    }

    async fn append_later(&self, _: Guard, _: Vec<Write>, _: Arc<AtomicU32>) {}

    async fn flush(&self) {}

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        Ok(Vec::new())
    }

    async fn count(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}

/// A request with these messages.
pub fn request(turn: u64, messages: serde_json::Value) -> ModelRequest {
    ModelRequest {
        model: "m".to_owned(),
        system: String::new(),
        messages: messages.to_string(),
        tools: json!([{"name": "read"}, {"name": "write"}, {"name": "list"}]).to_string(),
        options: json!({"purpose": "turn"}).to_string(),
        key: format!("key-{turn}"),
        turn,
        thread: "t".to_owned(),
    }
}

pub fn user(text: &str) -> serde_json::Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

pub fn assistant(text: &str) -> serde_json::Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop"})
}

pub fn result(id: &str, name: &str, text: &str) -> serde_json::Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": name, "isError": false,
        "content": [{"type": "text", "text": text}]})
}

/// Everything that a completion gives, and how it ends.
pub async fn drain(mut completion: Box<dyn Completion>) -> (Vec<Event>, Option<ModelError>) {
    let mut events = Vec::new();
    loop {
        match completion.next(1024).await {
            Ok(more) if more.is_empty() => return (events, None),
            Ok(more) => events.extend(more),
            Err(error) => return (events, Some(error)),
        }
    }
}

/// Asks, and takes an answer that doesn't fail.
pub async fn ask(model: &dyn Model, request: ModelRequest) -> Vec<Event> {
    let (events, error) = drain(model.start(request).await.unwrap()).await;
    assert_eq!(error, None);
    events
}

/// The error of an answer that isn't even begun.
pub async fn refusal(model: &dyn Model, request: ModelRequest) -> ModelError {
    match model.start(request).await {
        Ok(_) => panic!("the model answered"),
        Err(error) => error,
    }
}

pub fn text(events: &[Event]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        Event::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

pub fn call(effect_key: &str, name: &str, arguments: serde_json::Value) -> Call {
    Call {
        effect_key: effect_key.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_string(),
        thread: "alice/helper/demo".to_owned(),
        call_id: format!("id-{effect_key}"),
    }
}

/// The text of a reply, an error's as `Err`.
pub fn said(reply: &Reply) -> Result<String, String> {
    let text = reply.content[0]["text"].as_str().unwrap().to_owned();
    if reply.is_error { Err(text) } else { Ok(text) }
}
