//! `writ demo`: the story in a minute, with a real kill.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use serde_json::json;

use super::args::Global;
use super::blocks;
use super::blocks::Detail;
use super::check;
use super::demo_child::Child;
use super::demo_host;
use super::demo_host::DemoHost;
use super::exit;
use super::failure::Failure;
use super::open::Mode;
use super::out::BAD;
use super::out::BOLD;
use super::out::DIM;
use super::out::GOOD;
use super::out::Out;
use super::out::safe;
use super::out::styled;
use super::record::Record;
use super::runtime::Answer;
use super::spans;

/// How long the child may take for a step before the demo gives up.
const STEP_MAX: Duration = Duration::from_secs(60);

/// Show the story in a minute: a crash in the middle of a tool call, and what is left of it.
///
/// A child process accepts a request, begins a tool call and is killed with SIGKILL in the middle of it. Another one
/// takes up the same folder. Then the same request comes again, and another one under its name, and everything that is
/// stored is checked. The model is scripted, so no account and no network is needed; everything else is real, and
/// every fact that is shown comes out of the store.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ demo
  writ demo --keep ./demo-data      and look around in it afterwards")]
pub struct DemoArgs {
    /// Keep the data in this folder, which must be new or empty.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// Tells the story; the exit code says whether all of it came true.
pub async fn run(args: DemoArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let temporary = tempfile::tempdir().map_err(|e| Failure::internal("demo", format!("no temporary folder: {e}")))?;
    let folder = match &args.keep {
        Some(folder) => empty(folder)?,
        None => temporary.path().join("data"),
    };
    let mut story = Story { out, facts: Vec::new(), broken: 0 };
    story.chapter("1", "A host accepts a request and begins to work on it");
    let killed = accept_and_kill(&mut story, global, &folder).await?;
    story.chapter("3", "A new host on the same folder");
    let settled = recover(&mut story, global, &folder, &killed).await?;
    let host = demo_host::host(global, &folder, Mode::Write, None).await?;
    transcript(&mut story, &host).await?;
    story.chapter("4", "The same request once more");
    repeat(&mut story, &host, &settled).await?;
    story.chapter("5", "The same id for another request");
    conflict(&mut story, &host, &settled).await?;
    story.chapter("6", "Is everything as promised?");
    audit(&mut story, &host).await?;
    drop(host);
    story.end(args.keep.as_deref(), &settled)
}

/// Chapters 1 and 2; returns the receipt.
async fn accept_and_kill(story: &mut Story, global: &Global, folder: &Path) -> Result<Record, Failure> {
    let mut child = Child::start(global, folder, None)?;
    story.say(&format!("process {} runs the host", child.id()));
    story.say(&format!("request {:?} to {}: {:?}", demo_host::KEY, demo_host::THREAD, demo_host::MESSAGE));
    let receipt = record(&child.expect("receipt", STEP_MAX).await?)?;
    story.fact("receipt", json!({"id": receipt.id, "state": receipt.state, "hash": receipt.hash}));
    story.say(&format!(
        "receipt: submission {} is {}; it was stored and flushed before this line",
        receipt.id, receipt.state
    ));
    let tool = child.expect("tool", STEP_MAX).await?;
    let call = blocks::call_line(tool["name"].as_str().unwrap_or_default(), &tool["arguments"]);
    story.say(&format!("the tool has begun: {call}"));
    story.chapter("2", "kill -9, while the tool is at work");
    let status = child.kill().await?;
    story.fact("killed", status.clone().into());
    story.say(&format!("the process is gone: {status}"));
    Ok(receipt)
}

/// Chapter 3: the second process; returns the settled submission.
async fn recover(story: &mut Story, global: &Global, folder: &Path, receipt: &Record) -> Result<Record, Failure> {
    let mut child = Child::start(global, folder, Some(&receipt.id))?;
    story.say(&format!("process {} runs the host", child.id()));
    let settled = record(&child.expect("settled", STEP_MAX).await?)?;
    let completions = child.expect("completions", STEP_MAX).await?;
    child.end().await?;
    let outcome = settled.outcome.clone().unwrap_or_default();
    story.say(&format!("submission {} went on without the client: {}", settled.id, outcome.status));
    story.must("it is the same submission", settled.id == receipt.id && settled.hash == receipt.hash);
    story.must("it completed", outcome.status == "completed");
    story.fact("attempts", settled.attempt.into());
    story
        .say(&format!("attempts: {}; answers of the model in this process: {}", settled.attempt, completions["count"]));
    Ok(settled)
}

async fn transcript(story: &mut Story, host: &DemoHost) -> Result<(), Failure> {
    story.say("the transcript, as it is stored:");
    let thread = demo_host::thread()?;
    let messages = host.session.messages(&thread, 0, super::session::PAGE_MESSAGES).await?;
    let mut interrupted = 0;
    for (number, raw) in (0..).zip(&messages) {
        let message: Value = serde_json::from_str(raw).unwrap_or(Value::Null);
        interrupted += u32::from(message["outcome"] == "interrupted");
        story.say(&blocks::message(number, &message, Detail::Short));
    }
    let executions = host.executions.executions().len();
    story.fact("executions", executions.into());
    story.say(&format!("the carrier's own log has {executions} execution(s) of the tool"));
    story.must("the cut-off call says that its outcome is unknown", interrupted == 1);
    story.must("the tool was not run again", executions == 1);
    Ok(())
}

async fn repeat(story: &mut Story, host: &DemoHost, settled: &Record) -> Result<(), Failure> {
    let delivery = json!({"message": demo_host::MESSAGE});
    let again = host.session.submit(&demo_host::thread()?, &demo_host::key()?, &delivery).await?;
    host.session.runtime().idle().await;
    let (first, second) = (outcome_text(settled), outcome_text(&again));
    story.say(&format!("id {}, state {}, attempts {}", again.id, again.state, again.attempt));
    story.say(&format!("outcome: {}", safe(&second)));
    story.must("the outcome is the same, byte for byte", first == second && !first.is_empty());
    story.must("there was no further attempt", again.attempt == settled.attempt);
    story.must(&format!("the model was asked {} times", host.model.count()), host.model.count() == 0);
    story.must("the tool was not run again", host.executions.executions().len() == 1);
    Ok(())
}

async fn conflict(story: &mut Story, host: &DemoHost, settled: &Record) -> Result<(), Failure> {
    let other = json!({"message": "Send Ada two parcels."});
    match host.session.submit(&demo_host::thread()?, &demo_host::key()?, &other).await {
        Ok(record) => story.must(&format!("it was refused (it was accepted as {})", record.id), false),
        Err(refused) => {
            let field = refused.facts.get("field").and_then(Value::as_str).unwrap_or_default();
            story.say(&format!(
                "refused with {}: {}",
                refused.facts.get("status").unwrap_or(&Value::Null),
                safe(&refused.message)
            ));
            story.fact("conflict", refused.json());
            story.must(
                &format!("the field that differs is named: {field}"),
                refused.code == "conflict" && field.contains("message"),
            );
        }
    }
    let after = host.session.record(&settled.submission()?).await?;
    story.must("the first request was not touched", after.body == settled.body);
    Ok(())
}

async fn audit(story: &mut Story, host: &DemoHost) -> Result<(), Failure> {
    let audit = check::audit(&host.session, Out { json: true, ..story.out }).await?;
    for finding in &audit.findings {
        story.say(&check::line(finding));
    }
    story.fact("audit", json!({"findings": audit.findings_total, "keys": audit.keys, "messages": audit.messages}));
    story.must(&format!("every invariant holds over {}", check::summary(&audit)), audit.findings_total == 0);
    Ok(())
}

fn record(line: &Value) -> Result<Record, Failure> {
    let body = line["body"].as_str().unwrap_or_default().as_bytes().to_vec();
    Record::of(Answer { status: 200, body, instances: Vec::new() })
}

/// The outcome's text in the answer, to the byte.
fn outcome_text(record: &Record) -> String {
    let body = std::str::from_utf8(&record.body).unwrap_or_default();
    spans::field(body, "outcome").unwrap_or_default().to_string()
}

fn empty(folder: &Path) -> Result<PathBuf, Failure> {
    match std::fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(folder.into()),
        Err(e) => Err(Failure::file(folder, "read", &e)),
        Ok(mut entries) => match entries.next() {
            None => Ok(folder.into()),
            Some(_) => {
                let text = format!("{} is not empty", folder.display());
                Err(Failure::refused("not-empty", text).advise("Give --keep a folder that is new."))
            }
        },
    }
}

/// What is told, and whether it came true.
struct Story {
    out: Out,
    facts: Vec<(String, Value)>,
    broken: u32,
}

impl Story {
    fn chapter(&mut self, number: &str, title: &str) {
        self.print(&format!("\n{}", styled(BOLD, &format!("{number}  {title}"))));
    }

    fn say(&mut self, text: &str) {
        self.print(&text.lines().map(|line| format!("   {line}")).collect::<Vec<_>>().join("\n"));
    }

    /// A promise, judged by what was found.
    fn must(&mut self, what: &str, kept: bool) {
        self.broken += u32::from(!kept);
        let mark = if kept { styled(GOOD, "yes") } else { styled(BAD, "NO ") };
        self.print(&format!("   {mark} {what}"));
        self.fact(what, kept.into());
    }

    fn fact(&mut self, name: &str, value: Value) {
        self.facts.push((name.into(), value));
    }

    /// A demo tells even when nobody listens: a closed stdout ends nothing.
    fn print(&self, text: &str) {
        if !self.out.json {
            let _ = self.out.line(text);
        }
    }

    fn end(mut self, kept: Option<&Path>, settled: &Record) -> Result<u8, Failure> {
        let code = if self.broken == 0 { exit::DONE } else { exit::FAILED };
        if self.out.json {
            let facts: serde_json::Map<String, Value> = self.facts.drain(..).collect();
            self.out.value(&json!({"ok": self.broken == 0, "facts": facts}))?;
            return Ok(code);
        }
        self.print(&format!("\n{}", styled(BOLD, "What to try next")));
        if let Some(folder) = kept {
            let data = format!("--data {}", folder.display());
            self.say(&format!("writ explain {} {data}", settled.id));
            self.say(&format!("writ inspect thread {} {data}", demo_host::THREAD));
            self.say(&format!("writ export {} {data}", demo_host::THREAD));
        } else {
            self.say(&styled(DIM, "the data of this demo is gone; `writ demo --keep DIR` keeps it"));
        }
        self.say("writ chat helper");
        self.say("writ run helper --id tuesday '/write notes.txt hello'     and once more, for the same outcome");
        self.say("writ check");
        Ok(code)
    }
}
