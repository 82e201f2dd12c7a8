//! Reading parameters: fields of a ProtoJSON object. Unknown ones are passed over, `null` is as absent, and whole numbers
//! may come as texts, as in a query.

use super::errors::Fault;
use crate::prelude::*;
use serde_json::{Map, Value};

/// An object of parameters.
pub(super) type Params = Map<String, Value>;

/// Reads fields of an object, and notes what is wrong with them.
pub(super) struct Fields<'a> {
    map: &'a Params,
    at: String,
    violations: Vec<(String, String)>,
}

impl<'a> Fields<'a> {
    /// Fields of an object that stands at a path, `""` for the parameters themselves.
    pub fn of(map: &'a Params, at: &str) -> Self {
        Self { map, at: at.to_owned(), violations: Vec::new() }
    }

    /// The path of a field.
    pub fn path(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// Notes what is wrong with a field.
    pub fn wrong(&mut self, name: &str, why: &str) {
        let path = self.path(name);
        self.violations.push((path.clone(), format!("`{path}` {why}.")));
    }

    /// A field as it came.
    pub fn any(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// A text of at most so many bytes. An empty one is as absent.
    pub fn text(&mut self, name: &str, bytes_max: usize) -> Option<&'a str> {
        match self.any(name)? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) if text.len() <= bytes_max => Some(text),
            Value::String(_) => {
                self.wrong(name, &format!("is longer than {bytes_max} bytes"));
                None
            }
            _ => {
                self.wrong(name, "is no string");
                None
            }
        }
    }

    /// A text that must be there.
    pub fn required(&mut self, name: &str, bytes_max: usize) -> &'a str {
        let before = self.violations.len();
        let text = self.text(name, bytes_max);
        if text.is_none() && self.violations.len() == before {
            self.wrong(name, "is missing");
        }
        text.unwrap_or_default()
    }

    /// A whole number within bounds.
    pub fn number(&mut self, name: &str, least: u64, most: u64) -> Option<u64> {
        let value = match self.any(name)? {
            Value::String(text) => text.parse().ok(),
            value => value.as_u64(),
        };
        let value = value.filter(|n| (least..=most).contains(n));
        if value.is_none() {
            self.wrong(name, &format!("is no whole number from {least} to {most}"));
        }
        value
    }

    /// Yes or no.
    pub fn flag(&mut self, name: &str) -> bool {
        match self.any(name) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) if text == "true" || text == "false" => text == "true",
            Some(_) => {
                self.wrong(name, "is neither true nor false");
                false
            }
        }
    }

    /// An object.
    pub fn object(&mut self, name: &str) -> Option<&'a Params> {
        match self.any(name)? {
            Value::Object(map) => Some(map),
            _ => {
                self.wrong(name, "is no object");
                None
            }
        }
    }

    /// A list of at most so many.
    pub fn list(&mut self, name: &str, most: usize) -> &'a [Value] {
        match self.any(name) {
            None => &[],
            Some(Value::Array(items)) if items.len() <= most => items,
            Some(Value::Array(_)) => {
                self.wrong(name, &format!("has more than {most} entries"));
                &[]
            }
            Some(_) => {
                self.wrong(name, "is no list");
                &[]
            }
        }
    }

    /// Takes over what was wrong with other fields.
    pub fn take_over(&mut self, other: Fields) {
        self.violations.extend(other.violations);
    }

    /// The end: an error if anything was wrong.
    pub fn done(self) -> Result<(), Fault> {
        if self.violations.is_empty() { Ok(()) } else { Err(Fault::invalid(self.violations)) }
    }
}
