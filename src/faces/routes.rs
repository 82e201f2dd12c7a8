//! The routes: one table for the thread API, which `openapi.json` describes and a test compares with it, and one for the
//! other faces, whose protocols describe themselves.

use super::answer::Response;
use super::call::Call;
use super::{a2a, acp, mcp, stream, thread};
use crate::error::Refusal;

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody.
    Open,
    /// Who is named by the host, or has a client token.
    Client,
    /// As `Client`; or who has a stream token of the thread.
    Viewer,
}

/// A route.
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path; `{name}` stands for one segment, `{name}:verb` for one that ends so.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
    pub(super) answer: fn(&Call) -> Result<Response, Refusal>,
}

/// The routes of the thread API.
pub const ROUTES: &[Route] = &[
    open("GET", "/healthz", thread::health),
    open("GET", "/v1/openapi.json", thread::openapi),
    client("GET", "/v1/agents", thread::agents),
    client("GET", "/v1/threads", thread::threads),
    client("GET", "/v1/submissions/{id}", thread::submission),
    client("GET", "/v1/submissions/{id}/explain", thread::explain),
    client("POST", "/v1/submissions/{id}/cancel", thread::cancel),
    client("POST", "/v1/submissions/{id}/answer", thread::answer),
    client("POST", "/v1/submissions/{id}/pause", thread::pause),
    client("POST", "/v1/submissions/{id}/resume", thread::resume),
    client("POST", "/v1/agents/{agent}/pause", thread::pause_agent),
    client("POST", "/v1/agents/{agent}/resume", thread::resume_agent),
    client("GET", "/v1/agents/{agent}/threads/{thread}", thread::thread),
    client("DELETE", "/v1/agents/{agent}/threads/{thread}", thread::delete),
    client("GET", "/v1/agents/{agent}/threads/{thread}/submissions", thread::submissions),
    client("POST", "/v1/agents/{agent}/threads/{thread}/submissions", thread::submit),
    client("GET", "/v1/agents/{agent}/threads/{thread}/messages", thread::messages),
    client("POST", "/v1/agents/{agent}/threads/{thread}/fork", thread::fork),
    client("POST", "/v1/agents/{agent}/threads/{thread}/import", thread::import),
    client("POST", "/v1/agents/{agent}/threads/{thread}/import/{from}", thread::import_page),
    client("GET", "/v1/agents/{agent}/threads/{thread}/events", stream::events),
    client("POST", "/v1/agents/{agent}/threads/{thread}/stream-token", stream::token),
    Route {
        method: "GET",
        path: "/v1/agents/{agent}/threads/{thread}/stream",
        access: Access::Viewer,
        answer: stream::stream,
    },
];

/// The routes of the other faces, each with its own description.
pub const FACES: &[&[Route]] = &[
    a2a::ROUTES,
    &[
        client("POST", "/acp", acp::answer),
        client("POST", "/mcp", mcp::post),
        client("GET", "/mcp/calls/{id}", mcp::later),
    ],
];

type Answer = fn(&Call) -> Result<Response, Refusal>;

const fn open(method: &'static str, path: &'static str, answer: Answer) -> Route {
    Route { method, path, access: Access::Open, answer }
}

const fn client(method: &'static str, path: &'static str, answer: Answer) -> Route {
    Route { method, path, access: Access::Client, answer }
}
