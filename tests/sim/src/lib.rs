//! The core without wasm, under a scheduler that decides which owner's store call goes next: for histories that a real
//! host would meet once in a thousand years.
//!
//! Each owner is a thread that blocks at every store call until it is granted. Between two calls an owner is
//! deterministic, so a list of choices is a history, and the same list is the same history.

#![cfg(not(target_family = "wasm"))]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use serde_json::Value;
use writ::agent::{CodeAgents, Render};
use writ::ports::*;
use writ::run::{Report, RunOutcome, drive};

/// Who asks.
pub const OWNER: &str = "local/operator";

/// What a store holds.
pub type Map = BTreeMap<String, Bytes>;

/// What the scheduler may let happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The next store call of an owner is answered.
    Go(usize),
    /// The commit that an owner waits with is lost from sight: `unknown`, and it may still be applied later.
    Lose(usize),
    /// A commit that was lost from sight is applied now, if its guard still matches.
    Apply(usize),
    /// An owner dies: it does nothing any more.
    Kill(usize),
}

#[derive(Clone, PartialEq, Eq)]
enum Owner {
    /// Computing, or not started.
    Busy,
    /// At the gate; `true`: with a commit.
    Waiting(bool),
    /// Granted: `true`, to see its commit lost.
    Granted(bool),
    /// Ended, or dead.
    Gone,
}

struct State {
    map: Map,
    owners: Vec<Owner>,
    dead: Vec<bool>,
    limbo: Vec<(usize, Guard, Vec<Write>)>,
    /// Who raised the epoch of a head to its present value.
    epochs: BTreeMap<String, (u64, usize)>,
    /// Who raised the attempt of a record to its present value.
    attempts: BTreeMap<String, (u64, usize)>,
    nonces: BTreeSet<String>,
    broken: Vec<String>,
    effects: BTreeMap<String, u32>,
    now: u64,
    entropy: u64,
    settings: BTreeMap<String, String>,
}

/// A world of owners around one store.
#[derive(Clone)]
pub struct Sim(Arc<(Mutex<State>, Condvar)>);

/// What an owner does with the store.
pub type Work = Box<dyn FnOnce(Ports) + Send>;

/// The nameless owner that is never made to wait: clients, and the check at the end.
const FREE: usize = usize::MAX;

/// How a history ended.
pub struct History {
    /// How many choices there were at each step.
    pub options: Vec<usize>,
    /// The choices that were taken.
    pub taken: Vec<Choice>,
    /// What was broken.
    pub broken: Vec<String>,
}

impl Sim {
    /// A world whose store begins as this one.
    pub fn of(map: &Map) -> Self {
        let state = State {
            map: map.clone(),
            owners: Vec::new(),
            dead: Vec::new(),
            limbo: Vec::new(),
            epochs: BTreeMap::new(),
            attempts: BTreeMap::new(),
            nonces: BTreeSet::new(),
            broken: Vec::new(),
            effects: BTreeMap::new(),
            now: 1_000,
            entropy: 0,
            settings: BTreeMap::new(),
        };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }

    /// The store as it is now.
    pub fn map(&self) -> Map {
        self.lock().map.clone()
    }

    /// The name of the thread `t` of [`submit`].
    pub fn instance(&self) -> String {
        let stored = self.lock().map.get(writ::keys::FORMAT).and_then(|f| serde_json::from_slice::<Value>(f).ok());
        let partitions = stored.and_then(|format| format["partitions"].as_u64()).unwrap_or(256);
        address().place(partitions as u16).head()
    }

    /// Does something with ports that are never made to wait.
    pub fn free<T>(&self, work: impl FnOnce(Ports) -> T) -> T {
        let handles = Handles { sim: self.clone(), me: FREE, entropy: RefCell::new(self.entropy()) };
        work(handles.ports())
    }

    /// Runs owners of one instance against each other: see [`Self::race`].
    pub fn play(&self, instance: &str, owners: usize, faults: usize, choose: &[usize]) -> History {
        let owner = |_| -> Work {
            let instance = instance.to_owned();
            // An owner that was fenced or failed is not run again here: the other one goes on.
            Box::new(move |ports| drop::<Report>(drive(ports, &agents(), &instance, None)))
        };
        self.race((0..owners).map(owner).collect(), faults, choose)
    }

    /// Lets owners work against each other. `choose` picks among what may happen; 0 is taken beyond its end.
    pub fn race(&self, works: Vec<Work>, faults: usize, choose: &[usize]) -> History {
        {
            let mut state = self.lock();
            state.owners = vec![Owner::Busy; works.len()];
            state.dead = vec![false; works.len()];
        }
        let threads: Vec<_> = works
            .into_iter()
            .enumerate()
            .map(|(me, work)| {
                let (sim, entropy) = (self.clone(), self.entropy());
                std::thread::spawn(move || {
                    let handles = Handles { sim: sim.clone(), me, entropy: RefCell::new(entropy) };
                    // Also when it panics: nobody waits for it then.
                    let _leaves = Leaves(sim, me);
                    work(handles.ports());
                })
            })
            .collect();
        let history = self.schedule(faults, choose);
        for thread in threads {
            if thread.join().is_err() {
                self.lock().broken.push("an owner panicked".into());
            }
        }
        History { broken: self.lock().broken.clone(), ..history }
    }

    fn schedule(&self, mut faults: usize, choose: &[usize]) -> History {
        let (mut options, mut taken) = (Vec::new(), Vec::new());
        loop {
            let mut state = self.lock();
            while state.owners.iter().any(|o| matches!(o, Owner::Busy | Owner::Granted(_))) {
                state = self.0.1.wait(state).expect("no owner panics with the lock");
            }
            let mut possible = Vec::new();
            for (i, owner) in state.owners.iter().enumerate() {
                if let Owner::Waiting(_) = owner {
                    possible.push(Choice::Go(i));
                }
            }
            if possible.is_empty() {
                // What is still in limbo may land after everybody has gone.
                while let Some((who, guard, writes)) = state.limbo.pop() {
                    state.commit(who, &guard, &writes);
                }
                return History { options, taken, broken: Vec::new() };
            }
            if faults > 0 {
                for (i, owner) in state.owners.iter().enumerate() {
                    if let Owner::Waiting(commit) = owner {
                        if *commit {
                            possible.push(Choice::Lose(i));
                        }
                        possible.push(Choice::Kill(i));
                    }
                }
            }
            possible.extend((0..state.limbo.len()).map(Choice::Apply));
            let at = choose.get(taken.len()).copied().unwrap_or(0).min(possible.len() - 1);
            let choice = possible[at];
            options.push(possible.len());
            taken.push(choice);
            match choice {
                Choice::Go(i) => state.owners[i] = Owner::Granted(false),
                Choice::Lose(i) => {
                    faults -= 1;
                    state.owners[i] = Owner::Granted(true);
                }
                Choice::Kill(i) => {
                    faults -= 1;
                    state.dead[i] = true;
                    state.owners[i] = Owner::Granted(false);
                }
                Choice::Apply(n) => {
                    let (who, guard, writes) = state.limbo.remove(n);
                    state.commit(who, &guard, &writes);
                }
            }
            drop(state);
            self.0.1.notify_all();
        }
    }

    /// Breaks the runtime on purpose, in the way of this name.
    pub fn mutate(&self, name: &str) {
        self.lock().settings.insert("mutation".into(), name.into());
    }

    /// Time passes.
    pub fn pass(&self, ms: u64) {
        self.lock().now += ms;
    }

    /// What was broken so far.
    pub fn broken(&self) -> Vec<String> {
        self.lock().broken.clone()
    }

    /// Drives an instance without faults until nothing is left to do, waiting where it waits.
    pub fn settle(&self, instance: &str) -> RunOutcome {
        let mut last = RunOutcome::Idle;
        for _ in 0..32 {
            last = self.free(|ports| drive(ports, &agents(), instance, None).outcome);
            match last {
                RunOutcome::Later(at) => {
                    let mut state = self.lock();
                    state.now = state.now.max(at);
                }
                _ => break,
            }
        }
        last
    }

    /// How often each effect was started.
    pub fn effects(&self) -> BTreeMap<String, u32> {
        self.lock().effects.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().expect("no owner panics with the lock")
    }

    /// Where the entropy of new handles begins: no two ever get the same.
    fn entropy(&self) -> u64 {
        let mut state = self.lock();
        state.entropy += 1 << 32;
        state.entropy
    }

    /// Waits at the gate; `Some(lost)`: go on. `None`: dead.
    fn enter(&self, me: usize, commit: bool) -> Option<bool> {
        if me == FREE {
            return Some(false);
        }
        let mut state = self.lock();
        if state.dead[me] {
            return None;
        }
        state.owners[me] = Owner::Waiting(commit);
        self.0.1.notify_all();
        loop {
            if let Owner::Granted(lost) = state.owners[me] {
                state.owners[me] = Owner::Busy;
                return (!state.dead[me]).then_some(lost);
            }
            state = self.0.1.wait(state).expect("no owner panics with the lock");
        }
    }
}

impl State {
    /// Applies a commit if its guard holds, and judges it.
    fn commit(&mut self, who: usize, guard: &Guard, writes: &[Write]) -> Outcome {
        let current = self.map.get(&guard.key).cloned();
        if current != guard.expect {
            return Outcome::Stale(current);
        }
        let new = writes.iter().find(|w| w.key == guard.key).and_then(|w| w.value.as_deref());
        let nonce = new.and_then(|v| serde_json::from_slice::<Value>(v).ok()).map(|v| v["nonce"].to_string());
        // The format record is its own guard, written once: it needs no nonce.
        if guard.key != writ::keys::FORMAT && nonce.is_none_or(|nonce| !self.nonces.insert(nonce)) {
            self.broken.push(format!("R4: a commit left {} without a fresh nonce", guard.key));
        }
        for write in writes {
            self.judge(who, write);
            match &write.value {
                Some(value) => drop(self.map.insert(write.key.clone(), value.clone())),
                None => drop(self.map.remove(&write.key)),
            }
        }
        Outcome::Committed
    }

    fn judge(&mut self, who: usize, write: &Write) {
        let Some(value) = write.value.as_ref().and_then(|v| serde_json::from_slice::<Value>(v).ok()) else {
            // What is deleted and born again begins anew.
            self.epochs.remove(&write.key);
            self.attempts.remove(&write.key);
            return;
        };
        let key = write.key.clone();
        let is_born = !self.map.contains_key(&key);
        let raised = |map: &mut BTreeMap<String, (u64, usize)>, name: &str, n: u64| -> Option<String> {
            let (before, owner) = map.get(&key).copied().unwrap_or((0, FREE));
            if n > before || is_born {
                map.insert(key.clone(), (n, who));
                return None;
            }
            (n < before || (owner != who && who != FREE))
                .then(|| format!("{name}: owner {who} wrote {n} to {key}, which owner {owner} had raised to {before}"))
        };
        if let Some(epoch) = value["epoch"].as_u64().filter(|_| value.get("address").is_some()) {
            let fault = raised(&mut self.epochs, "I7 epoch", epoch);
            self.broken.extend(fault);
        }
        if let Some(attempt) =
            value["attempt"].as_u64().filter(|_| value.get("hash").is_some() && value["state"] == "running")
        {
            let fault = raised(&mut self.attempts, "I6 attempt", attempt);
            self.broken.extend(fault);
        }
        let settled = |bytes: &Bytes| -> Option<Value> {
            let old: Value = serde_json::from_slice(bytes).ok()?;
            old.get("outcome").cloned()
        };
        if let Some(before) = self.map.get(&write.key).and_then(settled)
            && value.get("hash").is_some()
            && value.get("outcome") != Some(&before)
        {
            self.broken.push(format!("I3: the outcome at {key} changed"));
        }
        if key.contains("/m/") && self.map.get(&write.key).is_some_and(|old| write.value.as_ref() != Some(old)) {
            self.broken.push(format!("I4: the message at {key} was written again"));
        }
    }
}

/// An owner that is gone when this is dropped.
struct Leaves(Sim, usize);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.lock().owners[self.1] = Owner::Gone;
        self.0.0.1.notify_all();
    }
}

struct Handles {
    sim: Sim,
    me: usize,
    entropy: RefCell<u64>,
}

impl Handles {
    fn ports(&self) -> Ports<'_> {
        Ports { store: self, model: self, tools: self, clock: self, host: self }
    }
}

fn dead() -> StoreError {
    StoreError::Unavailable("this owner is dead".into())
}

impl Store for Handles {
    fn get_many(&self, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.sim.enter(self.me, false).ok_or_else(dead)?;
        let state = self.sim.lock();
        Ok(keys.iter().map(|key| state.map.get(key).cloned()).collect())
    }

    fn commit(&self, guard: &Guard, writes: &[Write]) -> Result<Outcome, StoreError> {
        let lost = self.sim.enter(self.me, true).ok_or_else(dead)?;
        let mut state = self.sim.lock();
        if lost {
            state.limbo.push((self.me, guard.clone(), writes.to_vec()));
            return Err(StoreError::Unknown("lost from sight".into()));
        }
        Ok(state.commit(self.me, guard, writes))
    }

    fn append_later(&self, guard: &Guard, writes: &[Write]) {
        let mut state = self.sim.lock();
        if state.map.get(&guard.key) == guard.expect.as_ref() {
            for write in writes {
                let value = write.value.clone().expect("a journal is only put");
                state.map.insert(write.key.clone(), value);
            }
        }
    }

    fn flush(&self) -> u32 {
        0
    }
}

/// Calls `pay` (plain) and `look` (replay-safe) in the first answer of a thread, and then says so.
pub fn agents() -> CodeAgents {
    CodeAgents(&[("helper", |cx: &mut Render| {
        cx.model("sim");
        cx.host_tool("pay");
        cx.host_tool("look");
        String::new()
    })])
}

impl Model for Handles {
    fn describe(&self, _: &str) -> Result<Description, ModelError> {
        Ok(Description { context_window: 100_000, max_output: 1_000 })
    }

    fn start(&self, request: &ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        let mut events = vec![ModelEvent::Text("I call.".into())];
        let calls = request.turn == 0;
        for name in ["pay", "look"].into_iter().filter(|_| calls) {
            events.push(ModelEvent::Call { id: name.into(), name: name.into(), arguments: "{}".into() });
        }
        events.push(ModelEvent::Stop(if calls { StopReason::ToolUse } else { StopReason::End }));
        Ok(Box::new(Said(RefCell::new(events))))
    }
}

struct Said(RefCell<Vec<ModelEvent>>);

impl Completion for Said {
    fn next(&self) -> Result<Vec<ModelEvent>, ModelError> {
        Ok(std::mem::take(&mut self.0.borrow_mut()))
    }
}

struct Started(String);

impl Job for Started {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl Tools for Handles {
    fn describe(&self) -> Vec<Declaration> {
        [("pay", Policy::Plain), ("look", Policy::ReplaySafe)]
            .map(|(name, policy)| Declaration {
                name: name.into(),
                description: String::new(),
                parameters: "{}".into(),
                policy,
            })
            .into()
    }

    fn start(&self, call: &HostCall) -> Box<dyn Job> {
        let name = format!("{} {}", call.name, call.effect_key);
        *self.sim.lock().effects.entry(name.clone()).or_default() += 1;
        Box::new(Started(name))
    }

    fn wait(&self, jobs: &[&dyn Job], _: Option<u64>) -> Vec<(usize, Reply)> {
        let named = |job: &dyn Job| job.as_any().downcast_ref::<Started>().map(|s| s.0.clone()).unwrap_or_default();
        // One at a time, so that results are recorded in commits of their own.
        let reply = |job: &dyn Job| Reply { content: format!("[{:?}]", named(job)), is_error: false };
        jobs.first().map(|job| (0, reply(*job))).into_iter().collect()
    }
}

impl Clock for Handles {
    fn now(&self) -> u64 {
        self.sim.lock().now
    }

    fn wait_until(&self, until: u64) -> u64 {
        let mut state = self.sim.lock();
        state.now = state.now.max(until);
        state.now
    }

    fn entropy(&self, n: u32) -> Bytes {
        let mut next = self.entropy.borrow_mut();
        *next += 1;
        let mut bytes = next.to_be_bytes().to_vec();
        bytes.resize(n as usize, 0);
        bytes
    }
}

impl Host for Handles {
    fn poll(&self) -> bool {
        false
    }

    fn publish(&self, _: &str, _: u64, _: String) {}

    fn setting(&self, name: &str) -> Option<String> {
        self.sim.lock().settings.get(name).cloned()
    }

    fn check(&self, _: &str, _: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn warn(&self, _: &str) {}
}

fn address() -> writ::id::Address {
    writ::id::Address { owner: OWNER.into(), agent: "helper".into(), thread: "t".into() }
}

/// Submits a message to thread `t`; the id.
pub fn submit(ports: Ports, key: &str) -> String {
    let delivery = writ::delivery::Delivery::parse(br#"{"message":"hi"}"#).expect("a good delivery");
    let address = address();
    match writ::admission::submit(ports, &agents(), address, Some(key.into()), &delivery) {
        Ok(accepted) => accepted.id,
        Err(refusal) => panic!("{refusal:?}"),
    }
}

/// The whole audit: what it finds, and how many keys it accounts for.
pub fn audit(ports: Ports) -> (Vec<String>, u64) {
    let (mut found, mut keys, mut cursor) = (Vec::new(), 0, None);
    loop {
        let page = writ::audit::page(&ports, cursor.as_deref()).expect("the audit reads");
        found.extend(page.findings.iter().map(|f| format!("{} at {}: {}", f.invariant, f.key, f.text)));
        keys += page.keys;
        cursor = page.next;
        if cursor.is_none() {
            return (found, keys);
        }
    }
}

/// Closes thread `t`: the next run deletes it.
pub fn close(ports: Ports) {
    if let Err(refusal) = writ::session::delete::close(ports, &address()) {
        panic!("{refusal:?}");
    }
}

/// Drives the thread to its end, alone, and checks: everything settled, the audit clean, every key accounted for.
pub fn finish(sim: &Sim, instance: &str, ids: &[String]) -> Vec<String> {
    let mut broken = Vec::new();
    sim.free(|ports| {
        for _ in 0..4 {
            if drive(ports, &agents(), instance, None).outcome == RunOutcome::Idle {
                break;
            }
        }
        let (found, keys) = audit(ports);
        broken.extend(found);
        let map = sim.map();
        if keys != map.len() as u64 {
            broken.push(format!("{keys} keys are accounted for, of {}", map.len()));
        }
        for id in ids {
            let record = map.get(&writ::keys::sub(id)).map(|v| String::from_utf8_lossy(v).into_owned());
            if !record.as_ref().is_some_and(|r| r.contains("\"outcome\"")) {
                broken.push(format!("{id} has no outcome: {record:?}"));
            }
        }
    });
    for (effect, n) in sim.effects() {
        if effect.starts_with("pay") && n > 1 {
            broken.push(format!("the plain tool ran {n} times: {effect}"));
        }
    }
    broken
}
