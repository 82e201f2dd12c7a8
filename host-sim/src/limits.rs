//! The caps that the host puts on the component. Times are real milliseconds, whatever the clock of the component says.

/// What a component may use, and how long the host waits for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Calls at the same time, 2 at least; more wait. Runs leave an eighth of them (one at least) to other calls, so
    /// that a cancel gets in however many models are waited for.
    pub sessions: usize,
    /// Linear memory of one call, in bytes.
    pub memory_bytes: usize,
    /// Handles and table entries of one call.
    pub handles: usize,
    /// Data that one host call takes from the component, in bytes.
    pub hostcall_bytes: usize,
    /// Longest stretch of computing without waiting for the host; then the call is trapped.
    pub compute_ms: u64,
    /// Longest `respond`, `pending`, `follow` or `audit`.
    pub call_ms: u64,
    /// Longest `run`. A run may wait for models and tools for hours; a killed one is a crash, and safe.
    pub run_ms: u64,
    /// Longest wait for the store; then a commit is `unknown` and a read `unavailable`.
    pub store_ms: u64,
    /// Longest wait for a completion to start, or for the description of a model.
    pub model_start_ms: u64,
    /// Longest wait for the next event of a completion.
    pub model_next_ms: u64,
    /// After the first event of a completion has come, how long more are waited for before the component gets them: what
    /// a viewer sees comes in pieces of this length, and each piece is a write to the journal. 0 for none; scripted
    /// clocks and hooks never have it.
    pub linger_ms: u64,
    /// Longest wait in `tools.wait` or `clock.wait-until`; then they return early.
    pub wait_ms: u64,
    /// Between two sweeps; `None` for none but those that are asked for. A virtual clock never has them.
    pub sweep_ms: Option<u64>,
    /// First delay after a failed run, on the component's clock; it doubles.
    pub retry_ms_min: u64,
    /// Longest delay after failed runs, on the component's clock.
    pub retry_ms_max: u64,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            sessions: 256,
            memory_bytes: 64 << 20,
            handles: 1024,
            hostcall_bytes: 64 << 20,
            compute_ms: 10_000,
            call_ms: 120_000,
            run_ms: 24 * 3_600_000,
            store_ms: 30_000,
            model_start_ms: 120_000,
            model_next_ms: 600_000,
            linger_ms: 0,
            wait_ms: 3_600_000,
            sweep_ms: Some(60_000),
            retry_ms_min: 250,
            retry_ms_max: 30_000,
        }
    }
}

impl HostLimits {
    /// A pool of 32, which keeps virtual memory modest: for tests and the demo.
    pub fn small() -> Self {
        Self { sessions: 32, ..Self::default() }
    }
}
