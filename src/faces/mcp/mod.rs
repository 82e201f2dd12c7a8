//! MCP.

use super::frames::Frames;
use crate::error::Refusal;
use crate::follow::{Feed, Page};
use crate::ports::Ports;

/// Frames of a feed of this face.
pub(super) fn frames(_: &Ports, _: &Feed, _: &str, _: u64, page: Page) -> Result<Frames, Refusal> {
    Ok(Frames { next: page.next, end: page.end, ..Frames::default() })
}
