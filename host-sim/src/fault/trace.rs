//! What a component called, in order.

use crate::engine::{End, Import};

use super::plan::Kind;

/// One call of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The life of the host, from 0.
    pub life: u32,
    /// Whether it is the second host of that life (see [`Kind::DuplicateRun`]).
    pub twin: bool,
    /// The number of the call in its life, from 0. Calls of a second host have numbers of their own.
    pub number: u32,
    /// The instance, counted from 0 within its host.
    pub instance: u64,
    /// The export that the instance was made for.
    pub export: &'static str,
    /// What was called.
    pub import: Import,
    /// What with.
    pub detail: String,
    /// The fault that happened here.
    pub fault: Option<Kind>,
    /// How it ended, as the component was told; `None`: it never learned.
    pub end: Option<End>,
}

/// Longest detail that a line shows, in characters.
const DETAIL_CHARS_MAX: usize = 72;

impl Entry {
    /// As a line for people.
    pub fn line(&self) -> String {
        let end = match &self.end {
            None => "never answered".to_owned(),
            Some(End::Answered(text)) if text.is_empty() => "ok".to_owned(),
            Some(End::Answered(text)) => format!("ok: {}", clip(text)),
            Some(End::Committed) => "committed".to_owned(),
            Some(End::Stale) => "stale".to_owned(),
            Some(End::Failed(text)) => format!("failed: {}", clip(text)),
            Some(End::Unknown(text)) => format!("unknown: {}", clip(text)),
        };
        let host = if self.twin { "second host" } else { "host" };
        let fault = self.fault.map(|kind| format!("   <== {}", kind.name())).unwrap_or_default();
        format!(
            "life {} {host} call {:>3}  {:<7} #{:<3} {:<16} {} -> {end}{fault}",
            self.life,
            self.number,
            self.export,
            self.instance,
            self.import.name(),
            clip(&self.detail)
        )
    }
}

/// The lines around the faults of a trace: `near` before and after each.
pub fn around(trace: &[Entry], near: usize) -> Vec<String> {
    let faults: Vec<usize> = (0..trace.len()).filter(|at| trace[*at].fault.is_some()).collect();
    let mut lines = Vec::new();
    let mut skipped = false;
    for (at, entry) in trace.iter().enumerate() {
        if faults.iter().any(|fault| at.abs_diff(*fault) <= near) {
            if std::mem::take(&mut skipped) {
                lines.push("…".into());
            }
            lines.push(entry.line());
        } else {
            skipped = true;
        }
    }
    if skipped && !lines.is_empty() {
        lines.push("…".into());
    }
    lines
}

fn clip(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(DETAIL_CHARS_MAX).collect();
    if line.len() < text.len() { format!("{line}…") } else { line }
}
