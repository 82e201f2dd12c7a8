//! The tools: one for each agent, and three for sessions. An agent with the name of one of those hides it.

use super::call;
use super::envelope::{Asked, bad_cursor};
use super::fail::Fail;
use super::results;
use super::sessions;
use super::settings;
use super::{LIST_TTL_MS, rpc};
use crate::agent::AgentInfo;
use crate::error::{Problem, Refusal};
use crate::faces::answer::Response;
use crate::id::is_name;
use crate::prelude::*;
use serde_json::{Map, Value, json};

/// Tools of one page.
const PAGE: usize = 128;

/// `tools/list`: agents in the component's order, then the others.
pub fn list(asked: &Asked) -> Result<Response, Fail> {
    let agents = agents(asked)?;
    let mut tools = Vec::new();
    for agent in &agents {
        tools.push(agent_tool(asked, agent)?);
    }
    let hidden = |tool: &Value| agents.iter().any(|agent| tool["name"] == agent.name.as_str());
    tools.extend(sessions::tools().into_iter().filter(|tool| !hidden(tool)));
    let from = match asked.cursor()? {
        None => 0,
        Some(cursor) => cursor.parse().ok().filter(|n| (1..tools.len()).contains(n)).ok_or_else(bad_cursor)?,
    };
    let more = tools.len() > from + PAGE;
    let mut page = json!({"tools": tools.into_iter().skip(from).take(PAGE).collect::<Vec<_>>()});
    if more {
        page["nextCursor"] = json!((from + PAGE).to_string());
    }
    Ok(asked.listed(page, LIST_TTL_MS))
}

/// `tools/call`.
pub fn call(asked: &Asked) -> Result<Response, Fail> {
    let name = asked.text("name")?;
    let none = Map::new();
    let arguments = match asked.params.get("arguments") {
        None | Some(Value::Null) => &none,
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(Fail::params("`arguments` is no object.")),
    };
    let answered = match agents(asked)?.iter().any(|agent| agent.name == name) {
        true => call::agent(asked, name, arguments),
        false => match name {
            sessions::FORK => sessions::fork(asked, arguments),
            sessions::READ => sessions::read(asked, arguments),
            sessions::INTERRUPT => sessions::interrupt(asked, arguments),
            // What was accepted with this key before its agent went is found by it; admission refuses the others.
            _ if is_name(name) && arguments.contains_key("idempotency_key") => call::agent(asked, name, arguments),
            _ => return Err(no_tool(name)),
        },
    };
    match answered {
        Err(Fail::Refusal(Refusal::Problem(problem))) if problem.code == "unknown-agent" => Err(no_tool(name)),
        // What the caller can mend is told to the model; what the machine lacks is an error.
        Err(Fail::Refusal(Refusal::Problem(problem))) if problem.status < 500 => {
            Ok(asked.result(results::refused(&problem)))
        }
        answered => answered,
    }
}

fn no_tool(name: &str) -> Fail {
    let shown: String = name.chars().take(128).collect();
    Fail::fault(200, rpc::INVALID_PARAMS, format!("There is no tool {shown:?}."))
}

fn agents(asked: &Asked) -> Result<Vec<AgentInfo>, Problem> {
    asked.call.agents.list(asked.call.ports.host).map_err(|e| Problem::new(500, "bad-settings", e))
}

fn agent_tool(asked: &Asked, agent: &AgentInfo) -> Result<Value, Fail> {
    let description = match agent.description.as_str() {
        "" => format!("The agent {}.", agent.name),
        text => text.to_owned(),
    };
    let setting = settings::tool(&asked.call.ports, &agent.name)?;
    Ok(json!({
        "name": agent.name,
        "description": description,
        "inputSchema": setting.input.unwrap_or_else(input_schema),
        "outputSchema": results::output_schema(),
    }))
}

fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "What to tell the agent."},
            "session_id": {
                "type": "string",
                "description": "The conversation to go on with, as a result named it. Without it a new one begins.",
            },
            "idempotency_key": {
                "type": "string",
                "minLength": 1,
                "maxLength": 256,
                "pattern": "^[!-~]+$",
                "description": "A name for this call. Repeated with the same name and content, it is done once.",
            },
            "result_schema": {"type": "object", "description": "JSON Schema of the result that is wanted."},
        },
        "required": ["message"],
        "additionalProperties": false,
    })
}
