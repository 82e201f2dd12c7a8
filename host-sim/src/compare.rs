//! Compares a stored transcript with the recording that it was replayed from.
//!
//! Three kinds of difference are allowed and listed apart: results that say `interrupted` where the recording has a
//! real one, results that say `notRun` for calls that the recording itself left open, and notices. Everything else
//! counts. How an answer ended is not compared: the recording's `stop` may be our `pause`.

mod message;

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use self::message::alike;
use self::message::differences;
use self::message::same_place;
use self::message::short;
use crate::recording::Message;
use crate::recording::Recording;
use crate::recording::Role;

/// Most differences that a report lists; the rest is counted.
pub const DIFFERENCES_MAX: usize = 1000;
/// How far an extra or missing message is looked for, in messages.
const WINDOW: usize = 16;

/// What a comparison has found. Numbers are indexes into the stored transcript, from 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Recorded messages that have a stored one in their place.
    pub messages: usize,
    /// Stored results that say `interrupted` where the recording has a real one.
    pub interrupted: Vec<usize>,
    /// Stored results that close calls which the recording left open.
    pub closed_open: Vec<usize>,
    /// Stored notices.
    pub notices: Vec<usize>,
    /// What is not allowed.
    pub differences: Vec<Difference>,
    /// Differences beyond [`DIFFERENCES_MAX`].
    pub unlisted: usize,
}

impl Report {
    /// There is no difference that counts.
    pub fn is_same(&self) -> bool {
        self.differences.is_empty()
    }

    fn add(&mut self, difference: Difference) {
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(difference);
        } else {
            self.unlisted += 1;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} messages compared: {} differences; allowed: {} interrupted results, {} open calls closed, {} notices",
            self.messages,
            self.differences.len() + self.unlisted,
            self.interrupted.len(),
            self.closed_open.len(),
            self.notices.len()
        )?;
        for difference in &self.differences {
            writeln!(f, "{difference}")?;
        }
        if self.unlisted > 0 {
            writeln!(f, "… and {} more", self.unlisted)?;
        }
        Ok(())
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Index into the stored transcript; its length when something is missing at the end.
    pub index: usize,
    /// The field, as in docs/transcript.md; `message` for a whole message.
    pub field: String,
    /// What the recording has, shortened.
    pub expected: String,
    /// What is stored, shortened.
    pub got: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {}, {}: expected {}, got {}", self.index, self.field, self.expected, self.got)
    }
}

/// Compares stored messages with a recording.
pub fn compare(stored: &[Value], recording: &Recording) -> Report {
    let mut report = Report::default();
    let stored = parse_stored(stored, &mut report);
    let recorded = recording.messages.as_slice();
    let (mut at, mut want) = (0, 0);
    while at < stored.len() || want < recorded.len() {
        match (stored.get(at), recorded.get(want)) {
            (Some((index, got)), expected) if closes_open(got, recorded, want, expected) => {
                report.closed_open.push(*index);
                at += 1;
            }
            (Some((index, got)), Some(expected)) => match step(&stored[at..], &recorded[want..]) {
                Step::Extra => {
                    report.add(whole(*index, "nothing".to_owned(), describe(got)));
                    at += 1;
                }
                Step::Missing => {
                    report.add(whole(*index, describe(expected), "nothing".to_owned()));
                    want += 1;
                }
                Step::Pair => {
                    compare_pair(*index, got, expected, &mut report);
                    at += 1;
                    want += 1;
                }
            },
            (Some((index, got)), None) => {
                report.add(whole(*index, "nothing".to_owned(), describe(got)));
                at += 1;
            }
            (None, Some(expected)) => {
                let index = stored.last().map_or(0, |(index, _)| index + 1);
                report.add(whole(index, describe(expected), "nothing".to_owned()));
                want += 1;
            }
            (None, None) => break,
        }
    }
    report
}

/// What to do with the next stored and the next recorded message.
enum Step {
    Extra,
    Missing,
    Pair,
}

fn step(stored: &[(usize, Message)], recorded: &[Message]) -> Step {
    let (Some((_, got)), Some(expected)) = (stored.first(), recorded.first()) else {
        return Step::Pair;
    };
    if alike(got, expected) || same_place(got, expected) {
        return Step::Pair;
    }
    for ahead in 1..=WINDOW {
        if stored.get(ahead).is_some_and(|(_, later)| alike(later, expected)) {
            return Step::Extra;
        }
        if recorded.get(ahead).is_some_and(|later| alike(got, later)) {
            return Step::Missing;
        }
    }
    Step::Pair
}

fn parse_stored(stored: &[Value], report: &mut Report) -> Vec<(usize, Message)> {
    let mut messages = Vec::new();
    for (index, value) in stored.iter().enumerate() {
        match Message::parse(value) {
            Ok(Some(message)) => messages.push((index, message)),
            Ok(None) if value.get("role").and_then(Value::as_str) == Some("notice") => report.notices.push(index),
            Ok(None) => report.add(whole(index, "nothing".to_owned(), short(&value.to_string()))),
            Err(reason) => report.add(whole(index, "a message".to_owned(), reason)),
        }
    }
    messages
}

/// A result that says `notRun`, for a call of the last recorded answer, which ended badly and left it open.
fn closes_open(got: &Message, recorded: &[Message], want: usize, expected: Option<&Message>) -> bool {
    if got.role != Role::ToolResult || got.outcome.as_deref() != Some("notRun") {
        return false;
    }
    if expected.is_some_and(|expected| expected.role == Role::ToolResult) {
        return false;
    }
    let Some(answer) = want.checked_sub(1).and_then(|last| recorded.get(last)) else {
        return false;
    };
    answer.ended_badly() && answer.calls().any(|(id, _, _)| id == got.tool_call_id)
}

fn compare_pair(index: usize, got: &Message, expected: &Message, report: &mut Report) {
    report.messages += 1;
    let interrupted = got.role == Role::ToolResult && got.outcome.as_deref() == Some("interrupted");
    if interrupted && expected.outcome.as_deref() != Some("interrupted") && same_place(got, expected) {
        report.interrupted.push(index);
        return;
    }
    for (field, expected, got) in differences(got, expected) {
        report.add(Difference { index, field, expected: short(&expected), got: short(&got) });
    }
}

fn whole(index: usize, expected: String, got: String) -> Difference {
    Difference { index, field: "message".to_owned(), expected, got }
}

fn describe(message: &Message) -> String {
    let what = match message.role {
        Role::Assistant => "assistant".to_owned(),
        Role::ToolResult => format!("toolResult {} of {}", message.tool_call_id, message.tool_name),
        Role::User => "user".to_owned(),
    };
    let calls: Vec<&str> = message.calls().map(|(_, name, _)| name).collect();
    let calls = if calls.is_empty() { String::new() } else { format!(" calling {}", calls.join(", ")) };
    format!("{what}{calls} {}", short(&message.text()))
}
