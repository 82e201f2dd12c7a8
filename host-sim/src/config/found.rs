//! What was given, by whom, before it is put together: the values of the file, the environment and the flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::file;
use super::kind::Value;
use super::options::{ENV_PREFIX, FILE, FILE_ENV, OPTIONS, Spec, find};
use super::problem::{ConfigError, Problem, Source};

/// What a configuration is made from. It is not shown: the environment may hold secrets.
#[derive(Clone, Default)]
pub struct Input {
    /// The file that is asked for; `None`: that of `WRIT_CONFIG`, or `writ.toml` in `folder` if there is one.
    pub file: Option<PathBuf>,
    /// Where a `writ.toml` is looked for.
    pub folder: PathBuf,
    /// Variables.
    pub env: BTreeMap<String, OsString>,
    /// Flags that were given.
    pub flags: Vec<Flag>,
}

/// A flag that was given.
#[derive(Clone)]
pub struct Flag {
    /// The option that it sets.
    pub option: &'static str,
    /// Its name on the command line.
    pub name: &'static str,
    /// Its value.
    pub value: OsString,
}

impl Input {
    /// The environment of this process, and its folder.
    pub fn of_process() -> Self {
        let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let env = ours.filter(|(name, _)| name.starts_with(ENV_PREFIX)).collect();
        Self { env, ..Self::default() }
    }

    /// The file to read, if there is one.
    pub fn path(&self) -> Option<PathBuf> {
        let named = self.file.clone().or_else(|| self.env.get(FILE_ENV).filter(|v| !v.is_empty()).map(PathBuf::from));
        named.or_else(|| Some(self.folder.join(FILE)).filter(|path| path.is_file()))
    }
}

/// A value that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The value.
    pub value: Value,
    /// By whom.
    pub source: Source,
}

/// A table of a list.
#[derive(Clone, Debug)]
pub struct Item {
    /// Where it stands.
    pub source: Source,
    /// Its place in the list, from 0.
    pub number: usize,
    /// Its values.
    pub values: BTreeMap<&'static str, Given>,
}

/// All that was given, each value by the strongest source.
#[derive(Debug)]
pub struct Found {
    /// The file, if one was read.
    pub file: Option<PathBuf>,
    values: BTreeMap<&'static str, Given>,
    items: BTreeMap<&'static str, Vec<Item>>,
}

impl Found {
    /// Reads file, environment and flags; all problems of all three at once.
    pub fn read(input: &Input) -> Result<Self, ConfigError> {
        let path = input.path();
        let mut problems = Vec::new();
        let mut contents = match path.as_deref().map(file::load).transpose() {
            Ok(contents) => contents.unwrap_or_default(),
            Err(ConfigError(found)) => {
                problems.extend(found);
                file::Contents::default()
            }
        };
        for spec in OPTIONS {
            for name in spec.variables() {
                let Some(text) = input.env.get(&name).filter(|text| !text.is_empty()) else { continue };
                match spec.kind.of_text(text) {
                    Ok(value) => contents.values.insert(spec.name, Given { value, source: Source::Env(name) }),
                    Err(text) => {
                        problems.push(problem(Source::Env(name), spec, text));
                        None
                    }
                };
                break;
            }
        }
        problems.extend(input.env.keys().filter_map(|name| unknown(name)));
        for Flag { option, name, value } in &input.flags {
            let Some(spec) = find(option) else { continue };
            match spec.kind.of_text(value) {
                Ok(value) => _ = contents.values.insert(spec.name, Given { value, source: Source::Flag(name) }),
                Err(text) => problems.push(problem(Source::Flag(name), spec, text)),
            }
        }
        match problems.is_empty() {
            true => Ok(Self { file: path, values: contents.values, items: contents.items }),
            false => Err(ConfigError(problems)),
        }
    }

    /// The value of an option and its source: as given, or its default.
    pub fn get(&self, option: &str) -> Option<Given> {
        self.given(option).cloned().or_else(|| {
            let spec = find(option)?;
            let value = spec.kind.of_text(spec.default?.as_ref()).ok()?;
            Some(Given { value, source: Source::Default })
        })
    }

    /// The value of an option, if somebody gave it.
    pub fn given(&self, option: &str) -> Option<&Given> {
        self.values.get(option)
    }

    /// The tables of a list.
    pub fn items(&self, list: &str) -> &[Item] {
        self.items.get(list).map_or(&[], Vec::as_slice)
    }

    /// A path, as given or by default.
    pub fn path(&self, option: &str) -> Option<PathBuf> {
        match self.get(option)?.value {
            Value::Path(path) => Some(path),
            _ => None,
        }
    }

    /// The file, as far as it is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

fn problem(source: Source, spec: &Spec, text: String) -> Problem {
    Problem { source, option: Some(spec.name.to_owned()), text }
}

/// A variable with `__` is meant for an option, so a mistaken one must not pass.
fn unknown(name: &str) -> Option<Problem> {
    let ours = name.strip_prefix(ENV_PREFIX).filter(|rest| rest.contains("__"))?;
    let option = ours.replace("__", ".").to_ascii_lowercase();
    if find(&option).is_some() {
        return None;
    }
    let section = option.split('.').next().unwrap_or_default();
    let known: Vec<String> =
        OPTIONS.iter().filter(|s| s.name.starts_with(&format!("{section}."))).map(Spec::variable).collect();
    let text = match known.is_empty() {
        true => "no option has this variable".to_owned(),
        false => format!("no option has this variable. Known are {}.", known.join(", ")),
    };
    Some(Problem { source: Source::Env(name.to_owned()), option: None, text })
}
