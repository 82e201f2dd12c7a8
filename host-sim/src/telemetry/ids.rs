//! Names of traces and spans that are derived, so that every process gives a submission the same ones.

use opentelemetry::trace::{SpanId, TraceId};
use sha2::{Digest, Sha256};

/// The trace of a submission: all of its attempts, by whatever process.
pub fn trace(submission: &str) -> TraceId {
    TraceId::from_bytes(derived("writ/trace/1", submission))
}

/// The span of a submission itself: the parent of its attempts.
pub fn root_span(submission: &str) -> SpanId {
    SpanId::from_bytes(derived("writ/root/1", submission))
}

/// The span of an attempt.
pub(super) fn attempt_span(submission: &str, attempt: u64) -> SpanId {
    SpanId::from_bytes(derived("writ/attempt/1", &format!("{submission}/{attempt}")))
}

/// A span that nobody else has to name.
pub(super) fn any_span() -> SpanId {
    let mut bytes = [0; 8];
    // Without randomness it is invalid, and the receiver drops it.
    let _ = getrandom::fill(&mut bytes);
    SpanId::from_bytes(bytes)
}

/// The first bytes of a hash; `N` is at most 32.
fn derived<const N: usize>(purpose: &str, of: &str) -> [u8; N] {
    let hash = Sha256::new().chain_update(purpose).chain_update(of).finalize();
    let mut bytes = [0; N];
    bytes.iter_mut().zip(hash).for_each(|(byte, hashed)| *byte = hashed);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf %s writ/trace/1abc | sha256sum`, and so on: the names are in other people's systems.
    #[test]
    fn names_are_what_they_always_were() {
        assert_eq!(trace("abc").to_string(), "5aa7d26c87761138e42364e95fa3ac9c");
        assert_eq!(root_span("abc").to_string(), "18dce7db96d9e284");
        assert_eq!(attempt_span("abc", 2).to_string(), "082559ac9ea6a8fc");
        assert_ne!(any_span(), any_span());
    }
}
