//! A completion whose events are known when it starts; the made-up models all answer with one.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;

use super::Completion;
use super::Event;
use super::ModelError;
use crate::clock::Clock;

/// Most events that one `next` takes, as `wit/model.wit` says.
const EVENTS_MAX: u32 = 1024;

/// One thing that a planned completion does.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// Gives an event.
    Event(Event),
    /// Fails; nothing comes after it.
    Fail(ModelError),
    /// Waits so many milliseconds.
    Wait(u64),
}

/// Plays pieces in order. Cancel-safe: a piece is taken only when it has been done, and a wait keeps its due time.
pub(crate) struct Planned {
    clock: Arc<dyn Clock>,
    pieces: VecDeque<Piece>,
    due: Option<u64>,
}

impl Planned {
    pub(crate) fn new(clock: Arc<dyn Clock>, pieces: Vec<Piece>) -> Self {
        Self { clock, pieces: pieces.into(), due: None }
    }
}

#[async_trait]
impl Completion for Planned {
    async fn next(&mut self, max: u32) -> Result<Vec<Event>, ModelError> {
        let max = max.clamp(1, EVENTS_MAX) as usize;
        let mut ready = Vec::new();
        while ready.len() < max {
            match self.pieces.front() {
                Some(Piece::Event(event)) => ready.push(event.clone()),
                Some(_) if !ready.is_empty() => break,
                Some(Piece::Wait(wait_ms)) => {
                    let now = self.clock.now();
                    let due = *self.due.get_or_insert(now.saturating_add(*wait_ms));
                    self.clock.wait_until(due).await;
                    self.due = None;
                }
                Some(Piece::Fail(error)) => {
                    let error = error.clone();
                    self.pieces.clear();
                    return Err(error);
                }
                None => break,
            }
            self.pieces.pop_front();
        }
        Ok(ready)
    }
}

/// Splits text into at most `count` pieces of about equal length; none for empty text.
pub(crate) fn split(text: &str, count: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let count = count.clamp(1, chars.len().max(1));
    (0..count)
        .map(|k| chars[k * chars.len() / count..(k + 1) * chars.len() / count].iter().collect::<String>())
        .filter(|piece| !piece.is_empty())
        .collect()
}

/// A clock for completions that never wait.
pub(crate) struct NoWaiting;

#[async_trait]
impl Clock for NoWaiting {
    fn now(&self) -> u64 {
        0
    }

    async fn wait_until(&self, _until: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_keeps_every_character_and_makes_no_empty_piece() {
        for count in 0..12 {
            let pieces = split("größe 7 €", count);
            assert_eq!(pieces.concat(), "größe 7 €");
            assert_eq!(pieces.len(), count.clamp(1, 9));
        }
        assert!(split("", 3).is_empty());
    }
}
