//! Refusals of the server's own, as RFC 9457 problem documents of the same shape as the component's.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::error::HostError;

/// Why a request did not get an answer of the component's.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    more: Map<String, Value>,
    /// In seconds.
    retry_after: Option<u32>,
    /// The connection can't be used any further.
    closes: bool,
}

impl Problem {
    /// A problem of a status and a code.
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), more: Map::new(), retry_after: None, closes: false }
    }

    /// Adds a member.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Worth trying again after so many seconds.
    pub(super) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The rest of the request was not read, so the connection ends with the answer.
    pub(super) fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    /// Something that is larger than a limit. `value` is its size, where it is known.
    pub(super) fn too_large(status: StatusCode, what: &str, unit: &str, value: Option<u64>, limit: usize) -> Self {
        let size = value.map_or("more".to_owned(), |value| value.to_string());
        let detail = format!("{what} is {size} {unit}; at most {limit} are taken. Send less, or in pieces.");
        let problem = Self::new(status, "too-large", detail).with("limit", limit);
        match value {
            Some(value) => problem.with("value", value),
            None => problem,
        }
    }

    /// No more of something is served now.
    pub(super) fn busy(what: &str, limit: usize) -> Self {
        let detail = format!("{limit} {what} are being served, and no more are. Try again soon: nothing was lost.");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).with("limit", limit).retry_after(1)
    }

    /// No more streams are told now. What the request asked for has been done by then.
    pub(super) fn no_stream(limit: usize) -> Self {
        let detail = format!(
            "{limit} streams are being served, and no more are. What this request asked for may have been accepted: repeat \
             it with the same idempotency key, and it is not done twice."
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).with("limit", limit).retry_after(1)
    }

    /// The server is about to stop.
    pub(super) fn draining() -> Self {
        let detail = "This server is stopping and takes nothing new. What was accepted is safe and goes on after the \
                      restart. Repeat the request then, with the same key.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "draining", detail).retry_after(5)
    }

    /// The host could not answer. What the component said in its panic is for the log, not for the caller.
    pub(super) fn host(error: &HostError) -> Self {
        let (status, code, what) = match error {
            HostError::Closed => return Self::draining(),
            HostError::TimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, "timed-out", "took too long"),
            HostError::Trapped { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "trapped", "broke off"),
            HostError::Broken { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "contract", "gave no valid answer"),
            HostError::Runtime(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "could not do its work"),
            HostError::Engine(_) => (StatusCode::INTERNAL_SERVER_ERROR, "host", "could not be run"),
        };
        let detail = format!(
            "The component {what}. Nothing that was accepted is lost, and this request may have been. Repeat it with the \
             same idempotency key: it is not done twice."
        );
        let problem = Self::new(status, code, detail);
        if status == StatusCode::INTERNAL_SERVER_ERROR { problem } else { problem.retry_after(1) }
    }

    fn title(&self) -> &'static str {
        match self.status.as_u16() {
            408 => "Too slow",
            413 | 414 | 431 => "Too large",
            503 | 504 => "Not now",
            _ => "Not possible",
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut document = self.more.clone();
        document.insert("type".into(), json!(format!("urn:writ:problem:{}", self.code)));
        document.insert("title".into(), json!(self.title()));
        document.insert("status".into(), json!(self.status.as_u16()));
        document.insert("detail".into(), json!(self.detail));
        document.insert("code".into(), json!(self.code));
        let mut response = Response::new(Body::from(Value::Object(document).to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
