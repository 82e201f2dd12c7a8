//! Pages that name tests, and tests that cite the pages' rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The repository's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The rows of a page's tables whose first cell ends with a digit: that cell, and all cells.
pub fn rows(page: &str) -> Vec<(String, Vec<String>)> {
    let of = |line: &str| -> Option<(String, Vec<String>)> {
        let cells: Vec<String> = line.strip_prefix("| ")?.split('|').map(|cell| cell.trim().to_owned()).collect();
        let row = cells.first()?.clone();
        row.ends_with(|c: char| c.is_ascii_digit()).then_some((row, cells))
    };
    page.lines().filter_map(of).collect()
}

/// What stands between backticks.
pub fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The words of a text, as letters and digits.
pub fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_lowercase).collect()
}

/// Sources that were read.
#[derive(Default)]
pub struct Sources(BTreeMap<String, String>);

impl Sources {
    /// The comment of a test that is named as `path/of/file.rs::name`; an error says what is not there. `None`: that is no
    /// name of a test.
    pub fn comment(&mut self, name: &str) -> Option<Result<String, String>> {
        let (file, test) = name.split_once("::")?;
        if !self.0.contains_key(file) {
            match std::fs::read_to_string(root().join(file)) {
                Ok(source) => self.0.insert(file.to_owned(), source),
                Err(error) => return Some(Err(format!("{file}: {error}"))),
            };
        }
        Some(comment(&self.0[file], test).ok_or_else(|| format!("there is no {name}")))
    }
}

/// The comment of a function in a file; `None`: there is no such function.
fn comment(source: &str, name: &str) -> Option<String> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| line.contains(&format!("fn {name}(")))?;
    let above = lines[..at].iter().rev().take_while(|line| line.starts_with("///") || line.starts_with("#["));
    Some(above.filter(|line| line.starts_with("///")).copied().collect::<Vec<_>>().join("\n"))
}
