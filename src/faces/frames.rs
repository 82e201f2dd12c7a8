//! The frames of a feed, as its face tells them.

use super::{a2a, acp, mcp};
use crate::error::Refusal;
use crate::follow::{Face, Feed, Page, follow};
use crate::ports::Ports;
use crate::prelude::*;
use serde_json::Value;

/// A frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Its number: never falls within a feed.
    pub number: u64,
    /// The event's name, where a transport can tell one; without it the frame is told bare.
    pub name: Option<String>,
    /// What it says.
    pub event: Value,
}

/// A page of frames.
#[derive(Debug, Default)]
pub struct Frames {
    /// At most 1,024.
    pub frames: Vec<Frame>,
    /// The number to go on after.
    pub next: u64,
    /// Nothing will follow.
    pub end: bool,
}

/// A page of a feed after a number.
pub fn frames(ports: &Ports, feed: &Feed, after: u64) -> Result<Frames, Refusal> {
    match &feed.face {
        Face::Thread => Ok(thread(follow(ports, feed, after)?)),
        // Their feeds count otherwise than the journal does.
        Face::A2a(request) => a2a::frames(ports, feed, request, after),
        Face::Acp(request) => acp::frames(ports, feed, request, after),
        Face::Mcp(request) => mcp::frames(ports, feed, request, after),
    }
}

fn thread(page: Page) -> Frames {
    let frame = |(number, event): (u64, Value)| {
        let name = event["type"].as_str().unwrap_or_default().to_owned();
        Frame { number, name: Some(name), event }
    };
    Frames { frames: page.frames.into_iter().map(frame).collect(), next: page.next, end: page.end }
}
