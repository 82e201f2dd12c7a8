//! How a host is watched: metrics, logs and traces, from what an [`Observer`] hears (docs/operations.md).
//!
//! [`Telemetry::start`] makes all of them from the configuration; [`Host::observed`](crate::host::Host::observed) takes
//! [`Telemetry::observer`].

mod conventions;
mod export;
mod ids;
pub mod logs;
mod metrics;
mod spans;
mod stderr;
mod work;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::Dispatch;

pub use self::ids::{root_span, trace};
pub use self::metrics::{Metrics, Open};

use self::export::Exporter;
use self::logs::About;
use self::spans::Spans;
use self::stderr::Stderr;
use self::work::{Event, Work};
use crate::config;
use crate::data::Level;
use crate::engine::{CallEnd, Observer, Seen};

/// Why there is no telemetry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The log's filter.
    #[error("`telemetry.log` is no filter: {0}")]
    Filter(String),
    /// The log's own thread.
    #[error("the system gives no thread for the log: {0}")]
    Log(std::io::Error),
    /// The exporter of traces.
    #[error("traces can't be sent to `telemetry.otlp_endpoint`: {0}")]
    Otlp(String),
}

/// Metrics, logs and traces of a process.
pub struct Telemetry {
    metrics: Arc<Metrics>,
    /// Where lines go.
    log: Dispatch,
    /// What is to be written before the process ends.
    stderr: Option<Stderr>,
    spans: Option<Spans>,
    exporter: Option<Exporter>,
    work: Mutex<Work>,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Telemetry")
    }
}

impl Telemetry {
    /// All that the configuration asks for. It must be called on a tokio runtime. Lines go to stderr, those of every
    /// `tracing` macro with the target `writ` too: a process has one of these.
    pub fn start(config: &config::Telemetry) -> Result<Arc<Self>, TelemetryError> {
        let stderr = Stderr::new().map_err(TelemetryError::Log)?;
        let log = logs::dispatch(config, stderr.clone())?;
        // A second one in the process still logs what it observes.
        let _ = tracing::dispatcher::set_global_default(log.clone());
        Self::of(config, log, Some(stderr))
    }

    /// The same, with lines that go elsewhere, and those of `tracing` macros left alone.
    pub fn with_log(config: &config::Telemetry, log: Dispatch) -> Result<Arc<Self>, TelemetryError> {
        Self::of(config, log, None)
    }

    fn of(config: &config::Telemetry, log: Dispatch, stderr: Option<Stderr>) -> Result<Arc<Self>, TelemetryError> {
        let metrics = Arc::new(Metrics::default());
        let exporter = match &config.otlp_endpoint {
            Some(endpoint) => Some(Exporter::start(endpoint, metrics.clone(), log.clone())?),
            None => None,
        };
        let spans = exporter.as_ref().map(|exporter| Spans::new(exporter.sender()));
        Ok(Arc::new(Self { metrics, log, stderr, spans, exporter, work: Mutex::default() }))
    }

    /// What a host tells things to.
    pub fn observer(self: &Arc<Self>) -> Arc<dyn Observer> {
        self.clone()
    }

    /// The counts: [`Metrics::render`] for `/metrics`, and what others have to say.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Ends the spans of attempts that wait, sends what has ended, writes the last lines, and waits for it, some seconds at most. To be called
    /// when the host is gone.
    pub async fn flush(&self) {
        let waiting = self.work().waiting();
        waiting.iter().for_each(|attempt| self.interrupted(Some(attempt)));
        if let Some(exporter) = &self.exporter {
            exporter.flush().await;
        }
        if let Some(stderr) = &self.stderr {
            stderr.flush().await;
        }
    }

    fn line(&self, call: u64, level: Level, about: &About<'_>, text: &str) {
        tracing::dispatcher::with_default(&self.log, || logs::line(call, level, about, text));
    }

    /// What a call is about, by now.
    fn about(&self, call: u64) -> work::Call {
        self.work().about(call)
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn published(&self, call: u64, thread: &str, event: &Event<'_>) {
        let Some(submission) = event.submission.as_deref() else { return };
        match event.kind.as_ref() {
            "attempt" => {
                self.metrics.attempt();
                let ended = self.work().attempt(call, thread, submission, event);
                self.interrupted(ended.as_ref());
                let about = About { thread: Some(thread), submission: Some(submission), attempt: event.attempt };
                self.line(0, Level::Debug, &about, "an attempt begins");
            }
            "retrying" => {
                self.metrics.retry();
                let about = About { thread: Some(thread), submission: Some(submission), attempt: None };
                self.line(0, Level::Info, &about, "the model is asked again later");
            }
            "settled" => {
                // An event of another version must not make up labels.
                let known = metrics::STATUSES.into_iter().find(|status| event.status.as_deref() == Some(status));
                let status = known.unwrap_or("other");
                self.metrics.settled(status);
                let (attempt, began) = self.work().settled(call, submission);
                if let Some(spans) = &self.spans {
                    attempt.iter().for_each(|attempt| spans.attempt(attempt, status));
                    let began = began.or(attempt.as_ref().map(|attempt| attempt.began));
                    spans.submission(submission, thread, began, status);
                }
                let about =
                    About { thread: Some(thread), submission: Some(submission), attempt: attempt.map(|a| a.number) };
                self.line(0, Level::Info, &about, &format!("settled: {status}"));
            }
            _ => {}
        }
    }

    fn interrupted(&self, attempt: Option<&work::Attempt>) {
        if let (Some(spans), Some(attempt)) = (&self.spans, attempt) {
            spans.attempt(attempt, "interrupted");
        }
    }
}

impl Observer for Telemetry {
    fn see(&self, call: u64, seen: &Seen<'_>) {
        match seen {
            Seen::Answered { path, status, thread, submission } => {
                self.work().named(path, *thread);
                // A receipt of what was accepted before looks the same: it counts once.
                if let Some(submission) = submission.filter(|_| *status == 202)
                    && self.work().accepted(submission)
                {
                    self.metrics.accepted();
                    let about = About { thread: *thread, submission: Some(submission), attempt: None };
                    self.line(0, Level::Info, &about, "accepted");
                }
            }
            Seen::CallBegan { export, thread } => {
                self.metrics.call_began(export);
                self.work().began(call, *thread);
            }
            Seen::CallEnded { export, end, took: _ } => {
                self.metrics.call_ended(export, end.name());
                // Of a run, the scheduler tells.
                if matches!(end, CallEnd::TimedOut | CallEnd::Trapped) && *export != "run" {
                    self.line(
                        0,
                        Level::Warn,
                        &About::default(),
                        &format!("a call of `{export}` was lost: {}", end.name()),
                    );
                }
                let ended = self.work().ended(call, *end == CallEnd::Answered);
                self.interrupted(ended.as_ref());
            }
            Seen::Committed { end, took } => self.metrics.committed(end, *took),
            Seen::Logged { level, thread, text } => {
                let about = self.about(call);
                let attempt = about.attempt.as_ref();
                let about = About {
                    thread: thread.or(about.thread.as_deref()),
                    submission: attempt.map(|attempt| attempt.submission.as_str()),
                    attempt: attempt.map(|attempt| attempt.number),
                };
                self.line(call, *level, &about, text);
            }
            Seen::Lost(writes) => self.metrics.lost(*writes),
            Seen::ModelEnded(end) => {
                let (input, output) = (end.usage.input_tokens, end.usage.output_tokens);
                self.metrics.model(end.model, end.end, end.took, input, output);
                if let Some(spans) = &self.spans
                    && let Some(attempt) = self.about(call).attempt
                {
                    spans.model(&attempt, end);
                }
            }
            Seen::Published { thread, event } => {
                if let Ok(event) = serde_json::from_str(event) {
                    self.published(call, thread, &event);
                }
            }
            Seen::Ran(outcome) => self.metrics.ran(outcome),
            Seen::ToolEnded { name, call_id, end, began, took } => {
                self.metrics.tool(name, end, *took);
                if let Some(spans) = &self.spans
                    && let Some(attempt) = self.about(call).attempt
                {
                    spans.tool(&attempt, name, call_id, end, *began, *took);
                }
            }
        }
    }
}
