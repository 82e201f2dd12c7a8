//! Between the data of the exports and the host's own, with a check of every bound that `wit/runtime.wit` states.

use super::bindings::exports::writ::runtime::runtime as wit;
use crate::data::{
    AuditPage, Body, FeedPage, Finding, Frame, PendingPage, Request, Response, RunOutcome, RunReport, RuntimeError,
    Tail, Wait, Work,
};

/// Most instances of one response.
const WORK_MAX: usize = 64;
/// Most instances of a page of `pending`.
const PAGE_MAX: usize = 256;
/// Most frames of a page of `follow`.
const FRAMES_MAX: usize = 1024;
/// Longest name of an instance or cursor, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// Longest feed, in bytes.
const FEED_BYTES_MAX: usize = 4096;
/// Most headers.
const HEADERS_MAX: usize = 128;
/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 8 << 10;

/// What the component broke of its contract.
pub(super) type Broken = String;

pub(super) fn request(request: Request) -> wit::Request {
    let Request { method, path, headers, body, principal } = request;
    wit::Request { method, path, headers, body, principal }
}

pub(super) fn response(response: wit::Response) -> Result<Response, Broken> {
    let wit::Response { status, headers, body, work, wait, left } = response;
    at_most("bytes of a path", left.as_ref().map_or(0, String::len), PATH_BYTES_MAX)?;
    at_most("headers", headers.len(), HEADERS_MAX)?;
    at_most("pieces of work", work.len(), WORK_MAX)?;
    if !(100..=599).contains(&status) {
        return Err(format!("HTTP status {status}"));
    }
    let body = match body {
        wit::Body::Bytes(bytes) => Body::Bytes(bytes),
        wit::Body::Stream(found) => Body::Stream(tail(found)?),
    };
    let wait = match wait {
        None => None,
        Some(wit::Wait { tail: awaited, ms, then }) => {
            at_most("bytes of a path", then.len(), PATH_BYTES_MAX)?;
            Some(Wait { tail: tail(awaited)?, ms, then })
        }
    };
    Ok(Response { status, headers, body, work: works(work)?, wait, left })
}

pub(super) fn report(report: wit::RunReport) -> Result<RunReport, Broken> {
    at_most("pieces of work", report.work.len(), WORK_MAX)?;
    Ok(RunReport { outcome: outcome(report.outcome), work: works(report.work)? })
}

fn tail(tail: wit::Tail) -> Result<Tail, Broken> {
    let wit::Tail { feed, after, thread } = tail;
    at_most("bytes of a feed", feed.len(), FEED_BYTES_MAX)?;
    Ok(Tail { feed, after, thread: name("a thread", thread)? })
}

fn outcome(outcome: wit::RunOutcome) -> RunOutcome {
    match outcome {
        wit::RunOutcome::Idle => RunOutcome::Idle,
        wit::RunOutcome::Later(at) => RunOutcome::Later(at),
        wit::RunOutcome::Fenced => RunOutcome::Fenced,
        wit::RunOutcome::Failed(why) => RunOutcome::Failed(error(why)),
    }
}

pub(super) fn pending(page: wit::PendingPage) -> Result<PendingPage, Broken> {
    at_most("pieces of work", page.work.len(), PAGE_MAX)?;
    Ok(PendingPage { work: works(page.work)?, next: cursor(page.next)? })
}

pub(super) fn feed(page: wit::FeedPage) -> Result<FeedPage, Broken> {
    let wit::FeedPage { frames, next, end } = page;
    at_most("frames", frames.len(), FRAMES_MAX)?;
    let frames = frames.into_iter().map(|wit::Frame { number, name, event }| Frame { number, name, event });
    Ok(FeedPage { frames: frames.collect(), next, end })
}

pub(super) fn audit(page: wit::AuditPage) -> Result<AuditPage, Broken> {
    let wit::AuditPage { findings, threads, submissions, messages, keys, next } = page;
    let findings = findings.into_iter().map(|wit::Finding { invariant, key, text }| Finding { invariant, key, text });
    Ok(AuditPage { findings: findings.collect(), threads, submissions, messages, keys, next: cursor(next)? })
}

pub(super) fn error(error: wit::Error) -> RuntimeError {
    match error {
        wit::Error::NotFound => RuntimeError::NotFound,
        wit::Error::Invalid(text) => RuntimeError::Invalid(text),
        wit::Error::Unavailable(text) => RuntimeError::Unavailable(text),
        wit::Error::Corrupt(text) => RuntimeError::Corrupt(text),
    }
}

pub(super) fn work(work: Work) -> wit::Work {
    let Work { instance, submission, signal } = work;
    wit::Work { instance, submission, signal: signal.map(Into::into) }
}

fn works(works: Vec<wit::Work>) -> Result<Vec<Work>, Broken> {
    let convert = |wit::Work { instance, submission, signal }| {
        Ok(Work { instance: name("an instance", instance)?, submission, signal: signal.map(Into::into) })
    };
    works.into_iter().map(convert).collect()
}

fn cursor(cursor: Option<String>) -> Result<Option<String>, Broken> {
    cursor.map(|cursor| name("a cursor", cursor)).transpose()
}

fn name(what: &str, name: String) -> Result<String, Broken> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("{what} of {} bytes, at most {NAME_BYTES_MAX}", name.len()));
    }
    Ok(name)
}

fn at_most(what: &str, count: usize, max: usize) -> Result<(), Broken> {
    if count > max { Err(format!("{count} {what}, at most {max}")) } else { Ok(()) }
}
