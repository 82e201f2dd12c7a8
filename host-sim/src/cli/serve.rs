//! `writ serve`: the thread API over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use clap::ValueEnum;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::hosted;
use super::hosted::PRINCIPAL;
use super::open;
use super::out::Out;
use super::out::safe;
use crate::data::Level;
use crate::host::Host;
use crate::http::ClientToken;
use crate::http::ServeError;
use crate::http::ServeOptions;
use crate::http::Server;
use crate::http::TOKEN_BYTES_GOOD;

/// Where the client token comes from. Not an option: those are seen by everybody on the machine.
const TOKEN_VARIABLE: &str = "WRIT_CLIENT_TOKEN";

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
  writ serve --addr 0.0.0.0:8787                  from other machines too, which takes a token")]
pub struct ServeArgs {
    /// Where to listen. An address that other machines reach needs a client token.
    #[arg(long, default_value = "127.0.0.1:8787", value_name = "IP:PORT")]
    pub addr: SocketAddr,
    /// redb keeps everything in the data folder; memory keeps nothing beyond the process.
    #[arg(long, default_value = "redb", value_name = "STORE")]
    pub store: ServeStore,
    /// How long runs may go on after SIGTERM, in seconds.
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub drain_seconds: u64,
    /// Streams at the same time; more get 503.
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = places)]
    pub streams: usize,
    /// Connections at the same time; more wait.
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = places)]
    pub connections: usize,
    /// A connection whose reader takes nothing for so many seconds is closed.
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub reader_seconds: u64,
}

/// Where a server keeps things.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum ServeStore {
    /// The embedded store in the data folder.
    Redb,
    /// Nothing outlives the process.
    Memory,
}

fn places(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=65_536) => Ok(count),
        _ => Err("a whole number from 1 to 65536 is due".into()),
    }
}

/// Serves until it is told to stop.
pub async fn run(args: ServeArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let token = token()?;
    let options = ServeOptions {
        addr: args.addr,
        has_token: token.is_some(),
        drain: Duration::from_secs(args.drain_seconds),
        streams: args.streams,
        connections: args.connections,
        stall: Duration::from_secs(args.reader_seconds),
        ..ServeOptions::default()
    };
    // Before anything is run that a second one would stop the hard way.
    let mut stops = stops()?;
    let auth = token.as_ref().map(|token| token.auth_setting(PRINCIPAL));
    let host = open::to_serve(global, args.store == ServeStore::Memory, auth).await?;
    tokio::spawn(log(host.clone(), out));
    let server = Server::bind(host.clone(), options).await.map_err(|error| refused(&error))?;
    host.sweep().await.map_err(|error| hosted::failure(&error))?;
    match token {
        None => out.note(
            &format!("writ: no client token is configured, so nobody is let in. Set {TOKEN_VARIABLE} and start again."),
            &json!({"warning": "no-client-token"}),
        ),
        Some(token) if token.is_weak() => out.note(
            &format!("writ: the client token is shorter than {TOKEN_BYTES_GOOD} characters and can be guessed."),
            &json!({"warning": "short-client-token"}),
        ),
        Some(_) => {}
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
                args.drain_seconds
            );
            out.note(&text, &json!({"draining": true}));
            tokio::select! {
                () = &mut serving => {}
                _ = stops.recv() => return Ok(exit::ABORTED),
            }
        }
    }
    tokio::select! {
        () = host.shutdown() => Ok(exit::DONE),
        _ = stops.recv() => Ok(exit::ABORTED),
    }
}

fn token() -> Result<Option<ClientToken>, Failure> {
    let bad = |why: &str| Failure::refused("client-token", format!("{TOKEN_VARIABLE}: {why}"));
    match std::env::var(TOKEN_VARIABLE) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => ClientToken::new(&text).map(Some).map_err(|why| bad(&why)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(bad("a client token is made of visible ASCII characters")),
    }
}

fn refused(error: &ServeError) -> Failure {
    match error {
        ServeError::Open { .. } => Failure::refused("open-address", error.to_string())
            .advise(format!("Set {TOKEN_VARIABLE}, or listen on 127.0.0.1.")),
        _ => {
            Failure::refused("address", error.to_string()).advise("Give another --addr; port 0 takes any that is free.")
        }
    }
}

/// SIGTERM and Ctrl-C from now on, as messages.
fn stops() -> Result<mpsc::Receiver<()>, Failure> {
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

/// What somebody should look at, on stderr.
async fn log(host: Host, out: Out) {
    let mut lines = host.log();
    drop(host);
    loop {
        match lines.recv().await {
            Ok(line) if line.level >= Level::Warn => {
                let level = if line.level == Level::Error { "error" } else { "warning" };
                out.note(&format!("writ: {level}: {}", safe(&line.text)), &json!({"log": level, "text": line.text}));
            }
            Ok(_) => {}
            Err(RecvError::Lagged(count)) => {
                out.note(&format!("writ: {count} lines of the log were lost"), &json!({"log": "lost", "count": count}));
            }
            Err(RecvError::Closed) => return,
        }
    }
}
