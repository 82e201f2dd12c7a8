//! What became of the calls of tools: how often each was executed, and what its result says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::trace::Entry;
use crate::engine::{End, Import};
use crate::script::Script;
use crate::tools::scripted::Execution;
use crate::tools::{Policy, WEBHOOK};

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
    /// Plans in which a call was executed again although a later commit had been answered: the effect had long happened.
    pub late_in: u64,
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
        self.late_in += other.late_in;
        self.unknown_in += other.unknown_in;
        self.outcomes.extend(other.outcomes.iter().cloned());
        self.called_by_model |= other.called_by_model;
    }

    /// What it means, in plain words.
    pub fn words(&self) -> String {
        let mut words = Vec::new();
        if self.executions_max > 1 {
            words.push(match self.policy {
                _ if self.late_in > 0 && !self.called_by_model => "CAN BE REPEATED, long after it has happened and \
                    later work was recorded: the component's own code calls it outside of a step. Put it alone into \
                    a step"
                    .to_owned(),
                _ if !self.called_by_model => "is executed again if a crash falls between the effect and its record, \
                    each time with the same effect key: a far end that keeps keys does it once"
                    .to_owned(),
                Some(Policy::ReplaySafe | Policy::Stepped) => "is executed again after a crash, each time with the \
                    same effect key: a far end that keeps keys does it once"
                    .to_owned(),
                _ => "CAN BE REPEATED".to_owned(),
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
            // What the component runs within itself, the host can't count.
            "executions_max": (self.executions_max > 0).then_some(self.executions_max),
            "repeated_in": self.repeated_in,
            "late_in": self.late_in,
            "unknown_in": self.unknown_in,
            "outcomes": self.outcomes,
            "words": self.words(),
        })
    }
}

/// What one run shows: its executions, and its messages.
pub(super) fn of(
    script: &Script,
    executions: &[Execution],
    messages: &[Value],
    trace: &[Entry],
) -> BTreeMap<String, ToolUse> {
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
    let late = late(trace);
    for (name, tool) in &mut tools {
        tool.late_in = u64::from(late.contains(name.as_str()));
        tool.policy = script.tools.iter().find(|known| known.name == *name).map(|known| known.policy);
        tool.plans = 1;
        tool.repeated_in = u64::from(tool.executions_max > 1);
        // What the runtime calls by itself is no fault of the component's code.
        tool.called_by_model = is_called(script, name) || name == WEBHOOK;
    }
    tools
}

/// Tools of which a call was executed again after its first execution had ended and a later commit had been answered.
fn late(trace: &[Entry]) -> BTreeSet<&str> {
    let mut tools = BTreeSet::new();
    for (at, first) in trace.iter().enumerate().filter(|(_, entry)| entry.import == Import::ToolsStart) {
        let rest = trace.get(at + 1..).unwrap_or_default();
        let is_again = |entry: &Entry| entry.import == Import::ToolsStart && entry.detail == first.detail;
        let Some(again) = rest.iter().position(is_again) else { continue };
        let between = rest.iter().take(again).filter(|e| e.instance == first.instance && e.life == first.life);
        let recorded = between.filter(|e| e.twin == first.twin && e.end == Some(End::Committed)).count();
        if recorded > 0 {
            tools.extend(first.detail.split(' ').next());
        }
    }
    tools
}

/// Whether some answer of the script calls a tool.
pub(super) fn is_called(script: &Script, tool: &str) -> bool {
    script.answers.iter().flat_map(|answer| &answer.calls).any(|call| call.name == tool)
}
