//! `subscriptions/listen`: what becomes of tasks and resources, from the journal of one session.
//!
//! The numbers of this feed are those of the journal and one more: 0 is before all, where acknowledgement and snapshot
//! stand. The snapshot is taken after the journal's end was read, so nothing lies between the two.

use super::envelope::{Asked, Era};
use super::fail::Fail;
use super::resources::{self, Resource};
use super::tasks;
use crate::error::{Error, Problem, Refusal};
use crate::faces::answer::{Response, Tail};
use crate::faces::frames::{Frame, Frames};
use crate::faces::rpc;
use crate::follow::{Face, Feed, What, follow};
use crate::id::{Address, Place};
use crate::keys;
use crate::ports::Ports;
use crate::prelude::*;
use crate::record::{Head, Inbox, Stage, Submission, decode_opt};
use crate::store::{read, read_format, read_many};
use crate::view;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Tasks and resources of one subscription.
const SUBJECTS_MAX: usize = 16;

/// Longest form of a subscription, in bytes: it stands in the name of a feed.
const LISTEN_BYTES_MAX: usize = 3072;

/// A subscription.
#[derive(Serialize, Deserialize)]
struct Listen {
    /// Id of the request.
    id: Value,
    /// Whether the client can be asked something.
    elicit: bool,
    tasks: Vec<String>,
    uris: Vec<String>,
}

/// `subscriptions/listen`.
pub fn listen(asked: &Asked) -> Result<Response, Fail> {
    let (ports, owner) = (&asked.call.ports, asked.call.owner.as_str());
    let wanted = asked.params.get("notifications").filter(|n| n.is_object());
    let wanted = wanted.ok_or_else(|| Fail::params("`notifications` is missing, or no object."))?;
    let tasks = texts(wanted, "taskIds")?;
    let uris = texts(wanted, "resourceSubscriptions")?;
    if !tasks.is_empty() || wanted.get("taskIds").is_some() {
        tasks::check_declared(asked)?;
    }
    let mut places = Vec::new();
    for id in &tasks {
        let sub = tasks::find(ports, owner, id)?;
        places.push(sub.place(id));
    }
    for uri in &uris {
        places.push(place_of(ports, owner, uri)?);
    }
    places.sort();
    places.dedup();
    let place = match places.as_slice() {
        [place] => place.clone(),
        // Nothing that could be told: acknowledged, and over.
        [] => {
            let nowhere = Address { owner: owner.to_owned(), agent: String::new(), thread: String::new() };
            nowhere.place(read_format(ports).map_err(Fail::from)?.partitions)
        }
        _ => {
            let text = "One subscription follows one session; these are of several. Listen once for each session.";
            return Err(Fail::params(text));
        }
    };
    let listen = Listen { id: asked.id.clone(), elicit: asked.elicits(), tasks, uris };
    let text = serde_json::to_string(&listen).unwrap_or_default();
    if text.len() > LISTEN_BYTES_MAX {
        let text = format!("The subscription is {} bytes long; {LISTEN_BYTES_MAX} at most.", text.len());
        return Err(Fail::params(text));
    }
    let feed = Feed { place, what: What::Thread, face: Face::Mcp(format!("listen {text}")) };
    Ok(Response::stream(Tail { feed, after: 0 }))
}

fn texts(wanted: &Value, field: &str) -> Result<Vec<String>, Fail> {
    let Some(list) = wanted.get(field).filter(|list| !list.is_null()) else { return Ok(Vec::new()) };
    let texts = list.as_array().filter(|list| list.len() <= SUBJECTS_MAX);
    let texts = texts.and_then(|all| all.iter().map(|one| one.as_str().map(str::to_owned)).collect());
    texts.ok_or_else(|| Fail::params(format!("`{field}` is a list of {SUBJECTS_MAX} texts at most.")))
}

fn place_of(ports: &Ports, owner: &str, uri: &str) -> Result<Place, Fail> {
    let found = match Resource::parse(owner, uri).ok_or_else(|| resources::missing(uri))? {
        Resource::Session(address, _) => view::find_thread(ports, &address).map(|(place, ..)| place),
        Resource::Submission(id) => view::find(ports, owner, &id).map(|sub| sub.place(&id)),
    };
    found.map_err(|refusal| match refusal {
        Refusal::Problem(problem) if problem.status < 500 => resources::missing(uri),
        refusal => refusal.into(),
    })
}

/// A page of a subscription's frames.
pub fn frames(ports: &Ports, feed: &Feed, listen: &str, after: u64) -> Result<Frames, Refusal> {
    let listen: Listen = serde_json::from_str(listen).map_err(|_| Problem::not_found())?;
    let Some(journal) = after.checked_sub(1) else { return listen.begin(ports, &feed.place) };
    let page = match follow(ports, feed, journal) {
        Ok(page) => page,
        // The session is gone.
        Err(Refusal::Problem(_)) => return Ok(listen.over(Vec::new(), after)),
        Err(refusal) => return Err(refusal),
    };
    let next = page.next + 1;
    let mut told = Vec::new();
    let changes = |event: &Value, id: &str| {
        let kind = event["type"].as_str().unwrap_or_default();
        kind == "gap" || (kind != "text" && kind != "messages" && event["submission"] == id)
    };
    for uri in &listen.uris {
        let concerns = |event: &Value| match uri.strip_prefix("submission://") {
            Some(id) => changes(event, id),
            None => matches!(event["type"].as_str(), Some("messages" | "gap")),
        };
        if page.frames.iter().any(|(_, event)| concerns(event)) {
            told.push(listen.tagged("notifications/resources/updated", json!({"uri": uri})));
        }
    }
    let touched: Vec<bool> =
        listen.tasks.iter().map(|id| page.frames.iter().any(|(_, event)| changes(event, id))).collect();
    if touched.contains(&true) {
        let records = listen.records(ports)?;
        for ((id, record), touched) in listen.tasks.iter().zip(&records).zip(touched) {
            if let (true, Some(record)) = (touched, record) {
                told.push(listen.task(ports, id, record)?);
            }
        }
        if listen.is_done(&records) {
            return Ok(listen.over(told, next));
        }
    }
    Ok(Frames { frames: numbered(told, next), next, end: false })
}

impl Listen {
    /// Acknowledgement and snapshot.
    fn begin(&self, ports: &Ports, place: &Place) -> Result<Frames, Refusal> {
        let wanted = [place.head(), place.inbox()];
        let [head, inbox] = read(ports.store, wanted.clone())?;
        let head: Option<Head> = decode_opt(&wanted[0], &head)?;
        let inbox: Inbox = decode_opt(&wanted[1], &inbox)?.unwrap_or_default();
        let mut honoured = json!({});
        for (field, list) in [("taskIds", &self.tasks), ("resourceSubscriptions", &self.uris)] {
            if !list.is_empty() {
                honoured[field] = json!(list);
            }
        }
        let mut told =
            vec![self.tagged("notifications/subscriptions/acknowledged", json!({"notifications": honoured}))];
        let records = self.records(ports)?;
        for (id, record) in self.tasks.iter().zip(&records) {
            if let Some(record) = record {
                told.push(self.task(ports, id, record)?);
            }
        }
        let live = head.filter(|head| head.stage == Stage::Live && inbox.closed.is_none());
        let next = live.as_ref().map_or(0, |head| head.jused) + 1;
        if live.is_none() || self.is_done(&records) {
            return Ok(self.over(told, next));
        }
        Ok(Frames { frames: numbered(told, next), next, end: false })
    }

    fn records(&self, ports: &Ports) -> Result<Vec<Option<Submission>>, Error> {
        let wanted: Vec<String> = self.tasks.iter().map(|id| keys::sub(id)).collect();
        let values = read_many(ports.store, &wanted)?;
        wanted.iter().zip(&values).map(|(key, value)| decode_opt(key, value)).collect()
    }

    /// Tasks that have their outcome change no more; resources may.
    fn is_done(&self, records: &[Option<Submission>]) -> bool {
        self.uris.is_empty() && records.iter().all(|record| record.as_ref().is_none_or(Submission::is_settled))
    }

    fn task(&self, ports: &Ports, id: &str, record: &Submission) -> Result<Value, Error> {
        Ok(self.tagged("notifications/tasks", tasks::detailed(ports, id, record, self.elicit)?))
    }

    fn tagged(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({SUBSCRIPTION: self.id});
        rpc::notification(method, params)
    }

    /// The end: nothing will change any more.
    fn over(&self, mut told: Vec<Value>, next: u64) -> Frames {
        let result = json!({"_meta": {SUBSCRIPTION: self.id}});
        told.push(rpc::response(&self.id, Era::Modern.dressed(result)));
        Frames { frames: numbered(told, next), next, end: true }
    }
}

fn numbered(told: Vec<Value>, number: u64) -> Vec<Frame> {
    told.into_iter().map(|event| Frame { number, name: None, event }).collect()
}
