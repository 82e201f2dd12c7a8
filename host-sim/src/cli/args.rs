//! The command line.

use std::path::PathBuf;

use clap::Args;
use clap::Parser;
use clap::Subcommand;

use super::agents::AgentsArgs;
use super::approve::ApproveArgs;
use super::approve::DenyArgs;
use super::cancel::CancelArgs;
use super::chat::ChatArgs;
use super::check::CheckArgs;
use super::config::ConfigArgs;
use super::crash::CrashArgs;
use super::delete::DeleteArgs;
use super::demo::DemoArgs;
use super::demo_host::DemoHostArgs;
use super::exit;
use super::explain::ExplainArgs;
use super::export::ExportArgs;
use super::fork::ForkArgs;
use super::import::ImportArgs;
use super::inspect::InspectArgs;
use super::pause::PauseArgs;
use super::pause::ResumeArgs;
use super::replay::ReplayArgs;
use super::run::RunArgs;
use super::serve::ServeArgs;
use super::stdio::AcpArgs;
use super::stdio::McpArgs;

/// Durable agents from the command line.
///
/// Writ writes down what it was asked before it says yes. A crash at any instant costs nothing but time: run the same
/// command again and it goes on. Nothing here needs an account, and nothing leaves this machine unless it is
/// configured to.
#[derive(Debug, Parser)]
#[command(name = "writ", version, after_help = AFTER_HELP, after_long_help = after_long_help())]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  writ demo                               the whole story in a minute: a kill -9, and what is left
  writ run helper 'What is in the workspace?'
  writ chat helper
  writ serve                              the thread API over HTTP
  writ --help                             more, with the exit codes";

const LONG_EXAMPLES: &str = "\
Examples:
  writ demo                               the whole story in a minute: a kill -9, and what is left
  writ run helper 'What is in the workspace?'
  writ run helper --id tuesday '/list'    repeated with the same id: the same outcome, no second run
  writ chat helper trip                   a conversation that outlives the terminal
  writ serve                              the thread API over HTTP, with streams
  writ inspect submissions                what there is, and in which state
  writ explain ID                         every stored fact, and what a restart would do
  writ check                              are all the promises kept?";

fn after_long_help() -> String {
    format!("{LONG_EXAMPLES}\n\n{}", exit::TABLE)
}

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// The configuration: a TOML file. Without it that of WRIT_CONFIG, or ./writ.toml if it is there.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data folder, kept by an embedded store. One process at a time. [env: WRIT_DATA] [default: ./writ-data]
    #[arg(long = "data", global = true, value_name = "DIR")]
    pub data_flag: Option<PathBuf>,
    /// The data folder in the end (`config::settle`).
    #[arg(skip)]
    pub data: PathBuf,
    /// A component to run instead of the one that is built in.
    #[arg(long, global = true, value_name = "FILE")]
    pub component: Option<PathBuf>,
    /// JSON on stdout, and errors as a JSON object on stderr.
    #[arg(long, global = true)]
    pub json: bool,
    /// Settings for the component: a JSON object with `agents`, `overrides`, `limits`.
    #[arg(long, global = true, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// A script that plays the model and the tools. An agent that the settings don't define gets its model and tools.
    #[arg(long, global = true, value_name = "FILE")]
    pub script: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a command's help text is the doc comment of its arguments")]
pub enum Command {
    Demo(DemoArgs),
    Run(RunArgs),
    Chat(ChatArgs),
    Serve(ServeArgs),
    Acp(AcpArgs),
    Mcp(McpArgs),
    Replay(ReplayArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Inspect(InspectArgs),
    Explain(ExplainArgs),
    Check(CheckArgs),
    Config(ConfigArgs),
    Crash(CrashArgs),
    Fork(ForkArgs),
    Delete(DeleteArgs),
    Cancel(CancelArgs),
    Approve(ApproveArgs),
    Deny(DenyArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Agents(AgentsArgs),
    /// The child process of `writ demo`.
    #[command(name = "__demo-host", hide = true)]
    DemoHost(DemoHostArgs),
}
