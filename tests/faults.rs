//! docs/faults.md is true: every row stands there once and says something, every test that it names exists and cites the
//! row, every file is there, and what is not there yet is in the list of gaps.
#![cfg(not(target_family = "wasm"))]

use writ_tests::cited::{Sources, quoted, root, rows, words};

const PAGE: &str = include_str!("../docs/faults.md");

/// How a row begins that is a gap, or has one.
const GAP: &str = "Not there yet";

/// A1 to A43, B1 to B40, C1 to C8, and the traps 1 to 36.
fn wanted() -> Vec<String> {
    let mut rows = Vec::new();
    for (letter, last) in [("A", 43), ("B", 40), ("C", 8), ("", 36)] {
        rows.extend((1..=last).map(|n| format!("{letter}{n}")));
    }
    rows
}

/// Whether a comment cites a row: `A12` by its name, a trap by that word and its number.
fn cites(comment: &str, row: &str) -> bool {
    let said = words(comment);
    let is_trap = row.starts_with(|c: char| c.is_ascii_digit());
    said.contains(&row.to_lowercase()) && (!is_trap || said.contains("trap") || said.contains("traps"))
}

#[test]
fn every_row_stands_there_once_and_says_something() {
    let rows = rows(PAGE);
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
    let mut sources = Sources::default();
    let (mut named, mut wrong) = (0, Vec::new());
    for (row, cells) in rows(PAGE) {
        for name in quoted(&cells[2]) {
            match sources.comment(name) {
                None => {}
                Some(Err(error)) => wrong.push(format!("{row}: {error}")),
                Some(Ok(comment)) if !cites(&comment, &row) => wrong.push(format!("{row}: {name} does not cite it")),
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
    for (row, cells) in rows(PAGE) {
        let is_listed = listed.contains(&row.to_lowercase());
        assert_eq!(cells[2].contains(GAP), is_listed, "{row}: {GAP:?} in its row, or its name in the list, is missing");
    }
}
