//! The commands' small trait over the real host.

use std::sync::Arc;

use async_trait::async_trait;

use super::exit;
use super::failure::Failure;
use super::feed::Feed;
use super::runtime::Answer;
use super::runtime::Ask;
use super::runtime::Audit;
use super::runtime::Finding;
use super::runtime::Runtime;
use crate::data::AuditPage;
use crate::data::Body;
use crate::data::Request;
use crate::error::HostError;
use crate::host::Host;
use crate::store::Store;

/// Who the command line is.
pub const PRINCIPAL: &str = "local/operator";

/// A host and its store.
pub struct Hosted {
    host: Host,
    store: Arc<dyn Store>,
}

impl Hosted {
    /// Over a host; `store` is the one that it has.
    pub fn new(host: Host, store: Arc<dyn Store>) -> Self {
        Self { host, store }
    }
}

#[async_trait]
impl Runtime for Hosted {
    async fn respond(&self, ask: Ask) -> Result<Answer, Failure> {
        let request = Request {
            method: ask.method.into(),
            path: ask.path,
            headers: ask.headers,
            body: ask.body,
            principal: Some(PRINCIPAL.into()),
        };
        let response = self.host.respond(request).await.map_err(|e| failure(&e))?;
        let instances = response.work.into_iter().map(|work| work.instance).collect();
        match response.body {
            Body::Bytes(body) => Ok(Answer { status: response.status, body, instances }),
            Body::Stream(_) => Err(Failure::internal("answer", "the component answered with a stream")),
        }
    }

    async fn sweep(&self) -> Result<(), Failure> {
        self.host.sweep().await.map(|_| ()).map_err(|e| failure(&e))
    }

    fn watch(&self) -> Feed {
        Feed::new(self.host.watch())
    }

    async fn idle(&self) {
        self.host.settled().await;
    }

    async fn audit(&self, progress: &(dyn for<'a> Fn(&'a Audit) + Send + Sync)) -> Result<Audit, Failure> {
        let mut so_far = Audit::default();
        let add = |page: &AuditPage| {
            so_far.threads += u64::from(page.threads);
            so_far.submissions += u64::from(page.submissions);
            so_far.messages = so_far.messages.saturating_add(page.messages);
            so_far.keys = so_far.keys.saturating_add(page.keys);
            progress(&so_far);
        };
        let report = self.host.audit_all(add).await.map_err(|e| failure(&e))?;
        let finding = |f: crate::data::Finding| Finding { invariant: f.invariant, key: f.key, text: f.text };
        Ok(Audit {
            findings_total: report.findings_total,
            findings: report.findings.into_iter().map(finding).collect(),
            threads: report.threads,
            submissions: report.submissions,
            messages: report.messages,
            keys: report.keys,
        })
    }

    async fn keys(&self) -> Result<u64, Failure> {
        self.store.count().await.map_err(|e| Failure::new(exit::DATA, "store", e.to_string()))
    }
}

/// A host's error as a failure of the command.
pub fn failure(error: &HostError) -> Failure {
    let code = match error {
        HostError::Trapped { .. } => "trapped",
        HostError::TimedOut { .. } => "timed-out",
        HostError::Broken { .. } => "contract",
        _ => "host",
    };
    Failure::internal(code, error.to_string()).advise("What was accepted is stored: give the same command again.")
}
