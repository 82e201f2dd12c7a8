//! What the host tells of the component's work, for metrics, logs and traces: what happens, never whether. Nothing
//! stands here, and no clock is read, unless a host was made with an [`Observer`]. No content passes: no message, no
//! argument, no header.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::bindings::writ::runtime::kv;
use crate::data::Level;
use crate::model::{Completion, Event, ModelError, StopReason, Usage};
use crate::tools::Reply;

/// Hears of everything that happens in a host. It must not block: calls wait for it.
pub trait Observer: Send + Sync + 'static {
    /// Something has happened. `call` numbers the call of the component that it belongs to, from 1 and unique in the
    /// process; 0 is the host itself.
    fn see(&self, call: u64, seen: &Seen<'_>);
}

/// What happens.
#[derive(Debug)]
pub enum Seen<'a> {
    /// A request was answered; the last of its call. `thread` and `submission` are those of its work.
    Answered {
        /// The path that was asked for.
        path: &'a str,
        /// HTTP status.
        status: u16,
        /// The instance that must run because of it.
        thread: Option<&'a str>,
        /// The submission that is the cause.
        submission: Option<&'a str>,
    },
    /// A call of the component begins.
    CallBegan {
        /// The export.
        export: &'static str,
        /// The instance that a run drives.
        thread: Option<&'a str>,
    },
    /// A call of the component is over.
    CallEnded {
        /// The export.
        export: &'static str,
        /// How.
        end: CallEnd,
        /// How long it took.
        took: Duration,
    },
    /// A commit is over.
    Committed {
        /// `committed`, `stale`, `unknown` or `error`.
        end: &'static str,
        /// How long it took.
        took: Duration,
    },
    /// A line of the log: of the component, or of the host about a thread.
    Logged {
        /// How much it matters.
        level: Level,
        /// What it is about, if that is known and no call says so.
        thread: Option<&'a str>,
        /// The line.
        text: &'a str,
    },
    /// Journal writes were lost.
    Lost(u32),
    /// An answer of a model is over.
    ModelEnded(ModelEnd<'a>),
    /// An event for live viewers (docs/operations.md).
    Published {
        /// The thread.
        thread: &'a str,
        /// JSON text.
        event: &'a str,
    },
    /// A run is over, as the scheduler takes it: `idle`, `later`, `fenced`, `failed`; `lost` when it did not answer.
    Ran(&'static str),
    /// A call of a tool is over.
    ToolEnded {
        /// The tool.
        name: &'a str,
        /// The provider's id of the call.
        call_id: &'a str,
        /// `ok`, `error` (the tool says that it failed), `panicked`, or `stopped`.
        end: &'static str,
        /// When it began.
        began: Instant,
        /// How long it took.
        took: Duration,
    },
}

/// How a call of the component ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It answered.
    Answered,
    /// It was dropped: its caller left, or the host was shut down.
    Dropped,
    /// It answered with an error.
    Failed,
    /// It took too long.
    TimedOut,
    /// It trapped, or broke its contract.
    Trapped,
}

impl CallEnd {
    /// Its name, for a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Trapped => "trapped",
        }
    }
}

/// How an answer of a model ended.
#[derive(Debug)]
pub struct ModelEnd<'a> {
    /// The model that was asked.
    pub model: &'a str,
    /// What for, as JSON text: the options of the request.
    pub options: &'a str,
    /// `end`, `tool_use`, `length`, `pause`; the kind of the error; `cut` without an end; `dropped` when nobody waited.
    pub end: &'static str,
    /// What it cost, as far as it was said.
    pub usage: Usage,
    /// When it was asked.
    pub began: Instant,
    /// How long it took, from the request to the last piece.
    pub took: Duration,
}

impl ModelEnd<'_> {
    /// Whether there is an answer.
    pub fn is_answer(&self) -> bool {
        matches!(self.end, "end" | "tool_use" | "length" | "pause")
    }
}

/// The observer of one call.
#[derive(Clone)]
pub(crate) struct Watch {
    observer: Arc<dyn Observer>,
    call: u64,
}

impl Watch {
    /// A new call.
    pub(crate) fn call(observer: Arc<dyn Observer>) -> Self {
        static CALLS: AtomicU64 = AtomicU64::new(1);
        Self { observer, call: CALLS.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn see(&self, seen: &Seen<'_>) {
        self.observer.see(self.call, seen);
    }
}

/// Sees a call end, however it ends.
pub(super) struct Watched {
    pub(super) watch: Watch,
    export: &'static str,
    /// How it ends; dropped, until it is known better.
    pub(super) end: CallEnd,
    began: Instant,
}

impl Watched {
    pub(super) fn begin(observer: Arc<dyn Observer>, export: &'static str, thread: Option<&str>) -> Self {
        let watch = Watch::call(observer);
        watch.see(&Seen::CallBegan { export, thread });
        Self { watch, export, end: CallEnd::Dropped, began: Instant::now() }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.see(&Seen::CallEnded { export: self.export, end: self.end, took: self.began.elapsed() });
    }
}

/// A commit under way.
pub(super) struct Commit<'a>(Option<(&'a Watch, Instant)>);

impl<'a> Commit<'a> {
    pub(super) fn begin(watch: Option<&'a Watch>) -> Self {
        Self(watch.map(|watch| (watch, Instant::now())))
    }

    pub(super) fn end(self, result: &Result<kv::Outcome, kv::Error>) {
        let Some((watch, began)) = self.0 else { return };
        let end = match result {
            Ok(kv::Outcome::Committed) => "committed",
            Ok(kv::Outcome::Stale(_)) => "stale",
            Err(kv::Error::Unknown(_)) => "unknown",
            Err(_) => "error",
        };
        watch.see(&Seen::Committed { end, took: began.elapsed() });
    }
}

/// An answer of a model under way: tells its end when it is dropped.
pub(super) struct Answer {
    watch: Watch,
    model: String,
    options: String,
    began: Instant,
    took: Option<Duration>,
    end: &'static str,
    usage: Usage,
}

impl Answer {
    pub(super) fn begin(watch: &Watch, model: &str, options: &str) -> Self {
        let (model, options) = (model.to_owned(), options.to_owned());
        let usage = Usage::default();
        Self { watch: watch.clone(), model, options, began: Instant::now(), took: None, end: "dropped", usage }
    }

    /// It could not be had.
    pub(super) fn failed(mut self, error: &ModelError) {
        self.end = kind(error);
    }

    /// With what it says.
    pub(super) fn over(self, inner: Box<dyn Completion>) -> Box<dyn Completion> {
        Box::new(Answering { inner, answer: self })
    }

    fn heard(&mut self, heard: &Result<Vec<Event>, ModelError>) {
        self.took = Some(self.began.elapsed());
        match heard {
            Err(error) => self.end = kind(error),
            Ok(events) if events.is_empty() && self.end == "dropped" => self.end = "cut",
            Ok(events) => events.iter().for_each(|event| match event {
                Event::Usage(usage) => self.usage = *usage,
                Event::Stop(reason) => {
                    self.end = match reason {
                        StopReason::End => "end",
                        StopReason::ToolUse => "tool_use",
                        StopReason::Length => "length",
                        StopReason::Pause => "pause",
                    }
                }
                Event::Text(_) | Event::Block(_) | Event::Call { .. } => {}
            }),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let took = self.took.unwrap_or_else(|| self.began.elapsed());
        let (model, options) = (self.model.as_str(), self.options.as_str());
        let (began, end, usage) = (self.began, self.end, self.usage);
        self.watch.see(&Seen::ModelEnded(ModelEnd { model, options, end, usage, began, took }));
    }
}

struct Answering {
    inner: Box<dyn Completion>,
    answer: Answer,
}

#[async_trait]
impl Completion for Answering {
    async fn next(&mut self, max: u32) -> Result<Vec<Event>, ModelError> {
        let heard = self.inner.next(max).await;
        self.answer.heard(&heard);
        heard
    }
}

/// A call of a tool under way: tells its end when it is dropped.
pub(super) struct ToolCall {
    watch: Watch,
    name: String,
    call_id: String,
    began: Instant,
    end: Option<&'static str>,
}

impl ToolCall {
    pub(super) fn begin(watch: &Watch, name: &str, call_id: &str) -> Self {
        let (name, call_id) = (name.to_owned(), call_id.to_owned());
        Self { watch: watch.clone(), name, call_id, began: Instant::now(), end: None }
    }

    /// What the tool gives.
    pub(super) async fn over(mut self, reply: impl Future<Output = Reply>) -> Reply {
        let reply = reply.await;
        self.end = Some(if reply.is_error { "error" } else { "ok" });
        reply
    }
}

impl Drop for ToolCall {
    fn drop(&mut self) {
        let end = self.end.unwrap_or(if std::thread::panicking() { "panicked" } else { "stopped" });
        let (name, call_id, began) = (self.name.as_str(), self.call_id.as_str(), self.began);
        self.watch.see(&Seen::ToolEnded { name, call_id, end, began, took: began.elapsed() });
    }
}

/// The kind of an error, for a label.
fn kind(error: &ModelError) -> &'static str {
    match error {
        ModelError::Transient { .. } => "transient",
        ModelError::Overflow(_) => "overflow",
        ModelError::Quota(_) => "quota",
        ModelError::Refused(_) => "refused",
        ModelError::Invalid(_) => "invalid",
        ModelError::Unauthorized(_) => "unauthorized",
        ModelError::Cancelled(_) => "cancelled",
        ModelError::Unknown(_) => "unknown",
    }
}
