//! The thread API: JSON over HTTP-shaped requests (docs/thread-api.md).

use super::router::Path;
use super::{Request, Response, Signal, Work};
use crate::admission::{self, Accepted, Cancelled};
use crate::agent::Agents;
use crate::delivery::{BODY_BYTES_MAX, Delivery, too_large};
use crate::error::{Problem, Refusal};
use crate::id::{Address, KEY_BYTES_MAX, is_name};
use crate::ports::Ports;
use crate::prelude::*;
use crate::session::{delete, fork, import, message::read_messages};
use crate::{canon, explain, view};
use serde::Deserialize;
use serde_json::{Value, json};

/// Answers a request.
pub fn respond(ports: Ports, agents: &dyn Agents, request: &Request) -> Response {
    Call { ports, agents, request }.answer().unwrap_or_else(Response::refusal)
}

/// Bytes of messages on one page, about: a page ends early rather than grow beyond it.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

struct Call<'a> {
    ports: Ports<'a>,
    agents: &'a dyn Agents,
    request: &'a Request,
}

/// `{"to", "at"}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForkBody {
    to: String,
    #[serde(default)]
    at: Option<u64>,
}

/// `{"messages"}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageBody {
    messages: Vec<Value>,
}

impl Call<'_> {
    fn answer(&self) -> Result<Response, Refusal> {
        let path = Path::parse(&self.request.path)
            .ok_or_else(|| Problem::new(400, "bad-path", "The path is not well formed, or longer than 8 KiB."))?;
        if self.request.body.len() > BODY_BYTES_MAX {
            return Err(too_large("The request", self.request.body.len(), BODY_BYTES_MAX).into());
        }
        let segments: Vec<&str> = path.segments.iter().map(String::as_str).collect();
        let ["v1", rest @ ..] = &segments[..] else { return Err(Problem::not_found().into()) };
        let owner = self.owner()?;
        match (self.request.method.as_str(), rest) {
            ("GET", ["agents"]) => self.list_agents(),
            ("GET", ["threads"]) => {
                let (threads, next) = view::threads(&self.ports, owner, path.query("cursor"))?;
                Ok(Response::json(200, &json!({"threads": threads, "next": next})))
            }
            ("GET", ["submissions", id]) => {
                let sub = view::find(&self.ports, owner, id)?;
                let view = view::submission(&self.ports, id, &sub)?;
                Ok(Response::json(200, &view))
            }
            ("GET", ["submissions", id, "explain"]) => {
                let sub = view::find(&self.ports, owner, id)?;
                Ok(Response::json(200, &explain::explain(&self.ports, id, &sub)?))
            }
            ("POST", ["submissions", id, "cancel"]) => self.cancel(owner, id),
            (method, ["agents", agent, "threads", thread, rest @ ..]) => {
                let address = address(owner, agent, thread)?;
                self.thread(method, address, rest, &path)
            }
            (_, ["agents" | "threads"] | ["submissions", _] | ["submissions", _, "explain" | "cancel"]) => {
                Err(self.no_method())
            }
            _ => Err(Problem::not_found().into()),
        }
    }

    fn thread(&self, method: &str, address: Address, rest: &[&str], path: &Path) -> Result<Response, Refusal> {
        let ports = self.ports;
        match (method, rest) {
            ("POST", ["submissions"]) => {
                let delivery = Delivery::parse(&self.request.body)?;
                let steer = delivery.steer;
                let accepted = admission::submit(ports, self.agents, address, self.key()?, &delivery)?;
                self.receipt(accepted, steer.then_some(Signal::Steer))
            }
            ("POST", ["fork"]) => {
                let body: ForkBody = self.body()?;
                self.receipt(fork::fork(ports, address, self.key()?, &body.to, body.at)?, None)
            }
            ("POST", ["import"]) => {
                let accepted = import::begin(ports, self.agents, address, self.key()?, self.body()?)?;
                let view = view::submission(&ports, &accepted.id, &accepted.sub)?;
                let status = if accepted.sub.is_settled() { 200 } else { 202 };
                Ok(Response::json(status, &view))
            }
            ("POST", ["import", from]) => {
                let from =
                    from.parse().map_err(|_| Problem::field("from", "The page's first number is not a number."))?;
                let body: PageBody = self.body()?;
                let (done, whole) = import::page(ports, &address, from, body.messages)?;
                Ok(Response::json(if whole { 200 } else { 202 }, &json!({"done": done})))
            }
            ("GET", []) => {
                let (_, head, inbox) = view::find_thread(&ports, &address)?;
                Ok(Response::json(200, &view::thread(&head, &inbox)))
            }
            ("GET", ["messages"]) => self.messages(&address, path),
            ("GET", ["submissions"]) => {
                let (place, _, inbox) = view::find_thread(&ports, &address)?;
                let (after, limit) = page(path)?;
                let (submissions, next) = view::submissions(&ports, &place, &inbox, after, limit)?;
                Ok(Response::json(200, &json!({"submissions": submissions, "next": next})))
            }
            ("DELETE", []) => {
                let place = delete::close(ports, &address)?;
                let work = Work { instance: place.head(), submission: None, signal: Some(Signal::Cancel) };
                Ok(Response::json(202, &json!({"state": "deleting"})).with_work(work))
            }
            (_, [] | ["submissions" | "messages" | "fork" | "import"] | ["import", _]) => Err(self.no_method()),
            _ => Err(Problem::not_found().into()),
        }
    }

    fn list_agents(&self) -> Result<Response, Refusal> {
        let all = self.agents.list(self.ports.host).map_err(|e| Problem::new(500, "bad-settings", e))?;
        let agents: Vec<Value> = all
            .into_iter()
            .map(|a| json!({"name": a.name, "description": a.description, "limits": a.limits}))
            .collect();
        Ok(Response::json(200, &json!({"agents": agents})))
    }

    fn cancel(&self, owner: &str, id: &str) -> Result<Response, Refusal> {
        let (cancelled, accepted) = admission::cancel(self.ports, owner, id)?;
        Ok(match cancelled {
            Cancelled::Settled => Response::json(200, &view::submission(&self.ports, id, &accepted.sub)?),
            Cancelled::Noted => Response::json(202, &view::receipt(id, &accepted.sub)).with_work(Work {
                instance: accepted.place.head(),
                submission: None,
                signal: Some(Signal::Cancel),
            }),
        })
    }

    fn messages(&self, address: &Address, path: &Path) -> Result<Response, Refusal> {
        let (place, head, _) = view::find_thread(&self.ports, address)?;
        let (after, limit) = page(path)?;
        let end = head.count.min(after.saturating_add(limit));
        let (mut messages, mut size) = (Vec::new(), 0);
        for n in (after..end).step_by(32) {
            let read = read_messages(&self.ports, &place, n, end.min(n + 32))?;
            for message in read {
                let value = serde_json::to_value(&message).unwrap_or(Value::Null);
                size += value.to_string().len();
                messages.push(value);
            }
            if size > PAGE_BYTES {
                break;
            }
        }
        let next = after + messages.len() as u64;
        let next = (next < head.count && !messages.is_empty()).then_some(next);
        Ok(Response::json(200, &json!({"from": after, "messages": messages, "next": next, "count": head.count})))
    }

    /// What is pending is handed to the host again: a lost hint costs nothing (trap 14).
    fn receipt(&self, accepted: Accepted, signal: Option<Signal>) -> Result<Response, Refusal> {
        let Accepted { id, sub, place } = accepted;
        let view = match sub.is_settled() {
            true => view::submission(&self.ports, &id, &sub)?,
            false => view::receipt(&id, &sub),
        };
        let status = if sub.is_settled() { 200 } else { 202 };
        let mut response = Response::json(status, &view);
        response.headers.push(("location".into(), format!("/v1/submissions/{id}")));
        if !sub.is_settled() {
            response.work.push(Work { instance: place.head(), submission: Some(id), signal });
        }
        Ok(response)
    }

    fn owner(&self) -> Result<&str, Problem> {
        let owner =
            self.request.principal.as_deref().ok_or_else(|| {
                Problem::new(401, "unauthenticated", "The host did not say who asks. Send credentials.")
            })?;
        let fit = owner.len() <= 256
            && owner
                .split_once('/')
                .is_some_and(|(realm, subject)| !realm.is_empty() && !subject.is_empty() && !subject.contains('/'));
        if fit {
            Ok(owner)
        } else {
            Err(Problem::new(401, "bad-principal", "A principal is `realm/subject`, of at most 256 bytes."))
        }
    }

    fn key(&self) -> Result<Option<String>, Problem> {
        let Some(key) = self.request.header("idempotency-key") else { return Ok(None) };
        if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.bytes().all(|b| b.is_ascii_graphic()) {
            let text = format!("An idempotency key is 1 to {KEY_BYTES_MAX} visible ASCII characters.");
            return Err(Problem::field("idempotency-key", text).with("limit", KEY_BYTES_MAX));
        }
        Ok(Some(key.to_owned()))
    }

    fn body<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Problem> {
        let value = canon::parse(&self.request.body).map_err(|e| {
            Problem::new(422, "invalid-json", format!("The body is not JSON that Writ can keep exactly: {e}."))
        })?;
        serde_json::from_value(value).map_err(|e| Problem::field("", format!("The body does not fit: {e}.")))
    }

    fn no_method(&self) -> Refusal {
        let text = format!("{} is not a method of this resource.", self.request.method);
        Problem::new(405, "method", text).into()
    }
}

fn address(owner: &str, agent: &str, thread: &str) -> Result<Address, Problem> {
    for (field, name) in [("agent", agent), ("thread", thread)] {
        if !is_name(name) {
            let shown: String = name.chars().take(64).collect();
            let text =
                format!("{shown:?} is no name for {field}: 1 to 128 of A–Z a–z 0–9 . _ -, not starting with a dot.");
            return Err(Problem::field(field, text));
        }
    }
    Ok(Address { owner: owner.to_owned(), agent: agent.to_owned(), thread: thread.to_owned() })
}

/// `after` and `limit` of a page.
fn page(path: &Path) -> Result<(u64, u64), Problem> {
    let number = |name: &str, default: u64| match path.query(name) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| Problem::field(name, format!("`{name}` is not a whole number."))),
    };
    Ok((number("after", 0)?, number("limit", 100)?.clamp(1, 256)))
}
