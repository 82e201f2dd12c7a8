//! Sessions, as MCP, A2A and ACP name them: `agent/thread`, one text for one thread on every wire.

use crate::id::{self, Address, is_name};
use crate::ports::Ports;
use crate::prelude::*;

/// The name of a thread on the wires that call it a session or a context.
pub fn name(address: &Address) -> String {
    format!("{}/{}", address.agent, address.thread)
}

/// The thread of an owner's that a session names; `None` for what is no name of a session.
pub fn address(owner: &str, session: &str) -> Option<Address> {
    let (agent, thread) = session.split_once('/')?;
    (is_name(agent) && is_name(thread)).then(|| Address {
        owner: owner.to_owned(),
        agent: agent.to_owned(),
        thread: thread.to_owned(),
    })
}

/// A new thread of an agent. With a key its name follows from owner, agent and key, so that a retry comes to the same
/// place (trap 8); without one it is random.
pub fn minted(ports: &Ports, owner: &str, agent: &str, key: Option<&str>) -> Address {
    let name = match key {
        Some(key) => id::base32(&id::digest("writ/session/1", &[owner, agent, key])),
        None => id::base32(&ports.clock.entropy(17)),
    };
    Address { owner: owner.to_owned(), agent: agent.to_owned(), thread: format!("s-{name}") }
}
