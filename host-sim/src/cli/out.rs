//! What a command prints: results on stdout, everything else on stderr. Colour and tables only on a terminal.

use std::io::IsTerminal;
use std::io::Write;

use anstyle::Style;
use serde_json::Value;

use super::exit;
use super::failure::Failure;

/// Code of the failure that says that the reader of stdout has gone: the command ends quietly.
pub const BROKEN_PIPE: &str = "broken-pipe";

/// Headings and names.
pub const BOLD: Style = Style::new().bold();
/// What can be skipped.
pub const DIM: Style = Style::new().dimmed();
/// Good news.
pub const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Green)));
/// What needs attention.
pub const WARN: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow)));
/// Bad news.
pub const BAD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Red)));

/// Where a command prints.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    /// `--json`: results and errors as JSON.
    pub json: bool,
    /// Whether stdout is a terminal.
    pub stdout_tty: bool,
    /// Whether stderr is a terminal.
    pub stderr_tty: bool,
}

impl Out {
    /// The process's own streams.
    pub fn new(json: bool) -> Self {
        Self { json, stdout_tty: std::io::stdout().is_terminal(), stderr_tty: std::io::stderr().is_terminal() }
    }

    /// Prints a line of the result.
    pub fn line(&self, text: &str) -> Result<(), Failure> {
        self.text(&format!("{text}\n"))
    }

    /// Prints a part of the result, flushed.
    pub fn text(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = anstream::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|e| closed(&e))
    }

    /// Prints bytes of the result as they are.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|e| closed(&e))
    }

    /// Prints a JSON value as one line of the result.
    pub fn value(&self, value: &Value) -> Result<(), Failure> {
        self.line(&value.to_string())
    }

    /// Prints a note on stderr, flushed before it returns. With `--json` it is the value. A stderr that has gone is
    /// no reason to stop.
    pub fn note(&self, text: &str, value: &Value) {
        let mut stderr = anstream::stderr().lock();
        let _ = if self.json { writeln!(stderr, "{value}") } else { writeln!(stderr, "{text}") };
        let _ = stderr.flush();
    }

    /// Prints a failure on stderr.
    pub fn failure(&self, failure: &Failure) {
        if failure.code != BROKEN_PIPE {
            self.note(&failure.text(), &failure.json());
        }
    }
}

fn closed(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::new(exit::DONE, BROKEN_PIPE, "the reader of stdout has gone"),
        _ => Failure::internal("stdout", format!("stdout can't be written: {error}")),
    }
}

/// Text in a style; the streams drop the style when they are no terminal.
pub fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Makes text from outside fit for a terminal: control characters other than line feed and tab are shown, not obeyed.
pub fn safe(text: &str) -> String {
    let odd = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(odd) {
        return text.into();
    }
    text.replace("\r\n", "\n").chars().map(|c| if odd(c) { '\u{fffd}' } else { c }).collect()
}

/// The first line of a text, cut after `max` characters.
pub fn clip(text: &str, max: usize) -> String {
    let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("").trim();
    let more = line.len() < text.trim().len();
    let mut cut: String = line.chars().take(max).collect();
    if more || cut.len() < line.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_can_not_drive_the_terminal() {
        assert_eq!(safe("a\u{1b}[2Jb\tc\nd"), "a\u{fffd}[2Jb\tc\nd");
        assert_eq!(safe("a\r\nb"), "a\nb");
    }

    #[test]
    fn a_clip_is_one_line() {
        assert_eq!(clip("\n  one\ntwo", 10), "one…");
        assert_eq!(clip("äöü", 2), "äö…");
        assert_eq!(clip("", 2), "");
        assert_eq!(clip("ok", 2), "ok");
    }
}
