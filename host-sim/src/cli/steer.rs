//! What somebody said in the middle of a recorded turn, handed over when the model of a replay gets there.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::sync::Weak;

use async_trait::async_trait;
use serde_json::Value;
use serde_json::json;

use super::failure::Failure;
use super::names::Key;
use super::names::Thread;
use super::session::Session;
use crate::model::replay::Steer;
use crate::recording::Recording;

/// Submits steers over a session that is made after it.
pub struct Steering {
    thread: Thread,
    recording: Arc<Recording>,
    session: OnceLock<Weak<Session>>,
    failed: Mutex<Option<Failure>>,
}

impl Steering {
    /// For a thread; nothing is handed over before [`Steering::over`].
    pub fn new(thread: Thread, recording: Arc<Recording>) -> Self {
        Self { thread, recording, session: OnceLock::new(), failed: Mutex::new(None) }
    }

    /// Hands over through this session from now on.
    pub fn over(&self, session: &Arc<Session>) {
        let _ = self.session.set(Arc::downgrade(session));
    }

    /// The first failure, if there was one.
    pub fn check(&self) -> Result<(), Failure> {
        match self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Steer for Steering {
    async fn steer(&self, input: usize) {
        let Some(session) = self.session.get().and_then(Weak::upgrade) else { return };
        let message = self.recording.inputs.get(input).and_then(|input| self.recording.messages.get(input.message));
        let content = message.map_or(Value::Null, |message| message.content.clone());
        let delivery = json!({"message": content, "options": {"steer": true}});
        if let Err(failure) = session.submit(&self.thread, &Key::of_replay(input), &delivery).await {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        }
    }
}
