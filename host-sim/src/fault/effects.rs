//! What became of the calls of tools: how often each was executed, and what its result says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::script::Script;
use crate::tools::Policy;
use crate::tools::scripted::Execution;

/// What became of the calls of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolUse {
    /// Its policy, if the host has it; `None`: it is the component's own.
    pub policy: Option<Policy>,
    /// Plans in which it was called or executed.
    pub plans: u64,
    /// Executions of one call (one effect key), at most.
    pub executions_max: u32,
    /// Plans in which a call was executed more than once.
    pub repeated_in: u64,
    /// Plans in which the outcome of a call stayed unknown.
    pub unknown_in: u64,
    /// What the results of its calls say.
    pub outcomes: BTreeSet<String>,
    /// Whether the model calls it; otherwise the component's own code does.
    pub called_by_model: bool,
}

impl ToolUse {
    /// Adds what another plan has seen.
    pub fn add(&mut self, other: &Self) {
        self.policy = self.policy.or(other.policy);
        self.plans += other.plans;
        self.executions_max = self.executions_max.max(other.executions_max);
        self.repeated_in += other.repeated_in;
        self.unknown_in += other.unknown_in;
        self.outcomes.extend(other.outcomes.iter().cloned());
        self.called_by_model |= other.called_by_model;
    }

    /// What it means, in plain words.
    pub fn words(&self) -> String {
        let mut words = Vec::new();
        if self.executions_max > 1 {
            let keyed = "each time with the same effect key";
            words.push(match self.policy {
                Some(Policy::ReplaySafe) => {
                    format!("may be executed again after a crash, {keyed}: harmless if the far end keeps keys")
                }
                _ if !self.called_by_model => format!(
                    "CAN BE REPEATED: the component's own code calls it again after a crash, {keyed}. Put it alone \
                     in a step, and give its key to the far end; or make the tool that calls it plain"
                ),
                _ => format!("CAN BE REPEATED, {keyed}"),
            });
        } else if self.executions_max == 1 {
            words.push("never executed twice".into());
        }
        if self.unknown_in > 0 {
            words.push("its outcome can stay unknown: the model is told that it may still happen".into());
        }
        words.join("; ")
    }

    /// As JSON.
    pub fn json(&self, name: &str) -> Value {
        json!({
            "tool": name,
            "policy": self.policy,
            "plans": self.plans,
            "executions_max": self.executions_max,
            "repeated_in": self.repeated_in,
            "unknown_in": self.unknown_in,
            "outcomes": self.outcomes,
            "words": self.words(),
        })
    }
}

/// What one run shows: its executions, and its messages.
pub(super) fn of(script: &Script, executions: &[Execution], messages: &[Value]) -> BTreeMap<String, ToolUse> {
    let mut tools: BTreeMap<String, ToolUse> = BTreeMap::new();
    for execution in executions {
        let tool = tools.entry(execution.name.clone()).or_default();
        tool.executions_max = tool.executions_max.max(execution.count);
    }
    for message in messages.iter().filter(|message| message["role"] == "toolResult") {
        let Some(name) = message["toolName"].as_str() else { continue };
        let tool = tools.entry(name.to_owned()).or_default();
        let outcome = match message["outcome"].as_str() {
            Some(outcome) => outcome,
            None if message["isError"] == true => "error",
            None => "answered",
        };
        tool.outcomes.insert(outcome.to_owned());
        tool.unknown_in |= u64::from(outcome == "interrupted");
    }
    for (name, tool) in &mut tools {
        tool.policy = script.tools.iter().find(|known| known.name == *name).map(|known| known.policy);
        tool.plans = 1;
        tool.repeated_in = u64::from(tool.executions_max > 1);
        tool.called_by_model = is_called(script, name);
    }
    tools
}

/// Whether some answer of the script calls a tool.
pub(super) fn is_called(script: &Script, tool: &str) -> bool {
    script.answers.iter().flat_map(|answer| &answer.calls).any(|call| call.name == tool)
}
