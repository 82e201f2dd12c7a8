//! `writ cancel`: ask a submission to stop, durably.

use clap::Args;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::names::SubmissionId;
use super::open;
use super::out::Out;

/// Ask a submission to stop, durably.
///
/// The wish is stored before the command says so, and taken at once when nothing else holds the thread. A submission
/// that has settled keeps its outcome.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ cancel 3f-k2v6…
  writ inspect submissions                 what could be cancelled")]
pub struct CancelArgs {
    /// The id of a submission.
    pub id: SubmissionId,
}

/// Cancels and shows how it stands. An outcome that stood already is shown, not an error.
pub async fn run(args: CancelArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let session = open::to_write(global).await?;
    session.cancel(&args.id).await?;
    session.runtime().idle().await;
    let record = session.record(&args.id).await?;
    if out.json {
        out.line(std::str::from_utf8(&record.body).unwrap_or("null"))?;
    } else {
        let status = record.outcome.as_ref().map(|o| o.status.as_str());
        let state = status.map_or_else(|| format!("{}, its cancel is stored", record.state), Into::into);
        let reason = record.outcome.as_ref().and_then(|o| o.reason.clone()).or(record.reason);
        out.line(&format!("{}: {state}{}", record.id, reason.map(|r| format!(" ({r})")).unwrap_or_default()))?;
    }
    Ok(exit::DONE)
}
