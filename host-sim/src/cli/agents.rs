//! `writ agents`: what the component has to offer.

use clap::Args;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::open;
use super::out::Out;
use super::table;
use super::table::Column;
use super::table::Kind;

/// List the agents of the component.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ agents
  writ agents --settings agents.json       those of a settings file
  writ agents --json")]
pub struct AgentsArgs {}

const COLUMNS: &[Column] = &[
    Column { title: "AGENT", pointer: "/name", kind: Kind::Plain },
    Column { title: "TURNS", pointer: "/limits/turns", kind: Kind::Plain },
    Column { title: "TOKENS", pointer: "/limits/tokens", kind: Kind::Plain },
    Column { title: "WHAT IT IS", pointer: "/description", kind: Kind::Plain },
];

/// Lists them. No data folder is needed.
pub async fn run(_: AgentsArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let session = open::without_data(global).await?;
    let answer = session.get("/v1/agents".into()).await?;
    let agents = answer["agents"].as_array().map(Vec::as_slice).unwrap_or_default();
    if out.json {
        out.value(&answer)?;
    } else {
        out.line(&table::render(COLUMNS, agents, out))?;
    }
    Ok(exit::DONE)
}
