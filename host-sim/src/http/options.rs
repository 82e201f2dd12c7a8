//! What a server is given.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::injecting::Injecting;
use crate::telemetry::Telemetry;

/// What `writ serve` needs to know besides its host. It can be filled from anywhere: options, a file, a test.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where to listen; port 0 takes any that is free.
    pub addr: SocketAddr,
    /// Whether a client token is configured. Without one the component lets nobody in, and the server listens on
    /// loopback addresses only.
    pub has_token: bool,
    /// A second address that gives requests a token, for test suites that can't send one.
    pub injecting: Option<Injecting>,
    /// How long runs may go on once the server drains.
    pub drain: Duration,
    /// Connections at the same time; more wait in the system's queue until one ends.
    pub connections: usize,
    /// Requests that the component answers, or that wait for it, at the same time; more get 503.
    pub requests: usize,
    /// Streams at the same time; more get 503.
    pub streams: usize,
    /// How long a connection may take none of the bytes that are ready for it, before it is closed.
    pub stall: Duration,
    /// How long a request's head may take to come; also how long a connection may be idle.
    pub head: Duration,
    /// How long a request's body may take to come.
    pub body: Duration,
    /// Names that a request may ask for in `host` besides this machine's own, each with or without a port. On an address
    /// that other machines reach, an empty list allows all.
    pub allowed_hosts: Vec<String>,
    /// What `GET /metrics` shows to whom the component lets in; `None`: there is no such route.
    pub metrics: Option<Arc<Telemetry>>,
    /// After how much silence a stream sends a comment, and looks again without having been woken.
    pub heartbeat: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 8787)),
            has_token: false,
            injecting: None,
            drain: Duration::from_secs(30),
            connections: 1024,
            requests: 512,
            streams: 256,
            stall: Duration::from_secs(30),
            head: Duration::from_secs(20),
            body: Duration::from_secs(30),
            allowed_hosts: Vec::new(),
            metrics: None,
            heartbeat: Duration::from_secs(15),
        }
    }
}
