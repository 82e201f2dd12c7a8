//! A clock that stands still while anybody works.

use std::collections::BTreeSet;
use std::sync::Mutex;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::Clock;

/// How far a virtual clock jumps by itself unless told otherwise: past every retry, before any expiry of a question.
const REACH_MS: u64 = 10 * 60_000;
/// How often a waiter lets everyone else run before it takes the time for idle.
const YIELDS: u32 = 64;

/// A scripted clock. It only moves forward, and only in two ways:
/// - [`VirtualClock::advance_to`] moves it by hand;
/// - a wait moves it by itself: the waiter lets the runtime run everything else a number of times, and if it is then
///   still the one with the earliest time to wait for, and that time is within `reach`, the clock jumps there.
///
/// "Idle" is a guess, since work on other threads (a disk, a process) can't be seen. A wrong guess makes time pass
/// while somebody works, as it does in life; it never breaks anything else. Scripts that wait for the outside set
/// `reach` to 0 and move the clock by hand.
#[derive(Debug)]
pub struct VirtualClock {
    state: Mutex<State>,
    moved: Notify,
    reach: u64,
}

#[derive(Debug)]
struct State {
    now: u64,
    ticket: u64,
    waiters: BTreeSet<(u64, u64)>,
}

impl VirtualClock {
    /// A clock that stands at `now` (Unix ms) and jumps by itself over up to ten minutes at a time.
    pub fn new(now: u64) -> Self {
        let state = State { now, ticket: 0, waiters: BTreeSet::new() };
        Self { state: Mutex::new(state), moved: Notify::new(), reach: REACH_MS }
    }

    /// Sets how far the clock jumps by itself, in milliseconds; 0 for not at all.
    #[must_use]
    pub fn reach(mut self, ms: u64) -> Self {
        self.reach = ms;
        self
    }

    /// Moves the clock to `at`, unless it is there already.
    pub fn advance_to(&self, at: u64) {
        let mut state = self.lock();
        if at > state.now {
            state.now = at;
            self.moved.notify_waiters();
        }
    }

    /// Moves the clock forward.
    pub fn advance(&self, ms: u64) {
        let at = self.lock().now.saturating_add(ms);
        self.advance_to(at);
    }

    /// How many wait for a time now.
    pub fn waiting(&self) -> usize {
        self.lock().waiters.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Jumps to the time of this waiter if it is the earliest and near enough.
    fn try_jump(&self, waiter: (u64, u64)) -> bool {
        let first = self.lock().waiters.first() == Some(&waiter);
        let jumps = first && self.reaches(waiter.0);
        if jumps {
            self.advance_to(waiter.0);
        }
        jumps
    }
}

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> u64 {
        self.lock().now
    }

    async fn wait_until(&self, until: u64) {
        let place = Place::take(self, until);
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Counts from here on, so that no move between the check and the wait is missed.
            moved.as_mut().enable();
            if self.now() >= until {
                return;
            }
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            if self.try_jump(place.waiter) {
                return;
            }
            moved.await;
        }
    }

    fn reaches(&self, at: u64) -> bool {
        at.saturating_sub(self.now()) <= self.reach
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

/// A place among the waiters, given up when the wait is dropped.
struct Place<'a> {
    clock: &'a VirtualClock,
    waiter: (u64, u64),
}

impl<'a> Place<'a> {
    fn take(clock: &'a VirtualClock, until: u64) -> Self {
        let mut state = clock.lock();
        state.ticket += 1;
        let waiter = (until, state.ticket);
        state.waiters.insert(waiter);
        Self { clock, waiter }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.clock.lock().waiters.remove(&self.waiter);
        // The next in line may be the earliest now.
        self.clock.moved.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn jumps_to_the_earliest_wait_first() {
        let clock = Arc::new(VirtualClock::new(1_000));
        let late = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.wait_until(3_000).await;
                clock.now()
            }
        });
        clock.wait_until(2_000).await;
        assert_eq!(clock.now(), 2_000);
        assert_eq!(late.await.unwrap(), 3_000);
        clock.wait_until(1).await;
        assert_eq!(clock.now(), 3_000, "a wait for the past moves nothing");
    }

    #[tokio::test]
    async fn a_dropped_wait_is_forgotten() {
        let clock = VirtualClock::new(0);
        tokio::select! {
            biased;
            () = clock.wait_until(10) => unreachable!("it yields first"),
            () = std::future::ready(()) => {}
        }
        clock.wait_until(20).await;
        assert_eq!(clock.now(), 20);
    }

    #[tokio::test]
    async fn beyond_its_reach_it_moves_by_hand_only() {
        let clock = Arc::new(VirtualClock::new(0).reach(5));
        assert!(clock.reaches(5) && !clock.reaches(6));
        let wait = tokio::spawn({
            let clock = clock.clone();
            async move { clock.wait_until(100).await }
        });
        clock.wait_until(5).await;
        assert_eq!(clock.now(), 5);
        clock.advance_to(100);
        wait.await.unwrap();
    }
}
