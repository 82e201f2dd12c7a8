//! `writ delete`: a thread and all it holds.

use clap::Args;
use serde_json::json;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::names::Thread;
use super::open;
use super::out::Out;

/// Delete a thread and all it holds.
///
/// Messages, submissions and events of the thread go, and unfinished work in it is aborted. There is no way back:
/// `writ export` first if in doubt.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ export helper/trip -o trip.jsonl && writ delete helper/trip
  writ delete helper/trip --json")]
pub struct DeleteArgs {
    /// The thread: AGENT/THREAD.
    pub thread: Thread,
}

/// Deletes and waits until it is gone.
pub async fn run(args: DeleteArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let session = open::to_write(global).await?;
    session.ask("DELETE", args.thread.path(""), None, None).await?;
    session.runtime().idle().await;
    match session.get(args.thread.path("")).await {
        Err(failure) if failure.facts.get("status") == Some(&json!(404)) => {}
        Err(failure) => return Err(failure),
        Ok(_) => {
            let text = format!("{} is closed and not yet deleted; nothing is lost or half visible", args.thread);
            return Err(Failure::new(exit::FAILED, "not-deleted", text).advise("Give the command again: it goes on."));
        }
    }
    if out.json {
        out.value(&json!({"deleted": args.thread.to_string()}))?;
    } else {
        out.line(&format!("{} is deleted", args.thread))?;
    }
    Ok(exit::DONE)
}
