//! A store, models and tools that do as a test says and tell it what happens.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use host_sim::model::{Completion, Description, Event, Model, ModelError, ModelRequest, StopReason};
use host_sim::store::{Guard, Outcome, Store, StoreError, Value, Write};
use host_sim::tools::{Call, Declaration, Policy, Reply, Tools};
use tokio::sync::{Barrier, Mutex as AsyncMutex, Semaphore, mpsc};

/// What happened, in order.
pub struct Seen(mpsc::UnboundedReceiver<String>);

impl Seen {
    /// Waits for the next thing, and checks that it is this one.
    pub async fn expect(&mut self, what: &str) {
        assert_eq!(self.0.recv().await.as_deref(), Some(what));
    }

    /// Waits for as many things and gives them sorted.
    pub async fn sorted(&mut self, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        while all.len() < count {
            all.push(self.0.recv().await.expect("the parts live"));
        }
        all.sort();
        all
    }

    /// Checks that nothing has happened that was not expected.
    pub fn expect_nothing(&mut self) {
        assert_eq!(self.0.try_recv().ok(), None);
    }
}

pub fn script() -> (Arc<ScriptTools>, Arc<Models>, Seen) {
    let (tell, seen) = mpsc::unbounded_channel();
    let tools = ScriptTools {
        tell: tell.clone(),
        orders: Mutex::default(),
        barrier: Barrier::new(3),
        hanging: Semaphore::new(0),
        gate: Semaphore::new(0),
        behind_gate: AtomicUsize::new(0),
        behind_gate_most: AtomicUsize::new(0),
    };
    (Arc::new(tools), Arc::new(Models { tell }), Seen(seen))
}

/// Tells that something was dropped.
struct TellDrop(mpsc::UnboundedSender<String>, String);

impl Drop for TellDrop {
    fn drop(&mut self) {
        let _ = self.0.send(self.1.clone());
    }
}

type Orders = (mpsc::UnboundedSender<String>, Arc<AsyncMutex<mpsc::UnboundedReceiver<String>>>);

/// The tools. `next` tells its arguments and waits for an order for its thread; the others do what their name says.
pub struct ScriptTools {
    tell: mpsc::UnboundedSender<String>,
    orders: Mutex<HashMap<String, Orders>>,
    barrier: Barrier,
    hanging: Semaphore,
    pub gate: Semaphore,
    behind_gate: AtomicUsize,
    pub behind_gate_most: AtomicUsize,
}

impl ScriptTools {
    /// Gives the runs of an instance their next order.
    pub fn order(&self, instance: &str, order: &str) {
        self.orders_of(instance).0.send(order.to_owned()).expect("kept open");
    }

    fn orders_of(&self, instance: &str) -> Orders {
        let mut orders = self.orders.lock().unwrap();
        let (send, receive) = orders.entry(instance.to_owned()).or_insert_with(|| {
            let (send, receive) = mpsc::unbounded_channel();
            (send, Arc::new(AsyncMutex::new(receive)))
        });
        (send.clone(), receive.clone())
    }
}

#[async_trait]
impl Tools for ScriptTools {
    fn describe(&self) -> Vec<Declaration> {
        let declare = |name: &str| Declaration {
            name: name.into(),
            description: String::new(),
            parameters: serde_json::json!({}),
            policy: Policy::Plain,
        };
        ["next", "say", "meet", "gate", "hang", "hung", "tell", "panic", "not-blocks", "too-large", "not a name"]
            .map(declare)
            .into()
    }

    async fn run(&self, call: Call) -> Reply {
        match call.name.as_str() {
            "next" => {
                self.tell.send(format!("{}: {}", call.thread, call.arguments)).unwrap();
                let order = self.orders_of(&call.thread).1.lock_owned().await.recv().await;
                Reply::text(order.expect("kept open"))
            }
            "say" => Reply::text(call.effect_key),
            "tell" => {
                self.tell.send("tool tells".into()).unwrap();
                Reply::text("told")
            }
            "meet" => {
                self.barrier.wait().await;
                Reply::text("met")
            }
            "gate" => {
                let now = self.behind_gate.fetch_add(1, Ordering::SeqCst) + 1;
                self.behind_gate_most.fetch_max(now, Ordering::SeqCst);
                self.tell.send("gate".into()).unwrap();
                let pass = self.gate.acquire().await.unwrap();
                self.behind_gate.fetch_sub(1, Ordering::SeqCst);
                pass.forget();
                Reply::text("passed")
            }
            "hang" => {
                let _tell = TellDrop(self.tell.clone(), "tool dropped".into());
                self.tell.send("tool hangs".into()).unwrap();
                self.hanging.add_permits(1);
                std::future::pending().await
            }
            "hung" => {
                self.hanging.acquire().await.unwrap().forget();
                Reply::text("hung")
            }
            "panic" => panic!("as told"),
            "not-blocks" => Reply { content: serde_json::json!({"text": "x"}), is_error: false },
            "too-large" => Reply::text("x".repeat(2 << 20)),
            other => unreachable!("{other}"),
        }
    }
}

/// Models that do what their name says.
pub struct Models {
    tell: mpsc::UnboundedSender<String>,
}

#[async_trait]
impl Model for Models {
    async fn describe(&self, name: &str) -> Result<Description, ModelError> {
        Err(ModelError::Invalid(name.to_owned()))
    }

    async fn start(&self, request: ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        match request.model.as_str() {
            "busy" => Err(ModelError::Transient { retry_after_ms: Some(5), message: "busy".into() }),
            "panic-at-start" => panic!("as told"),
            name => {
                let drop = TellDrop(self.tell.clone(), "completion dropped".into());
                Ok(Box::new(Scripted { name: name.to_owned(), step: 0, tell: self.tell.clone(), _drop: drop }))
            }
        }
    }
}

struct Scripted {
    name: String,
    step: usize,
    tell: mpsc::UnboundedSender<String>,
    _drop: TellDrop,
}

#[async_trait]
impl Completion for Scripted {
    async fn next(&mut self, max: u32) -> Result<Vec<Event>, ModelError> {
        match self.name.as_str() {
            "hang" => {
                self.tell.send("model hangs".into()).unwrap();
                std::future::pending().await
            }
            "panic" => panic!("as told"),
            "too-many" => Ok(vec![Event::Text("x".into()); max as usize + 1]),
            // One at a time; then what the rest of the name says.
            name if name.starts_with("drops") => {
                self.step += 1;
                let drop = |text: &str| vec![Event::Text(text.into())];
                match (self.step, name) {
                    (1, _) => Ok(drop("a")),
                    (2, _) => Ok(drop("b")),
                    (3, _) => Ok(drop("c")),
                    (4, "drops-stop") => Ok(vec![Event::Stop(StopReason::End)]),
                    (4, "drops-fail") => Err(ModelError::Quota("as told".into())),
                    (4, "drops-panic") => panic!("as told"),
                    (4, "drops-large") => Ok(drop(&"x".repeat((8 << 20) - 1))),
                    (4, "drops-hang") => {
                        // Nothing is taken by a wait that is dropped.
                        self.step -= 1;
                        self.tell.send("model hangs".into()).unwrap();
                        std::future::pending().await
                    }
                    _ => Ok(vec![]),
                }
            }
            _ => {
                self.step += 1;
                Ok(match self.step {
                    1 => vec![Event::Text("a".into()), Event::Text("b".into())],
                    2 => vec![Event::Stop(StopReason::End)],
                    _ => vec![],
                })
            }
        }
    }
}

/// A store in memory. It can be told to hang, or to panic.
#[derive(Default)]
pub struct ScriptStore {
    values: Mutex<HashMap<String, Value>>,
    pub hangs: AtomicBool,
    pub panics: AtomicBool,
}

impl ScriptStore {
    async fn behave(&self) {
        assert!(!self.panics.load(Ordering::SeqCst), "as told");
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending().await
        }
    }
}

#[async_trait]
impl Store for ScriptStore {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        self.behave().await;
        let values = self.values.lock().unwrap();
        Ok(keys.iter().map(|key| values.get(key).cloned()).collect())
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        self.behave().await;
        let mut values = self.values.lock().unwrap();
        let current = values.get(&guard.key).cloned();
        if current != guard.expect {
            return Ok(Outcome::Stale(current));
        }
        for Write { key, value } in writes {
            match value {
                Some(value) => values.insert(key, value),
                None => values.remove(&key),
            };
        }
        Ok(Outcome::Committed)
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        if self.commit(guard, writes).await != Ok(Outcome::Committed) {
            lost.fetch_add(1, Ordering::SeqCst);
        }
    }

    async fn flush(&self) {}

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        Ok(self.values.lock().unwrap().clone().into_iter().collect())
    }

    async fn count(&self) -> Result<u64, StoreError> {
        Ok(self.values.lock().unwrap().len() as u64)
    }
}
