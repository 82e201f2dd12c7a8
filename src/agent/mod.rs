//! Agents: a function with hooks, rendered anew before every model call.
//!
//! ```
//! use writ::agent::{Render, Tool, ToolError};
//!
//! fn triage(cx: &mut Render) -> String {
//!     cx.model("small");
//!     cx.tool(Tool::stepped("refund", "Pays an order back.", r#"{"type":"object","required":["order"]}"#, |call| {
//!         let paid = call.step("pay", |step| step.host_tool("bank_pay", &step.arguments().clone()))?;
//!         Ok(format!("paid back: {paid}"))
//!     }));
//!     "You sort what comes in.".into()
//! }
//! # let _ = triage;
//! ```
//!
//! A render is pure: it reads the thread's state and says what the agent is now. It can't change anything. A render
//! that fails ([`Render::fail`], a name given twice, a panic) consumes the attempt.

mod data;
mod hooks;
mod tool;

pub use data::DataAgents;
pub use hooks::{Finish, Hook, Start};
#[doc(no_inline)]
pub use serde_json::{Value, json};
pub use tool::{Tool, ToolCall, ToolError, ToolHost};

use crate::id::Address;
use crate::ports::Host;
use crate::prelude::*;
use crate::record::Limits;
use serde::Deserialize;

/// An agent: says what it is now, and returns its instructions.
pub type AgentFn = fn(&mut Render) -> String;

/// The agents of a component.
pub trait Agents {
    /// Their names and what they are for.
    fn list(&self, host: &dyn Host) -> Result<Vec<AgentInfo>, String>;

    /// Renders one; `None` when there is no such agent.
    fn render(
        &self,
        host: &dyn Host,
        name: &str,
        thread: &Address,
        state: &BTreeMap<String, Value>,
    ) -> Option<Result<Rendered, String>>;
}

/// An agent, for people.
#[derive(Clone, Debug)]
pub struct AgentInfo {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Ceilings of its submissions.
    pub limits: Limits,
}

/// What an agent says of itself in one render.
pub struct Render<'a> {
    thread: &'a Address,
    state: &'a BTreeMap<String, Value>,
    out: Rendered,
    error: Option<String>,
}

/// What a render gave.
#[derive(Default)]
pub struct Rendered {
    /// The model.
    pub model: String,
    /// Instructions, the skills' texts in them.
    pub instructions: String,
    /// The agent's own tools.
    pub tools: Vec<Tool>,
    /// Tools of the host, by name.
    pub host_tools: Vec<String>,
    /// Tools that run only after a person has said yes, whatever they declare themselves.
    pub ask: Vec<String>,
    /// Before the first model call of a delivered message.
    pub on_start: Option<Hook<Start>>,
    /// When the model has answered.
    pub on_finish: Option<Hook<Finish>>,
    /// What the result must look like, unless the delivery says.
    pub result_schema: Option<Value>,
    skills: Vec<(String, String)>,
}

impl<'a> Render<'a> {
    fn new(thread: &'a Address, state: &'a BTreeMap<String, Value>) -> Self {
        Self { thread, state, out: Rendered::default(), error: None }
    }

    /// The thread that is rendered for.
    pub fn thread(&self) -> &Address {
        self.thread
    }

    /// A value of the thread's persistent state, as tools and hooks have set it.
    pub fn state(&self, name: &str) -> Option<&Value> {
        self.state.get(name)
    }

    /// Chooses the model.
    pub fn model(&mut self, name: &str) {
        self.out.model = name.to_owned();
    }

    /// Adds a tool of the agent's own.
    pub fn tool(&mut self, tool: Tool) {
        self.claim_name(tool.name.clone());
        self.out.tools.push(tool);
    }

    /// Adds a tool of the host.
    pub fn host_tool(&mut self, name: &str) {
        self.claim_name(name.to_owned());
        self.out.host_tools.push(name.to_owned());
    }

    /// Has a person asked before a tool is run, whatever the tool declares itself. Afterwards it runs as a plain one.
    pub fn ask(&mut self, tool: &str) {
        self.out.ask.push(tool.to_owned());
    }

    /// Adds a text that the instructions carry under a heading.
    pub fn skill(&mut self, name: &str, text: &str) {
        if self.out.skills.iter().any(|(n, _)| n == name) {
            self.fail(&format!("the skill {name:?} is given twice"));
        }
        self.out.skills.push((name.to_owned(), text.to_owned()));
    }

    /// Runs before the first model call of each delivered message.
    pub fn on_start(&mut self, hook: impl Fn(&mut Start) -> Result<(), String> + 'static) {
        self.out.on_start = Some(Box::new(hook));
    }

    /// Runs when the model has answered; it may go on.
    pub fn on_finish(&mut self, hook: impl Fn(&mut Finish) -> Result<(), String> + 'static) {
        self.out.on_finish = Some(Box::new(hook));
    }

    /// Says what the result must look like (JSON Schema text), unless a delivery brings its own schema.
    pub fn result(&mut self, schema: &str) {
        match serde_json::from_str(schema) {
            Ok(schema) => self.out.result_schema = Some(schema),
            Err(e) => self.fail(&format!("the result schema is not JSON: {e}")),
        }
    }

    /// Makes this render fail: the attempt ends and is counted. The first reason is kept.
    pub fn fail(&mut self, why: &str) {
        self.error.get_or_insert_with(|| why.to_owned());
    }

    fn claim_name(&mut self, name: String) {
        let fit = !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if !fit {
            self.fail(&format!("{name:?} is no name for a tool: 1 to 64 of A–Z a–z 0–9 _ -"));
        }
        if self.out.tools.iter().any(|t| t.name == name) || self.out.host_tools.contains(&name) {
            self.fail(&format!("the tool {name:?} is given twice"));
        }
    }

    fn finish(mut self, instructions: String, changed: Option<Override>) -> Result<Rendered, String> {
        let mut instructions = instructions;
        if let Some(changed) = changed {
            if let Some(model) = changed.model {
                self.out.model = model;
            }
            if let Some(text) = changed.instructions {
                instructions = text;
            }
            if let Some(names) = changed.ask {
                self.out.ask = names;
            }
            if let Some(names) = changed.tools {
                self.out.tools.retain(|t| names.contains(&t.name));
                self.out.host_tools.retain(|t| names.contains(t));
            }
        }
        for (name, text) in &self.out.skills {
            instructions.push_str(&format!("\n\n# {name}\n{text}"));
        }
        self.out.instructions = instructions;
        if self.out.model.is_empty() {
            self.fail("no model was chosen");
        }
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }
}

/// Agents that are functions: what `writ::export!` makes a component of.
pub struct CodeAgents(pub &'static [(&'static str, AgentFn)]);

impl Agents for CodeAgents {
    fn list(&self, host: &dyn Host) -> Result<Vec<AgentInfo>, String> {
        self.0
            .iter()
            .map(|(name, _)| {
                let limits = Override::of(host, name)?.and_then(|o| o.limits);
                let limits = limits.map_or_else(|| default_limits(host), Ok)?;
                Ok(AgentInfo { name: (*name).to_owned(), description: String::new(), limits })
            })
            .collect()
    }

    fn render(
        &self,
        host: &dyn Host,
        name: &str,
        thread: &Address,
        state: &BTreeMap<String, Value>,
    ) -> Option<Result<Rendered, String>> {
        let (_, agent) = self.0.iter().find(|(n, _)| *n == name)?;
        let mut cx = Render::new(thread, state);
        let instructions = agent(&mut cx);
        Some(Override::of(host, name).and_then(|changed| cx.finish(instructions, changed)))
    }
}

/// What the setting `overrides` changes of one agent, at render time. The definition stays as it is.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Override {
    model: Option<String>,
    instructions: Option<String>,
    tools: Option<Vec<String>>,
    ask: Option<Vec<String>>,
    limits: Option<Limits>,
}

impl Override {
    fn of(host: &dyn Host, agent: &str) -> Result<Option<Self>, String> {
        let Some(text) = host.setting("overrides") else { return Ok(None) };
        let mut all: BTreeMap<String, Self> =
            serde_json::from_str(&text).map_err(|e| format!("the setting `overrides` can't be read: {e}"))?;
        Ok(all.remove(agent))
    }
}

/// The setting `limits`, or the defaults.
fn default_limits(host: &dyn Host) -> Result<Limits, String> {
    match host.setting("limits") {
        Some(text) => serde_json::from_str(&text).map_err(|e| format!("the setting `limits` can't be read: {e}")),
        None => Ok(Limits::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeHost;

    fn render(agent: AgentFn, host: &FakeHost) -> Result<Rendered, String> {
        let agents: &'static [(&'static str, AgentFn)] = Box::leak(Box::new([("a", agent)]));
        let thread = Address { owner: "local/ada".into(), agent: "a".into(), thread: "t".into() };
        CodeAgents(agents).render(host, "a", &thread, &BTreeMap::new()).unwrap()
    }

    #[test]
    fn a_name_given_twice_fails_the_render() {
        let error = render(
            |cx| {
                cx.model("m");
                cx.host_tool("read");
                cx.tool(Tool::plain("read", "", "{}", |_| Ok(String::new())));
                String::new()
            },
            &FakeHost::default(),
        );
        assert_eq!(error.err().as_deref(), Some("the tool \"read\" is given twice"));
    }

    #[test]
    fn a_render_without_a_model_fails() {
        assert!(render(|_| String::new(), &FakeHost::default()).is_err());
    }

    #[test]
    fn an_override_changes_the_render_and_not_the_definition() {
        let agent: AgentFn = |cx| {
            cx.model("m");
            cx.host_tool("read");
            cx.host_tool("write");
            cx.skill("tone", "Be kind.");
            "As defined.".into()
        };
        let mut host = FakeHost::default();
        host.settings
            .insert("overrides".into(), r#"{"a":{"model":"n","instructions":"Other.","tools":["read"]}}"#.into());
        let changed = render(agent, &host).unwrap();
        assert_eq!((changed.model.as_str(), changed.instructions.as_str()), ("n", "Other.\n\n# tone\nBe kind."));
        assert_eq!(changed.host_tools, ["read"]);
        let plain = render(agent, &FakeHost::default()).unwrap();
        assert_eq!((plain.model.as_str(), plain.host_tools.len()), ("m", 2));
    }
}
