//! The host process that `writ demo` starts, listens to, and kills.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncBufReadExt;
use tokio::io::BufReader;
use tokio::io::Lines;
use tokio::process::ChildStdout;
use tokio::process::Command;

use super::args::Global;
use super::exit;
use super::failure::Failure;

/// A running host process.
pub struct Child {
    process: tokio::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
    id: u32,
}

impl Child {
    /// This very binary as a host over a folder; with `recover`, to take up that submission.
    pub fn start(global: &Global, folder: &Path, recover: Option<&str>) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|e| fault(format!("this program can't be found: {e}")))?;
        let mut command = Command::new(program);
        command.arg("__demo-host").arg("--folder").arg(folder);
        if global.json {
            command.arg("--json");
        }
        if let Some(component) = &global.component {
            command.arg("--component").arg(component);
        }
        if let Some(id) = recover {
            command.arg("--recover").arg(id);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().map_err(|e| fault(format!("the host process can't be started: {e}")))?;
        let stdout = process.stdout.take().ok_or_else(|| fault("the host process has no stdout".into()))?;
        let id = process.id().unwrap_or_default();
        Ok(Self { process, lines: BufReader::new(stdout).lines(), id })
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Waits for a line that tells this event; others are passed over.
    pub async fn expect(&mut self, event: &str, limit: Duration) -> Result<Value, Failure> {
        let heard = async {
            while let Ok(Some(line)) = self.lines.next_line().await {
                let told: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
                if told["event"] == event {
                    return Some(told);
                }
            }
            None
        };
        match tokio::time::timeout(limit, heard).await {
            Ok(Some(told)) => Ok(told),
            Ok(None) => Err(self.died(event).await),
            Err(_) => Err(fault(format!("the host process did not tell {event:?} within {} s", limit.as_secs()))),
        }
    }

    /// Kills the process as `kill -9` does, and says how it ended.
    pub async fn kill(mut self) -> Result<String, Failure> {
        self.process.start_kill().map_err(|e| fault(format!("the host process can't be killed: {e}")))?;
        self.status().await
    }

    /// Waits for its own end.
    pub async fn end(mut self) -> Result<String, Failure> {
        self.status().await
    }

    /// It ended too early: its own exit code says why.
    async fn died(&mut self, event: &str) -> Failure {
        let code = self.process.wait().await.ok().and_then(|status| status.code());
        let exit = code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != exit::DONE);
        let text = format!("the host process ended before it told {event:?}; its reason is above");
        Failure::new(exit.unwrap_or(exit::INTERNAL), "demo", text)
    }

    async fn status(&mut self) -> Result<String, Failure> {
        let status = self.process.wait().await.map_err(|e| fault(format!("the host process is lost: {e}")))?;
        Ok(status.to_string())
    }
}

fn fault(text: String) -> Failure {
    Failure::internal("demo", text)
}
