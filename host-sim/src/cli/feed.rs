//! Live events of one thread.

use serde_json::Value;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::error::TryRecvError;

use crate::data::Published;

/// Events from the moment it was made. Some may be lost: they say when to look, the store says what is so.
pub struct Feed {
    events: broadcast::Receiver<Published>,
    /// The thread, by the name that the component gives it; until it is known, nothing is passed on.
    instance: Option<String>,
}

impl Feed {
    /// Over a host's events.
    pub fn new(events: broadcast::Receiver<Published>) -> Self {
        Self { events, instance: None }
    }

    /// Only the events of this thread from here on.
    pub fn only(&mut self, instance: Option<String>) {
        self.instance = instance;
    }

    /// The next event; `Null` when some were lost. It waits for ever when there will be none.
    pub async fn next(&mut self) -> Value {
        loop {
            match self.events.recv().await {
                Ok(published) if self.is_ours(&published) => return parse(&published.event),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return Value::Null,
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// An event that is there already.
    pub fn ready(&mut self) -> Option<Value> {
        loop {
            match self.events.try_recv() {
                Ok(published) if self.is_ours(&published) => return Some(parse(&published.event)),
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }

    fn is_ours(&self, published: &Published) -> bool {
        self.instance.as_ref().is_some_and(|instance| *instance == published.thread)
    }
}

fn parse(event: &str) -> Value {
    serde_json::from_str(event).unwrap_or(Value::Null)
}
