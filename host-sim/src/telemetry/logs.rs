//! Lines of the log, on stderr: text for people, or JSON. Only lines of ours: those of libraries could hold what must
//! not be in a log.

use tracing::Dispatch;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer};

use super::TelemetryError;
use crate::config::{LogFormat, Telemetry};
use crate::data::Level;

/// What lines of the host begin their target with.
pub const TARGET: &str = "writ";
/// The target of lines of the component.
const COMPONENT: &str = "writ::component";

/// Where lines go: made once, used by the observer and, once it is installed, by every `tracing` macro.
pub fn dispatch<W>(config: &Telemetry, writer: W) -> Result<Dispatch, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse(&config.log).map_err(|error| TelemetryError::Filter(error.to_string()))?;
    let ours = filter_fn(|meta| meta.target() == TARGET || meta.target().starts_with("writ::"));
    // A stderr that has gone is no reason to stop: by default, a line that can't be written makes another one there.
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).log_internal_errors(false);
    let registry = tracing_subscriber::registry();
    Ok(match config.log_format {
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true).with_current_span(false).with_span_list(false);
            Dispatch::new(registry.with(layer.with_filter(filter.and(ours))))
        }
        LogFormat::Text => Dispatch::new(registry.with(layer.with_ansi(false).with_filter(filter.and(ours)))),
    })
}

/// What a line is about.
#[derive(Default)]
pub(super) struct About<'a> {
    pub(super) thread: Option<&'a str>,
    pub(super) submission: Option<&'a str>,
    pub(super) attempt: Option<u64>,
}

/// A line of the component (`call` is its number), or of the host about it (0).
pub(super) fn line(call: u64, level: Level, about: &About<'_>, text: &str) {
    let text = one_line(text);
    let About { thread, submission, attempt } = about;
    let call = (call > 0).then_some(call);
    macro_rules! write {
        ($level:ident, $target:ident) => {
            tracing::event!(target: $target, tracing::Level::$level, thread, submission, attempt, call, "{text}")
        };
    }
    match (call, level) {
        (None, Level::Debug) => write!(DEBUG, TARGET),
        (None, Level::Info) => write!(INFO, TARGET),
        (None, Level::Warn) => write!(WARN, TARGET),
        (None, Level::Error) => write!(ERROR, TARGET),
        (Some(_), Level::Debug) => write!(DEBUG, COMPONENT),
        (Some(_), Level::Info) => write!(INFO, COMPONENT),
        (Some(_), Level::Warn) => write!(WARN, COMPONENT),
        (Some(_), Level::Error) => write!(ERROR, COMPONENT),
    }
}

/// A component can't begin a line of its own, nor drive a terminal.
fn one_line(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().collect::<String>() } else { c.to_string() };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(log: &str, log_format: LogFormat, write: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let config = Telemetry { log: log.into(), log_format, otlp_endpoint: None, metrics: false };
        let dispatch = dispatch(&config, move || writer.clone()).unwrap();
        tracing::dispatcher::with_default(&dispatch, write);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_line_says_what_it_is_about() {
        let about = About { thread: Some("t"), submission: Some("s"), attempt: Some(2) };
        let text = logged("info", LogFormat::Json, || line(7, Level::Warn, &about, "one\ntwo\u{1b}[2J"));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["level"], &json["target"]), (&"WARN".into(), &COMPONENT.into()), "{text}");
        assert_eq!((&json["thread"], &json["submission"]), (&"t".into(), &"s".into()), "{text}");
        assert_eq!((&json["attempt"], &json["call"]), (&2.into(), &7.into()), "{text}");
        assert_eq!(json["message"], "one\\ntwo\\u{1b}[2J");
        assert!(json["timestamp"].as_str().unwrap().ends_with('Z'), "{text}");
        let text = logged("info", LogFormat::Text, || line(0, Level::Warn, &About::default(), "one\ntwo"));
        assert!(text.contains(" WARN writ: one\\ntwo") && text.lines().count() == 1, "{text}");
        assert!(!text.contains("thread") && !text.contains("call"), "{text}");
    }

    #[test]
    fn the_filter_tells_host_and_component_apart_and_others_are_never_logged() {
        let about = About::default();
        let text = logged("trace,writ::component=error", LogFormat::Text, || {
            line(0, Level::Debug, &about, "host");
            line(1, Level::Warn, &about, "component");
            tracing::error!(target: "hyper", "a header");
            tracing::error!(target: "writhe", "a header");
        });
        assert!(text.contains("host") && text.lines().count() == 1, "{text}");
    }
}
