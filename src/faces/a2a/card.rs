//! The agent card: who is here, where, and what it takes. Public: it says nothing that needs a token.

use super::message::MEDIA_TYPES;
use super::settings::{Settings, agents};
use super::{EXTENSION, VERSION};
use crate::agent::AgentInfo;
use crate::error::Refusal;
use crate::faces::answer::Response;
use crate::faces::call::Call;
use crate::id::sha256_hex;
use crate::prelude::*;
use serde_json::{Value, json};

/// How long a card may be kept, in seconds.
const MAX_AGE_S: u32 = 300;

/// Longest `host` that is taken for the card, in bytes.
const HOST_BYTES_MAX: usize = 255;

pub(super) fn card(call: &Call) -> Result<Response, Refusal> {
    let body = document(call)?.to_string();
    let tag = format!("\"{}\"", &sha256_hex(body.as_bytes())[..32]);
    let known = call.request.headers.iter().filter(|(name, _)| name == "if-none-match");
    let same = known
        .flat_map(|(_, value)| value.split(','))
        .any(|known| matches!(known.trim(), "*") || known.trim().trim_start_matches("W/") == tag);
    let mut response = Response::bytes(200, "application/json", body.into_bytes());
    if same {
        response = Response::bytes(304, "application/json", Vec::new());
        response.headers.clear();
    }
    response.header("etag", tag);
    response.header("cache-control", format!("public, max-age={MAX_AGE_S}"));
    Ok(response)
}

fn document(call: &Call) -> Result<Value, Refusal> {
    let (settings, agents) = (Settings::read(call)?, agents(call)?);
    let default = settings.default_agent(&agents);
    let base = match &settings.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => format!("http://{}", host(call)),
    };
    let interface = |binding: &str, tenant: Option<&str>| {
        let mut interface =
            json!({"url": format!("{base}/a2a"), "protocolBinding": binding, "protocolVersion": VERSION});
        if let Some(tenant) = tenant {
            interface["tenant"] = json!(tenant);
        }
        interface
    };
    // The default agent has no tenant. The others are not listed beside it: of several interfaces of one binding some
    // clients take the first, and some the last. Their skills name them, and a request may.
    let mut tenants: Vec<Option<&str>> = default.map(|_| None).into_iter().collect();
    if default.is_none() {
        tenants.extend(agents.iter().map(|a| Some(a.name.as_str())));
    }
    let interfaces: Vec<Value> =
        tenants.iter().flat_map(|tenant| ["JSONRPC", "HTTP+JSON"].map(|binding| interface(binding, *tenant))).collect();
    let about = |text: &str, name: &str| if text.is_empty() { format!("The agent {name}.") } else { text.to_owned() };
    let skill = |a: &AgentInfo| json!({"id": a.name, "name": a.name, "description": about(&a.description, &a.name), "tags": ["agent"]});
    let name = settings.name.clone().or_else(|| default.map(|a| a.name.clone())).unwrap_or_else(|| "Writ".into());
    let description = settings.description.clone().unwrap_or_else(|| match default {
        Some(agent) => about(&agent.description, &agent.name),
        None => "Agents that keep what they were asked; each is a tenant.".into(),
    });
    let version = settings.version.clone().unwrap_or_else(|| env!("CARGO_PKG_VERSION").into());
    let extension = json!({
        "uri": EXTENSION,
        "description": "Metadata of a SendMessage request under this URI: idempotencyKey, resultSchema, deadlineMs.",
        "required": false,
    });
    let mut card = json!({
        "name": name,
        "description": description,
        "version": version,
        "supportedInterfaces": interfaces,
        "capabilities": {
            "streaming": settings.streaming, "pushNotifications": false, "extendedAgentCard": false,
            "extensions": [extension],
        },
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        "defaultInputModes": MEDIA_TYPES,
        "defaultOutputModes": MEDIA_TYPES,
        "skills": agents.iter().map(skill).collect::<Vec<Value>>(),
    });
    if let Some(provider) = settings.provider {
        card["provider"] = provider;
    }
    if let Some(url) = settings.documentation_url {
        card["documentationUrl"] = json!(url);
    }
    Ok(card)
}

/// The host that the card was asked at: it may be anybody's text, so only a plain name or address is taken.
fn host<'a>(call: &'a Call) -> &'a str {
    let plain = |host: &&str| {
        let fit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']' | b'_');
        (1..=HOST_BYTES_MAX).contains(&host.len()) && host.bytes().all(fit)
    };
    call.request.header("host").filter(plain).unwrap_or("localhost")
}
