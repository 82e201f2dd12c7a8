//! `writ pause` and `writ resume`: hold a submission back, durably, and let it go on.

use clap::Args;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::names::SubmissionId;
use super::open;
use super::out::Out;

/// Hold a submission back, durably.
///
/// It stops at its next turn boundary; what has not begun is not begun, and what waits behind it in its thread waits too. No
/// attempt is spent. Its deadline goes on, and it can be cancelled.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ pause 3f-k2v6…
  writ resume 3f-k2v6…                     it goes on, in the same attempt")]
pub struct PauseArgs {
    /// The id of a submission.
    pub id: SubmissionId,
}

/// Let a submission go on that was paused.
///
/// It runs here until nothing is left to do.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ resume 3f-k2v6…
  writ inspect submissions                 what is paused")]
pub struct ResumeArgs {
    /// The id of a submission.
    pub id: SubmissionId,
}

/// Pauses and shows how it stands.
pub async fn pause(args: PauseArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    wish(&args.id, "pause", global, out).await
}

/// Resumes and shows how it stands.
pub async fn resume(args: ResumeArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    wish(&args.id, "resume", global, out).await
}

async fn wish(id: &SubmissionId, wish: &str, global: &Global, out: Out) -> Result<u8, Failure> {
    let session = open::to_go_on(global, id).await?;
    session.ask("POST", id.path(&format!("/{wish}")), None, None).await?;
    session.runtime().idle().await;
    let record = session.record(id).await?;
    if out.json {
        out.line(std::str::from_utf8(&record.body).unwrap_or("null"))?;
    } else {
        let status = record.outcome.as_ref().map(|o| o.status.clone()).unwrap_or(record.state);
        out.line(&format!("{}: {status}{}", record.id, record.reason.map(|r| format!(" ({r})")).unwrap_or_default()))?;
    }
    Ok(exit::DONE)
}
