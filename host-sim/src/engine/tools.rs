//! `tools`: every call is a task of its own, so that a batch runs at the same time.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::{JoinError, JoinHandle};
use wasmtime::component::{Resource, ResourceTable};

use super::bindings::writ::runtime::tools::{Call, Declaration, Finished, Host, HostJob, Policy, Reply};
use super::guard::panic_text;
use super::hook::{End, Import};
use super::state::State;
use crate::tools::{self, Tools};

/// Most tools of a box.
const TOOLS_MAX: usize = 256;
/// Most jobs of one `wait`.
const JOBS_MAX: usize = 32;
/// Largest reply, in bytes of JSON.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Largest schema of a tool's arguments, in bytes of JSON.
const PARAMETERS_BYTES_MAX: usize = 64 << 10;

/// What the component holds of a running call. Dropping it, or the whole call of the component, aborts the task.
pub struct JobHandle {
    /// `None` once its reply was returned.
    task: Option<JoinHandle<tools::Reply>>,
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        // Here and not in `HostJob::drop`: that is only called when the component itself drops the job.
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Host for State {
    async fn describe(&mut self) -> wasmtime::Result<Vec<Declaration>> {
        let entered = self.enter_sure(Import::ToolsDescribe, String::new).await?;
        let declared = declared(self.handles.tools.as_ref());
        let fits = |tool: &Declaration| tool.parameters.len() <= PARAMETERS_BYTES_MAX && is_name(&tool.name);
        let fitting = declared.into_iter().map(Declaration::from).filter(fits).take(TOOLS_MAX).collect();
        self.leave(entered, End::done).await?;
        Ok(fitting)
    }

    async fn start(&mut self, call: Call) -> wasmtime::Result<Resource<JobHandle>> {
        let entered = self.enter(Import::ToolsStart, || format!("{} {}", call.name, call.effect_key)).await?;
        let tools = self.handles.tools.clone();
        let task = match &entered.fail {
            Some(text) => tokio::spawn(std::future::ready(tools::Reply::error(text.clone()))),
            None => tokio::spawn(run(tools, call.into())),
        };
        let job = self.table.push(JobHandle { task: Some(task) })?;
        self.leave(entered, End::done).await?;
        Ok(job)
    }

    async fn wait(&mut self, jobs: Vec<Resource<JobHandle>>, until: Option<u64>) -> wasmtime::Result<Vec<Finished>> {
        if jobs.len() > JOBS_MAX {
            return Err(wasmtime::Error::msg(format!("`tools.wait` with {} jobs, at most {JOBS_MAX}", jobs.len())));
        }
        let entered = self.enter_sure(Import::ToolsWait, || format!("{} jobs", jobs.len())).await?;
        let finished = self.wait_for_jobs(&jobs, until).await?;
        self.leave(entered, || End::Answered(format!("{} finished", finished.len()))).await?;
        Ok(finished)
    }
}

impl State {
    async fn wait_for_jobs(
        &mut self,
        jobs: &[Resource<JobHandle>],
        until: Option<u64>,
    ) -> wasmtime::Result<Vec<Finished>> {
        self.waited();
        let clock = self.handles.clock.clone();
        let limit = std::time::Duration::from_millis(self.handles.limits.wait_ms);
        let table = &mut self.table;
        let finished = poll_fn(|context| poll_jobs(table, jobs, context));
        let time = async {
            match until {
                Some(until) => clock.wait_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // What has ended is handed out even when a signal is pending.
            biased;
            finished = finished => finished,
            () = self.signals.pending() => Ok(Vec::new()),
            () = time => Ok(Vec::new()),
            () = tokio::time::sleep(limit) => Ok(Vec::new()),
        }
    }
}

impl HostJob for State {
    async fn drop(&mut self, this: Resource<JobHandle>) -> wasmtime::Result<()> {
        self.table.delete(this)?;
        Ok(())
    }
}

/// Collects the jobs that have ended. Ready when there are some, or when none is left to wait for.
fn poll_jobs(
    table: &mut ResourceTable,
    jobs: &[Resource<JobHandle>],
    context: &mut Context<'_>,
) -> Poll<wasmtime::Result<Vec<Finished>>> {
    let mut finished = Vec::new();
    let mut running = false;
    for (index, job) in (0u32..).zip(jobs) {
        let job = match table.get_mut(job) {
            Ok(job) => job,
            Err(error) => return Poll::Ready(Err(error.into())),
        };
        let Some(task) = &mut job.task else { continue };
        match Pin::new(task).poll(context) {
            Poll::Pending => running = true,
            Poll::Ready(ended) => {
                job.task = None;
                finished.push(Finished { index, reply: reply(ended) });
            }
        }
    }
    if finished.is_empty() && running { Poll::Pending } else { Poll::Ready(Ok(finished)) }
}

async fn run(tools: Arc<dyn Tools>, call: tools::Call) -> tools::Reply {
    let known = call.name == tools::WEBHOOK || declared(tools.as_ref()).iter().any(|tool| tool.name == call.name);
    if !known {
        return tools::Reply::error(format!("There is no tool `{}`.", call.name));
    }
    tools.run(call).await
}

fn reply(ended: Result<tools::Reply, JoinError>) -> Reply {
    let reply = match ended {
        Ok(reply) => check_reply(reply),
        Err(error) => tools::Reply::error(match error.try_into_panic() {
            Ok(panic) => format!("The tool crashed: {}", panic_text(panic.as_ref())),
            Err(_) => "The tool was stopped by the host.".to_owned(),
        }),
    };
    Reply { content: reply.content.to_string(), is_error: reply.is_error }
}

/// A reply that the runtime may store, or an error that says what was wrong with it.
fn check_reply(reply: tools::Reply) -> tools::Reply {
    let blocks = reply.content.as_array();
    if !blocks.is_some_and(|blocks| blocks.iter().all(|block| block["type"].is_string())) {
        return tools::Reply::error("The tool's reply is not a list of content blocks.");
    }
    let bytes = reply.content.to_string().len();
    if bytes > REPLY_BYTES_MAX {
        return tools::Reply::error(format!("The tool's reply has {bytes} bytes, at most {REPLY_BYTES_MAX}."));
    }
    reply
}

/// The tools of a box; none when it panics.
fn declared(tools: &dyn Tools) -> Vec<tools::Declaration> {
    catch_unwind(AssertUnwindSafe(|| tools.describe())).unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

impl From<Call> for tools::Call {
    fn from(call: Call) -> Self {
        let Call { effect_key, name, arguments, thread, call_id } = call;
        Self { effect_key, name, arguments, thread, call_id }
    }
}

impl From<tools::Declaration> for Declaration {
    fn from(tool: tools::Declaration) -> Self {
        let policy = match tool.policy {
            tools::Policy::Plain => Policy::Plain,
            tools::Policy::ReplaySafe => Policy::ReplaySafe,
            tools::Policy::Stepped => Policy::Stepped,
            tools::Policy::Ask => Policy::Ask,
        };
        Self { name: tool.name, description: tool.description, parameters: tool.parameters.to_string(), policy }
    }
}
