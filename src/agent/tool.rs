//! An agent's own tools, and steps.

use crate::ports::Policy;
use crate::prelude::*;
use serde_json::Value;

/// What runs a tool.
pub(crate) type ToolFn = Box<dyn Fn(&mut ToolCall) -> Result<String, ToolError>>;

/// A tool of the agent's own.
pub struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: String,
    pub(crate) policy: Policy,
    pub(crate) run: ToolFn,
}

impl Tool {
    /// A tool that is never run again: after a crash its outcome is unknown. `parameters` is JSON Schema text.
    pub fn plain<F>(name: &str, description: &str, parameters: &str, run: F) -> Self
    where
        F: Fn(&mut ToolCall) -> Result<String, ToolError> + 'static,
    {
        Self::new(name, description, parameters, Policy::Plain, run)
    }

    /// A tool that may be run again with the same effect key: it is idempotent.
    pub fn replay_safe<F>(name: &str, description: &str, parameters: &str, run: F) -> Self
    where
        F: Fn(&mut ToolCall) -> Result<String, ToolError> + 'static,
    {
        Self::new(name, description, parameters, Policy::ReplaySafe, run)
    }

    /// A tool that is run again after a crash, with its recorded steps skipped: put each effect into a
    /// [`ToolCall::step`].
    pub fn stepped<F>(name: &str, description: &str, parameters: &str, run: F) -> Self
    where
        F: Fn(&mut ToolCall) -> Result<String, ToolError> + 'static,
    {
        Self::new(name, description, parameters, Policy::Stepped, run)
    }

    /// A tool that runs only after a person has said yes, and then as a plain one.
    pub fn ask<F>(name: &str, description: &str, parameters: &str, run: F) -> Self
    where
        F: Fn(&mut ToolCall) -> Result<String, ToolError> + 'static,
    {
        Self::new(name, description, parameters, Policy::Ask, run)
    }

    fn new<F>(name: &str, description: &str, parameters: &str, policy: Policy, run: F) -> Self
    where
        F: Fn(&mut ToolCall) -> Result<String, ToolError> + 'static,
    {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: parameters.to_owned(),
            policy,
            run: Box::new(run),
        }
    }
}

/// Why a tool gives no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolError {
    /// It failed; the model sees this text and goes on.
    Failed(String),
    /// The run is over (a step could not be recorded). Pass it on with `?`; whatever the tool returns is dropped.
    Stopped,
}

impl From<String> for ToolError {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<&str> for ToolError {
    fn from(text: &str) -> Self {
        Self::Failed(text.to_owned())
    }
}

/// What a call needs of the run that it belongs to.
pub trait ToolHost {
    /// The value that a step has recorded, if it has; refuses a name that this execution has used already.
    fn recorded(&mut self, step: &str) -> Result<Option<Value>, ToolError>;
    /// Records a step. The value may be returned to the tool only after this.
    fn record(&mut self, step: &str, value: &Value) -> Result<(), ToolError>;
    /// Calls a tool of the host and waits for it.
    fn host_tool(&mut self, effect_key: &str, name: &str, arguments: &Value) -> Result<String, ToolError>;
    /// The stable name of this call's effect, or of a step in it.
    fn effect_key(&self, step: Option<&str>) -> String;
}

/// One call of an agent's tool. The same type stands for a step inside it.
pub struct ToolCall<'a> {
    arguments: &'a Value,
    host: &'a mut dyn ToolHost,
    step: Option<&'a str>,
    pub(crate) state: BTreeMap<String, Value>,
}

impl<'a> ToolCall<'a> {
    pub(crate) fn new(arguments: &'a Value, host: &'a mut dyn ToolHost) -> Self {
        Self { arguments, host, step: None, state: BTreeMap::new() }
    }

    /// The arguments, already checked against the schema.
    pub fn arguments(&self) -> &Value {
        self.arguments
    }

    /// Stable name of the effect: equal each time this call (or step) is run, and unique to it. Hand it to the far
    /// end, so that it can be idempotent.
    pub fn effect_key(&self) -> String {
        self.host.effect_key(self.step)
    }

    /// Calls a tool of the host under this call's (or step's) effect key.
    pub fn host_tool(&mut self, name: &str, arguments: &Value) -> Result<Value, ToolError> {
        let key = self.effect_key();
        self.host.host_tool(&key, name, arguments).map(Value::String)
    }

    /// Does a piece of work once: recorded exactly once, executed at least once. After a crash a recorded step gives its
    /// recorded value. The name is the step's identity within the call: deterministic, and used only once.
    ///
    /// # Errors
    /// [`ToolError::Failed`] as `work` says, or when the name is used twice or the call has 256 steps already.
    /// [`ToolError::Stopped`] when the value could not be recorded.
    pub fn step<F>(&mut self, name: &str, work: F) -> Result<Value, ToolError>
    where
        F: FnOnce(&mut ToolCall) -> Result<Value, ToolError>,
    {
        if self.step.is_some() {
            return Err("a step can't have steps of its own".into());
        }
        if let Some(value) = self.host.recorded(name)? {
            return Ok(value);
        }
        let mut inner =
            ToolCall { arguments: self.arguments, host: &mut *self.host, step: Some(name), state: BTreeMap::new() };
        let value = work(&mut inner)?;
        if !inner.state.is_empty() {
            // A recorded step is not run again, and what it had set would be missing then.
            return Err("a step can't set state; set it outside of the step".into());
        }
        self.host.record(name, &value)?;
        Ok(value)
    }

    /// Sets a value of the thread's persistent state. It counts once the result of this call is recorded. Not in a step.
    pub fn set_state(&mut self, name: &str, value: Value) {
        self.state.insert(name.to_owned(), value);
    }
}
