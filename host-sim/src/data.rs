//! The plain data that crosses the component's exports, as Rust sees it. See `wit/runtime.wit` for each item in full.

/// A request of any face.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query, percent-encoded, at most 8 KiB.
    pub path: String,
    /// Names in lower case; at most 128.
    pub headers: Vec<(String, String)>,
    /// At most 262,144 bytes.
    pub body: Vec<u8>,
    /// Who asks, `realm/subject`, as the host has verified it.
    pub principal: Option<String>,
}

impl Request {
    /// A request without headers and body.
    pub fn new(method: impl Into<String>, path: impl Into<String>) -> Self {
        Self { method: method.into(), path: path.into(), ..Self::default() }
    }

    /// `GET path`.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    /// `POST path` with a JSON body and its content type.
    pub fn post(path: impl Into<String>, body: &serde_json::Value) -> Self {
        Self { body: body.to_string().into_bytes(), ..Self::new("POST", path) }
            .header("content-type", "application/json")
    }

    /// Adds a header; the name is put in lower case.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.into()));
        self
    }

    /// Names the verified principal, `realm/subject`.
    #[must_use]
    pub fn principal(mut self, principal: impl Into<String>) -> Self {
        self.principal = Some(principal.into());
        self
    }
}

/// Frames to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// What [`crate::host::Host::follow`] reads.
    pub feed: String,
    /// After which number.
    pub after: u64,
    /// A publication for this thread means that there may be new frames.
    pub thread: String,
}

/// The body of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The whole of it.
    Bytes(Vec<u8>),
    /// The frames of a feed, until it ends.
    Stream(Tail),
}

/// A wish to be answered later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// To be followed, not shown, until it ends.
    pub tail: Tail,
    /// How long at most, in milliseconds.
    pub ms: u32,
    /// The path whose `GET` then gives the answer, asked with the headers and the principal of the request.
    pub then: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Body,
    /// Instances that must be run now. [`crate::host::Host::respond`] has already handed them to the scheduler.
    pub work: Vec<Work>,
    /// What to wait for before the caller is answered; this answer is for when the time passes first.
    pub wait: Option<Wait>,
    /// What to `POST` if the caller leaves before the whole answer has reached it.
    pub left: Option<String>,
}

impl Response {
    /// The body's bytes; empty for a stream.
    pub fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Bytes(bytes) => bytes,
            Body::Stream(_) => &[],
        }
    }

    /// The body as text, with replacement characters for what is not UTF-8.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }

    /// The body as JSON; an error when it is something else.
    pub fn json(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_slice(self.bytes())
    }

    /// The first value of a header; `name` in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// A hint to a running instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A cancel was stored.
    Cancel,
    /// A steering message was stored.
    Steer,
}

/// What to run: an instance, and why now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Equal text, same instance. Opaque, at most 256 bytes.
    pub instance: String,
    /// The submission that caused it: a hint that saves a read.
    pub submission: Option<String>,
    /// What to tell a run of this instance that is under way.
    pub signal: Option<Signal>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// Nothing left to do.
    Idle,
    /// Run it again at this time (Unix ms).
    Later(u64),
    /// Another run owns the instance.
    Fenced,
    /// It could not go on; what was accepted is safe.
    Failed(RuntimeError),
}

/// What a run leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// How it ended.
    pub outcome: RunOutcome,
    /// Other instances that must be run now.
    pub work: Vec<Work>,
}

/// Why an export could not do its work. The text is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// No such thing, or not the caller's.
    #[error("not found")]
    NotFound,
    /// The caller's input is no good.
    #[error("invalid: {0}")]
    Invalid(String),
    /// The store could not be reached, or did not answer surely.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// A stored value can't be read.
    #[error("corrupt: {0}")]
    Corrupt(String),
}

/// A page of what a restart must run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingPage {
    /// Instances with work; the same one may be named twice.
    pub work: Vec<Work>,
    /// Where to go on, or `None` at the end.
    pub next: Option<String>,
}

/// One frame of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Never falls within a feed.
    pub number: u64,
    /// The event's name, where a transport can tell one; a frame without one is told bare, without its number.
    pub name: Option<String>,
    /// JSON text.
    pub event: String,
}

/// Frames of a feed after a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedPage {
    /// The frames; at most 1,024.
    pub frames: Vec<Frame>,
    /// The number to go on after; if it is above the one that was asked with, there may be more at once.
    pub next: u64,
    /// No frame will follow these.
    pub end: bool,
}

/// An invariant that a store breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `I1` to `I16`, or `format`.
    pub invariant: String,
    /// The key where it shows.
    pub key: String,
    /// What is wrong.
    pub text: String,
}

/// A page of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// What is broken.
    pub findings: Vec<Finding>,
    /// Threads looked at.
    pub threads: u32,
    /// Submissions looked at.
    pub submissions: u32,
    /// Messages looked at.
    pub messages: u64,
    /// Keys that this page accounts for.
    pub keys: u64,
    /// Where to go on, or `None` at the end.
    pub next: Option<String>,
}

/// A whole audit: the sums over its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// What is broken; empty for a sound store. At most [`AuditReport::FINDINGS_MAX`] are kept.
    pub findings: Vec<Finding>,
    /// How many findings there were, kept or not.
    pub findings_total: u64,
    /// Threads looked at.
    pub threads: u64,
    /// Submissions looked at.
    pub submissions: u64,
    /// Messages looked at.
    pub messages: u64,
    /// Keys accounted for. Over a quiet store less than its key count means that some have leaked.
    pub keys: u64,
    /// Pages read.
    pub pages: u64,
}

impl AuditReport {
    /// Most findings that a report keeps.
    pub const FINDINGS_MAX: usize = 10_000;

    /// Adds a page.
    pub fn add(&mut self, page: AuditPage) {
        self.findings_total += page.findings.len() as u64;
        let room = Self::FINDINGS_MAX.saturating_sub(self.findings.len());
        self.findings.extend(page.findings.into_iter().take(room));
        self.threads += u64::from(page.threads);
        self.submissions += u64::from(page.submissions);
        self.messages = self.messages.saturating_add(page.messages);
        self.keys = self.keys.saturating_add(page.keys);
        self.pages += 1;
    }
}

/// An event for live viewers. It may be lost; the truth is in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The thread.
    pub thread: String,
    /// Its number in the thread's journal.
    pub number: u64,
    /// JSON text.
    pub event: String,
}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For the people who build this.
    Debug,
    /// Worth knowing.
    Info,
    /// Something was wrong and was dealt with.
    Warn,
    /// Somebody should look.
    Error,
}

/// A line of the log, of the component or of the host about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: Level,
    /// At most 8 KiB.
    pub text: String,
}
