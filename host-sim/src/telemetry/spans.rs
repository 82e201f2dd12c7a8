//! Spans, made whole when what they tell of is over: the host keeps none open, so none is lost half with it.

use std::time::{Duration, Instant, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use serde_json::Value as Json;

use super::conventions::*;
use super::export::Sender;
use super::ids::{any_span, attempt_span, root_span, trace};
use super::work::Attempt;
use crate::engine::ModelEnd;

/// Makes spans and hands them to the exporter.
pub(super) struct Spans {
    sender: Sender,
    scope: InstrumentationScope,
}

/// A span to be.
struct Span<'a> {
    submission: &'a str,
    id: SpanId,
    parent: SpanId,
    kind: SpanKind,
    name: String,
    began: SystemTime,
    ended: SystemTime,
    /// The kind of an error; then the span counts as failed.
    error: Option<&'static str>,
    attributes: Vec<KeyValue>,
}

impl Spans {
    pub(super) fn new(sender: Sender) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let scope = InstrumentationScope::builder("writ").with_version(version).with_schema_url(SCHEMA_URL).build();
        Self { sender, scope }
    }

    /// A submission is settled.
    pub(super) fn submission(&self, id: &str, thread: &str, began: Option<SystemTime>, status: &str) {
        let ended = SystemTime::now();
        self.send(Span {
            submission: id,
            id: root_span(id),
            parent: SpanId::INVALID,
            kind: SpanKind::Server,
            name: "submission".into(),
            began: began.unwrap_or(ended),
            ended,
            error: failed(status),
            attributes: vec![KeyValue::new(CONVERSATION, thread.to_owned()), KeyValue::new(OUTCOME, status.to_owned())],
        });
    }

    /// An attempt is over.
    pub(super) fn attempt(&self, attempt: &Attempt, outcome: &str) {
        let mut attributes = vec![
            KeyValue::new(OPERATION, INVOKE_AGENT),
            KeyValue::new(CONVERSATION, attempt.thread.clone()),
            KeyValue::new(OUTCOME, outcome.to_owned()),
        ];
        attributes.extend(attempt.agent.clone().map(|agent| KeyValue::new(AGENT_NAME, agent)));
        self.send(Span {
            submission: &attempt.submission,
            id: attempt_span(&attempt.submission, attempt.number),
            parent: root_span(&attempt.submission),
            kind: SpanKind::Internal,
            name: named(INVOKE_AGENT, attempt.agent.as_deref()),
            began: attempt.began,
            ended: attempt.left.unwrap_or_else(SystemTime::now),
            error: failed(outcome),
            attributes: with_attempt(attributes, attempt),
        });
    }

    /// An answer of a model is over.
    pub(super) fn model(&self, attempt: &Attempt, end: &ModelEnd<'_>) {
        let tokens =
            |name, count: Option<u64>| count.map(|n| KeyValue::new(name, i64::try_from(n).unwrap_or(i64::MAX)));
        let mut attributes = vec![KeyValue::new(OPERATION, CHAT), KeyValue::new(REQUEST_MODEL, end.model.to_owned())];
        attributes.extend(tokens(INPUT_TOKENS, end.usage.input_tokens));
        attributes.extend(tokens(OUTPUT_TOKENS, end.usage.output_tokens));
        attributes.extend(
            finish(end.end).map(|reason| {
                KeyValue::new(FINISH_REASONS, Value::Array(Array::String(vec![StringValue::from(reason)])))
            }),
        );
        attributes.extend(purpose(end.options).map(|purpose| KeyValue::new(PURPOSE, purpose)));
        let error = (!end.is_answer()).then_some(end.end);
        let name = named(CHAT, Some(end.model));
        self.child(attempt, SpanKind::Client, name, (end.began, end.took), error, attributes);
    }

    /// A call of a tool is over.
    pub(super) fn tool(
        &self,
        attempt: &Attempt,
        name: &str,
        call_id: &str,
        end: &'static str,
        began: Instant,
        took: Duration,
    ) {
        let attributes = vec![
            KeyValue::new(OPERATION, EXECUTE_TOOL),
            KeyValue::new(TOOL_NAME, name.to_owned()),
            KeyValue::new(TOOL_CALL, call_id.to_owned()),
        ];
        let error = (end != "ok").then_some(end);
        self.child(attempt, SpanKind::Internal, named(EXECUTE_TOOL, Some(name)), (began, took), error, attributes);
    }

    fn child(
        &self,
        attempt: &Attempt,
        kind: SpanKind,
        name: String,
        (began, took): (Instant, Duration),
        error: Option<&'static str>,
        attributes: Vec<KeyValue>,
    ) {
        let now = SystemTime::now();
        let began = now.checked_sub(began.elapsed()).unwrap_or(now);
        let ended = began.checked_add(took).unwrap_or(began);
        let (submission, parent) = (&attempt.submission, attempt_span(&attempt.submission, attempt.number));
        let (id, attributes) = (any_span(), with_attempt(attributes, attempt));
        self.send(Span { submission, id, parent, kind, name, began, ended, error, attributes });
    }

    fn send(&self, span: Span<'_>) {
        let Span { submission, id, parent, kind, name, began, ended, error, mut attributes } = span;
        attributes.push(KeyValue::new(SUBMISSION, submission.to_owned()));
        attributes.extend(error.map(|error| KeyValue::new(ERROR_TYPE, error)));
        let state = TraceState::default();
        self.sender.send(SpanData {
            span_context: SpanContext::new(trace(submission), id, TraceFlags::SAMPLED, false, state),
            parent_span_id: parent,
            // The process that made the parent may be another one.
            parent_span_is_remote: parent != SpanId::INVALID,
            span_kind: kind,
            name: name.into(),
            start_time: began,
            end_time: ended.max(began),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: error.map_or(Status::Unset, Status::error),
            instrumentation_scope: self.scope.clone(),
        });
    }
}

fn with_attempt(mut attributes: Vec<KeyValue>, attempt: &Attempt) -> Vec<KeyValue> {
    attributes.push(KeyValue::new(ATTEMPT, i64::try_from(attempt.number).unwrap_or(i64::MAX)));
    attributes
}

fn named(operation: &str, what: Option<&str>) -> String {
    what.map_or_else(|| operation.to_owned(), |what| format!("{operation} {what}"))
}

/// Whether an outcome is an error. One that was cancelled, or interrupted, is not.
fn failed(outcome: &str) -> Option<&'static str> {
    (outcome == "failed").then_some("failed")
}

/// Why an answer ended, as the conventions name it where they do.
fn finish(end: &'static str) -> Option<&'static str> {
    match end {
        "end" => Some("stop"),
        "tool_use" => Some("tool_call"),
        "length" | "pause" => Some(end),
        _ => None,
    }
}

fn purpose(options: &str) -> Option<String> {
    let options: Json = serde_json::from_str(options).ok()?;
    options["purpose"].as_str().map(str::to_owned)
}
