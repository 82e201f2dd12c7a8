//! The setting `a2a`: how this deployment presents itself, and which agent speaks when a request names none.

use crate::agent::AgentInfo;
use crate::error::Problem;
use crate::faces::call::Call;
use crate::prelude::*;
use serde::Deserialize;
use serde_json::Value;

/// `{"url", "agent", "name", "description", "version", "provider", "documentation_url", "streaming"}`, all optional.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Settings {
    /// Where clients reach this server, without a path: `https://agents.example`. Without it the card names the host that
    /// it was asked at.
    pub url: Option<String>,
    /// The agent that speaks when a request names no tenant and no context.
    pub agent: Option<String>,
    /// The card's name.
    pub name: Option<String>,
    /// The card's description.
    pub description: Option<String>,
    /// The card's version.
    pub version: Option<String>,
    /// `{"organization", "url"}`.
    pub provider: Option<Value>,
    /// Where people read more.
    pub documentation_url: Option<String>,
    /// Whether streams are offered.
    pub streaming: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            url: None,
            agent: None,
            name: None,
            description: None,
            version: None,
            provider: None,
            documentation_url: None,
            streaming: true,
        }
    }
}

impl Settings {
    /// As they are now.
    pub fn read(call: &Call) -> Result<Self, Problem> {
        let Some(text) = call.ports.host.setting("a2a") else { return Ok(Self::default()) };
        serde_json::from_str(&text)
            .map_err(|e| Problem::new(500, "bad-settings", format!("The setting `a2a` can't be read: {e}.")))
    }

    /// The agent that speaks when a request names none: the configured one, or the only one.
    pub fn default_agent<'a>(&self, agents: &'a [AgentInfo]) -> Option<&'a AgentInfo> {
        match &self.agent {
            Some(name) => agents.iter().find(|a| a.name == *name),
            None => agents.first().filter(|_| agents.len() == 1),
        }
    }
}

/// All agents.
pub(super) fn agents(call: &Call) -> Result<Vec<AgentInfo>, Problem> {
    call.agents.list(call.ports.host).map_err(|e| Problem::new(500, "bad-settings", e))
}
