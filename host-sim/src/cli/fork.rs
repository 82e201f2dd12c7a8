//! `writ fork`: the first messages of a thread as a new one.

use clap::Args;
use serde_json::json;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::interrupts;
use super::names::Key;
use super::names::Name;
use super::names::Target;
use super::names::Thread;
use super::open;
use super::out::Out;
use super::record::Record;

/// Copy the first messages of a thread into a new one.
///
/// Messages are copied, nothing else: no open work, no waiting input. A call is never parted from its results.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ fork helper/trip trip-by-train                 the whole thread
  writ fork helper/trip trip-by-train --at 12         messages 0 to 11
  writ chat helper trip-by-train                      go on from there")]
pub struct ForkArgs {
    /// The source: AGENT/THREAD, or the id of one of its submissions.
    pub source: Target,
    /// The new thread's name.
    pub to: Name,
    /// How many messages; without it, all.
    #[arg(long, value_name = "N")]
    pub at: Option<u64>,
    /// Names the fork, so that it can be repeated: 1 to 256 visible ASCII characters.
    #[arg(long, value_name = "KEY")]
    pub id: Option<Key>,
}

/// Forks and waits until the new thread is there.
pub async fn run(args: ForkArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let session = open::to_write(global).await?;
    let source = session.thread_of(&args.source).await?;
    let target = Thread { agent: source.agent.clone(), thread: args.to };
    let body = json!({"to": target.thread.as_str(), "at": args.at});
    let key = args.id.unwrap_or_else(Key::fresh);
    let mut interrupts = interrupts::listen();
    let mut events = session.runtime().watch();
    let receipt = Record::of(session.ask("POST", source.path("/fork"), Some(&key), Some(&body)).await?)?;
    out.note(&format!("writ: submission {}", receipt.id), &json!({"id": receipt.id, "key": key.as_str()}));
    let record = match receipt.settled() {
        true => receipt,
        false => session.wait(&receipt, &mut events, &mut interrupts, |_| Ok(())).await?,
    };
    if let Some(failure) = record.complaint() {
        return Err(failure);
    }
    let count = session.get(target.path("")).await?["messages"].clone();
    if out.json {
        out.value(&json!({"thread": target.to_string(), "source": source.to_string(), "messages": count}))?;
    } else {
        out.line(&format!("{target}: {count} messages of {source}"))?;
    }
    Ok(exit::DONE)
}
