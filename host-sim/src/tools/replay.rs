//! Tools that play the results of a recorded session back.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use async_trait::async_trait;
use serde_json::Value;
use serde_json::json;

use super::Call;
use super::Declaration;
use super::Policy;
use super::Reply;
use super::Tools;
use crate::clock::Clock;
use crate::recording::Recording;
use crate::recording::Role;

/// Answers each call with its recorded result: the one of its provider id, or, where that says too little, the next
/// unused one of the same name and arguments. All are `plain`, as real tools without a promise are.
pub struct ReplayTools {
    recording: Arc<Recording>,
    delay: Option<(Arc<dyn Clock>, u64)>,
    results: Vec<Recorded>,
    by_id: HashMap<String, Vec<usize>>,
    given: Mutex<Given>,
}

/// A recorded call that has a result.
struct Recorded {
    name: String,
    arguments: Value,
    result: usize,
}

/// What was given: only for calls that their id doesn't settle; in this process only.
#[derive(Default)]
struct Given {
    by_effect: HashMap<String, usize>,
    used: BTreeSet<usize>,
}

impl ReplayTools {
    /// Tools that play `recording`.
    pub fn new(recording: Arc<Recording>) -> Self {
        let results = pair(&recording);
        let mut by_id: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, recorded) in results.iter().enumerate() {
            if let Some(message) = recording.messages.get(recorded.result) {
                by_id.entry(message.tool_call_id.clone()).or_default().push(index);
            }
        }
        Self { recording, delay: None, results, by_id, given: Mutex::default() }
    }

    /// Each call takes `delay_ms` milliseconds on `clock`.
    pub fn with_delay(self, clock: Arc<dyn Clock>, delay_ms: u64) -> Self {
        Self { delay: Some((clock, delay_ms)), ..self }
    }

    fn find(&self, call: &Call) -> Option<usize> {
        let of_id = self.by_id.get(&call.call_id).map(Vec::as_slice).unwrap_or_default();
        if let [only] = of_id {
            return Some(*only);
        }
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = given.by_effect.get(&call.effect_key) {
            return Some(*index);
        }
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
        let all: Vec<usize> = (0..self.results.len()).collect();
        let candidates = if of_id.is_empty() { &all } else { of_id };
        let found = candidates.iter().copied().find(|index| {
            let fits = self.results.get(*index).is_some_and(|r| r.name == call.name && r.arguments == arguments);
            fits && !given.used.contains(index)
        })?;
        given.used.insert(found);
        given.by_effect.insert(call.effect_key.clone(), found);
        Some(found)
    }
}

#[async_trait]
impl Tools for ReplayTools {
    fn describe(&self) -> Vec<Declaration> {
        let declare = |name: String| Declaration {
            description: format!("`{name}` as recorded"),
            name,
            parameters: json!({}),
            policy: Policy::Plain,
        };
        self.recording.tools().into_iter().map(declare).collect()
    }

    async fn run(&self, call: Call) -> Reply {
        if let Some((clock, delay_ms)) = &self.delay {
            clock.wait_until(clock.now().saturating_add(*delay_ms)).await;
        }
        let found = self.find(&call).and_then(|index| self.results.get(index));
        match found.and_then(|recorded| self.recording.messages.get(recorded.result)) {
            Some(message) => {
                let content = match &message.content {
                    Value::String(text) => json!([{"type": "text", "text": text}]),
                    content => content.clone(),
                };
                Reply { content, is_error: message.is_error }
            }
            None => {
                Reply::error(format!("The recording has no result for call `{}` of `{}`.", call.call_id, call.name))
            }
        }
    }
}

/// Finds the call of each result: the first of its id, not yet answered, in the answer before it.
fn pair(recording: &Recording) -> Vec<Recorded> {
    let mut open: Vec<(&str, &str, &Value)> = Vec::new();
    let mut pairs = Vec::new();
    for (index, message) in recording.messages.iter().enumerate() {
        match message.role {
            Role::Assistant => open = message.calls().collect(),
            Role::ToolResult => {
                if let Some(at) = open.iter().position(|(id, _, _)| *id == message.tool_call_id) {
                    let (_, name, arguments) = open.remove(at);
                    pairs.push(Recorded { name: name.to_owned(), arguments: arguments.clone(), result: index });
                }
            }
            Role::User => {}
        }
    }
    pairs
}
