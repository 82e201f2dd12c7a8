//! Clients, kills and time at random against a small reference model: what was accepted is answered as the model says,
//! everything accepted reaches one outcome within a bounded number of runs, and the audit is clean. Cites B14 and B15.
#![cfg(not(target_family = "wasm"))]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use writ::faces::{self, Request};
use writ::run::RunOutcome;
use writ_tests::OWNER;
use writ_tests::sim::{Sim, agents};

const THREADS: [&str; 2] = ["t", "u"];

/// What may happen.
#[derive(Clone, Debug)]
enum Op {
    Submit {
        thread: usize,
        key: u8,
        message: u8,
        steer: bool,
    },
    Cancel {
        thread: usize,
        key: u8,
    },
    Run {
        thread: usize,
    },
    /// A run that dies at its n-th store call, before it or with the commit lost from sight.
    Die {
        thread: usize,
        at: usize,
        lost: bool,
    },
    Fork {
        at: u64,
    },
    /// A deletion, whose first run dies at its n-th store call.
    Delete {
        thread: usize,
        at: usize,
    },
    Pass {
        hours: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let thread = 0..THREADS.len();
    prop_oneof![
        6 => (thread.clone(), 0..4u8, 0..2u8, any::<bool>())
            .prop_map(|(thread, key, message, steer)| Op::Submit { thread, key, message, steer }),
        2 => (thread.clone(), 0..4u8).prop_map(|(thread, key)| Op::Cancel { thread, key }),
        3 => thread.clone().prop_map(|thread| Op::Run { thread }),
        4 => (thread.clone(), 0..16usize, any::<bool>()).prop_map(|(thread, at, lost)| Op::Die { thread, at, lost }),
        1 => (0..6u64).prop_map(|at| Op::Fork { at }),
        1 => (thread, 0..12usize).prop_map(|(thread, at)| Op::Delete { thread, at }),
        1 => (1..30u64).prop_map(|hours| Op::Pass { hours }),
    ]
}

/// What the reference model knows of a submission.
struct Known {
    id: String,
    body: Value,
    cancelled: bool,
    outcome: Option<Value>,
}

/// The reference model: a map of what was accepted.
#[derive(Default)]
struct Model {
    subs: BTreeMap<(usize, u8), Known>,
    forked: u32,
}

struct World {
    sim: Sim,
    model: Model,
}

impl World {
    fn send(&self, method: &str, path: String, key: Option<String>, body: &Value) -> (u16, Value) {
        let request = Request {
            method: method.into(),
            path,
            headers: key.map(|key| ("idempotency-key".to_owned(), key)).into_iter().collect(),
            body: body.to_string().into_bytes(),
            principal: Some(OWNER.into()),
        };
        let response = self.sim.free(|ports| faces::respond(ports, &agents(), &request));
        (response.status, serde_json::from_slice(response.body.bytes()).expect("JSON"))
    }

    fn path(thread: usize, rest: &str) -> String {
        format!("/v1/agents/helper/threads/{}{rest}", THREADS[thread])
    }

    fn submit(&mut self, thread: usize, key: u8, body: Value) {
        let (status, answer) = self.send("POST", Self::path(thread, "/submissions"), Some(format!("k{key}")), &body);
        match self.model.subs.get_mut(&(thread, key)) {
            Some(known) if known.body == body => {
                assert!(matches!(status, 200 | 202), "{answer}");
                assert_eq!(answer["id"], known.id.as_str());
                known.hear(&answer);
            }
            Some(_) => assert_eq!((status, &answer["code"]), (409, &json!("conflict")), "{answer}"),
            None => {
                assert_eq!(status, 202, "{answer}");
                let id = answer["id"].as_str().expect("an id").to_owned();
                self.model.subs.insert((thread, key), Known { id, body, cancelled: false, outcome: None });
            }
        }
    }

    fn cancel(&mut self, thread: usize, key: u8) {
        let Some(known) = self.model.subs.get(&(thread, key)) else { return };
        let (status, answer) = self.send("POST", format!("/v1/submissions/{}/cancel", known.id), None, &json!({}));
        assert!(matches!(status, 200 | 202), "{answer}");
        let settled = status == 200;
        let known = self.model.subs.get_mut(&(thread, key)).expect("it was there");
        known.cancelled |= !settled;
        known.hear(&answer);
    }

    /// Runs a thread until it rests: everything in it has its outcome, or it is gone.
    fn run(&mut self, thread: usize) {
        let instance = self.instance(thread);
        assert_eq!(self.sim.settle(&instance), RunOutcome::Idle, "it does not come to rest");
        let ids: Vec<_> = self.model.subs.keys().filter(|(t, _)| *t == thread).copied().collect();
        for at in ids {
            let id = self.model.subs[&at].id.clone();
            let (status, answer) = self.send("GET", format!("/v1/submissions/{id}"), None, &json!({}));
            assert_eq!((status, &answer["state"]), (200, &json!("settled")), "accepted, and never answered: {answer}");
            let known = self.model.subs.get_mut(&at).expect("it was there");
            known.hear(&answer);
            let outcome = known.outcome.as_ref().expect("settled");
            let right = match outcome["status"].as_str() {
                Some("completed") => true,
                Some("aborted") => known.cancelled,
                _ => matches!(outcome["error"]["code"].as_str(), Some("deadline" | "retry-exhausted")),
            };
            assert!(right, "cancelled: {}, and ended as {outcome}", known.cancelled);
        }
    }

    /// Runs a deletion to its end: nothing of the thread is left.
    fn gone(&mut self, thread: usize) {
        assert_eq!(self.sim.settle(&self.instance(thread)), RunOutcome::Idle, "it does not come to rest");
        let gone: Vec<_> = self.model.subs.extract_if(.., |(t, _), _| *t == thread).collect();
        for (_, known) in gone {
            let (status, _) = self.send("GET", format!("/v1/submissions/{}", known.id), None, &json!({}));
            assert_eq!(status, 404, "a submission of a deleted thread is still there");
        }
    }

    fn instance(&self, thread: usize) -> String {
        let address = writ::id::Address { owner: OWNER.into(), agent: "helper".into(), thread: THREADS[thread].into() };
        address.place(256).head()
    }

    fn play(&mut self, op: &Op) {
        match *op {
            Op::Submit { thread, key, message, steer } => {
                self.submit(thread, key, json!({"message": format!("m{message}"), "options": {"steer": steer}}));
            }
            Op::Cancel { thread, key } => self.cancel(thread, key),
            Op::Run { thread } => self.run(thread),
            Op::Die { thread, at, lost } => {
                let mut choose = vec![0; at];
                choose.push(if lost { 1 } else { 2 });
                let instance = self.instance(thread);
                self.sim.play(&instance, 1, 1, &choose);
            }
            Op::Fork { at } => {
                self.model.forked += 1;
                let body = json!({"to": format!("f{}", self.model.forked), "at": at});
                let (status, answer) = self.send("POST", Self::path(0, "/fork"), None, &body);
                assert!(matches!(status, 200 | 404 | 422), "{answer}");
            }
            Op::Delete { thread, at } => {
                let (status, _) = self.send("DELETE", Self::path(thread, ""), None, &json!({}));
                let known = self.model.subs.keys().any(|(t, _)| *t == thread);
                assert_eq!(status, if known { 202 } else { 404 });
                if known {
                    self.play(&Op::Die { thread, at, lost: false });
                    self.gone(thread);
                }
            }
            Op::Pass { hours } => self.sim.pass(hours * 3_600_000),
        }
    }
}

impl Known {
    fn hear(&mut self, answer: &Value) {
        if let Some(outcome) = answer.get("outcome") {
            if let Some(before) = &self.outcome {
                assert_eq!(before, outcome, "an outcome changed");
            }
            self.outcome = Some(outcome.clone());
        }
    }
}

fn audit(sim: &Sim) -> Vec<String> {
    let (mut found, mut keys, mut page) = (Vec::new(), 0, None);
    loop {
        let audit = sim.free(|ports| writ::audit::page(&ports, page.as_deref())).expect("the audit reads");
        found.extend(audit.findings.iter().map(|f| format!("{} at {}: {}", f.invariant, f.key, f.text)));
        keys += audit.keys;
        page = audit.next;
        if page.is_none() {
            break;
        }
    }
    let map = sim.map();
    if keys != map.len() as u64 {
        found.push(format!("{keys} keys are accounted for, of {}: {:#?}", map.len(), map.keys()));
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Shows A35, B14, B15; traps 2, 31.
    #[test]
    fn what_is_accepted_is_answered_as_the_model_says(ops in proptest::collection::vec(op(), 1..40)) {
        let mut world = World { sim: Sim::of(&BTreeMap::new()), model: Model::default() };
        for op in &ops {
            world.play(op);
            prop_assert_eq!(audit(&world.sim), Vec::<String>::new());
        }
        for thread in 0..THREADS.len() {
            world.run(thread);
        }
        prop_assert_eq!(audit(&world.sim), Vec::<String>::new());
        prop_assert_eq!(world.sim.broken(), Vec::<String>::new());
    }
}

fn cases() -> u32 {
    if std::env::var_os("WRIT_LONG_TESTS").is_some() { 3_000 } else { 150 }
}
