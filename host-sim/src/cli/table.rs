//! Tables: bare columns, with a line below the heading on a terminal.

use comfy_table::LineStyle;
use comfy_table::Table;
use comfy_table::presets;
use serde_json::Value;

use super::out::Out;
use super::out::clip;
use super::out::safe;
use super::time;

/// Longest text of a cell on a terminal.
const CELL_CHARS_MAX: usize = 60;

/// A column: its heading, and where its value is in a row.
pub struct Column {
    /// The heading.
    pub title: &'static str,
    /// JSON Pointer into the row.
    pub pointer: &'static str,
    /// How the value is shown.
    pub kind: Kind,
}

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// As it is.
    Plain,
    /// Unix ms, as UTC.
    Time,
}

/// A table of JSON objects, one a row.
pub fn render(columns: &[Column], rows: &[Value], out: Out) -> String {
    let mut table = Table::new();
    let bare = presets::NOTHING;
    table.load_style(if out.stdout_tty {
        bare.header_separator(LineStyle::new('─', '─', '─', '─'))
    } else {
        bare
    });
    table.set_header(columns.iter().map(|c| c.title));
    for row in rows {
        table.add_row(columns.iter().map(|column| cell(column, row, out)));
    }
    let text = table.to_string();
    text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect::<Vec<_>>().join("\n")
}

fn cell(column: &Column, row: &Value, out: Out) -> String {
    let text = match (row.pointer(column.pointer), column.kind) {
        (None | Some(Value::Null), _) => "-".into(),
        (Some(value), Kind::Time) => value.as_u64().map_or_else(|| "-".into(), time::stamp),
        (Some(Value::String(text)), Kind::Plain) => safe(text),
        (Some(value), Kind::Plain) => value.to_string(),
    };
    clip(&text, if out.stdout_tty { CELL_CHARS_MAX } else { usize::MAX })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_values_are_dashes() {
        let columns = [
            Column { title: "ID", pointer: "/id", kind: Kind::Plain },
            Column { title: "ACCEPTED", pointer: "/created", kind: Kind::Time },
        ];
        let rows = [json!({"id": "3f-a", "created": 0}), json!({"id": null}), json!(7)];
        for stdout_tty in [false, true] {
            let text = render(&columns, &rows, Out { json: false, stdout_tty, stderr_tty: false });
            assert!(text.contains("3f-a") && text.contains("1970-01-01 00:00:00Z"), "{text}");
            assert_eq!(text.lines().filter(|line| line.ends_with('-')).count(), 2, "{text}");
        }
    }
}
