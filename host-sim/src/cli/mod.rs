//! The `writ` command.
//!
//! Every command speaks to the component through the thread API (docs/thread-api.md), so the command line can do
//! nothing that another client could not do. [`open`] is the only place that knows the host; results go to stdout,
//! everything else to stderr, and [`exit`] has the exit codes.

mod agents;
mod approve;
mod args;
mod blocks;
mod cancel;
mod chat;
mod check;
mod check_file;
mod config;
mod counting;
mod crash;
mod crash_report;
mod delete;
mod demo;
mod demo_child;
mod demo_host;
pub mod exit;
mod explain;
mod export;
mod failure;
mod feed;
mod fork;
mod hosted;
mod import;
mod input;
mod inspect;
mod interrupts;
mod names;
mod offline;
mod open;
mod out;
mod pause;
mod progress;
mod read_only;
mod record;
mod recording;
mod replay;
mod run;
mod runtime;
mod serve;
mod session;
mod settings;
mod spans;
mod stdio;
mod steer;
mod stream;
mod table;
#[cfg(test)]
mod testing;
mod time;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::Parser;

use self::args::Cli;
use self::args::Command;
use self::failure::Failure;
use self::out::Out;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, words.iter().any(|word| word == "--json")),
    };
    let out = Out::new(cli.global.json);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            out.failure(&Failure::internal("threads", format!("the system gives no threads: {error}")));
            return ExitCode::from(exit::INTERNAL);
        }
    };
    let code = runtime.block_on(dispatch(cli, out)).unwrap_or_else(|failure| {
        out.failure(&failure);
        failure.exit
    });
    // A thread that waits for a line of stdin must not hold the process.
    runtime.shutdown_background();
    ExitCode::from(code)
}

/// The definition of the command line: for tests and documentation.
pub fn command() -> clap::Command {
    Cli::command()
}

async fn dispatch(cli: Cli, out: Out) -> Result<u8, Failure> {
    let given = &cli.global;
    let global = &match cli.command {
        // They bring what they need along, or look at the configuration itself.
        Command::Config(_) | Command::Crash(_) | Command::Demo(_) | Command::DemoHost(_) => given.clone(),
        _ => config::settle(given)?,
    };
    match cli.command {
        Command::Acp(args) => stdio::acp(args, given, out).await,
        Command::Agents(args) => agents::run(args, global, out).await,
        Command::Approve(args) => approve::approve(args, global, out).await,
        Command::Cancel(args) => cancel::run(args, global, out).await,
        Command::Chat(args) => chat::run(args, global, out).await,
        Command::Check(args) => check::run(args, global, out).await,
        Command::Config(args) => config::run(args, given, out),
        Command::Crash(args) => crash::run(args, global, out).await,
        Command::Delete(args) => delete::run(args, global, out).await,
        Command::Demo(args) => demo::run(args, global, out).await,
        Command::DemoHost(args) => demo_host::run(args, global).await,
        Command::Deny(args) => approve::deny(args, global, out).await,
        Command::Explain(args) => explain::run(args, global, out).await,
        Command::Export(args) => export::run(args, global, out).await,
        Command::Fork(args) => fork::run(args, global, out).await,
        Command::Import(args) => import::run(args, global, out).await,
        Command::Inspect(args) => inspect::run(args, global, out).await,
        Command::Mcp(args) => stdio::mcp(args, given, out).await,
        Command::Pause(args) => pause::pause(args, global, out).await,
        Command::Resume(args) => pause::resume(args, global, out).await,
        Command::Replay(args) => replay::run(args, global, out).await,
        Command::Run(args) => run::run(args, global, out).await,
        Command::Serve(args) => serve::run(args, given, out).await,
    }
}

/// Help and version go to stdout and are no failure; the rest is a usage error.
fn usage(error: &clap::Error, json: bool) -> ExitCode {
    if json && error.use_stderr() {
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string();
        Out::new(true).failure(&Failure::new(exit::USAGE, "usage", message).advise("See `writ --help`."));
    } else {
        let _ = error.print();
    }
    ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::DONE })
}
