//! What `writ config show` shows: every option with its value and its source. Secrets are masked.

use serde_json::{Value as Json, json};

use super::found::{Found, Given, Item};
use super::kind::{Kind, Value, origin};
use super::options::{LISTS, OPTIONS, Spec};
use super::problem::Source;
use super::secret::MASK;

/// One option.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name; `webhooks[0].url` in a list.
    pub option: String,
    /// Its value; `null` if it has none.
    pub value: Json,
    /// By whom it was given.
    pub source: Source,
}

impl Found {
    /// Every option, in the order of the documentation, and what stands in the lists.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> =
            OPTIONS.iter().map(|spec| row(spec, spec.name.to_owned(), self.get(spec.name))).collect();
        for (list, specs) in LISTS {
            for item in self.items(list) {
                rows.extend(specs.iter().filter_map(|spec| of_item(list, spec, item)));
            }
        }
        rows
    }
}

impl Row {
    /// As JSON.
    pub fn json(&self) -> Json {
        json!({"option": self.option, "value": self.value, "source": self.source.to_string()})
    }
}

fn of_item(list: &str, spec: &Spec, item: &Item) -> Option<Row> {
    let given = item.values.get(spec.name)?;
    Some(row(spec, format!("{list}[{}].{}", item.number, spec.name), Some(given.clone())))
}

fn row(spec: &Spec, option: String, given: Option<Given>) -> Row {
    let Some(Given { value, source }) = given else {
        return Row { option, value: Json::Null, source: Source::Default };
    };
    let value = match value {
        Value::Secret(url) if spec.kind == Kind::WebUrl => origin(url.expose()).into(),
        Value::Secret(_) => MASK.into(),
        Value::Text(url) if spec.kind == Kind::CollectorUrl => origin(&url).into(),
        Value::List(texts) => texts.into(),
        Value::Number(number) => number.into(),
        Value::Path(path) => path.display().to_string().into(),
        Value::Switch(yes) => yes.into(),
        Value::Text(text) => text.into(),
    };
    Row { option, value, source }
}
