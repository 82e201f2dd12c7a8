//! JSON Schema, draft 2020-12, as a pure function with bounds.

use std::time::Duration;

use jsonschema::{Draft, PatternOptions};
use serde_json::Value;
use tokio::sync::Semaphore;

/// Largest schema, in bytes.
const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Deepest nesting of a schema.
const SCHEMA_DEPTH_MAX: usize = 64;
/// Most violations that are told.
const VIOLATIONS_MAX: usize = 16;
/// Longest text of a violation, in bytes; the rest is cut.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Longest check.
const CHECK: Duration = Duration::from_secs(10);
/// Checks at the same time. One that doesn't end keeps its place, so that such schemas can't take all threads.
static CHECKS: Semaphore = Semaphore::const_new(8);
/// Steps that a pattern may go back.
const BACKTRACK_MAX: usize = 100_000;

/// One thing that doesn't fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// JSON Pointer into the value.
    pub(super) path: String,
    /// What is wrong.
    pub(super) message: String,
}

/// Checks `value` against `schema`, both JSON text, on a thread of its own: a check may take long. An error means
/// that the schema is no good, or that it took too long.
pub(super) async fn check(schema: String, value: String) -> Result<Vec<Violation>, String> {
    let late = || format!("the check took longer than {} s", CHECK.as_secs());
    let work = async {
        let place = CHECKS.acquire().await.map_err(|error| error.to_string())?;
        let task = tokio::task::spawn_blocking(move || {
            let _place = place;
            check_now(&schema, &value)
        });
        task.await.map_err(|_| "the schema could not be checked".to_owned())?
    };
    tokio::time::timeout(CHECK, work).await.unwrap_or_else(|_| Err(late()))
}

fn check_now(schema: &str, value: &str) -> Result<Vec<Violation>, String> {
    if schema.len() > SCHEMA_BYTES_MAX {
        return Err(format!("a schema of {} bytes, at most {SCHEMA_BYTES_MAX}", schema.len()));
    }
    let schema: Value = serde_json::from_str(schema).map_err(|error| format!("the schema is not JSON: {error}"))?;
    if depth(&schema) > SCHEMA_DEPTH_MAX {
        return Err(format!("a schema of more than {SCHEMA_DEPTH_MAX} levels"));
    }
    let validator = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_MAX))
        .offline()
        .build(&schema)
        .map_err(|error| cut(format!("the schema is no good: {error}")))?;
    let value: Value = match serde_json::from_str(value) {
        Ok(value) => value,
        Err(error) => {
            return Ok(vec![Violation { path: String::new(), message: format!("not JSON: {error}") }]);
        }
    };
    let found = validator.iter_errors(&value).take(VIOLATIONS_MAX);
    Ok(found.map(|e| Violation { path: e.instance_path().to_string(), message: cut(e.to_string()) }).collect())
}

/// Levels of nesting. Its own recursion is bounded by that of the JSON parser (128).
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(schema: &str, value: &str) -> Vec<String> {
        check_now(schema, value).expect("a good schema").into_iter().map(|v| v.path).collect()
    }

    #[test]
    fn names_the_place_of_each_violation() {
        let schema = r#"{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},
            "b":{"type":"array","items":{"type":"string"}}}}"#;
        assert_eq!(paths(schema, r#"{"a":1,"b":["x"]}"#), Vec::<String>::new());
        assert_eq!(paths(schema, r#"{"a":"x","b":["x",2]}"#), ["/a", "/b/1"]);
        assert_eq!(paths(schema, "{}"), [""]);
        assert_eq!(paths(schema, "{"), [""]);
    }

    #[test]
    fn tells_at_most_sixteen() {
        let value = serde_json::to_string(&vec![0; 100]).unwrap();
        assert_eq!(paths(r#"{"items":{"type":"string"}}"#, &value).len(), 16);
    }

    #[test]
    fn refuses_schemas_that_are_no_good() {
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(64), "}".repeat(64));
        let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX));
        for (schema, says) in [
            ("{", "not JSON"),
            (r#"{"type":"thing"}"#, "no good"),
            (r#"{"$ref":"https://example.com/schema.json"}"#, "no good"),
            (r#"{"$ref":"file:///etc/passwd"}"#, "no good"),
            (&deep, "levels"),
            (&large, "bytes"),
        ] {
            let error = check_now(schema, "1").expect_err(schema);
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn follows_references_within_the_schema() {
        let tree = r##"{"type":"object","properties":{"next":{"$ref":"#"}}}"##;
        assert_eq!(paths(tree, r#"{"next":{"next":1}}"#), ["/next/next"]);
    }

    #[test]
    fn a_schema_that_is_its_own_reference_ends() {
        for schema in [r##"{"$ref":"#"}"##, r##"{"allOf":[{"$ref":"#"}]}"##, r##"{"not":{"$ref":"#"}}"##] {
            // Whatever it says: it must come back.
            let _ = check_now(schema, "1");
        }
    }
}
