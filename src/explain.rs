//! `explain`: every durable fact about a submission, with its key, and the rule that a restart would apply now.

use crate::error::Error;
use crate::id::{self, Place};
use crate::keys;
use crate::notice::{NEEDS_YOU, SETTLED};
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::Submission;
use crate::run::{load, plan::plan};
use crate::store::read_many;
use crate::view;
use serde_json::{Value, json};

/// Explains a submission.
pub fn explain(ports: &Ports, id: &str, sub: &Submission) -> Result<Value, Error> {
    let partition = id::partition_of_id(id).unwrap_or_default();
    let place = Place { partition, tag: sub.tag.clone() };
    let mut wanted: Vec<(String, String)> = vec![
        (keys::sub(id), "the record: what was accepted, and how it ended".into()),
        (keys::start(id), "the delivery; deleted when it settles".into()),
        (keys::cancel(id), "the mark that it is to be cancelled".into()),
        (keys::pause(id), "the mark that it is paused".into()),
        (keys::notice(id, SETTLED), "somebody is still to be told that it has its outcome".into()),
        (keys::sent(id, SETTLED), "who was told of its outcome, or is given up".into()),
        (keys::notice(id, NEEDS_YOU), "somebody is still to be told that it waits for them".into()),
        (keys::sent(id, NEEDS_YOU), "who was told that it waits for them, or is given up".into()),
        (keys::moved(id), "where maintenance moved its slot to".into()),
        (
            keys::slot(partition, sub.n),
            "its slot in the queue: what a restart looks at; deleted when it settles".into(),
        ),
        (place.head(), "the session head: fence, program counter and totals of the thread".into()),
        (place.inbox(), "the inbox of the thread".into()),
        (place.entry(sub.k), "its entry in the inbox".into()),
        (keys::queue(partition), "the admission guard of the partition".into()),
        (place.meta(), "the thread's places in lists".into()),
        (place.journal(), "the guard of the journal".into()),
    ];
    let loaded = load(ports, &place, None)?;
    if let Some(op) = loaded.snapshot.head.as_ref().and_then(|h| h.op.as_ref()).filter(|op| op.sub == id) {
        for (i, call) in op.calls.iter().enumerate() {
            let n = op.base + i as u64;
            wanted.push((place.message(n), format!("the result of call {} ({})", call.name, n)));
            let name = op.call_name(i);
            wanted.push((keys::answer(id, &name), format!("the answer to the question of {}", call.name)));
            for step in 0..call.steps.min(16) {
                wanted.push((keys::step(id, &name, step), format!("a recorded step of {}", call.name)));
            }
        }
    }
    let names: Vec<String> = wanted.iter().map(|(key, _)| key.clone()).take(crate::store::READ_MAX).collect();
    let values = read_many(ports.store, &names)?;
    let facts: Vec<Value> = wanted
        .into_iter()
        .zip(values)
        .filter_map(|((key, what), value)| {
            let value = value?;
            let value = serde_json::from_slice(&value).unwrap_or_else(|_| json!(String::from_utf8_lossy(&value)));
            Some(json!({"key": key, "what": what, "value": value}))
        })
        .collect();
    let view = view::submission(ports, id, sub)?;
    let rule = if sub.is_settled() {
        json!({"row": "settled", "text": "It has its outcome, which never changes. A restart does nothing for it."})
    } else {
        let (row, text) = plan(&loaded.snapshot).row.text();
        json!({"row": row, "text": text})
    };
    Ok(json!({
        "id": id,
        "state": view["state"],
        "reason": view["reason"],
        "attempt": sub.attempt,
        "rule": rule,
        "facts": facts,
    }))
}
