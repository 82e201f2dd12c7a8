//! Sessions: made, found again, listed, left, deleted.

use super::connection::Connection;
use super::feed::{FOLLOWED_MAX, Load, Told};
use super::{Answer, DROP, Fault, INTERNAL, INVALID_PARAMS, LANE, Params, fault, key, line, no_session, prompt, text};
use crate::approval;
use crate::faces::answer::{Response, Tail, Work};
use crate::faces::call::Call;
use crate::faces::{rpc, session};
use crate::follow::{Face, Feed, What};
use crate::id::Place;
use crate::prelude::*;
use crate::record::{Entry, Head, Inbox};
use crate::session::{delete as deletion, import};
use crate::view;
use serde_json::{Value, json};

/// Longest path of a working directory, in bytes.
const CWD_BYTES_MAX: usize = 4096;
/// Where a session works that another face has made: the protocol wants a path.
const NO_CWD: &str = "/";
/// In the thread's state: where the session works.
const CWD: &str = "cwd";

/// A new session: a thread without a message, stored before it is named.
pub(super) fn new(call: &Call, _: &mut Connection, id: &Value, params: &Params) -> Answer {
    let cwd = cwd(params)?;
    let key = key(params)?;
    let agent = match call.path.query("agent") {
        Some(agent) => agent.to_owned(),
        None => first_agent(call)?,
    };
    let address = session::minted(&call.ports, &call.owner, &agent, key.as_deref());
    let opening = json!({"session": {"state": {CWD: cwd}}, "count": 0, "digest": ""});
    let opening = serde_json::from_value(opening).map_err(|e| Fault::new(INTERNAL, e.to_string()))?;
    let name = session::name(&address);
    import::begin(call.ports, call.agents, address, key, opening).map_err(fault)?;
    Ok(line(&rpc::response(id, json!({"sessionId": name}))))
}

fn first_agent(call: &Call) -> Result<String, Fault> {
    let agents = call.agents.list(call.ports.host).map_err(|why| Fault::new(INTERNAL, why))?;
    let first = agents.into_iter().next();
    first
        .map(|agent| agent.name)
        .ok_or_else(|| Fault::new(INTERNAL, "No agent is configured. Define one in the settings."))
}

/// Tells the whole transcript, then answers, then tells of what is still under way.
pub(super) fn load(call: &Call, connection: &mut Connection, id: &Value, params: &Params) -> Answer {
    found_again(call, connection, id, params, true)
}

/// Answers, then tells of what is still under way.
pub(super) fn resume(call: &Call, connection: &mut Connection, id: &Value, params: &Params) -> Answer {
    found_again(call, connection, id, params, false)
}

fn found_again(call: &Call, connection: &mut Connection, id: &Value, params: &Params, replay: bool) -> Answer {
    let name = text(params, "sessionId")?;
    cwd(params)?;
    let address = session::address(&call.owner, name).ok_or_else(no_session)?;
    let (place, head, inbox) = view::find_thread(&call.ports, &address).map_err(fault)?;
    let mut follow = in_hand(call, &place, &head, &inbox)?;
    // What this connection has prompted is told as the answer of its prompt.
    follow.retain(|id| !connection.answers(id));
    let mut asked = Vec::new();
    if let Some(op) = head.op.as_ref().filter(|op| follow.contains(&op.sub)) {
        let records = crate::run::records(&call.ports, vec![op.sub.clone()]).map_err(fault)?;
        if let Some(record) = records.get(&op.sub) {
            let questions = approval::questions(&call.ports, &op.sub, record).map_err(fault)?;
            asked = questions.into_iter().map(|question| question.call).collect();
        }
    }
    let follows = !follow.is_empty();
    let load = Load::of(&head, follow, asked);
    let after = load.start(replay);
    let (request, client) = (id.clone(), connection.client);
    let told = Told { request, session: name.to_owned(), client, load: Some(load) };
    let feed = Feed { place, what: What::Thread, face: Face::Acp(told.written()) };
    let mut response = Response::stream(Tail { feed, after });
    // Behind a prompt of this connection it would wait for what the prompt may wait for: to be asked.
    if follows && !connection.is_busy(&call.ports, name)? {
        response.header(LANE, name);
    }
    if let Some(before) = connection.tells(name, Some(id).filter(|_| follows)) {
        response.header(DROP, before.to_string());
    }
    Ok(response)
}

/// The submissions of a session that had no outcome when its head was read, the one under way first. What has one by now is
/// told to its end all the same: the transcript is told as the head had it.
fn in_hand(call: &Call, place: &Place, head: &Head, inbox: &Inbox) -> Result<Vec<String>, Fault> {
    let mut ids: Vec<String> = head.op.iter().map(|op| op.sub.clone()).collect();
    let end = inbox.next.min(head.pos.saturating_add(FOLLOWED_MAX as u64));
    for (_, entry) in crate::run::entries(&call.ports, place, head.pos, end).map_err(fault)? {
        if let Entry::Submit(id) = entry
            && !ids.contains(&id)
        {
            ids.push(id);
        }
    }
    ids.truncate(FOLLOWED_MAX);
    Ok(ids)
}

/// A page of sessions.
pub(super) fn list(call: &Call, _: &mut Connection, id: &Value, params: &Params) -> Answer {
    let cursor = optional(params, "cursor")?;
    let wanted = optional(params, "cwd")?;
    if !view::is_cursor(&call.ports, cursor).map_err(fault)? {
        return Err(Fault::new(INVALID_PARAMS, "`cursor` is none that was given. Begin again without one."));
    }
    let (heads, next) = view::heads(&call.ports, &call.owner, cursor).map_err(fault)?;
    let cwd_of = |head: &Head| head.state.get(CWD).and_then(Value::as_str).unwrap_or(NO_CWD).to_owned();
    let sessions: Vec<Value> = heads
        .iter()
        .map(|(head, _)| (session::name(&head.address), cwd_of(head)))
        .filter(|(_, cwd)| wanted.is_none_or(|wanted| wanted == cwd))
        .map(|(name, cwd)| json!({"sessionId": name, "cwd": cwd}))
        .collect();
    let mut page = json!({"sessions": sessions});
    if let Some(next) = next {
        page["nextCursor"] = json!(next);
    }
    Ok(line(&rpc::response(id, page)))
}

/// Ends what a session is busy with. The session itself stays.
pub(super) fn close(call: &Call, connection: &mut Connection, id: &Value, params: &Params) -> Answer {
    let (ended, failed) = prompt::end(call, connection, text(params, "sessionId")?)?;
    let mut response = match failed {
        None => line(&rpc::response(id, json!({}))),
        Some(fault) => line(&fault.response(id)),
    };
    response.work = ended.work;
    Ok(response)
}

/// Deletes a session; one that is not there is as good as deleted.
pub(super) fn delete(call: &Call, _: &mut Connection, id: &Value, params: &Params) -> Answer {
    let name = text(params, "sessionId")?;
    let mut response = line(&rpc::response(id, json!({})));
    let Some(address) = session::address(&call.owner, name) else { return Ok(response) };
    match deletion::close(call.ports, &address).map_err(fault) {
        Ok(place) => {
            response.work.push(Work::cancel(&place));
            Ok(response)
        }
        Err(fault) if fault.code == super::NOT_FOUND => Ok(response),
        Err(fault) => Err(fault),
    }
}

/// The working directory: kept for the agent to see, and opened by nobody.
fn cwd(params: &Params) -> Result<&str, Fault> {
    let cwd = text(params, "cwd")?;
    let bytes = cwd.as_bytes();
    let drive = matches!(bytes, [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    if !(cwd.starts_with('/') || cwd.starts_with("\\\\") || drive) {
        return Err(Fault::new(INVALID_PARAMS, "`cwd` is no absolute path."));
    }
    if cwd.len() > CWD_BYTES_MAX {
        return Err(Fault::new(INVALID_PARAMS, format!("`cwd` is longer than {CWD_BYTES_MAX} bytes.")));
    }
    Ok(cwd)
}

fn optional<'a>(params: &'a Params, name: &str) -> Result<Option<&'a str>, Fault> {
    match params.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Fault::new(INVALID_PARAMS, format!("`{name}` is no text."))),
    }
}
