//! What stands between the component and the parts that the host was given: deadlines, and a net for panics.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;

/// How a guarded wait ended other than by an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// The deadline passed. The text names it.
    Late(String),
    /// The part panicked. The text is the panic's.
    Panicked(String),
}

impl Lapse {
    /// For people.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Late(text) => text,
            Self::Panicked(text) => format!("it panicked: {text}"),
        }
    }
}

/// Waits at most `ms` milliseconds for `future`, and survives its panic. `what` names it for the text.
pub(crate) async fn guarded<F: Future>(what: &str, ms: u64, future: F) -> Result<F::Output, Lapse> {
    match tokio::time::timeout(Duration::from_millis(ms), caught(future)).await {
        Ok(result) => result.map_err(Lapse::Panicked),
        Err(_) => Err(Lapse::Late(format!("{what} did not answer within {ms} ms"))),
    }
}

/// Runs `future` and turns a panic into its text. The future is not polled again after one.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = pin!(future);
    poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => std::task::Poll::Ready(Err(panic_text(panic.as_ref()))),
    })
    .await
}

/// The text of a panic, as far as it has one.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_answer() {
        let result = guarded("it", 60_000, async { panic!("boom {}", 1) }).await;
        assert_eq!(result, Err::<(), _>(Lapse::Panicked("boom 1".into())));
    }

    #[tokio::test]
    async fn a_deadline_names_what_was_late() {
        let result = guarded("the store", 0, std::future::pending::<()>()).await;
        assert_eq!(result, Err(Lapse::Late("the store did not answer within 0 ms".into())));
    }
}
