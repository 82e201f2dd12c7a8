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
    /// The submission; others of the thread are passed over.
    submission: String,
}

impl Feed {
    /// Over a host's events.
    pub fn new(events: broadcast::Receiver<Published>) -> Self {
        Self { events, instance: None, submission: String::new() }
    }

    /// Only the events of this submission from here on; `instance` is its thread.
    pub fn only(&mut self, instance: Option<String>, submission: &str) {
        self.instance = instance;
        self.submission = submission.into();
    }

    /// The next event; `Null` when some were lost. It waits for ever when there will be none.
    pub async fn next(&mut self) -> Value {
        loop {
            match self.events.recv().await {
                Ok(published) => match self.ours(&published) {
                    Some(event) => return event,
                    None => continue,
                },
                Err(RecvError::Lagged(_)) => return Value::Null,
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// An event that is there already.
    pub fn ready(&mut self) -> Option<Value> {
        loop {
            match self.events.try_recv() {
                Ok(published) => match self.ours(&published) {
                    Some(event) => return Some(event),
                    None => continue,
                },
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }

    fn ours(&self, published: &Published) -> Option<Value> {
        if self.instance.as_ref() != Some(&published.thread) {
            return None;
        }
        let event: Value = serde_json::from_str(&published.event).ok()?;
        let submission = event["submission"].as_str();
        submission.is_none_or(|id| id == self.submission).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(thread: &str, event: &str) -> Published {
        Published { thread: thread.into(), number: 1, event: event.into() }
    }

    #[tokio::test]
    async fn only_the_submission_in_hand_is_heard() {
        let (send, receive) = broadcast::channel(16);
        let mut feed = Feed::new(receive);
        feed.only(Some("t".into()), "3f-a");
        for (thread, event) in [
            ("other", r#"{"type":"text","submission":"3f-a"}"#),
            ("t", r#"{"type":"text","submission":"3f-b"}"#),
            ("t", "no json"),
            ("t", r#"{"type":"text","submission":"3f-a","text":"x"}"#),
        ] {
            send.send(published(thread, event)).unwrap();
        }
        assert_eq!(feed.next().await["text"], "x");
        assert_eq!(feed.ready(), None);
    }

    #[tokio::test]
    async fn lost_events_are_told() {
        let (send, receive) = broadcast::channel(2);
        let mut feed = Feed::new(receive);
        feed.only(Some("t".into()), "3f-a");
        for _ in 0..5 {
            send.send(published("t", "{}")).unwrap();
        }
        assert!(feed.next().await.is_null());
    }
}
