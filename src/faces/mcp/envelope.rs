//! What stands around a method: the era, the version, what the client can do; and around a result.

use super::base64;
use super::fail::Fail;
use super::tasks;
use crate::faces::answer::Response;
use crate::faces::call::Call;
use crate::faces::rpc;
use crate::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The version of the modern era.
const MODERN: &str = "2026-07-28";
/// Versions of the era that begins with `initialize`, the newest first.
const LEGACY: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Methods that only the modern era has: who sends one without `_meta` has forgotten it.
const MODERN_ONLY: [&str; 2] = ["server/discover", "subscriptions/listen"];

/// Whose rules a request follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// Each request says version and capabilities.
    Modern,
    /// A connection begins with `initialize`. Nothing is kept of it.
    Legacy,
}

/// A request, read.
pub struct Asked<'a> {
    /// As it came in.
    pub call: &'a Call<'a>,
    /// Its era.
    pub era: Era,
    /// Its id.
    pub id: Value,
    /// What is asked.
    pub method: String,
    /// With what.
    pub params: Map<String, Value>,
    /// What the client can do; nothing in the legacy era, where no request says it.
    capabilities: Map<String, Value>,
}

/// All versions, the newest first.
pub fn versions() -> [&'static str; 4] {
    [MODERN, LEGACY[0], LEGACY[1], LEGACY[2]]
}

/// The legacy version to speak with who wants this one.
pub fn legacy_version(wanted: Option<&str>) -> &'static str {
    LEGACY.into_iter().find(|version| Some(*version) == wanted).unwrap_or(LEGACY[0])
}

/// What this server is.
pub fn server_info() -> Value {
    json!({"name": "writ", "title": "Writ", "version": env!("CARGO_PKG_VERSION")})
}

/// Reads a request: the body says the era, and headers have to say what it says.
pub fn read<'a>(call: &'a Call<'a>, id: Value, method: String, params: Map<String, Value>) -> Result<Asked<'a>, Fail> {
    let asked = |era, capabilities, params| Asked { call, era, id, method: method.clone(), params, capabilities };
    let meta = params.get("_meta");
    if let Some(version) = meta.and_then(|meta| meta.get(VERSION)) {
        let version = version.as_str().ok_or_else(|| Fail::meta(format!("`_meta.\"{VERSION}\"` is no text.")))?;
        check_version(call, version)?;
        let capabilities = meta.and_then(|meta| meta.get(CAPABILITIES)).and_then(Value::as_object);
        let missing = || Fail::meta(format!("`_meta.\"{CAPABILITIES}\"` is missing, or no object."));
        let capabilities = capabilities.ok_or_else(missing)?.clone();
        check_method(call, &method)?;
        check_name(call, &method, &params)?;
        return Ok(asked(Era::Modern, capabilities, params));
    }
    let header = call.request.header("mcp-protocol-version").map(trimmed).filter(|_| has_headers(call));
    match header {
        _ if method == "initialize" => {}
        None if !MODERN_ONLY.contains(&method.as_str()) => {}
        // Without a header it is the first version of this transport (2025-03-26), whose methods are the same.
        Some(version) if LEGACY.contains(&version) && !MODERN_ONLY.contains(&method.as_str()) => {}
        Some(version) if !versions().contains(&version) => return Err(Fail::version(version, &versions())),
        _ => {
            let text = format!("Every request says `_meta.\"{VERSION}\"` and `_meta.\"{CAPABILITIES}\"`.");
            return Err(Fail::meta(text));
        }
    }
    Ok(asked(Era::Legacy, Map::new(), params))
}

/// A notification is not answered, but one that its headers contradict is refused. (A pipe has no headers.)
pub fn check_notification(call: &Call, method: &str, params: &Map<String, Value>) -> Result<(), Fail> {
    if !has_headers(call) {
        return Ok(());
    }
    match params.get("_meta").and_then(|meta| meta.get(VERSION)).and_then(Value::as_str) {
        Some(version) => check_version(call, version).and_then(|()| check_method(call, method)),
        None => Ok(()),
    }
}

/// Over stdio there are none. Only a host can say so: a server strips this header from what comes over the network.
pub fn has_headers(call: &Call) -> bool {
    call.request.header("writ-transport") != Some("stdio")
}

fn check_version(call: &Call, version: &str) -> Result<(), Fail> {
    if has_headers(call) {
        match call.request.header("mcp-protocol-version").map(trimmed) {
            Some(header) if header == version => {}
            Some(_) => return Err(Fail::header("The header `Mcp-Protocol-Version` differs from the body's version.")),
            None => return Err(Fail::header("The header `Mcp-Protocol-Version` is missing.")),
        }
    }
    if version != MODERN {
        return Err(Fail::version(version, &versions()));
    }
    Ok(())
}

/// A header's value without the white space that HTTP allows around it, and no other.
fn trimmed(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

fn check_method(call: &Call, method: &str) -> Result<(), Fail> {
    match call.request.header("mcp-method").map(trimmed) {
        _ if !has_headers(call) => Ok(()),
        Some(header) if header == method => Ok(()),
        Some(_) => Err(Fail::header("The header `Mcp-Method` differs from the body's `method`.")),
        None => Err(Fail::header("The header `Mcp-Method` is missing.")),
    }
}

fn check_name(call: &Call, method: &str, params: &Map<String, Value>) -> Result<(), Fail> {
    let field = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(()),
    };
    // What is no text is refused where it is used.
    let Some(name) = params.get(field).and_then(Value::as_str).filter(|_| has_headers(call)) else { return Ok(()) };
    let header = call.request.header("mcp-name").map(trimmed);
    let header = header.ok_or_else(|| Fail::header(format!("The header `Mcp-Name` is missing; it says `{field}`.")))?;
    let decoded = match header.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => base64::decode(encoded).and_then(|bytes| String::from_utf8(bytes).ok()),
        None => Some(header.to_owned()),
    };
    match decoded.as_deref() == Some(name) {
        true => Ok(()),
        false => Err(Fail::header(format!("The header `Mcp-Name` differs from the body's `{field}`."))),
    }
}

impl Era {
    /// A result as this era has it.
    pub fn dressed(self, mut result: Value) -> Value {
        if self == Era::Modern
            && let Some(members) = result.as_object_mut()
        {
            members.entry("resultType").or_insert_with(|| json!("complete"));
            let meta = members.entry("_meta").or_insert_with(|| json!({}));
            meta[SERVER_INFO] = server_info();
        }
        result
    }
}

impl Asked<'_> {
    /// The answer with a result.
    pub fn result(&self, result: Value) -> Response {
        Response::json(200, &rpc::response(&self.id, self.era.dressed(result)))
    }

    /// The answer with what may be kept for a while by this client alone.
    pub fn listed(&self, mut result: Value, ttl_ms: u64) -> Response {
        if self.era == Era::Modern {
            result["ttlMs"] = json!(ttl_ms);
            result["cacheScope"] = json!("private");
        }
        self.result(result)
    }

    /// Whether the client has declared the tasks extension.
    pub fn knows_tasks(&self) -> bool {
        self.era == Era::Modern
            && self.capabilities.get("extensions").is_some_and(|all| all.get(tasks::EXTENSION).is_some())
    }

    /// Whether the client can show a form. Without modes named, forms are what is meant.
    pub fn elicits(&self) -> bool {
        let modes = self.capabilities.get("elicitation").and_then(Value::as_object);
        self.era == Era::Modern && modes.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"))
    }

    /// Whether the client has declared a capability.
    pub fn declares(&self, capability: &str) -> bool {
        self.capabilities.contains_key(capability)
    }

    /// A text of the parameters.
    pub fn text(&self, field: &str) -> Result<&str, Fail> {
        let text = self.params.get(field).and_then(Value::as_str);
        text.ok_or_else(|| Fail::params(format!("`{field}` is missing, or no text.")))
    }

    /// Where the client goes on in a list.
    pub fn cursor(&self) -> Result<Option<&str>, Fail> {
        match self.params.get("cursor") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(cursor)) => Ok(Some(cursor)),
            Some(_) => Err(bad_cursor()),
        }
    }

    /// Of a list that has one page only.
    pub fn no_cursor(&self) -> Result<(), Fail> {
        self.cursor()?.map_or(Ok(()), |_| Err(bad_cursor()))
    }

    /// What progress is to be told under, if it is.
    pub fn progress_token(&self) -> Result<Option<Value>, Fail> {
        match self.params.get("_meta").and_then(|meta| meta.get("progressToken")) {
            None | Some(Value::Null) => Ok(None),
            Some(token @ (Value::String(_) | Value::Number(_))) if token.to_string().len() <= TOKEN_BYTES_MAX => {
                Ok(Some(token.clone()))
            }
            Some(_) => {
                Err(Fail::params(format!("`progressToken` is a text or a number of {TOKEN_BYTES_MAX} bytes at most.")))
            }
        }
    }

    /// Whether a call is answered by a stream: to be told of progress, or because the client takes nothing else.
    pub fn streams(&self) -> Result<bool, Fail> {
        Ok(self.progress_token()?.is_some() || self.wants_stream())
    }

    /// Whether the client takes a stream and nothing else.
    fn wants_stream(&self) -> bool {
        let accept = self.call.request.headers.iter().filter(|(name, _)| name == "accept");
        let media: Vec<&str> = accept
            .flat_map(|(_, value)| value.split(','))
            .filter_map(|one| one.split(';').next().map(str::trim))
            .collect();
        media.contains(&"text/event-stream") && !media.iter().any(|m| matches!(*m, "application/json" | "*/*"))
    }
}

/// Longest progress token, in bytes of JSON.
const TOKEN_BYTES_MAX: usize = 512;

/// A cursor that no list has given.
pub fn bad_cursor() -> Fail {
    Fail::params("`cursor` is not one that this list has given. Begin without one.")
}
