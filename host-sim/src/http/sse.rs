//! Server-Sent Events: how a frame is written, and the body that carries them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame as BodyFrame;
use tokio::sync::mpsc;

use crate::data::Frame;

/// A comment: keeps the connection alive, and means nothing.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b": still here\n\n");

/// One frame of a feed: with its name, and its number as the event's id; or bare.
pub(super) fn event(frame: &Frame) -> Bytes {
    match &frame.name {
        Some(name) => written(Some(frame.number), name, &frame.event),
        None => written(None, "", &frame.event),
    }
}

/// The last word of a stream that its feed did not end. It has no id: a reader goes on from the last one that it saw. Among
/// bare frames it would be taken for a message of their protocol, so there it is a comment.
pub(super) fn end(reason: &str, is_bare: bool) -> Bytes {
    match is_bare {
        true => format!(": end, {reason}\n\n").into(),
        false => written(None, "end", &format!(r#"{{"type":"end","reason":"{reason}"}}"#)),
    }
}

fn written(id: Option<u64>, kind: &str, data: &str) -> Bytes {
    let mut text = String::with_capacity(data.len() + kind.len() + 48);
    if let Some(id) = id {
        text.push_str(&format!("id: {id}\n"));
    }
    if !kind.is_empty() && !kind.contains(['\n', '\r', '\0']) {
        text.push_str(&format!("event: {kind}\n"));
    }
    // In JSON a line's end stands between its parts only, and a reader puts the lines together again.
    for line in data.split(['\n', '\r']) {
        text.push_str(&format!("data: {line}\n"));
    }
    text.push('\n');
    text.into()
}

/// A body whose pieces come from elsewhere; it ends with their sender. Dropping it tells the sender.
pub(super) struct Pieces(pub(super) mpsc::Receiver<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|bytes| Ok(BodyFrame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: Option<&str>, event: &str) -> String {
        let frame = Frame { number: 7, name: name.map(Into::into), event: event.into() };
        String::from_utf8(super::event(&frame).to_vec()).unwrap()
    }

    #[test]
    fn a_frame_is_an_event_of_its_name() {
        let event = r#"{"type":"text","text":"x\ny"}"#;
        assert_eq!(text(Some("text"), event), format!("id: 7\nevent: text\ndata: {event}\n\n"));
        assert_eq!(text(None, event), format!("data: {event}\n\n"));
        assert_eq!(end("gone", false), "event: end\ndata: {\"type\":\"end\",\"reason\":\"gone\"}\n\n");
        assert_eq!(end("gone", true), ": end, gone\n\n");
    }

    #[test]
    fn no_event_can_make_another() {
        assert_eq!(text(Some("a\nid: 9"), "{}"), "id: 7\ndata: {}\n\n");
        assert_eq!(
            text(Some("a"), "{\n\n\"type\": \"a\"\r\n}"),
            "id: 7\nevent: a\ndata: {\ndata: \ndata: \"type\": \"a\"\ndata: \ndata: }\n\n"
        );
    }
}
