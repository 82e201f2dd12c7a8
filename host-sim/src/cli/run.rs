//! `writ run`: one submission to its outcome.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use serde_json::json;
use tokio::sync::mpsc;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::interrupts;
use super::names::Key;
use super::names::Name;
use super::names::Thread;
use super::open;
use super::out::Out;
use super::out::safe;
use super::record::Record;
use super::session::BODY_BYTES_MAX;
use super::session::Session;
use super::spans;

/// Submit one message and print the reply.
///
/// stdout has the reply and nothing else. The id is on stderr before the first word of it, so that a killed command
/// leaves the name of what it began. The same id with the same message gives the same outcome, without a second run.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ run helper 'What is in the workspace?'
  writ run helper --id tuesday '/read notes.txt'     again after a crash, or for the same answer
  writ run helper --thread trip 'And by train?'       goes on in the thread helper/trip
  git diff | writ run helper -                        the message from stdin
  writ run helper --json --schema person.json 'Who wrote this?'

Ctrl-C cancels the submission durably; a second one leaves at once.")]
pub struct RunArgs {
    /// The agent.
    pub agent: Name,
    /// The message; `-` reads stdin.
    pub message: String,
    /// Names the submission within its thread: 1 to 256 visible ASCII characters. Without it a fresh one is shown.
    #[arg(long, value_name = "KEY")]
    pub id: Option<Key>,
    /// The thread. Without it, one that is named after the id, so that a repeated command meets its first run.
    #[arg(long, value_name = "NAME")]
    pub thread: Option<Name>,
    /// A JSON Schema that the result must fit.
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
}

/// Runs it; the exit code tells how the submission ended.
pub async fn run(args: RunArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let mut delivery = json!({"message": message(&args.message)?});
    if let Some(path) = &args.schema {
        delivery["result_schema"] = schema(path)?;
    }
    let key = args.id.clone().unwrap_or_else(Key::fresh);
    let thread = Thread { agent: args.agent.clone(), thread: args.thread.unwrap_or_else(|| thread_of(&key)) };
    let session = open::to_run(global, Some(&args.agent)).await?;
    if args.id.is_none() {
        let text = format!("writ: the same command goes on with --id {key} --thread {}", thread.thread);
        out.note(
            &text,
            &json!({"key": key.as_str(), "agent": thread.agent.as_str(), "thread": thread.thread.as_str()}),
        );
    }
    let mut interrupts = interrupts::listen();
    let record = settle(&session, &thread, &key, &delivery, &mut interrupts, out).await?;
    let code = print(&record, out);
    session.finish(&mut interrupts, out).await;
    code
}

/// Submits, shows the receipt, waits.
async fn settle(
    session: &Session,
    thread: &Thread,
    key: &Key,
    delivery: &Value,
    interrupts: &mut mpsc::Receiver<()>,
    out: Out,
) -> Result<Record, Failure> {
    let mut events = session.runtime().watch();
    let receipt = session.submit(thread, key, delivery).await?;
    out.note(
        &format!("writ: submission {} in {thread}", receipt.id),
        &json!({"id": receipt.id, "agent": receipt.agent, "thread": receipt.thread_name, "key": key.as_str()}),
    );
    if receipt.settled() {
        return Ok(receipt);
    }
    session.wait(&receipt, &mut events, interrupts, |_| Ok(())).await
}

fn print(record: &Record, out: Out) -> Result<u8, Failure> {
    if out.json {
        let body = std::str::from_utf8(&record.body).unwrap_or_default();
        out.line(spans::field(body, "outcome").unwrap_or("null"))?;
        return Ok(record.exit());
    }
    if let Some(failure) = record.complaint() {
        return Err(failure);
    }
    let text = record.outcome.as_ref().and_then(|o| o.text.clone()).unwrap_or_default();
    let text = text.trim_end_matches('\n');
    out.bytes(format!("{}\n", if out.stdout_tty { safe(text) } else { text.into() }).as_bytes())?;
    Ok(exit::DONE)
}

/// The message, or stdin for `-`.
fn message(argument: &str) -> Result<String, Failure> {
    if argument != "-" {
        return Ok(argument.into());
    }
    let mut text = String::new();
    let limit = BODY_BYTES_MAX as u64 + 1;
    std::io::stdin()
        .take(limit)
        .read_to_string(&mut text)
        .map_err(|e| Failure::refused("stdin", format!("stdin is no UTF-8 text: {e}")))?;
    if text.len() > BODY_BYTES_MAX {
        let what = format!("stdin has more than {BODY_BYTES_MAX} bytes, which is the limit of a whole request");
        return Err(Failure::refused("too-large", what).fact("limit", BODY_BYTES_MAX));
    }
    Ok(text)
}

fn schema(path: &std::path::Path) -> Result<Value, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::file(path, "read", &e))?;
    serde_json::from_str(&text).map_err(|e| Failure::refused("schema", format!("{} is no JSON: {e}", path.display())))
}

/// The thread of a submission that names none: one for its key, so that a retry lands in the same place.
fn thread_of(key: &Key) -> Name {
    let plain = format!("run-{key}");
    if let Ok(name) = plain.parse() {
        return name;
    }
    // FNV-1a, 128 bits: keys that met by chance would share a thread, never a submission.
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in key.as_str().bytes() {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    format!("run-{hash:032x}").parse().unwrap_or_else(|_| Name::fresh("run"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_key_meets_its_first_run() {
        let key: Key = "tuesday".parse().unwrap();
        assert_eq!(thread_of(&key).as_str(), "run-tuesday");
        let odd: Key = "a/b c".replace(' ', "").parse().unwrap();
        assert_eq!(thread_of(&odd), thread_of(&odd));
        assert_ne!(thread_of(&odd), thread_of(&"a/bd".parse().unwrap()));
        let long: Key = "k".repeat(256).parse().unwrap();
        assert!(thread_of(&long).as_str().len() <= 128);
    }
}
