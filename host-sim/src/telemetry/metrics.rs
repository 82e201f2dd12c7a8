//! Counts, in the text format of Prometheus. What each one means is in docs/operations.md.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

/// Most models, and most tools, that are told apart; the rest is `other`.
const NAMES_MAX: usize = 64;
/// Samples of histograms that may wait; then they are put into their buckets, scraped or not.
const SAMPLES_MAX: u32 = 1024;

/// Upper bounds of the buckets of commits, in seconds.
const COMMIT_SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
/// Upper bounds of the buckets of models and tools, in seconds.
const CALL_SECONDS: [f64; 12] = [0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];

const METADATA: Metadata<'static> = Metadata::new("writ", Level::INFO, None);

const COUNTERS: &[(&str, &str)] = &[
    (ACCEPTED, "Submissions accepted."),
    (ATTEMPTS, "Attempts begun."),
    (CALLS, "Calls of the component that are over, by export and end."),
    (COMMITS, "Commits, by outcome."),
    (LOST, "Journal writes that were lost: viewers saw a gap."),
    (MODEL_CALLS, "Calls of models that are over, by model and result."),
    (RETRIES, "Retries of a model's transient error."),
    (RUNS, "Runs that are over, by outcome."),
    (SETTLED, "Submissions settled, by status."),
    (SPANS_LOST, "Spans that could not be sent."),
    (TOKENS, "Tokens that models counted, by direction."),
    (TOOL_CALLS, "Calls of the host's tools that are over, by tool and result."),
    (WEBHOOKS, "Deliveries of webhooks, by webhook and result."),
];
const GAUGES: &[(&str, &str)] = &[
    (BUILD, "1, with the version as a label."),
    (CALLS_NOW, "Calls of the component under way, by export."),
    (CONNECTIONS, "Connections open."),
    (KEYS, "Keys in the store, as counted last."),
    (MEMORY, "Memory of this process that is in RAM."),
    (STREAMS, "Event streams open."),
];
const HISTOGRAMS: &[(&str, &str, &[f64])] = &[
    (COMMIT_TIME, "How long commits took.", &COMMIT_SECONDS),
    (MODEL_TIME, "How long calls of models took, to the last piece.", &CALL_SECONDS),
    (TOOL_TIME, "How long calls of tools took.", &CALL_SECONDS),
];

const ACCEPTED: &str = "writ_submissions_accepted_total";
const ATTEMPTS: &str = "writ_attempts_total";
const BUILD: &str = "writ_build_info";
const CALLS: &str = "writ_calls_total";
const CALLS_NOW: &str = "writ_calls_in_flight";
const COMMITS: &str = "writ_commits_total";
const COMMIT_TIME: &str = "writ_commit_duration_seconds";
const CONNECTIONS: &str = "writ_connections_open";
const KEYS: &str = "writ_store_keys";
const LOST: &str = "writ_journal_writes_lost_total";
const MEMORY: &str = "process_resident_memory_bytes";
const MODEL_CALLS: &str = "writ_model_calls_total";
const MODEL_TIME: &str = "writ_model_call_duration_seconds";
const RETRIES: &str = "writ_retries_total";
const RUNS: &str = "writ_runs_total";
const SETTLED: &str = "writ_submissions_settled_total";
const SPANS_LOST: &str = "writ_spans_lost_total";
const STREAMS: &str = "writ_streams_open";
const TOKENS: &str = "writ_model_tokens_total";
const TOOL_CALLS: &str = "writ_tool_calls_total";
const TOOL_TIME: &str = "writ_tool_call_duration_seconds";
const WEBHOOKS: &str = "writ_webhook_deliveries_total";

/// The exports, as `writ_calls_in_flight` names them.
const EXPORTS: [&str; 5] = ["audit", "follow", "pending", "respond", "run"];

/// How a submission can end.
pub(super) const STATUSES: [&str; 3] = ["aborted", "completed", "failed"];

/// The counts of one process.
pub struct Metrics {
    recorder: PrometheusRecorder,
    samples: AtomicU32,
    models: Names,
    tools: Names,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut builder = PrometheusBuilder::new();
        for (name, _, bounds) in HISTOGRAMS {
            let matcher = Matcher::Full((*name).to_owned());
            // It fails for a histogram without buckets only.
            builder = builder.set_buckets_for_metric(matcher, bounds).unwrap_or_else(|_| PrometheusBuilder::new());
        }
        let (models, tools) = (Names::default(), Names::default());
        let metrics = Self { recorder: builder.build_recorder(), samples: 0.into(), models, tools };
        metrics.describe();
        metrics
    }
}

impl Metrics {
    /// All counts, as Prometheus reads them.
    pub fn render(&self) -> String {
        if let Some(bytes) = resident_bytes() {
            self.set(MEMORY, &[], bytes as f64);
        }
        self.recorder.handle().render()
    }

    /// How many keys the store holds: to be said before [`Metrics::render`], where it is cheap to know.
    pub fn store_keys(&self, keys: u64) {
        self.set(KEYS, &[], keys as f64);
    }

    /// A connection that is open until the guard is dropped.
    pub fn connection(&self) -> Open {
        self.open(CONNECTIONS)
    }

    /// An event stream that is open until the guard is dropped.
    pub fn stream(&self) -> Open {
        self.open(STREAMS)
    }

    /// A webhook was delivered, or a try has failed. `webhook` is its name in the configuration.
    pub fn webhook(&self, webhook: &str, delivered: bool) {
        let result = if delivered { "delivered" } else { "failed" };
        self.count(WEBHOOKS, &[("webhook", webhook), ("result", result)], 1);
    }

    pub(super) fn accepted(&self) {
        self.count(ACCEPTED, &[], 1);
    }

    pub(super) fn settled(&self, status: &str) {
        self.count(SETTLED, &[("status", status)], 1);
    }

    pub(super) fn attempt(&self) {
        self.count(ATTEMPTS, &[], 1);
    }

    pub(super) fn retry(&self) {
        self.count(RETRIES, &[], 1);
    }

    pub(super) fn ran(&self, outcome: &'static str) {
        self.count(RUNS, &[("outcome", outcome)], 1);
    }

    pub(super) fn lost(&self, writes: u32) {
        self.count(LOST, &[], writes.into());
    }

    pub(super) fn spans_lost(&self, spans: usize) {
        self.count(SPANS_LOST, &[], spans as u64);
    }

    pub(super) fn committed(&self, end: &'static str, took: Duration) {
        self.count(COMMITS, &[("outcome", end)], 1);
        self.sample(COMMIT_TIME, &[], took);
    }

    pub(super) fn call_began(&self, export: &'static str) {
        self.recorder.register_gauge(&key(CALLS_NOW, &[("export", export)]), &METADATA).increment(1.0);
    }

    pub(super) fn call_ended(&self, export: &'static str, end: &'static str) {
        self.recorder.register_gauge(&key(CALLS_NOW, &[("export", export)]), &METADATA).decrement(1.0);
        self.count(CALLS, &[("export", export), ("end", end)], 1);
    }

    pub(super) fn model(
        &self,
        model: &str,
        end: &'static str,
        took: Duration,
        input: Option<u64>,
        output: Option<u64>,
    ) {
        let model = self.models.known(model);
        self.count(MODEL_CALLS, &[("model", model), ("result", end)], 1);
        self.sample(MODEL_TIME, &[("model", model)], took);
        self.count(TOKENS, &[("direction", "input")], input.unwrap_or(0));
        self.count(TOKENS, &[("direction", "output")], output.unwrap_or(0));
    }

    pub(super) fn tool(&self, tool: &str, end: &'static str, took: Duration) {
        let tool = self.tools.known(tool);
        self.count(TOOL_CALLS, &[("tool", tool), ("result", end)], 1);
        self.sample(TOOL_TIME, &[("tool", tool)], took);
    }

    /// Says what each is, and shows from the start those whose labels are known: a rate needs a zero to begin from.
    fn describe(&self) {
        for (name, help) in COUNTERS {
            self.recorder.describe_counter(KeyName::from_const_str(name), None, (*help).into());
        }
        for (name, help) in GAUGES {
            self.recorder.describe_gauge(KeyName::from_const_str(name), None, (*help).into());
        }
        for (name, help, _) in HISTOGRAMS {
            self.recorder.describe_histogram(KeyName::from_const_str(name), Some(Unit::Seconds), (*help).into());
        }
        for name in [ACCEPTED, ATTEMPTS, LOST, RETRIES, SPANS_LOST] {
            self.count(name, &[], 0);
        }
        STATUSES.iter().for_each(|status| self.count(SETTLED, &[("status", status)], 0));
        ["committed", "stale", "unknown", "error"].iter().for_each(|end| self.count(COMMITS, &[("outcome", end)], 0));
        ["idle", "later", "fenced", "failed", "lost"].iter().for_each(|end| self.count(RUNS, &[("outcome", end)], 0));
        EXPORTS.iter().for_each(|export| self.set(CALLS_NOW, &[("export", export)], 0.0));
        [CONNECTIONS, STREAMS].iter().for_each(|name| self.set(name, &[], 0.0));
        self.set(BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    }

    fn count(&self, name: &'static str, labels: &[(&'static str, &str)], by: u64) {
        self.recorder.register_counter(&key(name, labels), &METADATA).increment(by);
    }

    fn set(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.recorder.register_gauge(&key(name, labels), &METADATA).set(value);
    }

    fn sample(&self, name: &'static str, labels: &[(&'static str, &str)], took: Duration) {
        self.recorder.register_histogram(&key(name, labels), &METADATA).record(took.as_secs_f64());
        if self.samples.fetch_add(1, Ordering::Relaxed) % SAMPLES_MAX == SAMPLES_MAX - 1 {
            self.recorder.handle().run_upkeep();
        }
    }

    fn open(&self, name: &'static str) -> Open {
        let gauge = self.recorder.register_gauge(&key(name, &[]), &METADATA);
        gauge.increment(1.0);
        Open(gauge)
    }
}

/// One thing that counts as open until this is dropped.
pub struct Open(metrics::Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Names that become labels: the first ones only, since each costs memory for good.
#[derive(Default)]
struct Names(Mutex<BTreeSet<String>>);

impl Names {
    fn known<'a>(&self, name: &'a str) -> &'a str {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.contains(name) || (names.len() < NAMES_MAX && names.insert(name.to_owned())) { name } else { "other" }
    }
}

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    Key::from_parts(name, labels.iter().map(|(name, value)| Label::new(*name, (*value).to_owned())).collect::<Vec<_>>())
}

/// Memory of this process that is in RAM, in bytes, where the system tells it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, series: &str) -> Option<f64> {
        text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }

    #[test]
    fn what_is_open_is_counted_down_again() {
        let metrics = Metrics::default();
        let (one, two) = (metrics.stream(), metrics.stream());
        let connection = metrics.connection();
        assert_eq!(value(&metrics.render(), "writ_streams_open"), Some(2.0));
        drop((one, connection));
        let text = metrics.render();
        assert_eq!((value(&text, "writ_streams_open"), value(&text, "writ_connections_open")), (Some(1.0), Some(0.0)));
        drop(two);
    }

    #[test]
    fn what_others_tell_is_shown() {
        let metrics = Metrics::default();
        metrics.store_keys(7);
        metrics.webhook("pager", true);
        metrics.webhook("pager", false);
        let text = metrics.render();
        assert_eq!(value(&text, "writ_store_keys"), Some(7.0));
        assert_eq!(value(&text, r#"writ_webhook_deliveries_total{webhook="pager",result="delivered"}"#), Some(1.0));
        assert_eq!(value(&text, r#"writ_webhook_deliveries_total{webhook="pager",result="failed"}"#), Some(1.0));
        if cfg!(target_os = "linux") {
            assert!(value(&text, MEMORY).unwrap() > 1_000_000.0, "{text}");
        }
    }

    #[test]
    fn every_metric_is_described_here_and_in_the_documentation() {
        let metrics = Metrics::default();
        metrics.model("m", "end", Duration::ZERO, None, None);
        metrics.tool("t", "ok", Duration::ZERO);
        metrics.committed("committed", Duration::ZERO);
        let (text, documentation) = (metrics.render(), include_str!("../../../docs/operations.md"));
        let described = COUNTERS.iter().chain(GAUGES).map(|(name, _)| *name).chain(HISTOGRAMS.iter().map(|h| h.0));
        for name in described {
            assert!(documentation.contains(&format!("| `{name}`")), "docs/operations.md lacks {name}");
        }
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = line.split(' ').next().unwrap();
            assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help:\n{text}");
            assert!(documentation.contains(&format!("| `{name}`")), "docs/operations.md lacks {name}");
        }
    }

    #[test]
    fn a_component_can_not_make_up_labels_for_ever() {
        let metrics = Metrics::default();
        (0..1000).for_each(|i| metrics.tool(&format!("t{i}"), "ok", Duration::ZERO));
        let text = metrics.render();
        assert_eq!(text.lines().filter(|line| line.starts_with("writ_tool_calls_total{")).count(), NAMES_MAX + 1);
        assert_eq!(value(&text, r#"writ_tool_calls_total{tool="other",result="ok"}"#), Some(936.0));
    }
}
