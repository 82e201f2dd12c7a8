//! One request: checked, handed to the component, waited for if it says so, and answered.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::OwnedSemaphorePermit;

use super::injecting::Injected;
use super::problem::Problem;
use super::server::{Phase, Shared};
use super::{leave, local, request, stream};
use crate::data::{self, Wait};
use crate::error::HostError;
use crate::telemetry::Telemetry;

/// Longest id of a request that is taken over from the caller.
const REQUEST_ID_BYTES_MAX: usize = 64;
/// The header that names a request, in answers and in the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Headers that only this server can know.
const FRAMING: [HeaderName; 3] = [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// The one handler.
pub(super) async fn answer(State(shared): State<Arc<Shared>>, request: axum::extract::Request) -> Response {
    let (parts, body) = request.into_parts();
    let id = request_id(&parts.headers);
    let mut response = match shared.answer(&parts, body, &id).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

impl Shared {
    async fn answer(self: &Arc<Self>, parts: &Parts, body: Body, id: &str) -> Result<Response, Problem> {
        let injected = parts.extensions.get::<Injected>().is_some();
        if self.loopback || injected || !self.options.allowed_hosts.is_empty() {
            local::check(parts, &self.options.allowed_hosts)?;
        }
        let drains = || *self.phase.borrow() != Phase::Serving;
        if parts.uri.path() == "/readyz" && parts.method == Method::GET {
            return Ok(ready(drains()));
        }
        let mut writing = None;
        if !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
            // Taken before the look, so that the drain waits for all that are not refused here.
            let permit = self.writes.clone().try_acquire_owned().ok().filter(|_| !drains());
            writing = Some(permit.ok_or_else(|| Problem::draining().closing())?);
        }
        let request = request::take(parts, body, self.options.body).await?;
        let headers = request.headers.clone();
        if let (Some(telemetry), "/metrics") = (&self.options.metrics, parts.uri.path()) {
            return self.metrics(telemetry, headers, id).await;
        }
        let (response, left) = self.respond(request, writing, id).await?;
        let response = match response.wait.clone() {
            Some(wait) => self.wait(wait, headers, response, id).await,
            None => response,
        };
        self.written(response, left)
    }

    /// Metrics are for whom the component lets in: it is asked something that it tells clients only.
    async fn metrics(
        self: &Arc<Self>,
        telemetry: &Telemetry,
        headers: Vec<(String, String)>,
        id: &str,
    ) -> Result<Response, Problem> {
        let request = data::Request { headers, ..data::Request::get("/v1/agents") };
        let (asked, _) = self.respond(request, None, id).await?;
        if asked.status != 200 {
            return self.written(asked, None);
        }
        Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], telemetry.metrics().render()).into_response())
    }

    /// Hands a request to the component. It is answered to its end even when the caller leaves: a call that is dropped
    /// is a crash, and everybody could make as many as he likes. What it wants to be told when he leaves, it is told then,
    /// too.
    async fn respond(
        self: &Arc<Self>,
        request: data::Request,
        writing: Option<OwnedSemaphorePermit>,
        id: &str,
    ) -> Result<(data::Response, Option<leave::Watch>), Problem> {
        let busy = |_| Problem::busy("requests", self.options.requests);
        let permit = self.requests.clone().try_acquire_owned().map_err(busy)?;
        let shared = self.clone();
        let answered = tokio::spawn(async move {
            let _held = (permit, writing);
            let headers = request.headers.clone();
            let mut response = shared.host.respond(request).await?;
            let left = response.left.take().map(|path| leave::Watch::new(&shared, path, headers));
            Ok((response, left))
        });
        let broken = |text: String| HostError::Trapped { export: "respond", reason: text, panic: None };
        let answered = answered.await.unwrap_or_else(|error| Err(broken(error.to_string())));
        let answered = answered.and_then(|(response, left)| match response.status {
            // The transport's own.
            100..=199 => Err(HostError::Broken { export: "respond", text: format!("status {}", response.status) }),
            _ => Ok((response, left)),
        });
        answered.map_err(|error| {
            if !matches!(error, HostError::Closed) {
                self.host.warn(format!("request {id} failed: {error}"));
            }
            Problem::host(&error)
        })
    }

    /// Waits as the component wishes, and gives the answer of afterwards; `now` when the time passes first.
    async fn wait(
        self: &Arc<Self>,
        wait: Wait,
        headers: Vec<(String, String)>,
        now: data::Response,
        id: &str,
    ) -> data::Response {
        let Wait { tail, ms, then } = wait;
        let limit = Duration::from_millis(ms.into());
        if tokio::time::timeout(limit, self.ended(tail)).await != Ok(true) {
            return now;
        }
        let request = data::Request { headers, ..data::Request::get(then) };
        // What was answered at first stays true.
        self.respond(request, None, id).await.map_or(now, |(response, _)| response)
    }

    /// Waits until a feed has ended; false when this server stops first.
    async fn ended(&self, tail: data::Tail) -> bool {
        let mut news = self.hub.watch(&tail.thread).await;
        let mut phase = self.phase.subscribe();
        let mut after = tail.after;
        loop {
            news.look();
            let ending = *phase.borrow_and_update() == Phase::Ending;
            match self.host.follow(&tail.feed, after).await {
                Ok(page) if page.end => return true,
                Ok(page) if page.next > after => {
                    after = page.next;
                    continue;
                }
                // It has gone, and the next answer says so.
                Err(HostError::Runtime(data::RuntimeError::NotFound)) => return true,
                _ if ending => return false,
                _ => {}
            }
            tokio::select! {
                () = news.changed() => {}
                () = tokio::time::sleep(self.options.heartbeat) => {}
                _ = phase.changed() => {}
            }
        }
    }

    fn written(self: &Arc<Self>, response: data::Response, left: Option<leave::Watch>) -> Result<Response, Problem> {
        let data::Response { status, headers, body, .. } = response;
        let mut written = match body {
            data::Body::Bytes(bytes) => {
                // What is whole is on its way; whether it arrives, nobody can know.
                if let Some(left) = left {
                    left.over();
                }
                Response::new(Body::from(bytes))
            }
            data::Body::Stream(tail) => {
                let busy = |_| Problem::no_stream(self.options.streams);
                let permit = self.streams.clone().try_acquire_owned().map_err(busy)?;
                let mut response = Response::new(Body::new(stream::start(self, tail, permit, left)));
                // For proxies that would hold it back.
                response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
                response
            }
        };
        // Both ends of the range were checked.
        *written.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in headers {
            match (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
                (Ok(name), Ok(value)) if !FRAMING.contains(&name) => {
                    written.headers_mut().append(name, value);
                }
                // The name is the component's own; the value may be anybody's.
                _ => self.host.warn(format!("a header `{}` of the component was left out", name.escape_debug())),
            }
        }
        Ok(written)
    }
}

fn ready(drains: bool) -> Response {
    let (status, text) = match drains {
        false => (StatusCode::OK, r#"{"status":"ready"}"#),
        true => (StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"draining"}"#),
    };
    (status, [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], text).into_response()
}

/// The caller's id for a request, if it is fit to be written anywhere; else a fresh one.
fn request_id(headers: &HeaderMap) -> String {
    let fit = |id: &&str| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    };
    if let Some(id) = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(fit) {
        return id.to_owned();
    }
    let mut bytes = [0; 8];
    // Without randomness the id is of no use, and does no harm.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_could_forge_a_log_line_is_not_taken() {
        let id = |value: &str| {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            request_id(&[(REQUEST_ID, value)].into_iter().collect())
        };
        assert_eq!(id("trace-1.a_B"), "trace-1.a_B");
        for bad in ["", "a b", "a\tb", "é", &"x".repeat(65)] {
            assert_eq!(id(bad).len(), 16, "{bad}");
        }
        assert_ne!(id(""), id(""));
    }
}
