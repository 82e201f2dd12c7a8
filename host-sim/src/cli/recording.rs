//! An exported file, read line by line. See docs/transcript.md.

use std::path::Path;

use serde_json::Value;

use super::failure::Failure;
use super::spans;

/// A file of one thread.
#[derive(Debug, Default, PartialEq)]
pub struct Exported {
    /// The raw `session` line, when there is one.
    pub session: Option<String>,
    /// The raw messages, each with the number of its line.
    pub messages: Vec<(usize, String)>,
}

impl Exported {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|e| Failure::file(path, "read", &e))?;
        Self::parse(&text).map_err(|(line, what)| {
            Failure::refused("file", format!("{}:{line}: {what}", path.display()))
                .advise("A line is a JSON object with a `type`; see docs/transcript.md.")
        })
    }

    /// Reads a text; an error names the line.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut file = Self::default();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if line.trim().is_empty() {
                continue;
            }
            let value: Value = serde_json::from_str(line).map_err(|e| (number, format!("no JSON: {e}")))?;
            match value["type"].as_str() {
                Some("session") if file.session.is_some() => return Err((number, "a second session line".into())),
                Some("session") => file.session = Some(line.trim().into()),
                Some("message") => {
                    let message = spans::field(line, "message").filter(|_| value["message"].is_object());
                    let Some(message) = message else {
                        return Err((number, "a message line without an object `message`".into()));
                    };
                    file.messages.push((number, message.into()));
                }
                Some(_) => {}
                None => return Err((number, "no object with a `type`".into())),
            }
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_are_passed_over_and_bad_ones_named() {
        let text = "{\"type\":\"session\"}\n\n{\"type\":\"model_change\"}\n{\"type\":\"message\",\"message\":{\"b\":1.0,\"a\":2}}\n";
        let file = Exported::parse(text).unwrap();
        assert_eq!(file.messages, [(4, r#"{"b":1.0,"a":2}"#.to_string())]);
        for (bad, line) in [("{}", 1), ("\n[", 2), ("{\"type\":\"message\"}", 1), ("3", 1)] {
            assert_eq!(Exported::parse(bad).unwrap_err().0, line, "{bad}");
        }
    }
}
