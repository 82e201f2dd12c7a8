//! `respond` with arbitrary requests against a store with one thread: no panic, an answer with a status, and a refused
//! request leaves the store byte-identical (I2).
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use writ::faces::{self, Request};
use writ_sim::{Map, OWNER, Sim, agents, submit};

fn prepared() -> &'static Map {
    static STORE: OnceLock<Map> = OnceLock::new();
    STORE.get_or_init(|| {
        let sim = Sim::of(&Map::new());
        sim.free(|ports| submit(ports, "a"));
        sim.settle(&sim.instance());
        sim.free(|ports| submit(ports, "b"));
        sim.map()
    })
}

const METHODS: [&str; 5] = ["GET", "POST", "DELETE", "PUT", ""];

const PATHS: [&str; 12] = [
    "/v1/agents/helper/threads/t/submissions",
    "/v1/agents/helper/threads/t/messages",
    "/v1/agents/helper/threads/t/fork",
    "/v1/agents/helper/threads/v/import",
    "/v1/agents/helper/threads/v/import/0",
    "/v1/agents/helper/threads/t",
    "/v1/submissions/",
    "/v1/threads",
    "/v1/agents",
    "/v1/agents/",
    "/",
    "",
];

// A method, a path with a tail, a key and a body, from the bytes.
fuzz_target!(|data: &[u8]| {
    let [method, path, tail, key, body @ ..] = data else { return };
    let (tail, rest) = body.split_at(usize::from(*tail).min(body.len()));
    let (key, body) = rest.split_at(usize::from(*key).min(rest.len()));
    let path = PATHS[usize::from(*path) % PATHS.len()].to_owned() + &String::from_utf8_lossy(tail);
    let headers = match key.is_empty() {
        true => Vec::new(),
        false => vec![("idempotency-key".to_owned(), String::from_utf8_lossy(key).into_owned())],
    };
    let request = Request {
        method: METHODS[usize::from(*method) % METHODS.len()].to_owned(),
        path,
        headers,
        body: body.to_vec(),
        principal: Some(OWNER.to_owned()),
    };
    let sim = Sim::of(prepared());
    let response = sim.free(|ports| faces::respond(ports, &agents(), &request));
    assert!((200..600).contains(&response.status));
    assert!(response.status < 500, "{}", String::from_utf8_lossy(response.body.bytes()));
    if response.status >= 400 {
        assert_eq!(&sim.map(), prepared(), "a refused request changed the store");
    }
});
