//! A store that checks the protocol's rules on every commit that goes through it: R1 (every key has one guard that may
//! put it), R4 (every commit writes its guard with a value never used before), and that keys only live where their
//! owner is. What is broken is kept; [`Watch`] makes the test fail for it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use std::sync::atomic::AtomicU32;

use async_trait::async_trait;
use host_sim::store::{Guard, Outcome, Store, StoreError, Value, Write};

/// The store.
pub struct RulesStore {
    inner: Arc<dyn Store>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nonces: HashSet<String>,
    broken: Vec<String>,
}

/// Panics at its end when a rule was broken, unless the test fails already.
pub struct Watch(pub Arc<RulesStore>);

impl Drop for Watch {
    fn drop(&mut self) {
        let broken = self.0.broken();
        if !std::thread::panicking() {
            assert!(broken.is_empty(), "rules were broken: {broken:#?}");
        }
    }
}

/// What kind of key it is: the rows of the protocol's key table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Format,
    Queue,
    Slot,
    Sub,
    Moved,
    Start,
    Cancel,
    Pause,
    Answer,
    Paused,
    Notice,
    Sent,
    Step,
    Head,
    Inbox,
    Entry,
    Message,
    Meta,
    Journal,
    Ring,
    Index,
    Unknown,
}

/// The kind of a key, and the tag of its thread or the id of its submission.
fn kind(key: &str) -> (Kind, &str) {
    let parts: Vec<&str> = key.split('/').collect();
    match parts[..] {
        ["format"] => (Kind::Format, ""),
        ["p", _, "queue"] => (Kind::Queue, ""),
        ["p", _, "queue", _] => (Kind::Slot, ""),
        ["p", _, "sub", id] => (Kind::Sub, id),
        ["p", _, "sub", id, "moved"] => (Kind::Moved, id),
        ["p", _, "sub", id, "start"] => (Kind::Start, id),
        ["p", _, "sub", id, "cancel"] => (Kind::Cancel, id),
        ["p", _, "sub", id, "pause"] => (Kind::Pause, id),
        ["p", _, "sub", id, "answer", _] => (Kind::Answer, id),
        ["p", _, "sub", id, "notice", _] => (Kind::Notice, id),
        ["p", _, "sub", id, "sent", _] => (Kind::Sent, id),
        ["paused"] => (Kind::Paused, ""),
        ["p", _, "sub", id, "step", _, _] => (Kind::Step, id),
        ["p", _, "ses", tag] => (Kind::Head, tag),
        ["p", _, "ses", tag, "in"] => (Kind::Inbox, tag),
        ["p", _, "ses", tag, "in", _] => (Kind::Entry, tag),
        ["p", _, "ses", tag, "m", _] | ["p", _, "ses", tag, "m", _, _] => (Kind::Message, tag),
        ["p", _, "ses", tag, "meta"] => (Kind::Meta, tag),
        ["p", _, "ses", tag, "j"] => (Kind::Journal, tag),
        ["p", _, "ses", tag, "j", _] => (Kind::Ring, tag),
        ["p", _, "idx", ..] => (Kind::Index, ""),
        _ => (Kind::Unknown, ""),
    }
}

/// What a commit does to one thread's head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Born,
    Gone,
    Stays,
}

impl RulesStore {
    /// Checks what goes to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, state: Mutex::default() }
    }

    /// What was broken so far.
    pub fn broken(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).broken.clone()
    }

    /// R1 of a commit's writes; `before` holds what their keys held under this guard.
    fn judge(guard: &Guard, writes: &[Write], before: &[Option<Value>]) -> Vec<String> {
        let mut broken = Vec::new();
        let master = kind(&guard.key);
        if !matches!(master.0, Kind::Queue | Kind::Head | Kind::Format | Kind::Paused) {
            broken.push(format!("R1: {} guards nothing", guard.key));
        }
        if !writes.iter().any(|w| w.key == guard.key) {
            broken.push(format!("R4: a commit leaves its guard {} unchanged", guard.key));
        }
        let fate = |tag: &str| {
            let head = writes.iter().zip(before).find(|(w, _)| kind(&w.key) == (Kind::Head, tag));
            match head {
                Some((Write { value: None, .. }, _)) => Fate::Gone,
                Some((_, None)) => Fate::Born,
                _ => Fate::Stays,
            }
        };
        for (write, old) in writes.iter().zip(before) {
            let (what, of) = kind(&write.key);
            let fine = match (&write.value, master.0) {
                (Some(value), Kind::Queue) => match what {
                    Kind::Queue => write.key == guard.key,
                    Kind::Slot | Kind::Start | Kind::Cancel | Kind::Pause | Kind::Answer | Kind::Entry => old.is_none(),
                    // Created; or settled by the last step of a failed copy, whose head goes in this commit.
                    Kind::Sub => old.is_none() || fate(&tag_of(value)) == Fate::Gone,
                    Kind::Head => old.is_none(),
                    Kind::Message => old.is_none() && fate(of) == Fate::Born,
                    Kind::Moved | Kind::Inbox | Kind::Meta | Kind::Index | Kind::Sent => true,
                    _ => false,
                },
                (Some(value), Kind::Head) => match what {
                    Kind::Head => write.key == guard.key,
                    Kind::Sub => old.is_some() && tag_of(value) == master.1,
                    Kind::Step => old.is_none(),
                    Kind::Notice => true,
                    // Messages are written once (I4).
                    Kind::Message => of == master.1 && (old.is_none() || old.as_ref() == Some(value)),
                    Kind::Journal | Kind::Ring => of == master.1,
                    _ => false,
                },
                (Some(_), Kind::Format) => what == Kind::Format && old.is_none(),
                (Some(_), Kind::Paused) => what == Kind::Paused,
                (None, Kind::Queue) => match what {
                    Kind::Slot | Kind::Moved | Kind::Start | Kind::Cancel | Kind::Pause | Kind::Index => true,
                    Kind::Notice => true,
                    Kind::Head | Kind::Inbox | Kind::Meta | Kind::Journal => fate(of) == Fate::Gone,
                    _ => false,
                },
                (None, Kind::Head) => match what {
                    Kind::Slot | Kind::Moved | Kind::Start | Kind::Cancel | Kind::Step | Kind::Sub => true,
                    Kind::Pause | Kind::Answer | Kind::Notice | Kind::Sent => true,
                    Kind::Entry | Kind::Message | Kind::Ring => of == master.1,
                    // An entry of the list of tasks goes with its submission; it was put once, and is never put again.
                    Kind::Index => old.is_none() || write.key.contains("/tasks/"),
                    _ => false,
                },
                _ => false,
            };
            if !fine {
                let verb = if write.value.is_some() { "put" } else { "deleted" };
                broken.push(format!(
                    "R1: {} was {verb} under {} (it was there: {})",
                    write.key,
                    guard.key,
                    old.is_some()
                ));
            }
            // A settled outcome never changes (I3); it may only go.
            if let (Kind::Sub, Some(new), Some(old)) = (what, &write.value, old)
                && let (new, old) = (json(new), json(old))
                && (old["state"] == "settled"
                    || old["hash"] != new["hash"]
                    || old["attempt"].as_u64() > new["attempt"].as_u64())
            {
                broken.push(format!("I2, I3 or I6: {} became {new} from {old}", write.key));
            }
        }
        broken
    }
}

fn json(value: &[u8]) -> serde_json::Value {
    serde_json::from_slice(value).unwrap_or_default()
}

fn tag_of(record: &[u8]) -> String {
    json(record)["tag"].as_str().unwrap_or_default().to_owned()
}

#[async_trait]
impl Store for RulesStore {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Value>>, StoreError> {
        self.inner.get_many(keys).await
    }

    async fn commit(&self, guard: Guard, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        // What only this guard's commits may change is as it is now if the commit is applied.
        let before = match self.inner.get_many(writes.iter().map(|w| w.key.clone()).collect()).await {
            Ok(before) => before,
            Err(_) => return self.inner.commit(guard, writes).await,
        };
        let outcome = self.inner.commit(guard.clone(), writes.clone()).await;
        let refused = matches!(outcome, Err(StoreError::TooLarge(_) | StoreError::Denied(_)));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if refused {
            let error = outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
            state.broken.push(format!("a commit under {} was refused: {error}", guard.key));
        }
        if outcome == Ok(Outcome::Committed) {
            let broken = Self::judge(&guard, &writes, &before);
            state.broken.extend(broken);
            let guards = writes.into_iter().filter(|w| w.key == guard.key || kind(&w.key).0 == Kind::Head);
            for write in guards {
                let Some(value) = write.value else { continue };
                // The fresh part is the nonce: the rest of a guard's value may come back.
                let nonce = serde_json::from_slice::<serde_json::Value>(&value).ok().map(|v| v["nonce"].to_string());
                if nonce.is_none_or(|nonce| !state.nonces.insert(nonce)) {
                    state.broken.push(format!("R4: {} was written without a fresh nonce", write.key));
                }
            }
        }
        drop(state);
        outcome
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Write>, lost: Arc<AtomicU32>) {
        let fine = kind(&guard.key).0 == Kind::Journal
            && writes.iter().all(|w| kind(&w.key) == (Kind::Ring, kind(&guard.key).1));
        if !fine {
            let text = format!("R1: append_later under {} writes more than its ring", guard.key);
            self.state.lock().unwrap_or_else(PoisonError::into_inner).broken.push(text);
        }
        self.inner.append_later(guard, writes, lost).await;
    }

    async fn flush(&self) {
        self.inner.flush().await;
    }

    async fn dump(&self) -> Result<Vec<(String, Value)>, StoreError> {
        self.inner.dump().await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.inner.count().await
    }
}
