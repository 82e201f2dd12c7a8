//! A2A 1.0: a task is a submission, a context is a thread. Two bindings, JSON-RPC and HTTP+JSON, over one set of
//! operations (docs/a2a.md).

mod answer;
mod card;
mod errors;
mod jsonrpc;
mod list;
mod message;
mod operations;
mod params;
mod question;
mod rest;
mod settings;
mod stream;
mod task;

pub(super) use rest::ROUTES;
pub(super) use stream::frames;

/// The version that is spoken.
const VERSION: &str = "1.0";

/// The extension of `SendMessage`: its URI, and the key of its metadata.
const EXTENSION: &str = "urn:writ:a2a:submission";
