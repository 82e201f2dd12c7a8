//! An answer as it comes. Deltas are a courtesy and may be lost: at the end the stored reply decides.

use serde_json::Value;

use super::blocks;
use super::failure::Failure;
use super::out::DIM;
use super::out::Out;
use super::out::safe;
use super::out::styled;

/// Shows the events of a turn on a terminal, or keeps quiet until the reply is there.
pub struct Stream {
    out: Out,
    /// Text of the present answer that has been shown.
    shown: String,
}

impl Stream {
    /// Shows nothing yet.
    pub fn new(out: Out) -> Self {
        Self { out, shown: String::new() }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Value) -> Result<(), Failure> {
        if !self.live() {
            return Ok(());
        }
        match event["type"].as_str() {
            Some("text") => {
                let text = safe(event["text"].as_str().unwrap_or_default());
                self.shown.push_str(&text);
                self.out.text(&text)
            }
            Some("messages") => {
                event["messages"].as_array().into_iter().flatten().try_for_each(|m| self.message(&m["message"]))
            }
            _ => Ok(()),
        }
    }

    /// Ends the answer with the stored reply: what was not shown is shown now.
    pub fn end(&mut self, reply: Option<&str>) -> Result<(), Failure> {
        if let Some(rest) = rest(&self.shown, &safe(reply.unwrap_or_default())) {
            self.out.line(&rest)?;
        }
        self.shown.clear();
        Ok(())
    }

    /// A stored message: an answer with calls ends the text before it, a result is named.
    fn message(&mut self, message: &Value) -> Result<(), Failure> {
        let calls = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let calls: Vec<&Value> = calls.iter().filter(|b| b["type"] == "toolCall").collect();
        if calls.is_empty() {
            return Ok(());
        }
        if let Some(rest) = rest(&self.shown, &safe(&blocks::plain_text(message))) {
            self.out.line(&rest)?;
        }
        self.shown.clear();
        for call in calls {
            let line = blocks::call_line(call["name"].as_str().unwrap_or_default(), &call["arguments"]);
            self.out.note(&styled(DIM, &format!("  calls {line}")), &Value::Null);
        }
        Ok(())
    }

    fn live(&self) -> bool {
        self.out.stdout_tty && !self.out.json
    }
}

/// What is to be printed, with a line's end, after `shown` so that `reply` stands there; `None` when there is nothing.
fn rest(shown: &str, reply: &str) -> Option<String> {
    let reply = reply.trim_end_matches('\n');
    match reply.strip_prefix(shown.trim_end_matches('\n')) {
        Some("") if shown.is_empty() => None,
        Some(rest) => Some(rest.into()),
        None => Some(format!("\n{reply}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows A21.
    #[test]
    fn the_stored_reply_decides() {
        assert_eq!(rest("", "hello"), Some("hello".into()));
        assert_eq!(rest("hel", "hello"), Some("lo".into()));
        assert_eq!(rest("hello\n", "hello"), Some("".into()));
        assert_eq!(rest("hllo", "hello"), Some("\nhello".into()));
        assert_eq!(rest("", ""), None);
    }
}
