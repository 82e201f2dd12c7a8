//! The server: a listener, its connections, and how they end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::answer::answer;
use super::injecting::inject;
use super::options::ServeOptions;
use super::patience::Patience;
use crate::host::Host;
use crate::hub::Hub;

/// Most header lines that are read at all; what is above the component's limit, but not above this, is told so.
const HEADER_LINES_MAX: usize = 512;
/// Largest head of a request, and most bytes that wait to be written on one connection.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// How long connections may take to end by themselves once everything is told.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Before the next connection is taken after one could not be: the system may be out of files.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);

/// Why a server could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address can't be listened on.
    #[error("{addr} can't be listened on: {source}")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Others could reach it, and nothing says who may.
    #[error("{addr} can be reached from other machines, and no client token is configured")]
    Open {
        /// The address.
        addr: SocketAddr,
    },
    /// Others could reach an address that gives tokens away.
    #[error("{addr} can be reached from other machines, and would let in whoever brings no token")]
    Injecting {
        /// The address.
        addr: SocketAddr,
    },
}

/// A server that listens. It takes connections when it is run.
pub struct Server {
    listener: TcpListener,
    addr: SocketAddr,
    /// The second one, and where it listens.
    injecting: Option<(TcpListener, SocketAddr)>,
    shared: Arc<Shared>,
}

/// What all connections share.
pub(super) struct Shared {
    pub(super) host: Host,
    pub(super) hub: Hub,
    pub(super) options: ServeOptions,
    pub(super) phase: watch::Sender<Phase>,
    /// Whether only this machine reaches the server.
    pub(super) loopback: bool,
    pub(super) requests: Arc<Semaphore>,
    pub(super) streams: Arc<Semaphore>,
    /// Requests that may change something.
    pub(super) writes: Arc<Semaphore>,
}

/// Where the server is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Everything is served.
    Serving,
    /// Nothing new is taken; runs go on, and are told of.
    Draining,
    /// Everything ends.
    Ending,
}

/// Stops a server.
#[derive(Clone)]
pub struct Drain(watch::Sender<Phase>);

impl Drain {
    /// Takes nothing new from now on, lets runs go on for as long as the options say, and then ends
    /// [`Server::run`]. Doing it twice changes nothing.
    pub fn begin(&self) {
        self.0.send_if_modified(|phase| {
            let serves = *phase == Phase::Serving;
            if serves {
                *phase = Phase::Draining;
            }
            serves
        });
    }
}

impl Server {
    /// Listens for requests to a host.
    ///
    /// # Errors
    /// An address that can't be listened on, or one beyond loopback without a client token.
    pub async fn bind(host: Host, options: ServeOptions) -> Result<Self, ServeError> {
        let asked = options.addr;
        if !is_loopback(asked) && !options.has_token {
            return Err(ServeError::Open { addr: asked });
        }
        let second = options.injecting.as_ref().map(|injecting| injecting.addr);
        if let Some(addr) = second.filter(|addr| !is_loopback(*addr)) {
            return Err(ServeError::Injecting { addr });
        }
        let (listener, addr) = listen(asked).await?;
        let injecting = match second {
            Some(addr) => Some(listen(addr).await?),
            None => None,
        };
        let shared = Shared {
            hub: Hub::new(&host),
            host,
            phase: watch::Sender::new(Phase::Serving),
            loopback: is_loopback(addr),
            requests: places(options.requests),
            streams: places(options.streams),
            writes: places(writes_max(&options) as usize),
            options,
        };
        Ok(Self { listener, addr, injecting, shared: Arc::new(shared) })
    }

    /// Where it listens; with a port, also when 0 was asked for.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where requests get a token, if they do anywhere.
    pub fn injecting_addr(&self) -> Option<SocketAddr> {
        self.injecting.as_ref().map(|(_, addr)| *addr)
    }

    /// What stops it.
    pub fn drain(&self) -> Drain {
        Drain(self.shared.phase.clone())
    }

    /// Serves until it is drained. Runs that were not done by then are still under way: shut the host down next; what
    /// is unfinished goes on at its next start. Dropping the future ends all connections at once.
    pub async fn run(self) {
        let Self { listener, injecting, shared, .. } = self;
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let second = async {
            if let (Some((listener, _)), Some(options)) = (injecting, &shared.options.injecting) {
                let state = (shared.clone(), options.authorization.clone());
                accept(listener, Router::new().fallback(inject).with_state(state), shared.clone()).await;
            }
        };
        tokio::join!(accept(listener, router, shared.clone()), second, shared.drain());
    }
}

impl Shared {
    async fn reaches(&self, phase: Phase) {
        // It fails only without a sender, and that is in here.
        let _ = self.phase.subscribe().wait_for(|now| *now >= phase).await;
    }

    /// From the word to stop to the end of everything.
    async fn drain(&self) {
        self.reaches(Phase::Draining).await;
        let quiet = async {
            // What was let in before may still have to hand out its work.
            let _all = self.writes.acquire_many(self.writes_max()).await;
            self.host.settled().await;
        };
        let _ = tokio::time::timeout(self.options.drain, quiet).await;
        // Streams tell what is stored, so all that was queued must be.
        let _ = tokio::time::timeout(LAST_WORDS, self.host.store().flush()).await;
        self.phase.send_replace(Phase::Ending);
    }

    /// One for each connection, and for each request whose caller has left.
    fn writes_max(&self) -> u32 {
        writes_max(&self.options)
    }
}

fn writes_max(options: &ServeOptions) -> u32 {
    let listeners = 1 + usize::from(options.injecting.is_some());
    let connections = options.connections.saturating_mul(listeners);
    u32::try_from(connections.saturating_add(options.requests)).unwrap_or(u32::MAX).max(1)
}

async fn listen(asked: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let bound = TcpListener::bind(asked).await.and_then(|listener| listener.local_addr().map(|addr| (listener, addr)));
    bound.map_err(|source| ServeError::Bind { addr: asked, source })
}

async fn accept(listener: TcpListener, router: Router, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let _ends = Ends(&shared);
    loop {
        let accepted = tokio::select! {
            () = shared.reaches(Phase::Ending) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept(), if connections.len() < shared.options.connections.max(1) => accepted,
        };
        match accepted {
            Ok((stream, _)) => drop(connections.spawn(connection(stream, router.clone(), shared.clone()))),
            Err(_) => tokio::time::sleep(ACCEPT_WAIT).await,
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    // Those that are left are cut off.
    let _ = tokio::time::timeout(LAST_WORDS, all).await;
}

/// A server that is dropped stops, too: what its connections were waiting for is not given up.
struct Ends<'a>(&'a Shared);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.phase.send_replace(Phase::Ending);
    }
}

/// One connection, until it ends. Errors are the caller's: there is nobody left to tell.
async fn connection(stream: TcpStream, router: Router, shared: Arc<Shared>) {
    // Events are small, and each is to be seen now.
    let _ = stream.set_nodelay(true);
    let _open = shared.options.metrics.as_ref().map(|telemetry| telemetry.metrics().connection());
    let io = TokioIo::new(Patience::new(stream, shared.options.stall));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.options.head)
        .max_headers(HEADER_LINES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(io, TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = shared.reaches(Phase::Ending) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

fn is_loopback(addr: SocketAddr) -> bool {
    addr.ip().to_canonical().is_loopback()
}

fn places(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.clamp(1, Semaphore::MAX_PERMITS)))
}
