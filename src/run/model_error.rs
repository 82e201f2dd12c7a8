//! What to do about a model's error. The handle's kinds decide; words only where it had none (C4).

use crate::ports::ModelError;
use crate::prelude::*;
use crate::record::Retry;

/// Waits before the retries of a transient error, in milliseconds (design §5).
pub const RETRY_MS: [u64; 3] = [2_000, 4_000, 8_000];

/// The longest wait that a provider may ask for, in milliseconds.
pub const RETRY_AFTER_MS_MAX: u64 = 60_000;

/// Longer waits than this are parked: the run ends and is run again at the time.
pub const PARK_MS: u64 = 10_000;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ask again at a time.
    Retry(Retry),
    /// Compact once, and ask again.
    Compact(String),
    /// Tell it, and fail: kind and text.
    Fail(String, String),
}

/// Decides. `retries` is how many transient errors in a row came before.
pub fn judge(error: ModelError, retries: u64, compacted: bool, now: u64) -> Verdict {
    match error {
        ModelError::Transient { retry_after_ms, message } => match RETRY_MS.get(retries as usize) {
            None => Verdict::Fail("transient".into(), format!("{message} (after {} retries)", RETRY_MS.len())),
            Some(wait) => {
                let wait = retry_after_ms.map_or(*wait, |ms| ms.min(RETRY_AFTER_MS_MAX));
                Verdict::Retry(Retry { count: retries + 1, due: now.saturating_add(wait), why: message })
            }
        },
        ModelError::Overflow(text) if compacted => Verdict::Fail("overflow".into(), text),
        ModelError::Overflow(text) => Verdict::Compact(text),
        ModelError::Permanent(kind, text) => Verdict::Fail(kind.into(), text),
        ModelError::Unknown(text) => match by_words(&text) {
            Some(known) => judge(known, retries, compacted, now),
            None => Verdict::Fail("unknown".into(), text),
        },
    }
}

/// Wordings of providers that have no typed error for it: overflow first, since its texts also speak of limits.
fn by_words(text: &str) -> Option<ModelError> {
    const OVERFLOW: [&str; 6] = [
        "context length",
        "context window",
        "context_length_exceeded",
        "prompt is too long",
        "too many tokens",
        "maximum number of tokens",
    ];
    const TRANSIENT: [&str; 7] = [
        "overloaded",
        "rate limit",
        "too many requests",
        "timed out",
        "connection reset",
        "service unavailable",
        "bad gateway",
    ];
    let lower = text.to_lowercase();
    if OVERFLOW.iter().any(|w| lower.contains(w)) {
        return Some(ModelError::Overflow(text.to_owned()));
    }
    if TRANSIENT.iter().any(|w| lower.contains(w)) {
        return Some(ModelError::Transient { retry_after_ms: None, message: text.to_owned() });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transient(after: Option<u64>) -> ModelError {
        ModelError::Transient { retry_after_ms: after, message: "429".into() }
    }

    fn wait(verdict: Verdict) -> Option<u64> {
        match verdict {
            Verdict::Retry(retry) => Some(retry.due - 1_000),
            _ => None,
        }
    }

    #[test]
    fn three_retries_at_two_four_and_eight_seconds() {
        let waits: Vec<_> = (0..5).map(|n| wait(judge(transient(None), n, false, 1_000))).collect();
        assert_eq!(waits, [Some(2_000), Some(4_000), Some(8_000), None, None]);
    }

    #[test]
    fn the_servers_wait_counts_up_to_a_minute() {
        assert_eq!(wait(judge(transient(Some(500)), 0, false, 1_000)), Some(500));
        assert_eq!(wait(judge(transient(Some(600_000)), 2, false, 1_000)), Some(60_000));
    }

    /// B31: overflow is answered by a compaction once.
    #[test]
    fn overflow_compacts_once() {
        let overflow = || ModelError::Overflow("too long".into());
        assert_eq!(judge(overflow(), 0, false, 0), Verdict::Compact("too long".into()));
        assert_eq!(judge(overflow(), 0, true, 0), Verdict::Fail("overflow".into(), "too long".into()));
    }

    /// C4: words decide only where the handle gave no kind.
    /// Shows B37.
    #[test]
    fn words_are_the_last_resort() {
        let words = |text: &str| judge(ModelError::Unknown(text.into()), 0, false, 0);
        assert!(matches!(words("HTTP 529: Overloaded"), Verdict::Retry(_)));
        assert!(matches!(words("This model's maximum context length is 8192"), Verdict::Compact(_)));
        assert!(matches!(words("strange"), Verdict::Fail(kind, _) if kind == "unknown"));
        let refused = judge(ModelError::Permanent("refused", "rate limit".into()), 0, false, 0);
        assert_eq!(refused, Verdict::Fail("refused".into(), "rate limit".into()));
    }
}
