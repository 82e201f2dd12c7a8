//! Every decoder of a stored value: one value of a store in the middle of a tool call is replaced by arbitrary bytes, and
//! everything that reads the store is run. No panic, and an end.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use writ::faces::{self, Request};
use writ_sim::{Map, OWNER, Sim, agents, submit};

fn prepared() -> &'static (Map, String) {
    static STORE: OnceLock<(Map, String)> = OnceLock::new();
    STORE.get_or_init(|| {
        let sim = Sim::of(&Map::new());
        let id = sim.free(|ports| submit(ports, "a"));
        sim.play(&sim.instance(), 1, 1, &[0, 0, 0, 0, 0, 0, 0, 0, 2]);
        (sim.map(), id)
    })
}

fuzz_target!(|data: &[u8]| {
    let [which, value @ ..] = data else { return };
    let (map, id) = prepared();
    let Some(key) = map.keys().nth(usize::from(*which) % map.len()) else { return };
    let mut damaged = map.clone();
    damaged.insert(key.clone(), value.to_vec());
    let sim = Sim::of(&damaged);
    sim.free(|ports| {
        let mut page = None;
        for _ in 0..64 {
            page = writ::audit::page(&ports, page.as_deref()).ok().and_then(|found| found.next);
            if page.is_none() {
                break;
            }
        }
        let threads = "/v1/agents/helper/threads/t";
        for path in [format!("/v1/submissions/{id}/explain"), format!("{threads}/messages"), "/v1/threads".into()] {
            let (headers, body, principal) = (Vec::new(), Vec::new(), Some(OWNER.to_owned()));
            let request = Request { method: "GET".into(), path, headers, body, principal };
            faces::respond(ports, &agents(), &request);
        }
        let _ = writ::queue::pending(&ports, None);
    });
    sim.settle(&sim.instance());
});
