//! A runtime made of one function: for tests of what the commands do with answers.

use std::sync::Mutex;

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::failure::Failure;
use super::feed::Feed;
use super::out::Out;
use super::runtime::Answer;
use super::runtime::Ask;
use super::runtime::Audit;
use super::runtime::Runtime;
use super::session::Session;
use crate::data::Published;

/// Nothing on a terminal, no JSON.
pub const QUIET: Out = Out { json: false, stdout_tty: false, stderr_tty: false };

type Answering = Box<dyn FnMut(&Ask) -> (u16, String) + Send>;

/// Answers by a function; nothing ever runs.
pub struct Fake {
    answering: Mutex<Answering>,
    events: broadcast::Sender<Published>,
}

impl Fake {
    /// A session over a function from requests to status and body.
    pub fn session(answering: impl FnMut(&Ask) -> (u16, String) + Send + 'static) -> Session {
        let (events, _) = broadcast::channel(16);
        Session::new(Box::new(Self { answering: Mutex::new(Box::new(answering)), events }))
    }
}

#[async_trait]
impl Runtime for Fake {
    async fn respond(&self, ask: Ask) -> Result<Answer, Failure> {
        let (status, body) = (self.answering.lock().unwrap())(&ask);
        Ok(Answer { status, body: body.into_bytes(), instances: vec!["t".into()] })
    }

    async fn sweep(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn watch(&self) -> Feed {
        Feed::new(self.events.subscribe())
    }

    async fn idle(&self) {}

    async fn audit(&self, _: &(dyn for<'a> Fn(&'a Audit) + Send + Sync)) -> Result<Audit, Failure> {
        Ok(Audit { keys: 3, ..Audit::default() })
    }

    async fn keys(&self) -> Result<u64, Failure> {
        Ok(4)
    }
}
