//! The host process of `writ demo`: it accepts a turn and runs it, or takes up what a killed one has left. It tells
//! its parent what happens, one JSON object a line; the parent kills it.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use clap::Args;
use serde_json::Value;
use serde_json::json;

use super::args::Global;
use super::counting::Counting;
use super::exit;
use super::failure::Failure;
use super::names::Key;
use super::names::SubmissionId;
use super::names::Thread;
use super::open;
use super::open::Mode;
use super::open::Setup;
use super::out::Out;
use super::session::Session;
use super::settings::Settings;
use crate::clock::SystemClock;
use crate::model::scripted::ScriptedModel;
use crate::script::Script;
use crate::tools::Call;
use crate::tools::Declaration;
use crate::tools::Reply;
use crate::tools::Tools;
use crate::tools::scripted::ExecutionLog;
use crate::tools::scripted::ScriptedTools;

/// The script that plays the model and the tool.
const SCRIPT: &str = include_str!("../../data/demo.toml");
/// What the tool has done, in the demo's folder.
const EXECUTIONS_FILE: &str = "executions.jsonl";

/// The thread of the demo.
pub const THREAD: &str = "clerk/parcels";
/// The key of its one request.
pub const KEY: &str = "order-66";
/// Its message.
pub const MESSAGE: &str = "Send Ada her parcel.";

/// Arguments of the demo's host process.
#[derive(Args, Debug)]
pub struct DemoHostArgs {
    /// The folder.
    #[arg(long)]
    pub folder: PathBuf,
    /// Take up this submission instead of accepting one.
    #[arg(long)]
    pub recover: Option<SubmissionId>,
}

/// The demo's host over its folder, and the counters that show what it does.
pub struct DemoHost {
    /// The API.
    pub session: Session,
    /// Completions that were asked for in this process.
    pub model: Arc<Counting>,
    /// Executions of the tool, those of former processes included.
    pub executions: Arc<ExecutionLog>,
}

/// Runs the host process.
pub async fn run(args: DemoHostArgs, global: &Global) -> Result<u8, Failure> {
    let out = Out::new(true);
    let mode = if args.recover.is_some() { Mode::Run } else { Mode::Write };
    let host = host(global, &args.folder, mode, Some(out)).await?;
    let mut feed = host.session.runtime().watch();
    let receipt = match &args.recover {
        Some(id) => host.session.record(id).await?,
        None => host.session.submit(&thread()?, &key()?, &json!({"message": MESSAGE})).await?,
    };
    tell(out, "receipt", &receipt.body)?;
    let (_never, mut nothing) = tokio::sync::mpsc::channel(1);
    let record = match receipt.settled() {
        true => receipt,
        false => host.session.wait(&receipt, &mut feed, &mut nothing, |_| Ok(())).await?,
    };
    tell(out, "settled", &record.body)?;
    out.value(&json!({"event": "completions", "count": host.model.count()}))?;
    Ok(exit::DONE)
}

/// A host with the demo's script over its folder. With `out`, the tool says when it has begun.
pub async fn host(global: &Global, folder: &Path, mode: Mode, out: Option<Out>) -> Result<DemoHost, Failure> {
    let script = Script::parse(SCRIPT).map_err(|e| Failure::internal(e.code(), e.to_string()))?;
    let script = Arc::new(script);
    let clock = Arc::new(SystemClock);
    let model = Arc::new(Counting::new(Arc::new(ScriptedModel::new(script.clone(), clock.clone()))));
    let mut settings = Settings::of_agents(Vec::new());
    let tools: Vec<String> = script.tools.iter().map(|tool| tool.name.clone()).collect();
    settings.derive(&thread()?.agent, script.model.name.as_deref().unwrap_or("demo"), &tools);
    let mut executions = None;
    let session = open::with(global, folder, mode, |_| {
        let path = folder.join(EXECUTIONS_FILE);
        let log = Arc::new(ExecutionLog::open(&path).map_err(|e| Failure::file(&path, "opened", &e))?);
        executions = Some(log.clone());
        let scripted = ScriptedTools::new(script, clock, log.clone());
        Ok(Setup { settings, model: model.clone(), tools: Arc::new(Announced { scripted, log, out }) })
    })
    .await?;
    let executions = executions.unwrap_or_else(|| Arc::new(ExecutionLog::in_memory()));
    Ok(DemoHost { session, model, executions })
}

/// The demo's thread.
pub fn thread() -> Result<Thread, Failure> {
    THREAD.parse().map_err(|e: String| Failure::internal("demo", e))
}

/// The demo's key.
pub fn key() -> Result<Key, Failure> {
    KEY.parse().map_err(|e: String| Failure::internal("demo", e))
}

/// A line for the parent: the event, and the component's answer as text, byte for byte.
fn tell(out: Out, event: &str, body: &[u8]) -> Result<(), Failure> {
    out.value(&json!({"event": event, "body": String::from_utf8_lossy(body)}))
}

/// Tools that say when a call has begun: once its execution is in the log, and so on the way to the carrier.
struct Announced {
    scripted: ScriptedTools,
    log: Arc<ExecutionLog>,
    out: Option<Out>,
}

#[async_trait]
impl Tools for Announced {
    fn describe(&self) -> Vec<Declaration> {
        self.scripted.describe()
    }

    async fn run(&self, call: Call) -> Reply {
        let (name, effect_key) = (call.name.clone(), call.effect_key.clone());
        let arguments = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
        let before = self.log.count(&effect_key);
        let mut running = self.scripted.run(call);
        let mut told = false;
        std::future::poll_fn(|cx| {
            let polled = running.as_mut().poll(cx);
            if !told && self.log.count(&effect_key) > before {
                told = true;
                if let Some(out) = self.out {
                    let line = json!({"event": "tool", "name": name, "arguments": arguments, "effect_key": effect_key});
                    let _ = out.value(&line);
                }
            }
            polled
        })
        .await
    }
}
