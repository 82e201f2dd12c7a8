//! What metrics, logs and traces say of turns: the real component under the real host, with an observer.
#![cfg(not(target_family = "wasm"))]

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use host_sim::config::{self, LogFormat};
use host_sim::host::Host;
use host_sim::model::ModelError;
use host_sim::store::memory::MemoryStore;
use host_sim::store::{Guard, Outcome, Store, StoreError, Value as Bytes, Write as Put};
use host_sim::telemetry::{Telemetry, logs, root_span, trace};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use writ_tests::{CrashStore, Fault, Setup, World, engine, until};

/// Stands in messages, answers, arguments and results, and nowhere else.
const CONTENT: &str = "quite-private";

const LOOKUP: &str = r#"
[[answer]]
text = "Let me look, quite-private."
calls = [{ name = "lookup", arguments = { order = "quite-private" } }]
usage = { input = 11, output = 5 }
[[answer]]
text = "It is paid, quite-private."
[[tool]]
name = "lookup"
reply = "order {order} is paid, quite-private"
"#;

const HELLO: &str = "[model]\nrepeat_last = true\n[[answer]]\ntext = \"Hello.\"\nchunks = 3\n";

/// What was logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic holds it").clone()).expect("UTF-8")
    }

    fn json(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic holds it").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Puts an observer into a world.
async fn observed(world: World, otlp_endpoint: Option<String>) -> (World, Arc<Telemetry>, Lines) {
    let lines = Lines::default();
    let config = config::Telemetry { log: "trace".into(), log_format: LogFormat::Json, otlp_endpoint, metrics: true };
    let writer = lines.clone();
    let log = logs::dispatch(&config, move || writer.clone()).expect("a filter");
    let telemetry = Telemetry::with_log(&config, log).expect("telemetry");
    let host = Host::observed(engine(&world.parts).await, world.parts.clone(), telemetry.observer());
    (World { host, ..world }, telemetry, lines)
}

/// The value of a series; 0 if it is not there.
fn value(telemetry: &Telemetry, series: &str) -> f64 {
    let text = telemetry.metrics().render();
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok()).unwrap_or(0.0)
}

#[track_caller]
fn assert_values(telemetry: &Telemetry, expected: &[(&str, f64)]) {
    for (series, number) in expected {
        let found = value(telemetry, series);
        assert_eq!(found, *number, "{series}\n{}", telemetry.metrics().render());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_counted() {
    let (world, telemetry, _) = observed(World::new(LOOKUP).await, None).await;
    let before = world.store.calls();
    let done = world.ask("t", "k", CONTENT).await;
    assert_eq!(done["outcome"]["status"], "completed", "{done}");
    // The same receipt again.
    assert!(world.submit("t", "k", CONTENT).await.status < 300);
    world.host.settled().await;
    let commits = world.calls_since(before).commits as f64;
    assert!(commits >= 4.0);
    assert_values(
        &telemetry,
        &[
            ("writ_submissions_accepted_total", 1.0),
            ("writ_submissions_settled_total{status=\"completed\"}", 1.0),
            ("writ_submissions_settled_total{status=\"failed\"}", 0.0),
            ("writ_attempts_total", 1.0),
            ("writ_retries_total", 0.0),
            ("writ_commits_total{outcome=\"committed\"}", commits),
            ("writ_commits_total{outcome=\"unknown\"}", 0.0),
            ("writ_commit_duration_seconds_count", commits),
            ("writ_model_calls_total{model=\"scripted\",result=\"tool_use\"}", 1.0),
            ("writ_model_calls_total{model=\"scripted\",result=\"end\"}", 1.0),
            ("writ_model_call_duration_seconds_count{model=\"scripted\"}", 2.0),
            ("writ_model_tokens_total{direction=\"input\"}", 11.0),
            ("writ_model_tokens_total{direction=\"output\"}", 5.0),
            ("writ_tool_calls_total{tool=\"lookup\",result=\"ok\"}", 1.0),
            ("writ_tool_call_duration_seconds_count{tool=\"lookup\"}", 1.0),
            ("writ_calls_total{export=\"run\",end=\"answered\"}", 1.0),
            ("writ_runs_total{outcome=\"idle\"}", 1.0),
            ("writ_calls_in_flight{export=\"run\"}", 0.0),
            ("writ_calls_in_flight{export=\"respond\"}", 0.0),
            ("writ_journal_writes_lost_total", 0.0),
        ],
    );
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_models_are_counted() {
    let (world, telemetry, lines) = observed(World::new(HELLO).await, None).await;
    world.model.fail_next(ModelError::Transient { retry_after_ms: None, message: CONTENT.into() });
    assert_eq!(world.ask("t", "k", CONTENT).await["outcome"]["status"], "completed");
    world.model.fail_next(ModelError::Invalid(CONTENT.into()));
    assert_eq!(world.ask("t", "l", CONTENT).await["outcome"]["status"], "failed");
    assert_values(
        &telemetry,
        &[
            ("writ_submissions_accepted_total", 2.0),
            ("writ_submissions_settled_total{status=\"completed\"}", 1.0),
            ("writ_submissions_settled_total{status=\"failed\"}", 1.0),
            ("writ_retries_total", 1.0),
            ("writ_model_calls_total{model=\"scripted\",result=\"transient\"}", 1.0),
            ("writ_model_calls_total{model=\"scripted\",result=\"invalid\"}", 1.0),
            ("writ_model_calls_total{model=\"scripted\",result=\"end\"}", 1.0),
        ],
    );
    let told: Vec<Value> = lines.json().into_iter().filter(|l| l["level"] == "INFO").collect();
    let said = |text: &str| told.iter().filter(|line| line["message"] == text).count();
    assert_eq!((said("accepted"), said("settled: completed"), said("settled: failed")), (2, 1, 1), "{told:#?}");
    assert!(told.iter().all(|line| line["submission"].is_string() && line["thread"].is_string()), "{told:#?}");
    assert!(!lines.text().contains(CONTENT), "{}", lines.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_store_does_not_give_is_counted() {
    for (fault, outcome) in [(Fault::AppliedUnknown, "unknown"), (Fault::Unavailable, "error")] {
        let store = Arc::new(CrashStore::new(Arc::new(MemoryStore::new()), 3, fault));
        let world = Setup::new(HELLO).store(store.clone()).world().await;
        let (world, telemetry, _) = observed(world, None).await;
        assert_eq!(world.ask("t", "k", "hi").await["outcome"]["status"], "completed");
        assert!(store.is_met());
        assert_values(&telemetry, &[(&format!("writ_commits_total{{outcome=\"{outcome}\"}}"), 1.0)]);
    }
}

/// Loses the first writes of the journal that it is given.
struct Lossy(MemoryStore, AtomicU32);

#[async_trait]
impl Store for Lossy {
    async fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.0.get_many(keys).await
    }

    async fn commit(&self, guard: Guard, writes: Vec<Put>) -> Result<Outcome, StoreError> {
        self.0.commit(guard, writes).await
    }

    async fn append_later(&self, guard: Guard, writes: Vec<Put>, lost: Arc<AtomicU32>) {
        if self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            lost.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.append_later(guard, writes, lost).await;
        }
    }

    async fn flush(&self) {
        self.0.flush().await;
    }

    async fn dump(&self) -> Result<Vec<(String, Bytes)>, StoreError> {
        self.0.dump().await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.0.count().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_journal_writes_are_counted_and_logged_with_what_they_are_about() {
    let world = Setup::new(HELLO).store(Arc::new(Lossy(MemoryStore::new(), 2.into()))).world().await;
    let (world, telemetry, lines) = observed(world, None).await;
    let done = world.ask("t", "k", "hi").await;
    assert_eq!(done["outcome"]["status"], "completed", "{done}");
    let lost = value(&telemetry, "writ_journal_writes_lost_total");
    assert!((1.0..=2.0).contains(&lost), "{lost}");
    let lines = lines.json();
    let warned: Vec<_> = lines.iter().filter(|line| line["level"] == "WARN").collect();
    assert_eq!(warned.len(), 1, "{lines:#?}");
    let line = warned[0];
    assert!(line["message"].as_str().is_some_and(|text| text.contains("journal writes")), "{line}");
    assert_eq!((&line["target"], &line["attempt"]), (&"writ::component".into(), &1.into()), "{line}");
    assert_eq!((&line["submission"], line["thread"].is_string()), (&done["id"], true), "{line}");
}

/// Receives traces on loopback.
struct Collector {
    endpoint: String,
    spans: Arc<Mutex<Vec<Span>>>,
    raw: Arc<Mutex<Vec<u8>>>,
}

impl Collector {
    async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let (spans, raw) = (Arc::default(), Arc::default());
        let collector = Self { endpoint, spans: Arc::clone(&spans), raw: Arc::clone(&raw) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive(stream, spans.clone(), raw.clone()));
            }
        });
        collector
    }

    fn spans(&self, name: &str) -> Vec<Span> {
        let spans = self.spans.lock().expect("no panic holds it");
        spans.iter().filter(|span| span.name == name).cloned().collect()
    }

    fn names(&self) -> BTreeMap<String, usize> {
        let mut names = BTreeMap::new();
        let spans = self.spans.lock().expect("no panic holds it");
        spans.iter().for_each(|span| *names.entry(span.name.clone()).or_default() += 1);
        names
    }
}

async fn receive(mut stream: TcpStream, spans: Arc<Mutex<Vec<Span>>>, raw: Arc<Mutex<Vec<u8>>>) {
    let mut bytes = Vec::new();
    loop {
        let whole = loop {
            if let Some(head) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
                assert!(text.starts_with("post /v1/traces "), "{text}");
                let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                let length: usize = length.expect("a length");
                if bytes.len() >= head + 4 + length {
                    break head + 4..head + 4 + length;
                }
            }
            match stream.read_buf(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        };
        let request = ExportTraceServiceRequest::decode(&bytes[whole.clone()]).expect("protobuf");
        raw.lock().expect("no panic holds it").extend_from_slice(&bytes[whole.clone()]);
        bytes.drain(..whole.end);
        let sent = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        spans.lock().expect("no panic holds it").extend(sent.flat_map(|scope| scope.spans));
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.expect("the sender is there");
    }
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let text = |value: &KeyValue| match value.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        any_value::Value::ArrayValue(list) => match list.values.first()?.value.as_ref()? {
            any_value::Value::StringValue(text) => Some(format!("[{text}]")),
            _ => None,
        },
        _ => None,
    };
    text(span.attributes.iter().find(|attribute| attribute.key == name)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_attempts_are_one_trace_over_a_restart() {
    let collector = Collector::listen().await;
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    // The first attempt dies in its tool call, after the answer that asks for it was stored.
    let crash = Arc::new(CrashStore::new(inner.clone(), 4, Fault::KillBefore));
    let first = Setup::new(LOOKUP).store(crash.clone()).world().await;
    let (first, telemetry, _) = observed(first, Some(collector.endpoint.clone())).await;
    let id = first.accept("t", "k", CONTENT).await;
    crash.killed().await;
    first.host.shutdown().await;
    telemetry.flush().await;
    assert_eq!(collector.spans("invoke_agent helper").len(), 1, "{:?}", collector.names());

    let second = Setup::new(LOOKUP).store(inner).world().await;
    let (second, telemetry, _) = observed(second, Some(collector.endpoint.clone())).await;
    second.host.sweep().await.expect("a sweep");
    second.host.settled().await;
    assert_eq!(second.submission(&id).await["attempt"], 2);
    second.host.shutdown().await;
    telemetry.flush().await;

    let all = collector.spans.lock().expect("no panic holds it").clone();
    let (trace, root) = (trace(&id).to_bytes().to_vec(), root_span(&id).to_bytes().to_vec());
    for span in &all {
        assert_eq!(span.trace_id, trace, "{span:#?}");
        assert_eq!(attribute(span, "writ.submission").as_deref(), Some(id.as_str()));
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano && span.start_time_unix_nano > 0);
    }
    // The second host has not been told the agent's name.
    let attempts = [&collector.spans("invoke_agent helper")[..], &collector.spans("invoke_agent")[..]].concat();
    let told = |name: &str| attempts.iter().map(|span| attribute(span, name).unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(told("writ.attempt"), ["1", "2"], "{:?}", collector.names());
    assert_eq!(told("writ.outcome"), ["interrupted", "completed"]);
    assert!(attempts.iter().all(|span| span.parent_span_id == root), "{attempts:#?}");
    assert_ne!(attempts[0].span_id, attempts[1].span_id);
    let submission = collector.spans("submission");
    assert_eq!((submission.len(), &submission[0].span_id, submission[0].parent_span_id.len()), (1, &root, 0));

    let chats = collector.spans("chat scripted");
    let tools = collector.spans("execute_tool lookup");
    assert_eq!(all.len(), 3 + chats.len() + tools.len(), "{:?}", collector.names());
    for span in chats.iter().chain(&tools) {
        let attempt =
            &attempts[attribute(span, "writ.attempt").expect("an attempt").parse::<usize>().expect("1, 2") - 1];
        assert_eq!(span.parent_span_id, attempt.span_id);
        assert!(span.start_time_unix_nano >= attempt.start_time_unix_nano, "{span:#?}");
    }
    let of = |spans: &[Span], name: &str| spans.iter().filter_map(|s| attribute(s, name)).collect::<Vec<_>>();
    assert_eq!(of(&chats, "gen_ai.response.finish_reasons"), ["[tool_call]", "[stop]"]);
    assert_eq!(of(&chats, "gen_ai.usage.input_tokens"), ["11"]);
    assert_eq!(of(&chats, "writ.purpose"), ["turn", "turn"]);
    assert_eq!(of(&tools, "gen_ai.tool.name"), ["lookup"], "a plain tool is not run again");
    let raw = String::from_utf8_lossy(&collector.raw.lock().expect("no panic holds it")).into_owned();
    assert!(raw.contains("gen_ai.request.model") && !raw.contains(CONTENT), "content was sent");
}

/// A wait this long ends the run; the next one goes on with the attempt, and does not say so again.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_waits_for_a_retry_is_one_span_over_its_runs() {
    let collector = Collector::listen().await;
    let (world, telemetry, _) = observed(World::new(HELLO).await, Some(collector.endpoint.clone())).await;
    world.model.fail_next(ModelError::Transient { retry_after_ms: Some(60_000), message: CONTENT.into() });
    let done = world.ask("t", "k", "hi").await;
    assert_eq!((&done["attempt"], &done["outcome"]["status"]), (&1.into(), &"completed".into()), "{done}");
    assert_values(&telemetry, &[("writ_runs_total{outcome=\"later\"}", 1.0), ("writ_attempts_total", 1.0)]);
    telemetry.flush().await;
    let attempts = collector.spans("invoke_agent helper");
    assert_eq!(attempts.len(), 1, "{:?}", collector.names());
    assert_eq!(attribute(&attempts[0], "writ.outcome").as_deref(), Some("completed"));
    let chats = collector.spans("chat scripted");
    let errors: Vec<_> = chats.iter().map(|span| attribute(span, "error.type")).collect();
    assert_eq!(errors, [Some("transient".to_owned()), None]);
    assert!(chats.iter().all(|span| span.parent_span_id == attempts[0].span_id), "{chats:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_gone_costs_spans_only() {
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        format!("http://{}", listener.local_addr().expect("an address"))
    };
    let (world, telemetry, lines) = observed(World::new(HELLO).await, Some(gone)).await;
    assert_eq!(world.ask("t", "k", CONTENT).await["outcome"]["status"], "completed");
    telemetry.flush().await;
    until(|| value(&telemetry, "writ_spans_lost_total") >= 3.0).await;
    let complaints = lines.json().into_iter().filter(|line| line["level"] == "WARN").count();
    assert_eq!(complaints, 1, "{}", lines.text());
}
