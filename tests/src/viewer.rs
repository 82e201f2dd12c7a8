//! A viewer of a thread: asks for a stream, and reads its frames as a host does for whoever listens.

use host_sim::data::{Body, Request, Tail};
use host_sim::error::HostError;
use host_sim::host::Host;
use serde_json::{Value, json};

use crate::World;

/// A frame: its number, and its event.
pub type Frame = (u64, Value);

/// What a viewer has seen, and where it goes on.
pub struct Viewer {
    /// Its stream, after the last frame.
    pub tail: Tail,
    /// All frames so far.
    pub frames: Vec<Frame>,
    /// Nothing will follow.
    pub ended: bool,
}

impl Viewer {
    /// Reads all that is there now.
    pub async fn look(&mut self, host: &Host) -> Result<(), HostError> {
        loop {
            let page = host.follow(&self.tail.feed, self.tail.after).await?;
            let more = page.next > self.tail.after;
            for frame in &page.frames {
                assert!(frame.number >= self.tail.after, "frame {} came after {}", frame.number, self.tail.after);
                self.frames.push((frame.number, serde_json::from_str(&frame.event).expect("JSON")));
            }
            self.ended |= page.end;
            self.tail.after = self.tail.after.max(page.next);
            if !more || page.end {
                return Ok(());
            }
        }
    }

    /// The numbers so far.
    pub fn numbers(&self) -> Vec<u64> {
        self.frames.iter().map(|(n, _)| *n).collect()
    }

    /// The events of a type.
    pub fn of(&self, kind: &str) -> Vec<&Value> {
        self.frames.iter().map(|(_, event)| event).filter(|event| event["type"] == kind).collect()
    }

    /// The text of an answer as its pieces grow it: each piece says where it begins.
    pub fn grown(&self, number: u64, attempt: u64) -> String {
        let mut text = String::new();
        for piece in self.of("text").into_iter().filter(|p| p["number"] == number && p["attempt"] == attempt) {
            text.truncate(piece["offset"].as_u64().expect("an offset") as usize);
            text.push_str(piece["text"].as_str().expect("a text"));
        }
        text
    }
}

impl World {
    /// A viewer of a stream of a thread; `query` as in `?after=0`.
    pub async fn viewer(&self, thread: &str, query: &str) -> Viewer {
        let response = self.send(Request::get(self.route(thread, &format!("stream{query}")))).await;
        let text = response.text().into_owned();
        let Body::Stream(tail) = response.body else { panic!("{}: {text}", response.status) };
        assert_eq!(response.status, 200);
        Viewer { tail, frames: Vec::new(), ended: false }
    }

    /// All that the stream of a thread shows from its beginning.
    pub async fn journal(&self, thread: &str) -> Viewer {
        self.seen(thread, "?after=0").await
    }

    /// All that a stream of a thread shows now.
    pub async fn seen(&self, thread: &str, query: &str) -> Viewer {
        let mut viewer = self.viewer(thread, query).await;
        viewer.look(&self.host).await.expect("the stream is there");
        viewer
    }

    /// All that the pages of a thread's journal show, so many events each.
    pub async fn event_pages(&self, thread: &str, limit: u64) -> Vec<Frame> {
        let (mut frames, mut after) = (Vec::new(), 0);
        loop {
            let path = self.route(thread, &format!("events?after={after}&limit={limit}"));
            let response = self.send(Request::get(path)).await;
            assert_eq!(response.status, 200, "{}", response.text());
            let page = response.json().expect("JSON");
            let events = page["events"].as_array().expect("events");
            assert!(events.len() <= limit as usize, "{page}");
            frames.extend(events.iter().map(|e| (e["number"].as_u64().expect("a number"), e["event"].clone())));
            match page["next"].as_u64() {
                Some(next) => after = next,
                None => return frames,
            }
        }
    }

    /// The path of a route of a thread.
    pub fn route(&self, thread: &str, route: &str) -> String {
        format!("/v1/agents/{}/threads/{thread}/{route}", self.agent)
    }

    /// The last number of a thread's journal, as the thread itself says.
    pub async fn last_number(&self, thread: &str) -> u64 {
        let path = format!("/v1/agents/{}/threads/{thread}", self.agent);
        let view = self.send(Request::get(path)).await.json().expect("JSON");
        view["journal"].as_u64().unwrap_or_else(|| panic!("no journal: {view}"))
    }
}

/// The gap that stands for numbers, and how many messages there were at the next event.
pub fn gap(from: u64, to: u64, messages: u64) -> Frame {
    (to, json!({"type": "gap", "from": from, "to": to, "messages": messages}))
}
