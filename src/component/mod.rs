//! The component: the runtime's exports, and the ports over its imports. Decides nothing. Only here is WIT known.

#[cfg(not(feature = "standalone"))]
mod panics;
mod ports;
#[cfg(feature = "standalone")]
mod standalone;

#[allow(missing_docs, clippy::all)]
pub mod bindings {
    //! Generated from `wit/`.
    wit_bindgen::generate!({
        world: "writ",
        path: "wit",
        pub_export_macro: true,
        export_macro_name: "export_component",
        default_bindings_module: "writ::component::bindings",
        runtime_path: "::writ::component::bindings_runtime",
    });
}

#[doc(hidden)]
pub use bindings::export_component;
#[doc(hidden)]
pub use wit_bindgen::rt as bindings_runtime;

use crate::agent::Agents;
use crate::error::{Error, Refusal};
use crate::follow::Feed;
use crate::prelude::*;
use crate::run::{Report, RunOutcome};
use crate::{audit, faces, queue, run};
use bindings::exports::writ::runtime::runtime as wit;
use bindings::writ::runtime::control::Signal;
use ports::with_ports;

/// A component: its agents. [`crate::export!`] implements it.
pub trait Exported {
    /// What the agents are.
    type Agents: Agents;
    /// The agents.
    const AGENTS: Self::Agents;
}

impl<T: Exported> wit::Guest for T {
    fn respond(request: wit::Request) -> wit::Response {
        let request = faces::Request {
            method: request.method,
            path: request.path,
            headers: request.headers,
            body: request.body,
            principal: request.principal,
        };
        let response = with_ports(|ports| Ok(faces::respond(ports, &T::AGENTS, &request)))
            .unwrap_or_else(|e| faces::Response::refusal(Refusal::Error(e)));
        wit::Response {
            status: response.status,
            headers: response.headers,
            body: match response.body {
                faces::Body::Bytes(bytes) => wit::Body::Bytes(bytes),
                faces::Body::Stream(stream) => wit::Body::Stream(tail(stream)),
            },
            work: response.work.into_iter().map(work).collect(),
            wait: response.wait.map(|w| wit::Wait { tail: tail(w.tail), ms: w.ms, then: w.then }),
            left: response.left,
        }
    }

    fn run(work: wit::Work) -> wit::RunReport {
        let report = with_ports(|ports| Ok(run::drive(ports, &T::AGENTS, &work.instance, work.submission.as_deref())));
        let report = report.unwrap_or_else(|e| Report { outcome: RunOutcome::Failed(e), work: Vec::new() });
        let outcome = match report.outcome {
            RunOutcome::Idle => wit::RunOutcome::Idle,
            RunOutcome::Later(at) => wit::RunOutcome::Later(at),
            RunOutcome::Fenced => wit::RunOutcome::Fenced,
            RunOutcome::Failed(e) => wit::RunOutcome::Failed(error(e)),
        };
        let more = report.work.into_iter().map(|instance| wit::Work { instance, submission: None, signal: None });
        wit::RunReport { outcome, work: more.collect() }
    }

    fn pending(page: Option<wit::Cursor>) -> Result<wit::PendingPage, wit::Error> {
        let page = with_ports(|ports| queue::pending(&ports, page.as_deref())).map_err(error)?;
        let work = page
            .work
            .into_iter()
            .map(|(instance, submission)| wit::Work { instance, submission, signal: None })
            .collect();
        Ok(wit::PendingPage { work, next: page.next })
    }

    fn follow(feed: wit::Feed, after: u64) -> Result<wit::FeedPage, wit::Error> {
        let feed = Feed::parse(&feed).ok_or(wit::Error::NotFound)?;
        let page = with_ports(|ports| Ok(faces::frames(&ports, &feed, after))).map_err(error)?;
        match page {
            Ok(page) => {
                let frame = |f: faces::Frame| wit::Frame { number: f.number, name: f.name, event: f.event.to_string() };
                let frames = page.frames.into_iter().map(frame).collect();
                Ok(wit::FeedPage { frames, next: page.next, end: page.end })
            }
            Err(Refusal::Problem(_)) => Err(wit::Error::NotFound),
            Err(Refusal::Error(e)) => Err(error(e)),
        }
    }

    fn audit(page: Option<wit::Cursor>) -> Result<wit::AuditPage, wit::Error> {
        let page = with_ports(|ports| audit::page(&ports, page.as_deref())).map_err(error)?;
        let findings = page
            .findings
            .into_iter()
            .map(|f| wit::Finding { invariant: f.invariant.to_owned(), key: f.key, text: f.text })
            .collect();
        Ok(wit::AuditPage {
            findings,
            threads: page.threads,
            submissions: page.submissions,
            messages: page.messages,
            keys: page.keys,
            next: page.next,
        })
    }
}

fn tail(tail: faces::Tail) -> wit::Tail {
    wit::Tail { feed: tail.feed.name(), after: tail.after, thread: tail.feed.place.head() }
}

fn work(work: faces::Work) -> wit::Work {
    let signal = work.signal.map(|s| match s {
        faces::Signal::Cancel => Signal::Cancel,
        faces::Signal::Steer => Signal::Steer,
    });
    wit::Work { instance: work.instance, submission: work.submission, signal }
}

fn error(error: Error) -> wit::Error {
    match error {
        Error::Unavailable(text) => wit::Error::Unavailable(text),
        Error::Corrupt { key, why } => wit::Error::Corrupt(format!("{key}: {why}")),
    }
}
