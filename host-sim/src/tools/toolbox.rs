//! A toolbox: several boxes of tools as one.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::Call;
use super::Declaration;
use super::Reply;
use super::Tools;

/// Most tools in all, as `wit/tools.wit` allows.
pub const TOOLS_MAX: usize = 256;
/// Longest name of a tool, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Several boxes of tools as one. A call of an unknown tool gets an error that lists the known ones.
pub struct Toolbox {
    boxes: Vec<Arc<dyn Tools>>,
    declarations: Vec<Declaration>,
    owner_of: BTreeMap<String, usize>,
}

impl Toolbox {
    /// Joins boxes, each with a label for error messages. The order of the tools is that of the boxes.
    pub fn new(boxes: Vec<(String, Arc<dyn Tools>)>) -> Result<Self, ToolboxError> {
        let mut toolbox = Self { boxes: Vec::new(), declarations: Vec::new(), owner_of: BTreeMap::new() };
        let mut labels: Vec<String> = Vec::new();
        for (label, tools) in boxes {
            let index = toolbox.boxes.len();
            labels.push(label.clone());
            for declaration in tools.describe() {
                check_name(&declaration.name).map_err(|reason| ToolboxError::Name { label: label.clone(), reason })?;
                if let Some(first) = toolbox.owner_of.insert(declaration.name.clone(), index) {
                    let first = labels.get(first).cloned().unwrap_or_default();
                    return Err(ToolboxError::Duplicate { name: declaration.name, first, second: label });
                }
                toolbox.declarations.push(declaration);
            }
            toolbox.boxes.push(tools);
        }
        if toolbox.declarations.len() > TOOLS_MAX {
            return Err(ToolboxError::TooMany(toolbox.declarations.len()));
        }
        Ok(toolbox)
    }
}

#[async_trait]
impl Tools for Toolbox {
    fn describe(&self) -> Vec<Declaration> {
        self.declarations.clone()
    }

    async fn run(&self, call: Call) -> Reply {
        match self.owner_of.get(&call.name).and_then(|index| self.boxes.get(*index)) {
            Some(tools) => tools.run(call).await,
            None => unknown_tool(&call.name, self.declarations.iter().map(|known| known.name.as_str())),
        }
    }
}

/// Why boxes can't be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolboxError {
    /// Two tools have one name.
    #[error("tool `{name}` is in {first} and in {second}; rename one of them")]
    Duplicate {
        /// The name.
        name: String,
        /// Label of the first box.
        first: String,
        /// Label of the second box.
        second: String,
    },
    /// A name that `wit/tools.wit` does not allow.
    #[error("in {label}: {reason}")]
    Name {
        /// Label of the box.
        label: String,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// More tools than `wit/tools.wit` allows.
    #[error("{0} tools; at most {TOOLS_MAX}")]
    TooMany(usize),
}

impl ToolboxError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Duplicate { .. } => "tool-duplicate",
            Self::Name { .. } => "tool-name-invalid",
            Self::TooMany(_) => "tools-too-many",
        }
    }
}

/// Checks a tool's name against `wit/tools.wit`.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
        return Err(format!("tool name {name:?}: allowed are 1 to {NAME_BYTES_MAX} of A–Z a–z 0–9 _ -"));
    }
    Ok(())
}

/// The error for a tool that nobody has.
pub(crate) fn unknown_tool<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Reply {
    let known: Vec<&str> = known.collect();
    let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
    Reply::error(format!("There is no tool `{name}`. Known tools: {known}."))
}
