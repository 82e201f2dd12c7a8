//! docs/faults.md is true: every row stands there once and says something, every test that it names exists and cites the
//! row, every file is there, and what is not there yet is in the list of gaps.
#![cfg(not(target_family = "wasm"))]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../docs/faults.md");

/// How a row begins that is a gap, or has one.
const GAP: &str = "Not there yet";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A1 to A43, B1 to B40, C1 to C8, and the traps 1 to 36.
fn wanted() -> Vec<String> {
    let mut rows = Vec::new();
    for (letter, last) in [("A", 43), ("B", 40), ("C", 8), ("", 36)] {
        rows.extend((1..=last).map(|n| format!("{letter}{n}")));
    }
    rows
}

/// The tables' rows and what they say, in the page's order.
fn rows() -> Vec<(String, Vec<String>)> {
    let of = |line: &str| -> Option<(String, Vec<String>)> {
        let cells: Vec<String> = line.strip_prefix("| ")?.split('|').map(|cell| cell.trim().to_owned()).collect();
        let row = cells.first()?.clone();
        row.ends_with(|c: char| c.is_ascii_digit()).then_some((row, cells))
    };
    PAGE.lines().filter_map(of).collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The words of a text, as letters and digits.
fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_lowercase).collect()
}

/// The comment of a function in a file; `None`: there is no such function.
fn comment(source: &str, name: &str) -> Option<String> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| line.contains(&format!("fn {name}(")))?;
    let above = lines[..at].iter().rev().take_while(|line| line.starts_with("///") || line.starts_with("#["));
    Some(above.filter(|line| line.starts_with("///")).copied().collect::<Vec<_>>().join("\n"))
}

/// Whether a comment cites a row: `A12` by its name, a trap by that word and its number.
fn cites(comment: &str, row: &str) -> bool {
    let said = words(comment);
    let is_trap = row.starts_with(|c: char| c.is_ascii_digit());
    said.contains(&row.to_lowercase()) && (!is_trap || said.contains("trap") || said.contains("traps"))
}

#[test]
fn every_row_stands_there_once_and_says_something() {
    let rows = rows();
    let names: Vec<String> = rows.iter().map(|(row, _)| row.clone()).collect();
    assert_eq!(names, wanted(), "the rows of docs/faults.md");
    for (row, cells) in &rows {
        // The row, the fault, the answer, and the empty end of the line.
        assert_eq!(cells.len(), 4, "{row}: {cells:?}");
        assert!(cells[1].len() > 8 && cells[2].len() > 8 && cells[3].is_empty(), "{row}: {cells:?}");
    }
}

#[test]
fn every_test_exists_and_cites_its_row() {
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    let (mut named, mut wrong) = (0, Vec::new());
    for (row, cells) in rows() {
        for name in quoted(&cells[2]) {
            let Some((file, test)) = name.split_once("::") else { continue };
            let source = sources.entry(file.to_owned()).or_insert_with(|| {
                std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{row}: {file}: {error}"))
            });
            match comment(source, test) {
                None => wrong.push(format!("{row}: there is no {name}")),
                Some(comment) if !cites(&comment, &row) => wrong.push(format!("{row}: {name} does not cite it")),
                Some(_) => named += 1,
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(named > 150, "only {named} tests are named");
}

#[test]
fn every_file_is_there() {
    for name in quoted(PAGE) {
        let is_file = name.contains('/') && (name.ends_with(".rs") || name.ends_with(".toml"));
        assert!(!is_file || root().join(name).is_file(), "there is no {name}");
    }
}

#[test]
fn what_is_not_there_yet_is_in_the_list_of_gaps() {
    let (_, gaps) = PAGE.split_once("\n## Gaps\n").expect("a list of gaps");
    let listed = words(gaps);
    for (row, cells) in rows() {
        let is_listed = listed.contains(&row.to_lowercase());
        assert_eq!(cells[2].contains(GAP), is_listed, "{row}: {GAP:?} in its row, or its name in the list, is missing");
    }
}
