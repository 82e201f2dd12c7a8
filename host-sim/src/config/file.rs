//! Reads the file: every value with its place, and every problem at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::found::{Given, Item};
use super::kind::{Kind, Value};
use super::options::{ITEMS_MAX, LISTS, OPTIONS, Spec};
use super::problem::{ConfigError, Position, Problem, Source};

/// Largest file, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// What stands in a file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Values, by option.
    pub(super) values: BTreeMap<&'static str, Given>,
    /// Tables of lists, by list.
    pub(super) items: BTreeMap<&'static str, Vec<Item>>,
}

/// Reads a file.
pub(super) fn load(path: &Path) -> Result<Contents, ConfigError> {
    let file: Arc<Path> = path.into();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|opened| opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    let whole = |text: String| {
        let source = Source::File(Position { file: file.clone(), line: 1, column: 1 });
        ConfigError(vec![Problem { source, option: None, text }])
    };
    read.map_err(|error| whole(format!("it can't be read: {error}")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(whole(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(&file, text),
        Err(error) => {
            let good = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            let source = Source::File(Position::of(&file, good, good.len()));
            Err(ConfigError(vec![Problem { source, option: None, text: "it is no UTF-8 text from here on".into() }]))
        }
    }
}

/// Checks a file's text.
pub(super) fn parse(file: &Arc<Path>, text: &str) -> Result<Contents, ConfigError> {
    let mut reader = Reader { file, text, contents: Contents::default(), problems: Vec::new() };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        // Of a text that is no TOML nothing else is told: it would be guessed. The message shows none of the text.
        let at = error.span().map_or(0, |span| span.start);
        reader.problem(at, None, error.message().replace('\n', " "));
    }
    if errors.is_empty() {
        reader.table("", table.get_ref());
    }
    if reader.problems.is_empty() {
        return Ok(reader.contents);
    }
    reader.problems.sort_by_key(|problem| match &problem.source {
        Source::File(position) => (position.line, position.column),
        _ => (0, 0),
    });
    Err(ConfigError(reader.problems))
}

struct Reader<'a> {
    file: &'a Arc<Path>,
    text: &'a str,
    contents: Contents,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn source(&self, at: usize) -> Source {
        Source::File(Position::of(self.file, self.text, at))
    }

    fn problem(&mut self, at: usize, option: Option<&str>, text: String) {
        self.problems.push(Problem { source: self.source(at), option: option.map(str::to_owned), text });
    }

    /// A table: the whole file, or a section.
    fn table(&mut self, section: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = match section {
                "" => key.get_ref().to_string(),
                _ => format!("{section}.{}", key.get_ref()),
            };
            if let Some(spec) = OPTIONS.iter().find(|spec| spec.name == name) {
                if let Some(given) = self.value(spec, &name, value) {
                    self.contents.values.insert(spec.name, given);
                }
            } else if let Some((list, specs)) = LISTS.iter().find(|(list, _)| *list == name) {
                self.list(list, specs, value);
            } else if !OPTIONS.iter().any(|spec| spec.name.starts_with(&format!("{name}."))) {
                let known = names_in(section);
                let place = if section.is_empty() { "the file".to_owned() } else { format!("[{section}]") };
                self.problem(key.span().start, None, unknown(key.get_ref(), &place, &known));
            } else if let DeValue::Table(inner) = value.get_ref() {
                self.table(&name, inner);
            } else {
                let text = format!("it takes a table, `[{name}]`, not {}", told(value.get_ref()));
                self.problem(value.span().start, Some(&name), text);
            }
        }
    }

    fn list(&mut self, list: &'static str, specs: &'static [Spec], value: &Spanned<DeValue<'_>>) {
        let DeValue::Array(tables) = value.get_ref() else {
            let text = format!("it takes tables, each under `[[{list}]]`, not {}", told(value.get_ref()));
            return self.problem(value.span().start, Some(list), text);
        };
        if tables.len() > ITEMS_MAX {
            let text = format!("{} tables, at most {ITEMS_MAX}", tables.len());
            return self.problem(value.span().start, Some(list), text);
        }
        for (number, table) in tables.iter().enumerate() {
            let at = table.span().start;
            let DeValue::Table(entries) = table.get_ref() else {
                let text = format!("it takes tables, each under `[[{list}]]`, not {}", told(table.get_ref()));
                self.problem(at, Some(list), text);
                continue;
            };
            let mut item = Item { source: self.source(at), number, values: BTreeMap::new() };
            for (key, value) in entries {
                match specs.iter().find(|spec| spec.name == key.get_ref()) {
                    Some(spec) => {
                        let given = self.value(spec, &format!("{list}.{}", spec.name), value);
                        item.values.extend(given.map(|given| (spec.name, given)));
                    }
                    None => {
                        let known: Vec<_> = specs.iter().map(|spec| spec.name).collect();
                        self.problem(key.span().start, None, unknown(key.get_ref(), &format!("[[{list}]]"), &known));
                    }
                }
            }
            self.contents.items.entry(list).or_default().push(item);
        }
    }

    fn value(&mut self, spec: &Spec, name: &str, value: &Spanned<DeValue<'_>>) -> Option<Given> {
        match convert(spec.kind, value.get_ref()) {
            Ok(converted) => {
                let converted = match converted {
                    // A file means its own folder, wherever it is used from.
                    Value::Path(path) => Value::Path(self.file.parent().unwrap_or(Path::new("")).join(path)),
                    other => other,
                };
                Some(Given { value: converted, source: self.source(value.span().start) })
            }
            Err(text) => {
                self.problem(value.span().start, Some(name), text);
                None
            }
        }
    }
}

fn convert(kind: Kind, value: &DeValue<'_>) -> Result<Value, String> {
    match value {
        DeValue::Boolean(yes) => kind.of_switch(*yes),
        DeValue::Integer(integer) => {
            kind.of_number(i128::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(i128::MAX))
        }
        DeValue::String(text) => kind.of_string(text.to_string()),
        DeValue::Array(values) => {
            let text = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                other => Err(kind.due(&format!("{} in the list", told(other)))),
            };
            kind.of_list(values.iter().map(text).collect::<Result<_, _>>()?)
        }
        other => Err(kind.due(told(other))),
    }
}

fn told(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::Array(_) => "a list",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Integer(_) => "a number",
        DeValue::String(_) => "a string",
        DeValue::Table(_) => "a table",
    }
}

/// What may stand in a section; `""` is the top of the file.
fn names_in(section: &str) -> Vec<&'static str> {
    let all = OPTIONS.iter().map(|spec| spec.name).chain(LISTS.iter().map(|(list, _)| *list));
    let mut names = Vec::new();
    for name in all {
        let rest =
            if section.is_empty() { Some(name) } else { name.strip_prefix(section).and_then(|r| r.strip_prefix('.')) };
        let first = rest.map(|rest| rest.split('.').next().unwrap_or(rest));
        names.extend(first.filter(|first| !names.contains(first)));
    }
    names
}

/// What to say of a name that is not known.
pub(super) fn unknown(name: &str, place: &str, known: &[&str]) -> String {
    let shown: String = name.chars().take(64).collect();
    let near = known.iter().map(|k| (strsim::damerau_levenshtein(k, &shown), k)).min();
    let near = near.filter(|(distance, _)| *distance <= 2).map(|(_, k)| format!("; did you mean `{k}`?"));
    let all: Vec<_> = known.iter().map(|k| format!("`{k}`")).collect();
    format!("{place} has no option {shown:?}{} Known are {}.", near.unwrap_or_else(|| ".".into()), all.join(", "))
}
