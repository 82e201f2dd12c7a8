//! Agents that are data: the setting `agents`. These are the default component's.

use super::{AgentInfo, Agents, Override, Render, Rendered, default_limits};
use crate::id::{Address, is_name};
use crate::ports::Host;
use crate::prelude::*;
use crate::record::Limits;
use serde::Deserialize;
use serde_json::Value;

/// The agents of the setting `agents`:
/// `{"agents": [{"name", "description", "model", "instructions", "tools": [names], "ask": [names], "result_schema", "limits"}]}`.
pub struct DataAgents;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definitions {
    agents: Vec<Definition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    name: String,
    #[serde(default)]
    description: String,
    model: String,
    #[serde(default)]
    instructions: String,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    ask: Vec<String>,
    result_schema: Option<Value>,
    limits: Option<Limits>,
}

fn definitions(host: &dyn Host) -> Result<Vec<Definition>, String> {
    let Some(text) = host.setting("agents") else { return Ok(Vec::new()) };
    let all: Definitions =
        serde_json::from_str(&text).map_err(|e| format!("the setting `agents` can't be read: {e}"))?;
    if let Some(bad) = all.agents.iter().find(|a| !is_name(&a.name)) {
        return Err(format!("{:?} is no name for an agent: 1 to 128 of A–Z a–z 0–9 . _ -", bad.name));
    }
    Ok(all.agents)
}

impl Agents for DataAgents {
    fn list(&self, host: &dyn Host) -> Result<Vec<AgentInfo>, String> {
        let default = default_limits(host)?;
        definitions(host)?
            .into_iter()
            .map(|a| {
                let changed = Override::of(host, &a.name)?.and_then(|o| o.limits);
                let limits = changed.or(a.limits).unwrap_or(default);
                Ok(AgentInfo { name: a.name, description: a.description, limits })
            })
            .collect()
    }

    fn render(
        &self,
        host: &dyn Host,
        name: &str,
        thread: &Address,
        state: &BTreeMap<String, Value>,
    ) -> Option<Result<Rendered, String>> {
        let agent = match definitions(host) {
            Ok(all) => all.into_iter().find(|a| a.name == name)?,
            Err(error) => return Some(Err(error)),
        };
        let mut cx = Render::new(thread, state);
        cx.model(&agent.model);
        for tool in &agent.tools {
            cx.host_tool(tool);
        }
        cx.out.ask = agent.ask;
        cx.out.result_schema = agent.result_schema;
        Some(Override::of(host, name).and_then(|changed| cx.finish(agent.instructions, changed)))
    }
}
