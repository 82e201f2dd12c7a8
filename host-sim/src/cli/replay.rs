//! `writ replay`: a recorded session, played back through the runtime and compared.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::Value;
use serde_json::json;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::interrupts;
use super::names::Key;
use super::names::Name;
use super::names::Thread;
use super::open;
use super::open::Mode;
use super::open::Setup;
use super::out::BAD;
use super::out::GOOD;
use super::out::Out;
use super::out::safe;
use super::out::styled;
use super::progress::Progress;
use super::session::PAGE_MESSAGES;
use super::session::Session;
use super::settings::Settings;
use super::steer::Steering;
use crate::clock::SystemClock;
use crate::compare;
use crate::compare::Report;
use crate::model::replay::ReplayModel;
use crate::recording::Recording;
use crate::tools::replay::ReplayTools;

/// A ceiling that no recording reaches, and that JSON keeps exactly.
const NO_LIMIT: u64 = 1 << 50;

/// Play a recorded session back through the runtime and compare the transcripts.
///
/// Every user message of the recording is submitted, the model's answers and the tools' results come from the
/// recording, and the transcript that is then stored is compared with it. Equal means: the same messages in the same
/// order, with equal roles, texts, tool calls and results. Allowed, and counted: results that say `interrupted` after a
/// crash of this replay, notices of ended attempts, and results that close calls which the recording left open.
///
/// Each message has the key `replay-N`: after a crash, or a Ctrl-C, the same command on the same data folder goes on
/// where it was.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ replay session.jsonl
  writ replay session.jsonl --data /tmp/replay         killed and given again, it goes on
  writ replay session.jsonl --json | jq .differences

It exits with 0 when the transcripts are equal but for what is allowed, else with 1.")]
pub struct ReplayArgs {
    /// The recording: JSON Lines, ours or another agent's.
    pub file: PathBuf,
    /// The agent's name.
    #[arg(long, value_name = "NAME", default_value = "replay")]
    pub agent: Name,
    /// The thread; without it, one that is named after the file.
    #[arg(long, value_name = "NAME")]
    pub thread: Option<Name>,
    /// Waits so many milliseconds before each piece of an answer and each result.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=60_000))]
    pub delay: u64,
}

/// Plays and compares.
pub async fn run(args: ReplayArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let recording = Recording::load(&args.file).map_err(|e| {
        Failure::refused(e.code(), format!("{}: {e}", args.file.display()))
            .advise("A recording is JSON Lines; see docs/transcript.md.")
    })?;
    let recording = Arc::new(recording);
    let thread = Thread { agent: args.agent, thread: args.thread.unwrap_or_else(|| named_after(&args.file)) };
    let steering = Arc::new(Steering::new(thread.clone(), recording.clone()));
    let session = open::with(global, &global.data, Mode::Write, |_| {
        Ok(setup(&thread.agent, recording.clone(), steering.clone(), args.delay))
    })
    .await?;
    let session = Arc::new(session);
    steering.over(&session);
    // No sweep: other agents' work needs their own models. What this replay left unfinished is handed out again when
    // its message is submitted again.
    let mut interrupts = interrupts::listen();
    tokio::select! {
        played = play(&session, &thread, &recording, &steering, out) => played?,
        Some(()) = interrupts.recv() => {
            let failure = Failure::new(exit::ABORTED, "interrupted", "left in the middle; what was played is stored");
            return Err(failure.advise("The same command goes on where it was."));
        }
    }
    let stored = transcript(&session, &thread, out).await?;
    report(&compare::compare(&stored, &recording), &thread, out)
}

fn setup(agent: &Name, recording: Arc<Recording>, steering: Arc<Steering>, delay_ms: u64) -> Setup {
    let definition = json!({
        "name": agent.as_str(),
        "description": "Plays a recording back.",
        "model": "replay",
        "instructions": "",
        "tools": recording.tools(),
        "limits": {"turns": NO_LIMIT, "tokens": NO_LIMIT, "costMicrousd": NO_LIMIT, "deadlineMs": NO_LIMIT},
    });
    let clock = Arc::new(SystemClock);
    let (mut model, mut tools) = (ReplayModel::new(recording.clone(), steering), ReplayTools::new(recording));
    if delay_ms > 0 {
        model = model.with_delay(clock.clone(), delay_ms);
        tools = tools.with_delay(clock, delay_ms);
    }
    Setup { settings: Settings::of_agents(vec![definition]), model: Arc::new(model), tools: Arc::new(tools) }
}

/// Submits every input that is no steer and waits for its outcome. A recorded turn that was aborted or failed does so
/// here too: only the comparison judges.
async fn play(
    session: &Session,
    thread: &Thread,
    recording: &Recording,
    steering: &Steering,
    out: Out,
) -> Result<(), Failure> {
    let progress = Progress::bar(out, "replaying", recording.inputs.len() as u64);
    let (_never, mut nothing) = tokio::sync::mpsc::channel(1);
    for (number, input) in recording.inputs.iter().enumerate() {
        if !input.steer {
            let content = recording.messages.get(input.message).map_or(Value::Null, |message| message.content.clone());
            let mut feed = session.runtime().watch();
            let receipt = session.submit(thread, &Key::of_replay(number), &json!({"message": content})).await?;
            if !receipt.settled() {
                session.wait(&receipt, &mut feed, &mut nothing, |_| Ok(())).await?;
            }
            steering.check()?;
        }
        progress.at(number as u64 + 1, format!("message {} of {}", input.message + 1, recording.messages.len()));
    }
    Ok(())
}

async fn transcript(session: &Session, thread: &Thread, out: Out) -> Result<Vec<Value>, Failure> {
    let count = session.get(thread.path("")).await?["messages"].as_u64().unwrap_or(0);
    let progress = Progress::bar(out, "comparing", count);
    let mut messages = Vec::new();
    while (messages.len() as u64) < count {
        let page = session.messages(thread, messages.len() as u64, PAGE_MESSAGES).await?;
        if page.is_empty() {
            break;
        }
        for raw in page {
            let message = serde_json::from_str(&raw)
                .map_err(|e| Failure::internal("answer", format!("message {} is no JSON: {e}", messages.len())))?;
            messages.push(message);
        }
        progress.at(messages.len() as u64, "");
    }
    Ok(messages)
}

fn report(report: &Report, thread: &Thread, out: Out) -> Result<u8, Failure> {
    let code = if report.is_same() { exit::DONE } else { exit::FAILED };
    if out.json {
        let mut value = serde_json::to_value(report).unwrap_or(Value::Null);
        if let Some(map) = value.as_object_mut() {
            map.insert("thread".into(), thread.to_string().into());
            map.insert("equal".into(), report.is_same().into());
        }
        out.value(&value)?;
        return Ok(code);
    }
    for difference in &report.differences {
        out.line(&safe(&difference.to_string()))?;
    }
    out.line(&allowed("interrupted results", &report.interrupted))?;
    out.line(&allowed("calls closed that the recording left open", &report.closed_open))?;
    out.line(&allowed("notices", &report.notices))?;
    let count = report.differences.len() + report.unlisted;
    let verdict = match report.is_same() {
        true => styled(GOOD, "equal"),
        false => styled(BAD, &format!("{count} differences")),
    };
    out.line(&format!("{verdict}: {} messages compared, stored as {thread}", report.messages))?;
    Ok(code)
}

/// A line on an allowed kind of difference: how many, and where.
fn allowed(what: &str, numbers: &[usize]) -> String {
    const SHOWN: usize = 12;
    if numbers.is_empty() {
        return format!("allowed: no {what}");
    }
    let shown: Vec<String> = numbers.iter().take(SHOWN).map(usize::to_string).collect();
    let more = if numbers.len() > SHOWN { ", …" } else { "" };
    format!("allowed: {} {what} (messages {}{more})", numbers.len(), shown.join(", "))
}

/// A thread's name from a file's: what is allowed of it.
fn named_after(file: &Path) -> Name {
    let stem = file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let kept: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .take(super::names::NAME_BYTES_MAX)
        .collect();
    kept.trim_start_matches('.').parse().unwrap_or_else(|_| Name::fresh("replay"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_named_after_its_file() {
        assert_eq!(named_after(Path::new("/a/coding-session.jsonl")).as_str(), "coding-session");
        assert_eq!(named_after(Path::new(".hidden ü.x")).as_str(), "hidden--");
        assert!(named_after(Path::new("/")).as_str().starts_with("replay-"));
    }

    #[test]
    fn what_is_allowed_is_counted_and_placed() {
        assert_eq!(allowed("notices", &[]), "allowed: no notices");
        assert_eq!(allowed("notices", &[3, 9]), "allowed: 2 notices (messages 3, 9)");
        assert!(allowed("notices", &(0..20).collect::<Vec<_>>()).contains("11, …"));
    }
}
