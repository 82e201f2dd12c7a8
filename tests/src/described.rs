//! The thread API's document, and answers held against it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use host_sim::data::{Body, Request, Response};
use jsonschema::{Draft, Validator};
use serde_json::{Value, json};

/// The document.
pub struct Described(pub Value, Mutex<HashMap<String, Arc<Validator>>>);

/// What of the document was answered so far.
#[derive(Default)]
pub struct Seen {
    /// Operations and statuses.
    pub answers: BTreeSet<(String, u16)>,
    /// Statuses and codes of problems.
    pub codes: BTreeSet<(u16, String)>,
    /// Types of events.
    pub events: BTreeSet<String>,
}

impl Described {
    /// The component's document.
    pub fn load() -> Self {
        Self(serde_json::from_str(writ::faces::OPENAPI).expect("JSON"), Mutex::default())
    }

    /// What a `$ref` stands for, or the value itself.
    pub fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        let Some(path) = value["$ref"].as_str() else { return value };
        let found = self.0.pointer(path.strip_prefix('#').expect("a reference within the document"));
        self.resolve(found.unwrap_or_else(|| panic!("{path} leads nowhere")))
    }

    /// All operations: method, path, the operation and what stands at its path.
    pub fn operations(&self) -> Vec<(String, &str, &Value, &Value)> {
        let mut all = Vec::new();
        for (path, item) in self.0["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                if method != "parameters" {
                    all.push((method.to_uppercase(), path.as_str(), operation, item));
                }
            }
        }
        all
    }

    /// What does not fit a schema of the document. Its objects have no more members than they name, unless it says so.
    pub fn misfits(&self, schema: &Value, value: &Value) -> Vec<String> {
        let validator = {
            let mut known = self.1.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(schema.to_string()).or_insert_with(|| Arc::new(self.validator(schema))).clone()
        };
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect()
    }

    fn validator(&self, schema: &Value) -> Validator {
        let mut whole = json!({"allOf": [schema], "components": {"schemas": self.0["components"]["schemas"]}});
        close(&mut whole);
        let built = jsonschema::options().with_draft(Draft::Draft202012).offline().build(&whole);
        built.unwrap_or_else(|error| panic!("{error}: {schema}"))
    }

    /// Holds an answer against the document.
    pub fn check(&self, request: &Request, response: &Response, seen: &mut Seen) {
        let asked = format!("{} {}: {} {}", request.method, request.path, response.status, response.text());
        let path = request.path.split('?').next().unwrap_or_default();
        let found = self.operations().into_iter().find(|(m, p, ..)| *m == request.method && is_at(p, path));
        let Some((_, _, operation, _)) = found else { panic!("no operation: {asked}") };
        let described = &operation["responses"][response.status.to_string()];
        assert!(described.is_object(), "not described: {asked}");
        let described = self.resolve(described);
        let media = response.header("content-type").unwrap_or_default();
        let content = &described["content"][media];
        assert!(content.is_object(), "{media} is not described: {asked}");
        self.check_headers(described, response, &asked);
        let value = match &response.body {
            Body::Stream(tail) => {
                assert!(media == "text/event-stream" && !tail.feed.is_empty(), "{asked}");
                json!("")
            }
            Body::Bytes(_) => response.json().expect("JSON"),
        };
        let misfits = self.misfits(&content["schema"], &value);
        assert!(misfits.is_empty(), "{misfits:#?}\n{asked}");
        seen.answers.insert((operation["operationId"].as_str().expect("an id").to_owned(), response.status));
        if let Some(code) = value["code"].as_str().filter(|_| response.status >= 400) {
            assert_eq!(value["type"], format!("urn:writ:problem:{code}"));
            seen.codes.insert((response.status, code.to_owned()));
        }
    }

    fn check_headers(&self, described: &Value, response: &Response, asked: &str) {
        let empty = serde_json::Map::new();
        let headers = described["headers"].as_object().unwrap_or(&empty);
        for (name, header) in headers {
            let header = self.resolve(header);
            match response.header(&name.to_lowercase()) {
                Some(value) => {
                    let misfits = self.misfits(&header["schema"], &json!(value));
                    assert!(misfits.is_empty(), "{name}: {misfits:?}: {asked}");
                }
                None => assert_ne!(header["required"], true, "{name} is missing: {asked}"),
            }
        }
        for (name, _) in &response.headers {
            let is_described = name == "content-type" || headers.keys().any(|known| known.eq_ignore_ascii_case(name));
            assert!(is_described, "the header {name} is not described: {asked}");
        }
    }

    /// Holds an event against the document.
    pub fn check_event(&self, event: &Value, seen: &mut Seen) {
        let misfits = self.misfits(&json!({"$ref": "#/components/schemas/Event"}), event);
        assert!(misfits.is_empty(), "{misfits:#?}\n{event}");
        seen.events.insert(event["type"].as_str().expect("a type").to_owned());
    }
}

/// Whether a path is at a template: each `{name}` is one segment.
fn is_at(template: &str, path: &str) -> bool {
    let (template, path): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len() && template.iter().zip(&path).all(|(t, p)| t.starts_with('{') || t == p)
}

/// Forbids members that an object does not name, except in parts of an `allOf`.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.contains_key("properties") && members.get("type").is_some() {
                members.entry("additionalProperties").or_insert(json!(false));
            }
            members.iter_mut().filter(|(name, _)| *name != "example").for_each(|(_, value)| close(value));
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
