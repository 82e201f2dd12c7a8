//! `writ serve`: the thread API over HTTP.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};

use axum::http::HeaderValue;
use clap::Args;
use serde_json::json;
use tokio::sync::mpsc;

use super::args::Global;
use super::config;
use super::exit;
use super::failure::Failure;
use super::hosted;
use super::open;
use super::out::Out;
use crate::config::{Auth, Flag, Secret};
use crate::http::Injecting;
use crate::http::ServeError;
use crate::http::ServeOptions;
use crate::http::Server;
use crate::telemetry::Telemetry;

/// Serve the thread API over HTTP, with streams.
///
/// Clients send `authorization: Bearer TOKEN`; the token is read from the environment variable WRIT_CLIENT_TOKEN. Without
/// one nobody is let in. What clients see belongs to the operator, as what the other commands see.
///
/// With --script, the agent `helper` is there with the script's model and tools, unless --settings defines it.
///
/// SIGTERM or Ctrl-C drains: nothing new is taken, runs go on for a while, streams are told, and it ends with 0. A second
/// one ends it at once. Nothing is lost either way. docs/serve.md says more.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  WRIT_CLIENT_TOKEN=$(openssl rand -hex 32) writ serve
  writ serve --addr 127.0.0.1:0                   any free port; the line `listening on` names it
  writ serve --script clerk.toml --store memory   a scripted model, and nothing is kept
  writ serve --addr 0.0.0.0:8787                  from other machines too, which takes a token
  writ serve --config writ.toml                   as a file says: users, webhooks, traces (docs/config.md)")]
pub struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:8787]. An address that other machines reach needs a client token.
    #[arg(long, value_name = "IP:PORT")]
    pub addr: Option<OsString>,
    /// `redb` keeps everything in the data folder; `memory` keeps nothing beyond the process [default: redb].
    #[arg(long, value_name = "STORE")]
    pub store: Option<OsString>,
    /// How long runs may go on after SIGTERM, in seconds [default: 30].
    #[arg(long, value_name = "N")]
    pub drain_seconds: Option<OsString>,
    /// Streams at the same time; more get 503 [default: 256].
    #[arg(long, value_name = "N")]
    pub streams: Option<OsString>,
    /// Connections at the same time; more wait [default: 1024].
    #[arg(long, value_name = "N")]
    pub connections: Option<OsString>,
    /// Calls of the component at the same time, runs among them; more wait [default: 256].
    #[arg(long, value_name = "N")]
    pub sessions: Option<OsString>,
    /// A connection whose reader takes nothing for so many seconds is closed [default: 30].
    #[arg(long, value_name = "N")]
    pub slow_reader_seconds: Option<OsString>,
    /// FOR TEST SUITES: a second port, on 127.0.0.1, that lets in whoever brings no token. Also IP:PORT, of this machine.
    #[arg(long, value_name = "PORT")]
    pub dev_token_injecting_port: Option<String>,
}

impl ServeArgs {
    fn flags(self) -> Vec<Flag> {
        let all = [
            ("serve.addr", "--addr", self.addr),
            ("store", "--store", self.store),
            ("serve.drain_seconds", "--drain-seconds", self.drain_seconds),
            ("serve.streams", "--streams", self.streams),
            ("serve.connections", "--connections", self.connections),
            ("serve.sessions", "--sessions", self.sessions),
            ("serve.slow_reader_seconds", "--slow-reader-seconds", self.slow_reader_seconds),
        ];
        all.into_iter().filter_map(|(option, name, value)| Some(Flag { option, name, value: value? })).collect()
    }
}

/// Serves until it is told to stop. `given` are the options of every command as they were given.
pub async fn run(args: ServeArgs, given: &Global, out: Out) -> Result<u8, Failure> {
    let injecting = args.dev_token_injecting_port.as_deref().map(injecting).transpose()?;
    let mut config = config::load(given, args.flags())?;
    let global = config::settle(given)?;
    let telemetry =
        Telemetry::start(&config.telemetry).map_err(|error| Failure::refused("telemetry", error.to_string()))?;
    let has_token = !config.auth.clients.is_empty();
    let injecting = injecting.map(|addr| dev_token(&mut config.auth, addr)).transpose()?;
    let options = ServeOptions {
        addr: config.serve.addr,
        has_token,
        injecting,
        drain: config.serve.drain,
        streams: config.serve.streams,
        connections: config.serve.connections,
        stall: config.serve.slow_reader,
        head: config.serve.header,
        body: config.serve.body,
        allowed_hosts: config.serve.allowed_hosts.clone(),
        metrics: config.telemetry.metrics.then(|| telemetry.clone()),
        ..ServeOptions::default()
    };
    // Before anything is run that a second one would stop the hard way.
    let mut stops = stops()?;
    let host = open::to_serve(&global, None, &config, &telemetry).await?;
    let server = Server::bind(host.clone(), options).await.map_err(|error| refused(&error))?;
    host.sweep().await.map_err(|error| hosted::failure(&error))?;
    for warning in &config.warnings {
        out.note(&format!("writ: {warning}"), &json!({"warning": warning}));
    }
    if !has_token {
        out.note(
            "writ: no client token is configured, so nobody is let in. Set WRIT_CLIENT_TOKEN and start again.",
            &json!({"warning": "no-client-token"}),
        );
    }
    if let Some(addr) = server.injecting_addr() {
        let text = format!(
            "writ: WARNING: every program on this machine is let in at http://{addr} without a token, and may do \
             everything. --dev-token-injecting-port is for test suites: never use it with data that matters."
        );
        out.note(&text, &json!({"warning": "dev-token-injecting-port", "listening": format!("http://{addr}")}));
    }
    let url = format!("http://{}", server.addr());
    match out.json {
        true => out.value(&json!({"listening": url}))?,
        false => out.line(&format!("listening on {url}"))?,
    }
    let drain = server.drain();
    let serving = server.run();
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        _ = stops.recv() => {
            drain.begin();
            let text = format!(
                "writ: stopping; runs have {} s to end, and go on at the next start if they don't. Once more: at once.",
                config.serve.drain.as_secs()
            );
            out.note(&text, &json!({"draining": true}));
            tokio::select! {
                () = &mut serving => {}
                _ = stops.recv() => return Ok(exit::ABORTED),
            }
        }
    }
    tokio::select! {
        () = async { host.shutdown().await; telemetry.flush().await } => Ok(exit::DONE),
        _ = stops.recv() => Ok(exit::ABORTED),
    }
}

/// A port of 127.0.0.1, or a whole address.
fn injecting(text: &str) -> Result<SocketAddr, Failure> {
    let port = text.parse::<u16>().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| {
        Failure::new(exit::USAGE, "usage", format!("--dev-token-injecting-port: {text:?} is no port, from 0 to 65535."))
    })
}

/// A token of this process alone: those that are configured are kept as digests only.
fn dev_token(auth: &mut Auth, addr: SocketAddr) -> Result<Injecting, Failure> {
    let internal = |e: &dyn std::fmt::Display| Failure::internal("token", format!("no token can be made: {e}"));
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).map_err(|e| internal(&e))?;
    let token = Secret::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    auth.admit(&token);
    let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.expose())).map_err(|e| internal(&e))?;
    authorization.set_sensitive(true);
    Ok(Injecting { addr, authorization })
}

fn refused(error: &ServeError) -> Failure {
    match error {
        ServeError::Open { .. } => {
            Failure::refused("open-address", error.to_string()).advise("Set WRIT_CLIENT_TOKEN, or listen on 127.0.0.1.")
        }
        ServeError::Injecting { .. } => Failure::refused("open-address", error.to_string())
            .advise("--dev-token-injecting-port takes a port, or an address of this machine alone: 127.0.0.1, [::1]."),
        _ => {
            Failure::refused("address", error.to_string()).advise("Give another --addr; port 0 takes any that is free.")
        }
    }
}

/// SIGTERM and Ctrl-C from now on, as messages.
pub fn stops() -> Result<mpsc::Receiver<()>, Failure> {
    let (send, receive) = mpsc::channel(8);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        let listen = |kind| signal(kind).map_err(|e| Failure::internal("signals", format!("no signals: {e}")));
        let (mut term, mut int) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    heard = term.recv() => if heard.is_none() { return },
                    heard = int.recv() => if heard.is_none() { return },
                }
                if send.send(()).await.is_err() {
                    return;
                }
            }
        });
    }
    #[cfg(not(unix))]
    tokio::spawn(async move { while tokio::signal::ctrl_c().await.is_ok() && send.send(()).await.is_ok() {} });
    Ok(receive)
}
