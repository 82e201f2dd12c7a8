//! Sends spans to a collector: OTLP over HTTP with protobuf, in batches, from a task of its own. A collector that is slow
//! or gone costs spans, never a turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::{mpsc, oneshot};
use tracing::Dispatch;
use url::Url;

use super::metrics::Metrics;
use super::{TelemetryError, logs};

/// Most spans that wait to be sent; more are lost, and counted.
const QUEUE_MAX: usize = 4096;
/// Most spans of one request.
const BATCH_MAX: usize = 512;
/// How long spans wait for company.
const WAIT: Duration = Duration::from_secs(1);
/// Longest request.
const SEND_MAX: Duration = Duration::from_secs(10);
/// Longest wait of [`Exporter::flush`].
const FLUSH_MAX: Duration = Duration::from_secs(5);
/// Between two lines about a collector that does not answer.
const COMPLAIN: Duration = Duration::from_secs(60);
/// The path for traces.
const PATH: &str = "/v1/traces";

enum Job {
    Flush(oneshot::Sender<()>),
    Span(Box<SpanData>),
}

/// Where spans are given.
#[derive(Clone)]
pub(super) struct Sender {
    jobs: mpsc::Sender<Job>,
    metrics: Arc<Metrics>,
}

impl Sender {
    pub(super) fn send(&self, span: SpanData) {
        if self.jobs.try_send(Job::Span(Box::new(span))).is_err() {
            self.metrics.spans_lost(1);
        }
    }
}

/// The task that sends.
pub(super) struct Exporter(Sender);

impl Exporter {
    pub(super) fn start(endpoint: &str, metrics: Arc<Metrics>, log: Dispatch) -> Result<Self, TelemetryError> {
        crate::tls::provide();
        let bad = |error: &dyn std::fmt::Display| TelemetryError::Otlp(error.to_string());
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(address(endpoint).map_err(|error| bad(&error))?)
            .with_timeout(SEND_MAX)
            .build()
            .map_err(|error| bad(&error))?;
        exporter.set_resource(&Resource::builder().with_service_name("writ").build());
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(run(exporter, queue, metrics.clone(), log));
        Ok(Self(Sender { jobs, metrics }))
    }

    pub(super) fn sender(&self) -> Sender {
        self.0.clone()
    }

    /// Waits until all that was given by now is sent or lost.
    pub(super) async fn flush(&self) {
        let (done, sent) = oneshot::channel();
        let flush = async {
            if self.0.jobs.send(Job::Flush(done)).await.is_ok() {
                // The task may be gone with its runtime.
                let _ = sent.await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_MAX, flush).await;
    }
}

/// The address of a collector, or a whole URL.
fn address(endpoint: &str) -> Result<String, url::ParseError> {
    let mut url = Url::parse(endpoint)?;
    if url.path() == "/" {
        url.set_path(PATH);
    }
    Ok(url.into())
}

async fn run(exporter: SpanExporter, mut queue: mpsc::Receiver<Job>, metrics: Arc<Metrics>, log: Dispatch) {
    let mut complained: Option<Instant> = None;
    while let Some(first) = queue.recv().await {
        let (batch, flushed) = batch(first, &mut queue).await;
        let spans = batch.len();
        let sent = if spans == 0 { Ok(()) } else { exporter.export(batch).await };
        if let Err(error) = sent {
            metrics.spans_lost(spans);
            if complained.is_none_or(|at| at.elapsed() >= COMPLAIN) {
                complained = Some(Instant::now());
                let text = format!("{spans} spans could not be sent: {error}");
                tracing::dispatcher::with_default(&log, || {
                    logs::line(0, crate::data::Level::Warn, &logs::About::default(), &text);
                });
            }
        }
        flushed.into_iter().for_each(|done| _ = done.send(()));
    }
}

/// Spans that go together: what comes within a moment, or up to a flush.
async fn batch(first: Job, queue: &mut mpsc::Receiver<Job>) -> (Vec<SpanData>, Option<oneshot::Sender<()>>) {
    let mut batch = Vec::new();
    let mut next = Some(first);
    let until = tokio::time::Instant::now() + WAIT;
    loop {
        match next {
            Some(Job::Span(span)) => batch.push(*span),
            Some(Job::Flush(done)) => return (batch, Some(done)),
            None => return (batch, None),
        }
        if batch.len() == BATCH_MAX {
            return (batch, None);
        }
        // Too late counts as the end of the batch.
        next = tokio::time::timeout_at(until, queue.recv()).await.unwrap_or(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_with_or_without_the_path() {
        assert_eq!(address("http://127.0.0.1:4318").unwrap(), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(address("http://127.0.0.1:4318/").unwrap(), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(address("http://c/otlp/v1/traces").unwrap(), "http://c/otlp/v1/traces");
    }
}
