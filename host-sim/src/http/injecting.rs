//! The second address of a server that test suites ask: requests that bring no token get one there.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;

use super::answer::answer;
use super::server::Shared;

/// Where requests get a token that bring none. Whoever reaches it is let in, so it is a loopback address only.
#[derive(Clone, Debug)]
pub struct Injecting {
    /// Where to listen; port 0 takes any that is free.
    pub addr: SocketAddr,
    /// The token, `Bearer …`. A sensitive value is not shown by `Debug`.
    pub authorization: HeaderValue,
}

/// On a request: it came in there, and its names are checked whatever the options allow elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Injected;

/// The handler there.
pub(super) async fn inject(
    State((shared, authorization)): State<(Arc<Shared>, HeaderValue)>,
    mut request: axum::extract::Request,
) -> Response {
    request.headers_mut().entry(header::AUTHORIZATION).or_insert(authorization);
    request.extensions_mut().insert(Injected);
    answer(State(shared), request).await
}
