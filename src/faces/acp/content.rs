//! Content: a prompt's blocks as a delivery's, a message's blocks as the protocol's.

use super::{Fault, INVALID_PARAMS};
use crate::delivery::BLOCKS_MAX;
use crate::prelude::*;
use crate::session::message::text_block;
use serde_json::{Value, json};

/// The blocks of a delivery, from the blocks of a prompt.
pub(super) fn delivered(prompt: Option<&Value>) -> Result<Vec<Value>, Fault> {
    let invalid = |text: String| Fault::new(INVALID_PARAMS, text);
    let Some(Value::Array(blocks)) = prompt else {
        return Err(invalid("`prompt` is missing, or no array of content blocks.".into()));
    };
    if blocks.is_empty() || blocks.len() > BLOCKS_MAX {
        return Err(invalid(format!("`prompt` has {} blocks; 1 to {BLOCKS_MAX} are taken.", blocks.len())));
    }
    let block = |(i, block): (usize, &Value)| {
        text_of(block).map(|text| text_block(&text)).map_err(|why| invalid(format!("`prompt[{i}]` {why}")))
    };
    blocks.iter().enumerate().map(block).collect()
}

/// A block as the text that a model gets to read.
fn text_of(block: &Value) -> Result<String, &'static str> {
    let resource = &block["resource"];
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().map(str::to_owned).ok_or("has no `text`."),
        Some("resource_link") => {
            let (name, uri) = (block["name"].as_str(), block["uri"].as_str());
            let (name, uri) = name.zip(uri).ok_or("has no `name` and `uri`.")?;
            Ok(format!("[{name}]({uri})"))
        }
        Some("resource") => match (resource["uri"].as_str(), resource["text"].as_str()) {
            (Some(uri), Some(text)) => Ok(format!("<resource uri={}>\n{text}\n</resource>", json!(uri))),
            (Some(_), None) => Err("is a resource that is not text: only text is taken."),
            (None, _) => Err("has no `resource` with `uri` and `text`."),
        },
        Some("image" | "audio") => {
            Err("is an image or a sound, which this agent does not take: see its `promptCapabilities`.")
        }
        _ => Err("is of a type that is not known: text, resource_link and resource are."),
    }
}

/// What a block of a message is to who reads a session.
pub(super) enum Shown {
    /// Something said, as a content block.
    Said(Value),
    /// Something thought.
    Thought(String),
}

/// A block of a message as it is shown; `None` for calls, and for what only a model's provider understands.
pub(super) fn shown(block: &Value) -> Option<Shown> {
    let thought = |name: &str| block[name].as_str().map(|text| Shown::Thought(text.to_owned()));
    match block["type"].as_str()? {
        "text" => Some(Shown::Said(said(block["text"].as_str()?))),
        "thinking" | "reasoning" => thought("thinking").or_else(|| thought("text")),
        kind @ ("image" | "audio") => {
            let (data, media) = (block["data"].as_str()?, block["mimeType"].as_str()?);
            Some(Shown::Said(json!({"type": kind, "data": data, "mimeType": media})))
        }
        _ => None,
    }
}

/// A text as a content block.
pub(super) fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The blocks of a tool's result.
pub(super) fn result(content: &[Value]) -> Vec<Value> {
    let block = |block: &Value| match shown(block) {
        Some(Shown::Said(block)) => block,
        Some(Shown::Thought(text)) => said(&text),
        None => said(&block.to_string()),
    };
    content.iter().map(|b| json!({"type": "content", "content": block(b)})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row 84: what is no text, and no link, is refused by its place.
    #[test]
    fn a_prompt_is_text_links_and_embedded_text() {
        let prompt = json!([
            {"type": "text", "text": "Look at"},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"},
            {"type": "resource", "resource": {"uri": "file:///b.rs", "text": "fn b() {}"}},
        ]);
        let texts: Vec<Value> = delivered(Some(&prompt)).unwrap().iter().map(|block| block["text"].clone()).collect();
        let resource = "<resource uri=\"file:///b.rs\">\nfn b() {}\n</resource>";
        assert_eq!(texts, ["Look at", "[a.rs](file:///a.rs)", resource]);
        for bad in [
            json!(null),
            json!([]),
            json!("hi"),
            json!([{"type": "image", "data": "", "mimeType": "image/png"}]),
            json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]),
            json!([{"type": "resource", "resource": {"uri": "file:///c", "blob": ""}}]),
            json!([{"type": "resource"}]),
            json!([{"type": "text"}]),
            json!([7]),
        ] {
            assert_eq!(delivered(Some(&bad)).unwrap_err().code, INVALID_PARAMS, "{bad}");
        }
        assert_eq!(delivered(None).unwrap_err().code, INVALID_PARAMS);
    }

    #[test]
    fn a_block_that_nobody_knows_is_passed_over_or_shown_raw() {
        assert!(shown(&json!({"type": "redacted", "data": "x"})).is_none());
        assert!(
            matches!(shown(&json!({"type": "thinking", "thinking": "Hm."})), Some(Shown::Thought(text)) if text == "Hm.")
        );
        let told = result(&[json!({"type": "text", "text": "a"}), json!({"rows": 3})]);
        assert_eq!(told[1]["content"]["text"], "{\"rows\":3}");
    }
}
