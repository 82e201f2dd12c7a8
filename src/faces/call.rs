//! One request on its way to its route: found in the table, let in or not, answered.

use super::answer::Response;
use super::path::Path;
use super::routes::{Access, FACES, ROUTES, Route};
use crate::agent::Agents;
use crate::auth;
use crate::canon;
use crate::delivery::{BODY_BYTES_MAX, too_large};
use crate::error::{Problem, Refusal};
use crate::id::{Address, KEY_BYTES_MAX, is_name};
use crate::ports::Ports;
use crate::prelude::*;
use crate::store::read_format;
use serde::de::DeserializeOwned;

/// Longest wait that a caller may prefer, in seconds.
const WAIT_S_MAX: u32 = 300;

/// A request of any face.
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names are lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Who asks, as the host has verified it.
    pub principal: Option<String>,
}

impl Request {
    /// The first header of a name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Answers a request.
pub fn respond(ports: Ports, agents: &dyn Agents, request: &Request) -> Response {
    answer(ports, agents, request).unwrap_or_else(Response::refusal)
}

fn answer(ports: Ports, agents: &dyn Agents, request: &Request) -> Result<Response, Refusal> {
    let path = Path::parse(&request.path)
        .ok_or_else(|| Problem::new(400, "bad-path", "The path is not well formed, or longer than 8 KiB."))?;
    let found: Vec<(&Route, Vec<String>)> = ROUTES
        .iter()
        .chain(FACES.iter().copied().flatten())
        .filter_map(|route| Some((route, path.matches(route.path)?)))
        .collect();
    let Some((route, params)) = found.iter().find(|(route, _)| route.method == request.method) else {
        return match found.as_slice() {
            [] => Err(Problem::not_found().into()),
            [..] => Ok(no_method(&request.method, &found)),
        };
    };
    let mut call = Call { ports, agents, request, path: &path, params, owner: String::new() };
    call.owner = call.let_in(route.access)?;
    if request.body.len() > BODY_BYTES_MAX {
        return Err(too_large("The request", request.body.len(), BODY_BYTES_MAX).into());
    }
    (route.answer)(&call)
}

fn no_method(method: &str, found: &[(&Route, Vec<String>)]) -> Response {
    let allowed: Vec<&str> = found.iter().map(|(route, _)| route.method).collect();
    let text = format!("This path can't be asked with {method}; it takes {}.", allowed.join(", "));
    let mut response = Response::problem(&Problem::new(405, "method", text));
    response.header("allow", allowed.join(", "));
    response
}

/// A key, if it is fit.
pub(super) fn checked_key(key: &str) -> Result<String, Problem> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.bytes().all(|b| b.is_ascii_graphic()) {
        let text = format!("An idempotency key is 1 to {KEY_BYTES_MAX} visible ASCII characters.");
        return Err(Problem::field("idempotency-key", text).with("limit", KEY_BYTES_MAX));
    }
    Ok(key.to_owned())
}

/// A request that has found its route.
pub struct Call<'a> {
    pub ports: Ports<'a>,
    pub agents: &'a dyn Agents,
    pub request: &'a Request,
    pub path: &'a Path,
    params: &'a [String],
    /// Who asks.
    pub owner: String,
}

impl Call<'_> {
    /// The segment that stands for a `{name}` of the route, counted from 0.
    pub fn param(&self, i: usize) -> &str {
        self.params.get(i).map_or("", String::as_str)
    }

    /// The thread that the route's first two parameters name.
    pub fn address(&self) -> Result<Address, Problem> {
        self.address_of(&self.owner)
    }

    fn address_of(&self, owner: &str) -> Result<Address, Problem> {
        let (agent, thread) = (self.param(0), self.param(1));
        for (field, name) in [("agent", agent), ("thread", thread)] {
            if !is_name(name) {
                let shown: String = name.chars().take(64).collect();
                let text = format!(
                    "{shown:?} is no name for {field}: 1 to 128 of A–Z a–z 0–9 . _ -, not starting with a dot."
                );
                return Err(Problem::field(field, text));
            }
        }
        Ok(Address { owner: owner.to_owned(), agent: agent.to_owned(), thread: thread.to_owned() })
    }

    fn let_in(&self, access: Access) -> Result<String, Refusal> {
        match (access, self.path.query("token")) {
            (Access::Open, _) => Ok(String::new()),
            (Access::Viewer, Some(token)) if self.request.principal.is_none() => {
                self.address_of("")?;
                let partitions = read_format(&self.ports)?.partitions;
                // Its names are fit, as was just seen.
                let place = |owner: &str| self.address_of(owner).map(|a| a.place(partitions)).unwrap_or_default();
                auth::stream_owner(&self.ports, token, place)
            }
            _ => Ok(auth::principal(&self.ports, self.request)?),
        }
    }

    /// The caller's key.
    pub fn key(&self) -> Result<Option<String>, Problem> {
        self.request.header("idempotency-key").map(checked_key).transpose()
    }

    /// How long the caller prefers to wait, in milliseconds: `Prefer: wait=SECONDS` (RFC 7240).
    pub fn wait_ms(&self) -> Result<Option<u32>, Problem> {
        let preferences = self.request.headers.iter().filter(|(name, _)| name == "prefer");
        let wait = preferences
            .flat_map(|(_, value)| value.split(','))
            .find_map(|one| one.split(';').next()?.trim().strip_prefix("wait="));
        let Some(wait) = wait else { return Ok(None) };
        match wait.trim_matches('"').parse::<u32>() {
            Ok(seconds) if seconds <= WAIT_S_MAX => Ok(Some(seconds * 1000)),
            _ => {
                let text = format!("`Prefer: wait=` takes whole seconds, {WAIT_S_MAX} at most.");
                Err(Problem::field("prefer", text).with("limit", WAIT_S_MAX))
            }
        }
    }

    /// The body, strictly JSON.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let value = canon::parse(&self.request.body).map_err(|e| {
            Problem::new(422, "invalid-json", format!("The body is not JSON that Writ can keep exactly: {e}."))
        })?;
        serde_json::from_value(value).map_err(|e| Problem::field("", format!("The body does not fit: {e}.")))
    }

    /// A whole number of the query.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let parse =
            |text: &str| text.parse().map_err(|_| Problem::field(name, format!("`{name}` is not a whole number.")));
        self.path.query(name).map(parse).transpose()
    }

    /// `after` and `limit` of a page.
    pub fn page(&self) -> Result<(u64, u64), Problem> {
        Ok((self.number("after")?.unwrap_or(0), self.number("limit")?.unwrap_or(100).clamp(1, 256)))
    }
}
