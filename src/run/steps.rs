//! Steps of a durable tool: recorded exactly once, executed at least once (I10).

use super::rest::effect_key;
use super::turn::Turn;
use crate::agent::{ToolError, ToolHost};
use crate::error::Error;
use crate::keys;
use crate::mutation;
use crate::ports::{HostCall, Policy};
use crate::prelude::*;
use crate::record::{Step, decode};
use crate::store::{Stop, put, read_many};
use serde_json::Value;

/// Steps that one call may record.
const STEPS_MAX: u16 = 256;

/// Largest value of a step, in bytes of JSON.
const STEP_BYTES_MAX: usize = 192 * 1024;

/// What one execution of a tool needs of its run.
pub(crate) struct Stepper<'t, 'r, 'a> {
    turn: &'t mut Turn<'r, 'a>,
    call: usize,
    recorded: Vec<Step>,
    used: Vec<String>,
    /// Set when the run must stop.
    pub stopped: Option<Stop>,
    /// Set when the submission was cancelled meanwhile.
    pub cancelled: bool,
}

impl<'t, 'r, 'a> Stepper<'t, 'r, 'a> {
    /// Reads the steps that earlier executions of the call have recorded: none costs no read.
    pub fn new(turn: &'t mut Turn<'r, 'a>, call: usize) -> Result<Self, Error> {
        let name = turn.op.call_name(call);
        let keys: Vec<String> = (0..turn.op.calls[call].steps).map(|n| keys::step(&turn.id, &name, n)).collect();
        let mut recorded = Vec::new();
        for (key, value) in keys.iter().zip(read_many(turn.s.ports.store, &keys)?) {
            let missing = || Error::Corrupt { key: key.clone(), why: "a recorded step is missing (I10)".into() };
            recorded.push(decode(key, &value.ok_or_else(missing)?)?);
        }
        Ok(Self { turn, call, recorded, used: Vec::new(), stopped: None, cancelled: false })
    }
}

impl ToolHost for Stepper<'_, '_, '_> {
    fn recorded(&mut self, step: &str) -> Result<Option<Value>, ToolError> {
        if self.stopped.is_some() || self.cancelled {
            return Err(ToolError::Stopped);
        }
        if self.used.iter().any(|name| name == step) {
            return Err(ToolError::Failed(format!(
                "the step {step:?} was used before in this call; name each differently"
            )));
        }
        self.used.push(step.to_owned());
        Ok(self.recorded.iter().find(|s| s.name == step).map(|s| s.value.clone()))
    }

    fn record(&mut self, step: &str, value: &Value) -> Result<(), ToolError> {
        if self.stopped.is_some() || self.cancelled {
            return Err(ToolError::Stopped);
        }
        let n = self.turn.op.calls[self.call].steps;
        if n >= STEPS_MAX {
            return Err(ToolError::Failed(format!("a call may record {STEPS_MAX} steps; {step:?} is one too many")));
        }
        let step = Step { name: step.to_owned(), value: value.clone() };
        let size = crate::record::encode(&step).len();
        if size > STEP_BYTES_MAX {
            let text = format!("the value of step {:?} is {size} bytes; at most {STEP_BYTES_MAX} are kept", step.name);
            return Err(ToolError::Failed(text));
        }
        let name = self.turn.op.call_name(self.call);
        let write = put(keys::step(&self.turn.id, &name, n), &step);
        self.turn.op.calls[self.call].steps = n + 1;
        if mutation::is(self.turn.s.ports.host, "answer-before-the-step") {
            self.turn.op.calls[self.call].steps = n;
            self.recorded.push(step);
            return Ok(());
        }
        // The value may go back to the tool only once this is answered.
        if let Err(stop) = self.turn.commit(vec![write]) {
            self.stopped = Some(stop);
            return Err(ToolError::Stopped);
        }
        self.recorded.push(step);
        Ok(())
    }

    fn host_tool(&mut self, effect_key: &str, name: &str, arguments: &Value) -> Result<String, ToolError> {
        if self.stopped.is_some() || self.cancelled {
            return Err(ToolError::Stopped);
        }
        let ports = self.turn.s.ports;
        if ports.tools.describe().iter().any(|d| d.name == name && d.policy == Policy::Ask) {
            let text = format!("the host's tool {name:?} needs a person's approval, and a tool can't ask for one");
            return Err(ToolError::Failed(text));
        }
        let call = HostCall {
            effect_key: effect_key.to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
            thread: self.turn.s.place.head(),
            call_id: self.turn.op.calls[self.call].id.clone(),
        };
        let job = ports.tools.start(&call);
        loop {
            if let Some((_, reply)) = ports.tools.wait(&[&*job], Some(self.turn.sub.deadline)).pop() {
                let text = text_of(&reply.content);
                return if reply.is_error { Err(ToolError::Failed(text)) } else { Ok(text) };
            }
            ports.host.poll();
            match self.turn.is_cancelled() {
                Ok(false) if self.turn.sub.deadline > ports.clock.now() => {}
                Ok(false) => return Err(ToolError::Failed("the deadline passed".into())),
                Ok(true) => {
                    self.cancelled = true;
                    return Err(ToolError::Stopped);
                }
                Err(error) => {
                    self.stopped = Some(Stop::Failed(error));
                    return Err(ToolError::Stopped);
                }
            }
        }
    }

    fn effect_key(&self, step: Option<&str>) -> String {
        effect_key(&self.turn.s, &self.turn.op, self.call, step)
    }
}

/// The texts of a reply's blocks.
fn text_of(content: &str) -> String {
    match serde_json::from_str::<Vec<Value>>(content) {
        Ok(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|b| b["text"].as_str()).collect();
            texts.join("\n")
        }
        Err(_) => content.to_owned(),
    }
}
