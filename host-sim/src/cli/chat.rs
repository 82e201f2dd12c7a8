//! `writ chat`: a conversation in the terminal.

use clap::Args;
use serde_json::Value;
use serde_json::json;
use tokio::sync::mpsc;

use super::approve;
use super::args::Global;
use super::blocks;
use super::blocks::Detail;
use super::exit;
use super::failure::Failure;
use super::input::Input;
use super::input::Line;
use super::interrupts;
use super::names::Key;
use super::names::Name;
use super::names::Thread;
use super::open;
use super::out::DIM;
use super::out::Out;
use super::out::styled;
use super::record::Record;
use super::session::Session;
use super::spans;
use super::stream::Stream;

/// How many messages of an existing thread are shown at the start.
const SHOWN_MESSAGES: u64 = 6;

/// Talk with an agent in the terminal, durably.
///
/// Every message is a submission of its own: accepted durably, its id on stderr before the first word of the answer.
/// Come back with the same thread name; what was interrupted goes on.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ chat helper                     a fresh thread; its name is shown
  writ chat helper trip                goes on with the thread helper/trip
  printf 'one\\ntwo\\n' | writ chat helper trip       a line is a message, replies on stdout

In the conversation: /quit (or Ctrl-D) leaves. Ctrl-C while an answer comes cancels it durably. A call that needs your word
asks for it: y lets it run, anything else denies it.")]
pub struct ChatArgs {
    /// The agent.
    pub agent: Name,
    /// The thread; without it, a fresh one.
    pub thread: Option<Name>,
}

/// Talks until the input ends. The exit code is that of the first answer that did not complete.
pub async fn run(args: ChatArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let session = open::to_run(global, Some(&args.agent)).await?;
    let thread = Thread { agent: args.agent, thread: args.thread.unwrap_or_else(|| Name::fresh("chat")) };
    out.note(&format!("writ: thread {thread}; /quit leaves"), &json!({"thread": thread.to_string()}));
    show_past(&session, &thread, out).await?;
    let mut interrupts = interrupts::listen();
    let mut input = Input::new(out);
    let mut code = exit::DONE;
    loop {
        match input.line(&mut interrupts).await? {
            Line::End => break,
            Line::Message(text) if text.trim() == "/quit" => break,
            Line::Message(text) if text.trim().is_empty() => {}
            Line::Message(text) => {
                let ended = turn(&session, &thread, &text, &mut input, &mut interrupts, out).await?;
                if code == exit::DONE {
                    code = ended;
                }
            }
        }
    }
    session.finish(&mut interrupts, out).await;
    Ok(code)
}

/// One message and its answer. A refusal is shown and the conversation goes on.
async fn turn(
    session: &Session,
    thread: &Thread,
    text: &str,
    input: &mut Input,
    interrupts: &mut mpsc::Receiver<()>,
    out: Out,
) -> Result<u8, Failure> {
    let key = Key::fresh();
    let mut events = session.runtime().watch();
    let receipt = match session.submit(thread, &key, &json!({"message": text})).await {
        Ok(receipt) => receipt,
        Err(failure) if failure.exit == exit::REFUSED || failure.exit == exit::CONFLICT => {
            out.failure(&failure);
            return Ok(failure.exit);
        }
        Err(failure) => return Err(failure),
    };
    let note = styled(DIM, &format!("writ: submission {}", receipt.id));
    out.note(&note, &json!({"id": receipt.id, "key": key.as_str()}));
    let mut stream = Stream::new(out);
    let record = loop {
        match session.wait(&receipt, &mut events, interrupts, |event| stream.event(event)).await {
            Ok(record) => break record,
            Err(failure) if failure.code == "not-settled" => {
                if !answer(session, &receipt, input, interrupts, out).await? {
                    return Err(failure);
                }
            }
            Err(failure) => return Err(failure),
        }
    };
    if out.json {
        let body = std::str::from_utf8(&record.body).unwrap_or_default();
        out.line(spans::field(body, "outcome").unwrap_or("null"))?;
        return Ok(record.exit());
    }
    let text = record.outcome.as_ref().and_then(|o| o.text.as_deref());
    stream.end(text)?;
    if let Some(failure) = record.complaint() {
        out.failure(&failure);
    }
    Ok(record.exit())
}

/// Asks about the calls that wait for a person; false when there is none, or nobody to ask.
async fn answer(
    session: &Session,
    receipt: &Record,
    input: &mut Input,
    interrupts: &mut mpsc::Receiver<()>,
    out: Out,
) -> Result<bool, Failure> {
    let id = receipt.submission()?;
    let questions = session.record(&id).await?.questions;
    for question in &questions {
        out.note(&format!("writ: {}? y lets it run", approve::line(question)), &json!({"question": question}));
        let Line::Message(text) = input.line(interrupts).await? else { return Ok(false) };
        let yes = matches!(text.trim().to_ascii_lowercase().as_str(), "y" | "yes");
        approve::answer(session, &id, question, yes).await?;
    }
    Ok(!questions.is_empty())
}

/// The last messages of a thread that exists already.
async fn show_past(session: &Session, thread: &Thread, out: Out) -> Result<(), Failure> {
    let head = match session.get(thread.path("")).await {
        Ok(head) => head,
        Err(failure) if failure.facts.get("status") == Some(&json!(404)) => return Ok(()),
        Err(failure) => return Err(failure),
    };
    if out.json || !out.stderr_tty {
        return Ok(());
    }
    let from = head["messages"].as_u64().unwrap_or(0).saturating_sub(SHOWN_MESSAGES);
    let past = session.messages(thread, from, SHOWN_MESSAGES).await?;
    for (number, raw) in (from..).zip(&past) {
        let message: Value = serde_json::from_str(raw).unwrap_or(Value::Null);
        out.note(&blocks::message(number, &message, Detail::Short), &Value::Null);
    }
    Ok(())
}
