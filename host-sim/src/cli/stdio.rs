//! `writ acp` and `writ mcp`: one client that starts this process and speaks to it over the standard streams.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::time::Instant;

use super::args::Global;
use super::config;
use super::exit;
use super::failure::Failure;
use super::hosted;
use super::names::Name;
use super::open;
use super::out::Out;
use super::serve;
use crate::config::Config;
use crate::config::Flag;
use crate::host::Host;
use crate::stdio;
use crate::stdio::StdioOptions;
use crate::telemetry::Telemetry;

/// How long a data folder may be in use by a process that is just ending: clients start the next one at once.
const IN_USE_WAIT: Duration = Duration::from_secs(3);
/// Between two looks at it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Be an agent of an editor: the Agent Client Protocol, version 1, over stdin and stdout.
///
/// For a client that starts its agent itself: put the command into its settings (docs/acp.md has them for Zed). What it
/// asks is stored before it is answered: end the client, or kill this process in the middle of a turn, and `session/load`
/// shows the rest. The data folder belongs to one process at a time.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ acp --data ~/.local/share/writ                the first agent of the settings
  writ acp --agent helper --settings agents.json     one of them
  writ acp --script clerk.toml --store memory        a scripted model, and nothing is kept

Nothing but messages is on stdout; the log is on stderr.")]
pub struct AcpArgs {
    /// The agent that new sessions get [default: the first one].
    #[arg(long, value_name = "NAME")]
    pub agent: Option<Name>,
    #[command(flatten)]
    pub common: Common,
}

/// Be a tool server: the Model Context Protocol over stdin and stdout.
///
/// For a client that starts its servers itself; for others there is `writ serve`, at /mcp. The data folder belongs to one
/// process at a time.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ mcp --data ~/.local/share/writ
  writ mcp --script clerk.toml --store memory        a scripted model, and nothing is kept

Nothing but messages is on stdout; the log is on stderr.")]
pub struct McpArgs {
    #[command(flatten)]
    pub common: Common,
}

/// What both take.
#[derive(Args, Debug)]
pub struct Common {
    /// `redb` keeps everything in the data folder; `memory` keeps nothing beyond the process [default: redb].
    #[arg(long, value_name = "STORE")]
    pub store: Option<OsString>,
    /// How long answers and runs may go on after stdin has ended, in seconds. What is not done by then goes on at the
    /// next start.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub drain_seconds: u32,
}

/// Serves an ACP client until it leaves.
pub async fn acp(args: AcpArgs, given: &Global, out: Out) -> Result<u8, Failure> {
    // A name needs no escapes.
    let path = args.agent.as_ref().map_or("/acp".into(), |agent| format!("/acp?agent={agent}"));
    run(path, args.agent, args.common, given, out).await
}

/// Serves an MCP client until it leaves.
pub async fn mcp(args: McpArgs, given: &Global, out: Out) -> Result<u8, Failure> {
    run("/mcp".into(), None, args.common, given, out).await
}

async fn run(path: String, agent: Option<Name>, args: Common, given: &Global, out: Out) -> Result<u8, Failure> {
    let store = args.store.map(|value| Flag { option: "store", name: "--store", value });
    let config = config::load(given, store.into_iter().collect())?;
    let global = config::settle(given)?;
    let telemetry =
        Telemetry::start(&config.telemetry).map_err(|error| Failure::refused("telemetry", error.to_string()))?;
    let mut stops = serve::stops()?;
    let host = host(&global, agent.as_ref(), &config, &telemetry).await?;
    host.sweep().await.map_err(|error| hosted::failure(&error))?;
    for warning in &config.warnings {
        out.note(&format!("writ: {warning}"), &json!({"warning": warning}));
    }
    let options = StdioOptions {
        answers: config.serve.streams,
        drain: Duration::from_secs(args.drain_seconds.into()),
        ..StdioOptions::new(path, hosted::PRINCIPAL)
    };
    let serving = stdio::serve(host.clone(), options, tokio::io::stdin(), tokio::io::stdout());
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        _ = stops.recv() => Ok(()),
    };
    tokio::select! {
        () = async { host.shutdown().await; telemetry.flush().await } => {}
        _ = stops.recv() => return Ok(exit::ABORTED),
    }
    ended.map_err(|error| Failure::internal("stdin", format!("stdin can't be read: {error}")))?;
    Ok(exit::DONE)
}

/// A host over the data folder, as soon as the process before this one has left it.
async fn host(
    global: &Global,
    agent: Option<&Name>,
    config: &Config,
    telemetry: &std::sync::Arc<Telemetry>,
) -> Result<Host, Failure> {
    let end = Instant::now() + IN_USE_WAIT;
    loop {
        match open::to_serve(global, agent, config, telemetry).await {
            Err(failure) if failure.code == "data-in-use" && Instant::now() < end => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(failure) if failure.code == "data-in-use" => {
                return Err(failure.advise(
                    "One process at a time has a data folder. Stop the other one (`writ serve`, or an agent of another \
                     window), or give this one a folder of its own with --data.",
                ));
            }
            opened => return opened,
        }
    }
}
