//! Reads and checks a script's text.

use serde::Deserialize;
use serde::Deserializer;
use serde_json::Value;
use toml::Spanned;

use super::ANSWERS_MAX;
use super::Answer;
use super::CHUNKS_MAX;
use super::DELAY_MS_MAX;
use super::FailKind;
use super::SCRIPT_BYTES_MAX;
use super::Script;
use super::ScriptError;
use super::ScriptModel;
use super::ScriptTool;
use super::TOOLS_MAX;
use crate::tools::Policy;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    model: ScriptModel,
    #[serde(default)]
    answer: Vec<Spanned<Answer>>,
    summary: Option<Spanned<Summary>>,
    #[serde(default)]
    tool: Vec<Spanned<ScriptTool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Summary {
    text: String,
}

pub(super) fn parse(file: &str, text: &str) -> Result<Script, ScriptError> {
    let invalid = |at: usize, message: String| {
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        ScriptError::Invalid { file: file.to_owned(), line, column, message }
    };
    if text.len() > SCRIPT_BYTES_MAX {
        return Err(invalid(0, format!("{} bytes; a script has at most {SCRIPT_BYTES_MAX}", text.len())));
    }
    let raw: Raw = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        invalid(at, error.message().replace('\n', " "))
    })?;
    if raw.answer.len() > ANSWERS_MAX {
        return Err(invalid(0, format!("{} answers; a script has at most {ANSWERS_MAX}", raw.answer.len())));
    }
    if raw.tool.len() > TOOLS_MAX {
        return Err(invalid(0, format!("{} tools; a script has at most {TOOLS_MAX}", raw.tool.len())));
    }
    for answer in &raw.answer {
        check_answer(answer.get_ref()).map_err(|message| invalid(answer.span().start, message))?;
    }
    let mut names = std::collections::BTreeSet::new();
    for tool in &raw.tool {
        let at = tool.span().start;
        check_tool(tool.get_ref()).map_err(|message| invalid(at, message))?;
        if !names.insert(tool.get_ref().name.as_str()) {
            return Err(invalid(at, format!("a tool named `{}` stands above already", tool.get_ref().name)));
        }
    }
    if let Some(summary) = raw.summary.as_ref().filter(|summary| summary.get_ref().text.trim().is_empty()) {
        return Err(invalid(summary.span().start, "`text` of the summary must not be empty".to_owned()));
    }
    Ok(Script {
        model: raw.model,
        answers: raw.answer.into_iter().map(Spanned::into_inner).collect(),
        summary: raw.summary.map(|summary| summary.into_inner().text),
        tools: raw.tool.into_iter().map(Spanned::into_inner).collect(),
    })
}

fn check_answer(answer: &Answer) -> Result<(), String> {
    if answer.when.as_deref() == Some("") {
        return Err("`when` must not be empty; leave it out for an answer to anything".to_owned());
    }
    if let Some(chunks) = answer.chunks.filter(|chunks| !(1..=CHUNKS_MAX).contains(chunks)) {
        return Err(format!("`chunks` is {chunks}; allowed are 1 to {CHUNKS_MAX}"));
    }
    check_delay(answer.delay_ms)?;
    if answer.blocks.iter().any(|block| !block.get("type").is_some_and(Value::is_string)) {
        return Err("each of `blocks` must be a table with a `type`".to_owned());
    }
    let Some(fail) = &answer.fail else {
        return Ok(());
    };
    if fail.kind.is_some() == fail.cut {
        return Err("`fail` must have either `kind` or `cut = true`".to_owned());
    }
    if fail.retry_after_ms.is_some() && fail.kind != Some(FailKind::Transient) {
        return Err("`retry_after_ms` belongs to `kind = \"transient\"` only".to_owned());
    }
    if fail.cut && fail.message.is_some() {
        return Err("a `cut` has no `message`: the stream just ends".to_owned());
    }
    if fail.times == Some(0) {
        return Err("`times` must be at least 1; leave it out to fail every time".to_owned());
    }
    Ok(())
}

fn check_tool(tool: &ScriptTool) -> Result<(), String> {
    crate::tools::toolbox::check_name(&tool.name)?;
    check_delay(tool.delay_ms)?;
    match (&tool.reply, tool.replies.is_empty()) {
        (Some(_), false) => Err("a tool has either `reply` or `replies`, not both".to_owned()),
        (None, true) => Err(format!("tool `{}` needs `reply = \"…\"` or `replies = [\"…\", …]`", tool.name)),
        _ => Ok(()),
    }
}

fn check_delay(delay_ms: u64) -> Result<(), String> {
    if delay_ms > DELAY_MS_MAX {
        return Err(format!("`delay_ms` is {delay_ms}; at most {DELAY_MS_MAX}"));
    }
    Ok(())
}

pub(super) fn plain() -> Policy {
    Policy::Plain
}

pub(super) fn empty_object() -> Value {
    serde_json::json!({})
}

pub(super) fn any_object() -> Value {
    serde_json::json!({"type": "object"})
}

pub(super) fn json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    to_json(toml::Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

pub(super) fn json_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    let values = Vec::<toml::Value>::deserialize(deserializer)?;
    values.into_iter().map(|value| to_json(value).map_err(serde::de::Error::custom)).collect()
}

/// JSON has no dates and no infinite numbers: the first become text, the second are refused.
fn to_json(value: toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::Array(values) => Value::Array(values.into_iter().map(to_json).collect::<Result<_, _>>()?),
        toml::Value::Boolean(value) => value.into(),
        toml::Value::Datetime(value) => value.to_string().into(),
        toml::Value::Float(value) => serde_json::Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| format!("{value} has no form in JSON; give a finite number"))?,
        toml::Value::Integer(value) => value.into(),
        toml::Value::String(value) => value.into(),
        toml::Value::Table(table) => Value::Object(
            table.into_iter().map(|(key, value)| Ok((key, to_json(value)?))).collect::<Result<_, String>>()?,
        ),
    })
}
