//! What `writ crash` prints.

use serde_json::{Value, json};

use super::exit;
use super::failure::Failure;
use super::out::{BAD, BOLD, DIM, GOOD, Out, WARN, safe, styled};
use super::table::{Column, Kind, render};
use crate::fault::effects::ToolUse;
use crate::fault::matrix::{Config, Report};
use crate::fault::play::Played;
use crate::fault::{Plan, Scenario, trace};

/// Calls that are shown before and after a fault.
const NEAR: usize = 6;

/// The scenarios that there are.
pub fn list(scenarios: &[Scenario], out: Out) -> Result<u8, Failure> {
    let rows: Vec<Value> = scenarios.iter().map(|s| json!({"name": s.name, "about": s.about})).collect();
    if out.json {
        out.value(&json!(rows))?;
        return Ok(exit::DONE);
    }
    let columns = [column("SCENARIO", "/name"), column("ABOUT", "/about")];
    out.line(&render(&columns, &rows, out))?;
    Ok(exit::DONE)
}

/// What came of all plans. `options` begin the command that replays one.
pub fn print(
    played: &[(Scenario, Report)],
    config: &Config,
    options: &[(String, String)],
    out: Out,
) -> Result<u8, Failure> {
    let failed: u64 = played.iter().map(|(_, report)| report.failed).sum();
    let code = if failed == 0 { exit::DONE } else { exit::FAILED };
    let value = value(played, config, options);
    if out.json {
        out.value(&value)?;
        return Ok(code);
    }
    let columns = [
        column("SCENARIO", "/name"),
        column("CALLS", "/calls"),
        column("PLANS", "/plans"),
        column("FAILED", "/failed"),
        column("SECONDS", "/seconds"),
    ];
    out.line(&render(&columns, rows(&value, "/scenarios"), out))?;
    let tools = rows(&value, "/tools");
    if !tools.is_empty() {
        let columns = [
            column("SCENARIO", "/scenario"),
            column("TOOL", "/tool"),
            column("POLICY", "/shown_policy"),
            column("AT MOST", "/executions_max"),
            column("REPEATED IN", "/repeated_in"),
            column("UNKNOWN IN", "/unknown_in"),
            column("OUTCOMES", "/shown_outcomes"),
        ];
        out.line("")?;
        out.line(&render(&columns, tools, out))?;
        for tool in tools {
            let text = |name: &str| safe(tool[name].as_str().unwrap_or_default());
            let words = text("words");
            if words.is_empty() {
                continue;
            }
            let style = if words.contains("CAN BE REPEATED") { WARN } else { DIM };
            out.line(&format!("{} {}: {}", text("scenario"), styled(BOLD, &text("tool")), styled(style, &words)))?;
        }
    }
    for failure in rows(&value, "/failures") {
        let text = |name: &str| safe(failure[name].as_str().unwrap_or_default());
        out.line("")?;
        out.line(&format!("{} in {} plans: {}", styled(BAD, &text("invariant")), failure["plans"], text("text")))?;
        out.line(&format!("  {}", text("command")))?;
    }
    out.line("")?;
    let totals =
        format!("{} plans, {failed} failures, {} s", value["plans"], value["seconds"].as_f64().unwrap_or_default());
    let verdict = if failed == 0 { styled(GOOD, "ok") } else { styled(BAD, "not survived") };
    out.line(&format!(
        "{verdict}: {totals} (store {}, depth {}, seed {})",
        config.store.name(),
        config.depth,
        config.seed
    ))?;
    Ok(code)
}

/// What came of one plan.
pub fn replayed(plan: &Plan, played: &Played, whole: bool, out: Out) -> Result<u8, Failure> {
    let code = if played.findings.is_empty() { exit::DONE } else { exit::FAILED };
    let lines: Vec<String> = match whole {
        true => played.trace.iter().map(trace::Entry::line).collect(),
        false => trace::around(&played.trace, NEAR),
    };
    if out.json {
        let findings: Vec<Value> =
            played.findings.iter().map(|f| json!({"invariant": f.invariant, "text": f.text})).collect();
        let tools: Vec<Value> = played.tools.iter().map(|(name, tool)| tool.json(name)).collect();
        out.value(&json!({
            "ok": findings.is_empty(), "plan": plan.to_string(), "calls": played.trace.len(), "findings": findings,
            "tools": tools, "trace": lines,
        }))?;
        return Ok(code);
    }
    for line in &lines {
        out.line(&safe(line))?;
    }
    let missed = plan.first.len() + plan.recovery.len() - played.trace.iter().filter(|e| e.fault.is_some()).count();
    if missed > 0 {
        out.line(&styled(WARN, &format!("{missed} of the plan's faults lie behind the end of the run")))?;
    }
    for finding in &played.findings {
        out.line(&format!("{} {}", styled(BAD, &safe(&finding.invariant)), safe(&finding.text)))?;
    }
    let verdict = if played.findings.is_empty() { styled(GOOD, "ok") } else { styled(BAD, "not survived") };
    out.line(&format!("{verdict}: {plan}, {} calls", played.trace.len()))?;
    Ok(code)
}

fn value(played: &[(Scenario, Report)], config: &Config, options: &[(String, String)]) -> Value {
    let seconds = |report: &Report| (report.time.as_secs_f64() * 10.0).round() / 10.0;
    let scenarios: Vec<Value> = played
        .iter()
        .map(|(scenario, report)| {
            json!({
                "name": scenario.name, "calls": report.calls, "plans": report.plans, "failed": report.failed,
                "seconds": seconds(report),
            })
        })
        .collect();
    let tools: Vec<Value> = played
        .iter()
        .flat_map(|(scenario, report)| report.tools.iter().map(|(name, used)| tool(&scenario.name, name, used)))
        .collect();
    let failures: Vec<Value> = played
        .iter()
        .flat_map(|(scenario, report)| report.failures.iter().map(move |failure| (scenario, failure)))
        .map(|(scenario, failure)| {
            json!({
                "scenario": scenario.name, "invariant": failure.finding.invariant, "text": failure.finding.text,
                "plans": failure.plans, "plan": failure.plan.to_string(),
                "command": command(scenario, &failure.plan, options),
            })
        })
        .collect();
    let sum = |of: fn(&Report) -> u64| played.iter().map(|(_, report)| of(report)).sum::<u64>();
    let all: f64 = played.iter().map(|(_, report)| report.time.as_secs_f64()).sum();
    json!({
        "ok": failures.is_empty(), "store": config.store.name(), "depth": config.depth, "seed": config.seed,
        "plans": sum(|report| report.plans), "failed": sum(|report| report.failed),
        "seconds": (all * 10.0).round() / 10.0, "scenarios": scenarios, "tools": tools, "failures": failures,
    })
}

fn tool(scenario: &str, name: &str, used: &ToolUse) -> Value {
    let mut value = used.json(name);
    value["scenario"] = scenario.into();
    value["shown_policy"] = value["policy"].as_str().unwrap_or("(component's)").into();
    value["shown_outcomes"] = used.outcomes.iter().cloned().collect::<Vec<_>>().join(", ").into();
    value
}

/// The one command that replays a plan.
fn command(scenario: &Scenario, plan: &Plan, options: &[(String, String)]) -> String {
    let is_file = |value: &str| {
        std::path::Path::new(value).file_stem().is_some_and(|stem| stem.to_string_lossy() == scenario.name)
    };
    let fitting = options.iter().filter(|(name, value)| name != "--scenario" || is_file(value));
    let options: String = fitting.map(|(name, value)| format!(" {name} {value}")).collect();
    format!("writ crash{options} --plan '{plan}'")
}

fn column(title: &'static str, pointer: &'static str) -> Column {
    Column { title, pointer, kind: Kind::Plain }
}

fn rows<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
