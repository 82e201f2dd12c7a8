//! A stored value that was damaged is an error that names its key: never a panic, never a silent skip, and never a hang.
#![cfg(not(target_family = "wasm"))]

use std::collections::BTreeMap;

use writ::faces::{self, Request};
use writ_tests::OWNER;
use writ_tests::sim::{Sim, agents, submit};

type Map = BTreeMap<String, Vec<u8>>;

/// Stores in the middle of a tool call, and at rest with one more submission waiting.
fn stores() -> Vec<(&'static str, Map, String)> {
    let sim = Sim::of(&Map::new());
    let id = sim.free(|ports| submit(ports, "a"));
    let instance = sim.instance();
    // The claim, the answer with its calls and the first result go through; then the owner dies.
    sim.play(&instance, 1, 1, &[0, 0, 0, 0, 0, 0, 0, 0, 2]);
    let middle = sim.map();
    let head = String::from_utf8_lossy(&middle[&instance]).into_owned();
    assert!(head.contains(r#""phase":"calling""#) && head.contains(r#""done":true"#), "{head}");
    sim.free(|ports| {
        writ::run::drive(ports, &agents(), &instance, None);
        submit(ports, "b");
    });
    vec![("in a tool call", middle, id.clone()), ("at rest", sim.map(), id)]
}

fn damages(value: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut flipped = value.to_vec();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x80;
    vec![
        ("cut in half", value[..value.len() / 2].to_vec()),
        ("empty", Vec::new()),
        ("a bit flipped", flipped),
        ("of another shape", b"[1]".to_vec()),
        ("a number", b"18446744073709551615".to_vec()),
        ("not text", vec![0xff; 16]),
        ("nested deeply", b"[".repeat(100_000)),
    ]
}

/// Everything that reads the store, on a damaged one. What it says, joined.
fn read_all(map: &Map, instance: &str, id: &str) -> String {
    let sim = Sim::of(map);
    let mut said = Vec::new();
    sim.free(|ports| {
        let mut page = None;
        for _ in 0..2_000 {
            match writ::audit::page(&ports, page.as_deref()) {
                Ok(found) => {
                    said.extend(found.findings.iter().map(|f| format!("{} {} {}", f.invariant, f.key, f.text)));
                    page = found.next;
                }
                Err(error) => {
                    said.push(format!("{error:?}"));
                    page = None;
                }
            }
            if page.is_none() {
                break;
            }
        }
        for path in [
            format!("/v1/submissions/{id}"),
            format!("/v1/submissions/{id}/explain"),
            "/v1/threads".into(),
            "/v1/agents/helper/threads/t".into(),
            "/v1/agents/helper/threads/t/messages".into(),
            "/v1/agents/helper/threads/t/submissions".into(),
            "/v1/agents/helper/threads/t/events".into(),
        ] {
            let request = Request {
                method: "GET".into(),
                path,
                headers: Vec::new(),
                body: Vec::new(),
                principal: Some(OWNER.into()),
            };
            let response = faces::respond(ports, &agents(), &request);
            said.push(String::from_utf8_lossy(response.body.bytes()).into_owned());
        }
        let pending = writ::queue::pending(&ports, None);
        said.push(pending.err().map(|e| format!("{e:?}")).unwrap_or_default());
        said.push(format!("{:?}", writ::run::drive(ports, &agents(), instance, None)));
    });
    said.join("\n")
}

/// Shows B12.
#[test]
fn a_damaged_value_is_named_and_nothing_panics() {
    let mut looked = 0;
    for (name, map, id) in stores() {
        let instance = Sim::of(&map).instance();
        assert!(!read_all(&map, &instance, &id).contains("format "), "{name}: sound, and said to be damaged");
        for (key, value) in &map {
            for (damage, bytes) in damages(value) {
                let mut damaged = map.clone();
                damaged.insert(key.clone(), bytes);
                let said = std::panic::catch_unwind(|| read_all(&damaged, &instance, &id));
                let said = said.unwrap_or_else(|_| panic!("{name}: {key} {damage}: a panic"));
                assert!(said.contains(key.as_str()), "{name}: {key} {damage}: nobody named it:\n{said}");
                looked += 1;
            }
        }
    }
    assert!(looked > 200, "only {looked} damages");
}

/// One damaged queue slot is passed over, not a stop for every thread (A31).
#[test]
fn a_damaged_slot_does_not_stop_the_others() {
    let sim = Sim::of(&Map::new());
    for key in ["a", "b", "c"] {
        sim.free(|ports| submit(ports, key));
    }
    let mut map = sim.map();
    let slot = map.keys().find(|key| key.ends_with("/queue/1")).expect("a slot").clone();
    map.insert(slot.clone(), b"{".to_vec());
    let damaged = Sim::of(&map);
    let found = damaged.free(|ports| writ::queue::pending(&ports, None)).expect("a page");
    assert_eq!(found.work.len(), 2, "{:?}", found.work);
    let mut page = damaged.free(|ports| writ::audit::page(&ports, None)).expect("a page");
    let mut named = Vec::new();
    while let Some(next) = page.next {
        named.extend(page.findings.into_iter().map(|finding| finding.key));
        page = damaged.free(|ports| writ::audit::page(&ports, Some(&next))).expect("a page");
    }
    assert!(named.contains(&slot), "the audit names it: {named:?}");
}

/// I12: a slot of the journal that holds an event which is not its own is found, and its event is shown to nobody.
#[test]
fn an_event_in_a_wrong_slot_is_found_and_not_shown() {
    let (_, map, _) = stores().pop().expect("a store at rest");
    let slots: Vec<&String> = map.keys().filter(|key| key.contains("/j/")).collect();
    assert!(slots.len() > 5, "{slots:?}");
    for slot in slots {
        let stored: serde_json::Value = serde_json::from_slice(&map[slot]).expect("JSON");
        let n = stored["n"].as_u64().expect("a number");
        for (field, value) in
            [("n", n + 1), ("n", n + writ::keys::RING), ("born", stored["born"].as_u64().unwrap() + 1)]
        {
            let mut event = stored.clone();
            event[field] = value.into();
            let mut damaged = map.clone();
            damaged.insert(slot.clone(), event.to_string().into_bytes());
            let sim = Sim::of(&damaged);
            let (mut found, mut page) = (Vec::new(), None);
            loop {
                let one = sim.free(|ports| writ::audit::page(&ports, page.as_deref())).expect("a page");
                found.extend(one.findings.into_iter().map(|f| (f.invariant, f.key)));
                page = one.next;
                if page.is_none() {
                    break;
                }
            }
            assert_eq!(found, [("I12", slot.clone())], "{field} {value}");
            let place = writ::id::Place::parse(&sim.instance()).expect("a thread");
            let feed = writ::follow::Feed { place, what: writ::follow::What::Thread, face: writ::follow::Face::Thread };
            let shown = sim.free(|ports| writ::follow::follow(&ports, &feed, 0)).expect("a page");
            assert!(shown.frames.iter().all(|(at, event)| *at != n || event["type"] == "gap"), "{field}: {shown:?}");
        }
    }
}
