//! What the protocols ask for is shown: each of their rows stands in one of the pages, every test that is named there
//! exists, and one of them at least cites the row.
#![cfg(not(target_family = "wasm"))]

use std::collections::BTreeMap;

use writ_tests::cited::{Sources, quoted, rows, words};

const PAGES: [(&str, &str); 5] = [
    ("docs/mcp.md", include_str!("../docs/mcp.md")),
    ("docs/a2a.md", include_str!("../docs/a2a.md")),
    ("docs/acp.md", include_str!("../docs/acp.md")),
    ("docs/stdio.md", include_str!("../docs/stdio.md")),
    ("docs/conformance.md", include_str!("../docs/conformance.md")),
];

/// The rows of MCP, A2A, ACP, and of all of them together.
const LAST: u32 = 102;

#[test]
fn every_row_has_a_test_that_cites_it() {
    let mut sources = Sources::default();
    let (mut cited, mut wrong) = (BTreeMap::<u32, usize>::new(), Vec::new());
    for (page, text) in PAGES {
        for (first, cells) in rows(text) {
            let Ok(numbers) = first.split(", ").map(str::parse::<u32>).collect::<Result<Vec<_>, _>>() else { continue };
            // The row, what it asks for, the tests, and the empty end of the line.
            assert_eq!(cells.len(), 4, "{page}: {cells:?}");
            for name in quoted(&cells[2]) {
                let comment = match sources.comment(name) {
                    None => continue,
                    Some(Err(error)) => {
                        wrong.push(format!("{page}, row {first}: {error}"));
                        continue;
                    }
                    Some(Ok(comment)) => words(&comment),
                };
                let speaks_of_rows = comment.contains("row") || comment.contains("rows");
                for number in &numbers {
                    let cites = speaks_of_rows && comment.contains(&number.to_string());
                    *cited.entry(*number).or_default() += usize::from(cites);
                }
            }
            numbers.iter().for_each(|number| _ = cited.entry(*number).or_default());
        }
    }
    for number in 1..=LAST {
        match cited.get(&number) {
            None => wrong.push(format!("row {number} is on no page")),
            Some(0) => wrong.push(format!("row {number}: no test that is named cites it")),
            Some(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(cited.keys().last(), Some(&LAST), "a row that there is not");
}
