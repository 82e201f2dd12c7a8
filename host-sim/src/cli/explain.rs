//! `writ explain`: every stored fact, and what a restart would do.

use clap::Args;
use serde_json::Value;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::names::SubmissionId;
use super::open;
use super::out::BOLD;
use super::out::DIM;
use super::out::Out;
use super::out::safe;
use super::out::styled;
use super::time;

/// Fields that hold a time.
const TIMES: [&str; 5] = ["at", "created", "deadline", "due", "settled"];

/// Show every stored fact about a submission, and what a restart would do with it.
///
/// The component itself answers, from what is stored and from nothing else: state, reason, each fact with the key that
/// holds it, and the rule that a restart would apply to it now. Nothing is run.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ explain 3f-k2v6…
  writ explain 3f-k2v6… --json | jq .rule
  writ inspect submissions                 where the ids are")]
pub struct ExplainArgs {
    /// The id of a submission.
    pub id: SubmissionId,
}

/// Shows it.
pub async fn run(args: ExplainArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    let session = open::to_read(global).await?;
    let explained = session.get(args.id.path("/explain")).await?;
    if out.json {
        out.value(&explained)?;
    } else {
        out.line(&render(&args.id.to_string(), &explained))?;
    }
    Ok(exit::DONE)
}

/// As text.
pub fn render(id: &str, explained: &Value) -> String {
    let state = text(&explained["state"]);
    let mut lines = vec![format!("{} is {}", styled(BOLD, id), styled(BOLD, &state))];
    if let Some(reason) = explained["reason"].as_str() {
        lines.push(format!("  {}", safe(reason)));
    }
    let facts = explained["facts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !facts.is_empty() {
        lines.push(String::new());
        lines.push("What is stored:".into());
    }
    for fact in facts {
        lines.push(String::new());
        lines.push(format!("  {}", safe(&text(&fact["what"]))));
        lines.push(format!("  {}", styled(DIM, &safe(&text(&fact["key"])))));
        lines.extend(value(&fact["value"]));
    }
    if explained["rule"].is_object() {
        lines.push(String::new());
        lines.push("What a restart would do now:".into());
        let (row, rule) = (text(&explained["rule"]["row"]), text(&explained["rule"]["text"]));
        lines.push(format!("  {} {}", styled(BOLD, &safe(&row)), safe(&rule)));
    }
    lines.join("\n")
}

/// A stored value: the fields of an object one a line.
fn value(value: &Value) -> Vec<String> {
    let Some(map) = value.as_object() else { return vec![format!("      {}", safe(&text(value)))] };
    let shown = |(name, value): (&String, &Value)| {
        let time = value.as_u64().filter(|ms| TIMES.contains(&name.as_str()) && *ms > 0).map(time::stamp);
        format!("      {}: {}", safe(name), safe(&time.unwrap_or_else(|| text(value))))
    };
    map.iter().map(shown).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_carry_their_keys_and_the_rule_its_row() {
        let explained = json!({"state": "running", "reason": "the model is asked",
            "facts": [{"key": "p/3f/sub/x", "what": "attempts", "value": 2}, {"key": "k", "what": "op", "value": {"a": 1}}],
            "rule": {"row": "P6", "text": "take over"}});
        let text = anstream::adapter::strip_str(&render("3f-x", &explained)).to_string();
        for part in ["3f-x is running", "the model is asked", "attempts", "p/3f/sub/x", "op", "a: 1", "P6 take over"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(render("x", &json!([])).contains('-'));
    }
}
