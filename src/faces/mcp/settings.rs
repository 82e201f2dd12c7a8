//! The setting `mcp`: how agents show as tools, where that is not the usual way.

use crate::error::Problem;
use crate::ports::Ports;
use crate::prelude::*;
use serde::Deserialize;
use serde_json::Value;

/// `{"tools": {AGENT: {"task", "requires", "input"}}}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    #[serde(default)]
    tools: BTreeMap<String, AgentTool>,
}

/// An agent as a tool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentTool {
    /// Whether a call is a task, for clients that know tasks.
    pub task: TaskUse,
    /// Capabilities without which a client's call is refused.
    pub requires: Vec<String>,
    /// JSON Schema of the arguments. They are then the message, as JSON text, and each call begins a session.
    pub input: Option<Value>,
}

/// Whether a call is a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskUse {
    /// If the client knows tasks.
    #[default]
    Optional,
    /// Clients that don't know tasks are refused.
    Required,
    /// Never.
    Never,
}

/// How an agent shows as a tool.
pub fn tool(ports: &Ports, agent: &str) -> Result<AgentTool, Problem> {
    let Some(text) = ports.host.setting("mcp") else { return Ok(AgentTool::default()) };
    let setting: Setting = serde_json::from_str(&text)
        .map_err(|e| Problem::new(500, "bad-settings", format!("The setting `mcp` can't be read: {e}.")))?;
    Ok(setting.tools.get(agent).cloned().unwrap_or_default())
}
