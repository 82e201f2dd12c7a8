//! Lanes: answers that are not to overtake each other.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// From so many lanes on, those that nobody is in are forgotten.
const FORGET_FROM: usize = 64;

/// The last one in each lane.
#[derive(Default)]
pub(super) struct Lanes(Mutex<HashMap<String, watch::Receiver<()>>>);

/// A place in a lane, given up when it is dropped.
pub(super) struct Lane {
    before: Option<watch::Receiver<()>>,
    _here: watch::Sender<()>,
}

impl Lanes {
    /// Takes the place behind the last one.
    pub(super) fn enter(&self, name: &str) -> Lane {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() >= FORGET_FROM {
            lanes.retain(|_, last| last.has_changed().is_ok());
        }
        let (here, last) = watch::channel(());
        Lane { before: lanes.insert(name.to_owned(), last), _here: here }
    }
}

impl Lane {
    /// Waits until nobody is before this place.
    pub(super) async fn clear(&mut self) {
        if let Some(before) = &mut self.before {
            // Nothing is ever sent: it ends when its place is given up.
            while before.changed().await.is_ok() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_after_the_other_in_each_lane() {
        let lanes = Lanes::default();
        let (first, mut second, mut third, mut other) =
            (lanes.enter("a"), lanes.enter("a"), lanes.enter("a"), lanes.enter("b"));
        other.clear().await;
        let waits = async |lane: &mut Lane| {
            tokio::select! {
                biased;
                () = lane.clear() => false,
                () = tokio::task::yield_now() => true,
            }
        };
        assert!(waits(&mut second).await && waits(&mut third).await);
        drop(first);
        second.clear().await;
        assert!(waits(&mut third).await);
        drop(second);
        third.clear().await;
    }

    #[test]
    fn empty_lanes_are_forgotten() {
        let lanes = Lanes::default();
        let kept = lanes.enter("kept");
        for n in 0..1000 {
            drop(lanes.enter(&n.to_string()));
        }
        assert!(lanes.0.lock().unwrap().len() <= FORGET_FROM && lanes.0.lock().unwrap().contains_key("kept"));
        drop(kept);
    }
}
