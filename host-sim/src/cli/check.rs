//! `writ check`: are all promises kept?

use std::path::Path;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use serde_json::json;

use super::args::Global;
use super::check_file;
use super::exit;
use super::failure::Failure;
use super::open;
use super::out::BAD;
use super::out::GOOD;
use super::out::Out;
use super::out::safe;
use super::out::styled;
use super::progress::Progress;
use super::recording::Exported;
use super::runtime::Audit;
use super::runtime::Finding;
use super::session::Session;

/// Check the invariants over a store, or an exported file.
///
/// Over a store: the component's own audit of every invariant (I1 to I16 of the design), and the count of keys: every
/// key in the store must belong to something, or it has leaked. Over a file: it parses, its numbers fit, and every
/// tool call has exactly one result, right after it and in order. Nothing is run and nothing is written.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ check                       the store in ./writ-data
  writ check --data /srv/writ      another one
  writ check trip.jsonl            an exported file
  writ check --json | jq .findings

It exits with 1 when something is broken, and names the invariant and the key.")]
pub struct CheckArgs {
    /// An exported file; without it, the store is checked.
    pub file: Option<PathBuf>,
}

/// Checks; the exit code tells.
pub async fn run(args: CheckArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    if let Some(path) = &args.file {
        return file(path, out);
    }
    let session = open::to_read(global).await?;
    let audit = audit(&session, out).await?;
    let totals = totals(&audit);
    report(&audit.findings, audit.findings_total, &totals, &summary(&audit), out)
}

/// The audit with its progress, and the count of keys.
pub async fn audit(session: &Session, out: Out) -> Result<Audit, Failure> {
    let progress = Progress::counter(out, "checking");
    let mut audit = session
        .runtime()
        .audit(&|so_far| progress.at(so_far.keys, format!("{} messages, {} keys", so_far.messages, so_far.keys)))
        .await?;
    let stored = session.runtime().keys().await?;
    let leaked = leak(audit.keys, stored);
    audit.findings_total += u64::from(leaked.is_some());
    audit.findings.extend(leaked);
    Ok(audit)
}

/// One line of totals.
pub fn summary(audit: &Audit) -> String {
    format!(
        "{} threads, {} submissions, {} messages, {} keys",
        audit.threads, audit.submissions, audit.messages, audit.keys
    )
}

fn leak(accounted: u64, stored: u64) -> Option<Finding> {
    let text = format!("{stored} keys are stored, the audit accounts for {accounted}");
    let finding = Finding { invariant: "leak".into(), key: "(the whole store)".into(), text };
    (accounted != stored).then_some(finding)
}

fn totals(audit: &Audit) -> Value {
    json!({"threads": audit.threads, "submissions": audit.submissions, "messages": audit.messages, "keys": audit.keys})
}

fn file(path: &Path, out: Out) -> Result<u8, Failure> {
    let checked = check_file::check(&Exported::read(path)?);
    let totals = json!({"messages": checked.messages, "calls": checked.calls, "results": checked.results});
    let summary = format!("{} messages, {} calls, {} results", checked.messages, checked.calls, checked.results);
    report(&checked.findings, checked.findings.len() as u64, &totals, &summary, out)
}

fn report(findings: &[Finding], total: u64, totals: &Value, summary: &str, out: Out) -> Result<u8, Failure> {
    let code = if findings.is_empty() { exit::DONE } else { exit::FAILED };
    if out.json {
        let list: Vec<Value> =
            findings.iter().map(|f| json!({"invariant": f.invariant, "key": f.key, "text": f.text})).collect();
        out.value(&json!({"ok": findings.is_empty(), "found": total, "findings": list, "totals": totals}))?;
        return Ok(code);
    }
    for finding in findings {
        out.line(&line(finding))?;
    }
    let verdict = match total {
        0 => styled(GOOD, "ok"),
        1 => styled(BAD, "1 finding"),
        n => styled(BAD, &format!("{n} findings")),
    };
    out.line(&format!("{verdict}: {summary}"))?;
    Ok(code)
}

/// A finding as a line.
pub fn line(finding: &Finding) -> String {
    format!("{} at {}: {}", styled(BAD, &safe(&finding.invariant)), safe(&finding.key), safe(&finding.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaked_key_is_a_finding() {
        assert_eq!(leak(3, 3), None);
        assert!(leak(3, 4).unwrap().text.contains("4 keys are stored"));
        assert!(leak(4, 3).is_some());
    }

    #[tokio::test]
    async fn the_count_of_keys_is_compared() {
        let session = super::super::testing::Fake::session(|_| (200, String::new()));
        let audit = audit(&session, super::super::testing::QUIET).await.unwrap();
        assert_eq!((audit.findings_total, audit.findings[0].invariant.as_str()), (1, "leak"));
    }
}
