//! Progress of long work: on stderr, and only where somebody looks at it.

use std::borrow::Cow;

use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;

use super::out::Out;

/// A bar that shows itself on a terminal, and nothing elsewhere.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar with a known end.
    pub fn bar(out: Out, what: &'static str, total: u64) -> Self {
        let style = ProgressStyle::with_template("{prefix} {bar:32} {pos}/{len} {msg} ({elapsed})");
        Self::new(out, ProgressBar::with_draw_target(Some(total), target(out)), what, style)
    }

    /// A counter without a known end.
    pub fn counter(out: Out, what: &'static str) -> Self {
        let style = ProgressStyle::with_template("{spinner} {prefix} {msg} ({elapsed})");
        Self::new(out, ProgressBar::with_draw_target(None, target(out)), what, style)
    }

    fn new<E>(_: Out, bar: ProgressBar, what: &'static str, style: Result<ProgressStyle, E>) -> Self {
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        Self(bar)
    }

    /// How far it is.
    pub fn at(&self, position: u64, message: impl Into<Cow<'static, str>>) {
        self.0.set_message(message);
        self.0.set_position(position);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn target(out: Out) -> ProgressDrawTarget {
    if out.stderr_tty && !out.json { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
}
