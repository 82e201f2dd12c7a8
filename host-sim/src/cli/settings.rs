//! What the component gets to read of the operator's settings.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use serde_json::json;

use super::failure::Failure;
use super::names::Name;

/// The agents when no settings file is given.
const DEFAULT_AGENTS: &str = include_str!("../../data/agents.json");

/// What a settings file may hold, as in `wit/settings.wit`.
const KNOWN: [&str; 6] = ["a2a", "agents", "limits", "mcp", "overrides", "partitions"];

/// Settings by name, each a JSON value.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings(BTreeMap<String, Value>);

impl Settings {
    /// Those of a file, or the default.
    pub fn load(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Self::parse(DEFAULT_AGENTS, "the built-in settings") };
        let text = std::fs::read_to_string(path).map_err(|e| Failure::file(path, "read", &e))?;
        Self::parse(&text, &path.display().to_string())
    }

    fn parse(text: &str, place: &str) -> Result<Self, Failure> {
        let bad = |what: String| Failure::refused("settings", format!("{place}: {what}"));
        let value: Value = serde_json::from_str(text).map_err(|e| bad(format!("no JSON: {e}")))?;
        let Value::Object(map) = value else { return Err(bad("a JSON object is due".into())) };
        if let Some(name) = map.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(bad(format!("unknown setting {name:?}")).advise(format!("Known are {}.", KNOWN.join(", "))));
        }
        let mut settings = Self(map.into_iter().collect());
        match settings.0.remove("agents") {
            None => settings.set_agents(Self::parse(DEFAULT_AGENTS, "the built-in settings")?.agents()),
            Some(Value::Array(agents)) => settings.set_agents(agents),
            Some(_) => return Err(bad("`agents` must be an array".into())),
        }
        Ok(settings)
    }

    /// Only these agents, and nothing else set.
    pub fn of_agents(agents: Vec<Value>) -> Self {
        let mut settings = Self(BTreeMap::new());
        settings.set_agents(agents);
        settings
    }

    /// Makes sure that an agent is defined: if it is not, it gets this model and these tools.
    pub fn derive(&mut self, agent: &Name, model: &str, tools: &[String]) {
        let mut agents = self.agents();
        if agents.iter().any(|known| known["name"] == agent.as_str()) {
            return;
        }
        agents.push(json!({
            "name": agent.as_str(),
            "description": "Derived from a script: its model and all its tools.",
            "model": model,
            "instructions": "",
            "tools": tools,
        }));
        self.set_agents(agents);
    }

    /// Each setting as JSON text, as the component reads it.
    pub fn texts(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
    }

    fn agents(&self) -> Vec<Value> {
        self.0.get("agents").and_then(|a| a["agents"].as_array()).cloned().unwrap_or_default()
    }

    fn set_agents(&mut self, agents: Vec<Value>) {
        self.0.insert("agents".into(), json!({"agents": agents}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_has_a_helper_without_account() {
        let settings = Settings::load(None).unwrap();
        assert_eq!(settings.agents()[0]["name"], "helper");
        assert_eq!(settings.agents()[0]["model"], "offline");
        assert!(settings.texts()["agents"].starts_with("{\"agents\":["));
    }

    #[test]
    fn an_agent_is_derived_only_when_it_is_missing() {
        let mut settings = Settings::load(None).unwrap();
        settings.derive(&"helper".parse().unwrap(), "m", &[]);
        settings.derive(&"clerk".parse().unwrap(), "m", &["send".into()]);
        let agents = settings.agents();
        assert_eq!(agents.len(), 2);
        assert_eq!(agents[0]["model"], "offline");
        assert_eq!(agents[1]["tools"], json!(["send"]));
    }

    #[test]
    fn typing_mistakes_are_refused() {
        for bad in ["[]", "{", r#"{"agent": []}"#, r#"{"agents": {}}"#] {
            assert!(Settings::parse(bad, "f").is_err(), "{bad}");
        }
        let settings = Settings::parse(r#"{"limits": {"turns": 3}}"#, "f").unwrap();
        assert_eq!(settings.texts()["limits"], r#"{"turns":3}"#);
        assert_eq!(settings.agents().len(), 1);
    }
}
