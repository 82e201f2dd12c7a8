//! Progress of long work: on stderr, and only where somebody looks at it.

use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;

use super::out::Out;

/// How long work takes before its bar is worth a look.
const SILENCE: Duration = Duration::from_millis(500);

/// A bar that shows itself on a terminal, once the work is long, and nothing elsewhere.
pub struct Progress {
    bar: ProgressBar,
    /// Since when; `None` once it is decided whether the bar is shown.
    hidden: Mutex<Option<Instant>>,
    somebody_looks: bool,
}

impl Progress {
    /// A bar with a known end.
    pub fn bar(out: Out, what: &'static str, total: u64) -> Self {
        let style = ProgressStyle::with_template("{prefix} {bar:32} {pos}/{len} {msg} ({elapsed})");
        Self::new(out, ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()), what, style)
    }

    /// A counter without a known end.
    pub fn counter(out: Out, what: &'static str) -> Self {
        let style = ProgressStyle::with_template("{spinner} {prefix} {msg} ({elapsed})");
        Self::new(out, ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()), what, style)
    }

    fn new<E>(out: Out, bar: ProgressBar, what: &'static str, style: Result<ProgressStyle, E>) -> Self {
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        let somebody_looks = out.stderr_tty && !out.json;
        Self { bar, hidden: Mutex::new(Some(Instant::now())), somebody_looks }
    }

    /// How far it is.
    pub fn at(&self, position: u64, message: impl Into<Cow<'static, str>>) {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        if hidden.is_some_and(|since| since.elapsed() >= SILENCE) {
            *hidden = None;
            if self.somebody_looks {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        }
        self.bar.set_message(message);
        self.bar.set_position(position);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
