//! One life of a host: it numbers the component's calls, and lets the faults of its plan happen.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use super::disk::Disk;
use super::plan::{Fault, Kind};
use super::trace::Entry;
use crate::clock::VirtualClock;
use crate::engine::{After, Before, End, Hook, HostCall, Import, Killed};

/// How far a delay moves the clock, in milliseconds.
const DELAY_MS: u64 = 60_000;
/// The number of a call that is not counted.
const UNCOUNTED: u32 = u32::MAX;

/// Numbers drawn from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Another sequence.
    pub(super) fn split(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// What all lives of a run share: the world outside the host, and what is written down of them.
pub(super) struct Shared {
    pub(super) seed: u64,
    pub(super) clock: Arc<VirtualClock>,
    /// Calls that trap always, as the scenario says.
    pub(super) traps: Vec<Import>,
    /// Most calls of a run; more means that it doesn't end.
    pub(super) calls_max: u32,
    /// Whether calls are counted, written down and stopped now.
    pub(super) armed: AtomicBool,
    /// Whether the setup is over: from then on the scenario's traps are in place, also while the judge reads.
    pub(super) begun: AtomicBool,
    trace: Mutex<Vec<Entry>>,
    draw: Mutex<Draw>,
    calls: AtomicU32,
}

impl Shared {
    pub(super) fn new(seed: u64, clock: Arc<VirtualClock>, traps: Vec<Import>, calls_max: u32) -> Self {
        let draw = Mutex::new(Draw::new(seed ^ 0x1e57));
        let (trace, calls) = (Mutex::default(), AtomicU32::new(0));
        Self {
            seed,
            clock,
            traps,
            calls_max,
            armed: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            trace,
            draw,
            calls,
        }
    }

    /// What was called so far.
    pub(super) fn trace(&self) -> Vec<Entry> {
        lock(&self.trace).clone()
    }

    /// Whether there were more calls than a run may have.
    pub(super) fn is_endless(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > self.calls_max
    }
}

/// One life of one host.
pub(super) struct Life {
    shared: Arc<Shared>,
    number: u32,
    twin: bool,
    faults: Vec<Fault>,
    disk: Option<Disk>,
    calls: AtomicU32,
    instances: Mutex<Vec<u64>>,
    dead: AtomicBool,
    /// Whether un-flushed writes outlive this life's end.
    keeps_unflushed: AtomicBool,
    killed: Notify,
    /// Starts a second host; there is one once it has been called.
    start_twin: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    /// Whether calls give way to those of another host.
    interleaved: AtomicBool,
}

impl Life {
    pub(super) fn new(
        shared: Arc<Shared>,
        number: u32,
        twin: bool,
        faults: Vec<Fault>,
        disk: Option<Disk>,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared,
            number,
            twin,
            faults,
            disk,
            calls: AtomicU32::new(0),
            instances: Mutex::default(),
            dead: AtomicBool::new(false),
            keeps_unflushed: AtomicBool::new(true),
            killed: Notify::new(),
            start_twin: Mutex::default(),
            interleaved: AtomicBool::new(twin),
        })
    }

    /// Says how a second host is started.
    pub(super) fn set_twin(&self, start: impl Fn() + Send + Sync + 'static) {
        *lock(&self.start_twin) = Some(Box::new(start));
    }

    /// Forgets how a second host is started, and with it all that this needs.
    pub(super) fn forget_twin(&self) {
        *lock(&self.start_twin) = None;
    }

    /// Waits until the host dies.
    pub(super) async fn killed(&self) {
        let killed = self.killed.notified();
        tokio::pin!(killed);
        killed.as_mut().enable();
        if !self.is_dead() {
            killed.await;
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    pub(super) fn keeps_unflushed(&self) -> bool {
        self.keeps_unflushed.load(Ordering::SeqCst)
    }

    fn die(&self, why: &str) -> Killed {
        self.dead.store(true, Ordering::SeqCst);
        self.killed.notify_waiters();
        Killed(format!("the host was killed: {why}"))
    }

    /// Lets others go first, a number of times that is drawn.
    async fn give_way(&self) {
        if !self.interleaved.load(Ordering::Relaxed) {
            return;
        }
        let turns = lock(&self.shared.draw).below(4);
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    fn write_down(&self, call: &HostCall, number: u32, fault: Option<Kind>) -> u32 {
        let mut trace = lock(&self.shared.trace);
        let HostCall { instance, export, import, ref detail } = *call;
        let (life, twin, detail) = (self.number, self.twin, detail.clone());
        trace.push(Entry { life, twin, number, instance, export, import, detail, fault, end: None });
        u32::try_from(trace.len() - 1).unwrap_or(UNCOUNTED)
    }
}

#[async_trait]
impl Hook for Life {
    fn begin(&self, _export: &'static str) -> u64 {
        let mut instances = lock(&self.instances);
        instances.push(0);
        instances.len() as u64 - 1
    }

    async fn before(&self, call: &HostCall) -> Result<(u32, Before), Killed> {
        self.give_way().await;
        if self.is_dead() {
            return Err(Killed("the host is dead".into()));
        }
        let traps = self.shared.begun.load(Ordering::SeqCst) && self.shared.traps.contains(&call.import);
        let trap = || Killed(format!("{} traps, as the scenario says", call.import.name()));
        if !self.shared.armed.load(Ordering::SeqCst) {
            return if traps { Err(trap()) } else { Ok((UNCOUNTED, Before::Go)) };
        }
        if self.shared.calls.fetch_add(1, Ordering::Relaxed) > self.shared.calls_max {
            return Err(self.die("it does not end"));
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let fault = self.faults.iter().find(|fault| fault.call == number).map(|fault| fault.kind);
        let at = self.write_down(call, number, fault);
        if traps {
            return Err(trap());
        }
        match fault {
            Some(Kind::FailBefore) => Ok((at, Before::Fail("injected fault".into()))),
            Some(Kind::KillBefore) => Err(self.die("before a call")),
            Some(kind) => {
                self.prepare(kind);
                self.give_way().await;
                Ok((at, Before::Go))
            }
            None => Ok((at, Before::Go)),
        }
    }

    async fn after(&self, at: u32, _call: &HostCall, end: End) -> Result<After, Killed> {
        if self.is_dead() {
            return Err(Killed("the host is dead".into()));
        }
        if at == UNCOUNTED {
            return Ok(After::Go);
        }
        let fault = lock(&self.shared.trace).get(at as usize).and_then(|entry| entry.fault);
        if let Some(disk) = self.disk.as_ref().filter(|_| fault.is_some_and(Kind::needs_disk)) {
            disk.heal();
        }
        let (told, after) = match fault {
            Some(Kind::KillAfter) => return Err(self.die("after a call")),
            Some(Kind::PowerLoss) => {
                self.keeps_unflushed.store(false, Ordering::SeqCst);
                return Err(self.die("the power failed after a call"));
            }
            Some(Kind::Torn) => {
                self.keeps_unflushed.store(false, Ordering::SeqCst);
                return Err(self.die("the power failed within a commit"));
            }
            Some(Kind::Unanswered) if end == End::Committed => {
                let text = "injected fault: the answer was lost".to_owned();
                (End::Unknown(text.clone()), After::Unanswered(text))
            }
            _ => (end, After::Go),
        };
        if let Some(entry) = lock(&self.shared.trace).get_mut(at as usize) {
            entry.end = Some(told);
        }
        Ok(after)
    }

    fn entropy(&self, instance: u64, bytes: &mut [u8]) {
        let draw = {
            let mut instances = lock(&self.instances);
            let drawn = usize::try_from(instance).ok().and_then(|at| instances.get_mut(at));
            drawn.map_or(0, |drawn| {
                *drawn += 1;
                *drawn
            })
        };
        for (part, chunk) in bytes.chunks_mut(32).enumerate() {
            let mut hash = Sha256::new();
            for number in [self.shared.seed, self.number.into(), self.twin.into(), instance, draw, part as u64] {
                hash.update(number.to_le_bytes());
            }
            let hash = hash.finalize();
            chunk.iter_mut().zip(hash).for_each(|(byte, drawn)| *byte = drawn);
        }
    }
}

impl Life {
    /// What a fault that lets the call be made does before it.
    fn prepare(&self, kind: Kind) {
        match (kind, &self.disk) {
            (Kind::Delay, _) => self.shared.clock.advance(DELAY_MS),
            (Kind::DuplicateRun, _) => {
                self.interleaved.store(true, Ordering::Relaxed);
                let start = lock(&self.start_twin).take();
                if let Some(start) = start {
                    start();
                }
            }
            (Kind::FlushFails, Some(disk)) => disk.fail_flush(),
            (Kind::NoSpace, Some(disk)) => disk.fill(),
            (Kind::Torn, Some(disk)) => disk.tear(),
            _ => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(number: u32, twin: bool) -> Arc<Life> {
        let clock = Arc::new(VirtualClock::new(0));
        Life::new(Arc::new(Shared::new(1, clock, Vec::new(), 10)), number, twin, Vec::new(), None)
    }

    fn drawn(life: &Life, instance: u64) -> [u8; 40] {
        let mut bytes = [0; 40];
        life.entropy(instance, &mut bytes);
        bytes
    }

    #[test]
    fn randomness_repeats_with_the_seed_and_differs_between_instances() {
        let lives = [life(0, false), life(0, true), life(1, false)];
        let mut all = Vec::new();
        for life in &lives {
            for instance in 0..3 {
                assert_eq!(life.begin("run"), instance);
                all.push(drawn(life, instance));
                all.push(drawn(life, instance));
            }
        }
        let again = life(0, false);
        again.begin("run");
        assert_eq!(drawn(&again, 0), all[0]);
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
