//! What is wrong with a configuration, and where it stands.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody gave it.
    Default,
    /// A variable of the environment.
    Env(String),
    /// A place in the file.
    File(Position),
    /// A flag of the command line.
    Flag(&'static str),
}

/// A place in the file, counted from 1; columns are characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file.
    pub file: Arc<Path>,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Position {
    /// The place of a byte of the text.
    pub fn of(file: &Arc<Path>, text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { file: file.clone(), line, column }
    }
}

/// The stronger one wins: a flag over the environment over the file over the default.
impl Source {
    /// How strong it is.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File(_) => 1,
            Self::Env(_) => 2,
            Self::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Env(name) => f.write_str(name),
            Self::File(Position { file, line, column }) => write!(f, "{}:{line}:{column}", file.display()),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub source: Source,
    /// The option, if it is one.
    pub option: Option<String>,
    /// What, and what is allowed. It holds no secret.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.option {
            Some(option) => write!(f, "{}: `{option}`: {}", self.source, self.text),
            None => write!(f, "{}: {}", self.source, self.text),
        }
    }
}

/// A configuration that can't be used: all that is wrong with it, one at least.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub Vec<Problem>);
