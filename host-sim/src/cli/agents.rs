//! `writ agents`: what the component has to offer.

use clap::Args;
use serde_json::Value;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::open;
use super::out::Out;
use super::table;
use super::table::Column;
use super::table::Kind;

/// Arguments of `writ agents`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ agents
  writ agents --settings agents.json       those of a settings file
  writ agents --json")]
pub struct AgentsArgs {}

const COLUMNS: &[Column] = &[
    Column { title: "AGENT", pointer: "/name", kind: Kind::Plain },
    Column { title: "MODEL", pointer: "/model", kind: Kind::Plain },
    Column { title: "TOOLS", pointer: "/tools", kind: Kind::Plain },
    Column { title: "WHAT IT IS", pointer: "/description", kind: Kind::Plain },
];

/// Lists them. No data folder is needed.
pub async fn run(_: AgentsArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let session = open::without_data(global).await?;
    let answer = session.get("/v1/agents".into()).await?;
    if out.json {
        out.value(&answer)?;
    } else {
        out.line(&table::render(COLUMNS, &rows(&answer), out))?;
    }
    Ok(exit::DONE)
}

/// The agents with their tools as one text.
fn rows(answer: &Value) -> Vec<Value> {
    let agents = answer["agents"].as_array().cloned().unwrap_or_default();
    let named = |tool: &Value| tool.as_str().or_else(|| tool["name"].as_str()).unwrap_or("?").to_string();
    agents
        .into_iter()
        .map(|mut agent| {
            if let Some(tools) = agent["tools"].as_array() {
                agent["tools"] = tools.iter().map(named).collect::<Vec<_>>().join(" ").into();
            }
            agent
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_are_names_or_declarations() {
        let rows = rows(&json!({"agents": [{"name": "a", "tools": ["read", {"name": "list"}, 3]}, {"name": "b"}]}));
        assert_eq!(rows[0]["tools"], "read list ?");
        assert_eq!(rows.len(), 2);
    }
}
