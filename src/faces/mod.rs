//! Faces: each translates a wire format to admission and the views. None has state or rules of its own.

mod a2a;
mod acp;
mod answer;
mod call;
mod frames;
mod mcp;
mod path;
mod routes;
mod rpc;
mod session;
mod stream;
mod thread;
mod time;

pub use answer::{Body, Response, Signal, Tail, Wait, Work};
pub use call::{Request, respond};
pub use frames::{Frame, Frames, frames};
pub use routes::{Access, FACES, ROUTES, Route};

/// The description of the thread API, OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("openapi.json");
