//! Scenarios: a script of model and tools, what a client does, and what may come of it, in one readable file.
//!
//! The file is a script (see [`crate::script`]) with more tables:
//!
//! ```
//! let scenario = host_sim::fault::Scenario::parse("pay", r#"
//! about = "One tool that must not be run twice"
//! partitions = 1                 # of the store; few make audits quick
//!
//! [[agent]]                      # optional; the default is `helper` with all tools of the script
//! name = "helper"
//!
//! [[setup]]                      # steps that are played before faults may happen
//! act = "submit"
//! key = "hello"
//! message = "hi"
//!
//! [[step]]
//! act = "submit"                 # also: answer, wait, cancel, fork, import, delete, pass
//! key = "a"
//! message = "pay"
//!
//! [expect]
//! a = ["completed"]              # completed, failed, aborted; gone after a deletion; refused if it is not accepted
//!
//! [at_most]
//! pay = 1                        # executions of one call of a tool, over all plans
//!
//! [[answer]]
//! text = "I pay."
//! calls = [{ name = "pay" }]
//! [[answer]]
//! text = "Done."
//! [[tool]]
//! name = "pay"
//! reply = "paid"
//! "#)?;
//! assert_eq!(scenario.steps.len(), 1);
//! # Ok::<(), host_sim::fault::ScenarioError>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

pub use super::step::Step;
use crate::engine::Import;
use crate::script::{SCRIPT_BYTES_MAX, Script};

/// Scenarios that come with this host: names, and texts.
const EMBEDDED: &[(&str, &str)] = &[
    ("plain-turn", include_str!("../../data/scenarios/plain-turn.toml")),
    ("one-tool", include_str!("../../data/scenarios/one-tool.toml")),
    ("replay-safe-tool", include_str!("../../data/scenarios/replay-safe-tool.toml")),
    ("parallel-tools", include_str!("../../data/scenarios/parallel-tools.toml")),
    ("model-transient", include_str!("../../data/scenarios/model-transient.toml")),
    ("permanent-error", include_str!("../../data/scenarios/permanent-error.toml")),
    ("overflow", include_str!("../../data/scenarios/overflow.toml")),
    ("queue-of-three", include_str!("../../data/scenarios/queue-of-three.toml")),
    ("steering", include_str!("../../data/scenarios/steering.toml")),
    ("cancel-before", include_str!("../../data/scenarios/cancel-before.toml")),
    ("cancel-during", include_str!("../../data/scenarios/cancel-during.toml")),
    ("cancel-after", include_str!("../../data/scenarios/cancel-after.toml")),
    ("structured-result", include_str!("../../data/scenarios/structured-result.toml")),
    ("deadline", include_str!("../../data/scenarios/deadline.toml")),
    ("attempts-exhausted", include_str!("../../data/scenarios/attempts-exhausted.toml")),
    ("bad-render", include_str!("../../data/scenarios/bad-render.toml")),
    ("short-fork", include_str!("../../data/scenarios/short-fork.toml")),
    ("long-fork", include_str!("../../data/scenarios/long-fork.toml")),
    ("approval", include_str!("../../data/scenarios/approval.toml")),
    ("approval-denied", include_str!("../../data/scenarios/approval-denied.toml")),
    ("approval-expired", include_str!("../../data/scenarios/approval-expired.toml")),
    ("pause", include_str!("../../data/scenarios/pause.toml")),
    ("webhook", include_str!("../../data/scenarios/webhook.toml")),
    ("deletion", include_str!("../../data/scenarios/deletion.toml")),
];

/// The six that take the fewest calls.
pub const SHORTEST: [&str; 6] =
    ["permanent-error", "cancel-before", "plain-turn", "long-fork", "cancel-after", "short-fork"];

/// Most steps of a scenario.
const STEPS_MAX: usize = 1000;

/// A scenario, checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name in plans.
    pub name: String,
    /// What it is about.
    pub about: String,
    /// Model and tools.
    pub script: Arc<Script>,
    /// What the client does first, without faults.
    pub setup: Vec<Step>,
    /// What the client does.
    pub steps: Vec<Step>,
    /// Of each key, the outcomes that are right.
    pub expect: BTreeMap<String, Vec<String>>,
    /// Of each tool, how often one call of it may be executed over all plans.
    pub at_most: BTreeMap<String, u32>,
    /// Calls that trap always.
    pub traps: Vec<Import>,
    /// Injected model errors that the scenario stands before a submission may fail of them.
    pub spare_retries: u32,
    /// The component's settings.
    pub settings: BTreeMap<String, String>,
}

/// Why a scenario can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{at}: {message}", at = .line.map(|n| format!(":{n}")).unwrap_or_default())]
pub struct ScenarioError {
    /// The file, or the scenario's name.
    pub file: String,
    /// The line, where one is known.
    pub line: Option<usize>,
    /// What is wrong, and what is allowed.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    about: String,
    partitions: Option<u32>,
    #[serde(default)]
    agent: Vec<toml::Table>,
    #[serde(default)]
    webhook: Vec<toml::Table>,
    #[serde(default)]
    setup: Vec<Step>,
    #[serde(default)]
    step: Vec<Step>,
    #[serde(default)]
    expect: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    at_most: BTreeMap<String, u32>,
    #[serde(default)]
    traps: Vec<String>,
    spare_retries: Option<u32>,
    // The script's own, read by its own parser.
    #[serde(rename = "model")]
    _model: Option<toml::Value>,
    #[serde(rename = "answer")]
    _answer: Option<toml::Value>,
    #[serde(rename = "summary")]
    _summary: Option<toml::Value>,
    #[serde(rename = "tool")]
    _tool: Option<toml::Value>,
}

/// Tables of a script; the rest of a scenario is not for its parser.
const OF_SCRIPTS: [&str; 4] = ["model", "answer", "summary", "tool"];
/// Outcomes that can be expected.
const OUTCOMES: [&str; 5] = ["completed", "failed", "aborted", "gone", "refused"];

impl Scenario {
    /// All that come with this host.
    pub fn embedded() -> Vec<Self> {
        EMBEDDED.iter().filter_map(|(name, text)| Self::parse(name, text).ok()).collect()
    }

    /// The names of those that come with this host.
    pub fn names() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|(name, _)| *name)
    }

    /// One that comes with this host, or one of a file.
    pub fn find(name: &str) -> Result<Self, ScenarioError> {
        if let Some((name, text)) = EMBEDDED.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text);
        }
        let known = || Self::names().collect::<Vec<_>>().join(", ");
        let bad = |message: String| ScenarioError { file: name.to_owned(), line: None, message };
        let path = Path::new(name);
        let text = std::fs::read_to_string(path)
            .map_err(|error| bad(format!("can't be read ({error}), and no scenario has this name: {}", known())))?;
        let stem: String = path.file_stem().unwrap_or_default().to_string_lossy().split_whitespace().collect();
        let mut scenario = Self::parse(name, &text)?;
        scenario.name = stem;
        Ok(scenario)
    }

    /// Checks the text of a scenario.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        let bad = |line: Option<usize>, message: String| ScenarioError { file: name.to_owned(), line, message };
        if text.len() > SCRIPT_BYTES_MAX {
            return Err(bad(None, format!("{} bytes; a scenario has at most {SCRIPT_BYTES_MAX}", text.len())));
        }
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
            bad(line, error.message().replace('\n', " "))
        })?;
        let mut script: toml::Table = toml::from_str(text).map_err(|error| bad(None, error.message().to_owned()))?;
        script.retain(|table, _| OF_SCRIPTS.contains(&table));
        let script = toml::to_string(&script).map_err(|error| bad(None, error.to_string()))?;
        let script = Script::parse(&script).map_err(|error| bad(None, format!("in the script of it, {error}")))?;
        let traps = raw.traps.iter().map(|name| import(name)).collect::<Result<_, _>>().map_err(|e| bad(None, e))?;
        let agents = agents(raw.agent, &script).map_err(|error| bad(None, error))?;
        let partitions = raw.partitions.unwrap_or(1);
        let mut settings = BTreeMap::from([
            ("agents".to_owned(), json!({"agents": agents}).to_string()),
            ("partitions".to_owned(), partitions.to_string()),
        ]);
        if !raw.webhook.is_empty() {
            settings.insert("webhooks".to_owned(), json!(raw.webhook).to_string());
        }
        let scenario = Self {
            name: name.to_owned(),
            about: raw.about,
            script: Arc::new(script),
            setup: raw.setup,
            steps: raw.step,
            expect: raw.expect,
            at_most: raw.at_most,
            traps,
            spare_retries: raw.spare_retries.unwrap_or(3),
            settings,
        };
        scenario.check().map_err(|message| bad(None, message))?;
        Ok(scenario)
    }

    /// All steps, the first ones included.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.setup.iter().chain(&self.steps)
    }

    /// The threads that are there at the end, with their agents.
    pub fn threads(&self) -> Vec<(String, String)> {
        let mut threads = Vec::new();
        for step in self.all_steps() {
            match step {
                Step::Submit { agent, thread, .. } | Step::Import { agent, thread, .. } => {
                    threads.push((agent.clone(), thread.clone()));
                }
                Step::Fork { agent, to, .. } => threads.push((agent.clone(), to.clone())),
                Step::Delete { agent, thread } => threads.retain(|known| *known != (agent.clone(), thread.clone())),
                Step::Answer { .. } | Step::Cancel { .. } | Step::Pause { .. } | Step::Resume { .. } => {}
                Step::Pass { .. } | Step::Wait {} => {}
            }
        }
        threads.sort();
        threads.dedup();
        threads
    }

    fn check(&self) -> Result<(), String> {
        let count = self.all_steps().count();
        if self.steps.is_empty() || count > STEPS_MAX {
            return Err(format!("{count} steps; a scenario has at least one `[[step]]` and at most {STEPS_MAX}"));
        }
        let mut keys = BTreeSet::new();
        for step in self.all_steps() {
            let twice = |key: &str| format!("the key {key:?} is used twice; name each submission differently");
            match step {
                Step::Cancel { key } | Step::Pause { key } | Step::Resume { key } | Step::Answer { key, .. }
                    if !keys.contains(key.as_str()) =>
                {
                    return Err(format!("a step is about {key:?}, and no step above has submitted it"));
                }
                Step::Answer { decision, .. } if !["approve", "deny"].contains(&decision.as_str()) => {
                    return Err(format!("there is no decision {decision:?}; known are approve and deny"));
                }
                Step::Fork { key, .. } | Step::Import { key, .. } | Step::Submit { key, .. }
                    if !keys.insert(key.as_str()) =>
                {
                    return Err(twice(key));
                }
                _ => {}
            }
        }
        for (key, outcomes) in &self.expect {
            if !keys.contains(key.as_str()) {
                return Err(format!("`expect` names {key:?}, which no step submits"));
            }
            if let Some(odd) = outcomes.iter().find(|outcome| !OUTCOMES.contains(&outcome.as_str())) {
                return Err(format!("there is no outcome {odd:?}; known are {}", OUTCOMES.join(", ")));
            }
        }
        Ok(())
    }
}

fn import(name: &str) -> Result<Import, String> {
    let known = || Import::ALL.map(Import::name).join(", ");
    let found = Import::ALL.into_iter().find(|import| import.name() == name);
    found.ok_or_else(|| format!("`traps`: there is no call {name:?}; known are {}", known()))
}

fn agents(given: Vec<toml::Table>, script: &Script) -> Result<Vec<Value>, String> {
    let tools: Vec<&str> = script.tools.iter().map(|tool| tool.name.as_str()).collect();
    let model = script.model.name.as_deref().unwrap_or("scripted");
    let agent = |table: toml::Table| {
        let mut agent = serde_json::to_value(table).map_err(|error| format!("in `agent`: {error}"))?;
        if let Some(map) = agent.as_object_mut() {
            map.entry("model").or_insert_with(|| model.into());
            map.entry("tools").or_insert_with(|| json!(tools));
        }
        Ok(agent)
    };
    if given.is_empty() {
        return Ok(vec![json!({"name": "helper", "model": model, "instructions": "Help.", "tools": tools})]);
    }
    given.into_iter().map(agent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_that_comes_along_is_well_formed() {
        for (name, text) in EMBEDDED {
            let scenario = Scenario::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
            assert!(!scenario.about.is_empty(), "{name} says what it is about");
        }
        for name in SHORTEST {
            assert!(Scenario::names().any(|known| known == name), "{name}");
        }
    }

    #[test]
    fn a_bad_scenario_says_what_is_allowed() {
        let step = "[[step]]\nact = \"submit\"\nkey = \"a\"\nmessage = \"hi\"\n";
        for (text, named) in [
            (String::new(), "[[step]]"),
            ("[[step]]\nact = \"dance\"\n".into(), "submit"),
            (format!("{step}{step}"), "used twice"),
            ("[[step]]\nact = \"cancel\"\nkey = \"a\"\n".into(), "no step above"),
            (format!("{step}[expect]\nb = [\"completed\"]\n"), "no step submits"),
            (format!("{step}[expect]\na = [\"won\"]\n"), "completed, failed"),
            (format!("traps = [\"kv.put\"]\n{step}"), "kv.commit"),
            (format!("stepp = 1\n{step}"), "stepp"),
            (format!("{step}[[answer]]\ntext = 1\n"), "script"),
        ] {
            let error = Scenario::parse("s", &text).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
        assert!(Scenario::find("no-such-thing").unwrap_err().to_string().contains("plain-turn"));
    }
}
