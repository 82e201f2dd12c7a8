//! Tools that reply as a script says, and a log of their executions.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use async_trait::async_trait;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::Call;
use super::Declaration;
use super::Reply;
use super::Tools;
use super::toolbox::unknown_tool;
use crate::clock::Clock;
use crate::script::Script;
use crate::script::ScriptTool;

/// Tools that reply as a script says. Each execution is logged before anything else happens.
pub struct ScriptedTools {
    script: Arc<Script>,
    clock: Arc<dyn Clock>,
    log: Arc<ExecutionLog>,
}

impl ScriptedTools {
    /// The tools of `script`, their delays on `clock`, their executions in `log`.
    pub fn new(script: Arc<Script>, clock: Arc<dyn Clock>, log: Arc<ExecutionLog>) -> Self {
        Self { script, clock, log }
    }

    /// The log.
    pub fn log(&self) -> &Arc<ExecutionLog> {
        &self.log
    }
}

#[async_trait]
impl Tools for ScriptedTools {
    fn describe(&self) -> Vec<Declaration> {
        let declare = |tool: &ScriptTool| Declaration {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
            policy: tool.policy,
        };
        self.script.tools.iter().map(declare).collect()
    }

    async fn run(&self, call: Call) -> Reply {
        let Some(tool) = self.script.tools.iter().find(|tool| tool.name == call.name) else {
            return unknown_tool(&call.name, self.script.tools.iter().map(|tool| tool.name.as_str()));
        };
        let number = match self.log.record(&call) {
            Ok(number) => number,
            Err(error) => {
                return Reply::error(format!("The execution log can't be written: {error}"));
            }
        };
        if tool.delay_ms > 0 {
            self.clock.wait_until(self.clock.now().saturating_add(tool.delay_ms)).await;
        }
        let template = tool.reply.as_ref().or_else(|| tool.replies.get(number).or(tool.replies.last()));
        let text = fill(template.map_or("", String::as_str), &call.arguments);
        Reply { is_error: tool.error, ..Reply::text(text) }
    }
}

/// One execution of a tool.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Execution {
    /// The call's effect key.
    pub effect_key: String,
    /// The tool's name.
    pub name: String,
    /// The arguments; a JSON string holds what isn't JSON.
    pub arguments: Value,
    /// The how-manieth execution under this effect key, from 1.
    pub count: u32,
}

/// Every execution of scripted tools, in order: in memory, and as JSON lines in a file if there is one.
///
/// A line is handed to the system before the tool does anything, so it outlives a killed process (not a power cut).
pub struct ExecutionLog {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    file: Option<File>,
    executions: Vec<Execution>,
    /// Of each effect key: its executions, and its call's number among the calls of its tool.
    keys: HashMap<String, (u32, usize)>,
    calls: HashMap<String, usize>,
}

impl ExecutionLog {
    /// A log in memory only.
    pub fn in_memory() -> Self {
        Self { state: Mutex::default() }
    }

    /// A log that continues a file, made if it is absent: counts go on where the last process left them.
    ///
    /// A line that a kill has torn is passed over.
    pub fn open(path: impl AsRef<Path>) -> std::io::Result<Self> {
        let mut file = File::options().create(true).append(true).read(true).open(path)?;
        let mut text = String::new();
        std::io::Read::read_to_string(&mut file, &mut text)?;
        let mut state = State::default();
        for execution in text.lines().filter_map(|line| serde_json::from_str::<Execution>(line).ok()) {
            state.add(execution.effect_key, execution.name, execution.arguments);
        }
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        state.file = Some(file);
        Ok(Self { state: Mutex::new(state) })
    }

    /// All executions so far.
    pub fn executions(&self) -> Vec<Execution> {
        self.lock().executions.clone()
    }

    /// How often a call has been executed.
    pub fn count(&self, effect_key: &str) -> u32 {
        self.lock().keys.get(effect_key).map_or(0, |(count, _)| *count)
    }

    /// Records an execution; returns the call's number among the calls of its tool, from 0. A call keeps its number
    /// when it is executed again.
    fn record(&self, call: &Call) -> std::io::Result<usize> {
        let mut state = self.lock();
        let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.clone().into());
        let (execution, number) = state.add(call.effect_key.clone(), call.name.clone(), arguments);
        let mut line = serde_json::to_vec(&execution)?;
        line.push(b'\n');
        if let Some(file) = &mut state.file {
            file.write_all(&line)?;
        }
        Ok(number)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, effect_key: String, name: String, arguments: Value) -> (Execution, usize) {
        let calls = &mut self.calls;
        let (count, number) = self.keys.entry(effect_key.clone()).or_insert_with(|| {
            let next = calls.entry(name.clone()).or_insert(0);
            *next += 1;
            (0, *next - 1)
        });
        *count += 1;
        let execution = Execution { effect_key, name, arguments, count: *count };
        self.executions.push(execution.clone());
        (execution, *number)
    }
}

/// Puts arguments in the place of `{name}`; braces around anything else stay.
fn fill(template: &str, arguments: &str) -> String {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or(Value::Null);
    let mut filled = String::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        filled.push_str(before);
        let name = from.get(1..).and_then(|inner| inner.split_once('}')).map(|(name, _)| name);
        match name.and_then(|name| Some((name, arguments.get(name)?))) {
            Some((name, value)) => {
                match value {
                    Value::String(text) => filled.push_str(text),
                    value => filled.push_str(&value.to_string()),
                }
                rest = from.get(name.len() + 2..).unwrap_or_default();
            }
            None => {
                filled.push('{');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_replaces_known_arguments_only_and_only_once() {
        let arguments = r#"{"a": 7, "b": "{a}", "c": [1]}"#;
        assert_eq!(fill("{a} {b} {c} {d} {\"a\": {a}} {", arguments), "7 {a} [1] {d} {\"a\": 7} {");
        assert_eq!(fill("{a}", "not json"), "{a}");
    }
}
