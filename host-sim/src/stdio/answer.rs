//! Answers that take their time: streams, and waits. Each is a task of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use super::lanes::Lanes;
use super::message::Envelope;
use super::open::{Dropped, Open};
use super::{Ended, StdioOptions};
use crate::data::{Body, Request, Response, RuntimeError, Tail, Wait};
use crate::error::HostError;
use crate::host::Host;
use crate::hub::Hub;

/// Looks that fail in a row before an answer gives up.
const FAILURES_MAX: u32 = 5;
/// Between two such looks.
const FAILURE_WAIT: Duration = Duration::from_secs(1);

/// Answers that name the same lane are told one after the other, in the order of their requests.
const LANE: &str = "writ-lane";

/// What all answers of a connection share.
pub(super) struct Answers {
    host: Host,
    hub: Hub,
    out: mpsc::Sender<String>,
    open: Open,
    lanes: Lanes,
    max: usize,
    look_again: Duration,
}

impl Answers {
    pub(super) fn new(host: Host, out: mpsc::Sender<String>, options: &StdioOptions) -> Self {
        let hub = Hub::new(&host);
        let (max, look_again) = (options.answers, options.look_again);
        Self { host, hub, out, open: Open::default(), lanes: Lanes::default(), max, look_again }
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Queues a line.
    pub(super) async fn say(&self, line: &str) -> Result<(), Ended> {
        self.out.send(line.to_owned()).await.map_err(|_| Ended)
    }

    /// Starts an answer; false if too many are under way. `asker` has the headers and the principal of its request.
    pub(super) fn start(self: &Arc<Self>, envelope: Envelope, asker: Request, response: Response) -> bool {
        let id = envelope.id().unwrap_or_default();
        let answered = Arc::new(AtomicBool::new(!envelope.wants_answer()));
        let place = self.open.enter(id.clone(), response.left.clone(), self.max, answered.clone());
        let Some(serial) = place else { return false };
        let left = Leave { answers: self.clone(), id: id.clone(), serial };
        let lane = response.header(LANE).map(|name| self.lanes.enter(name));
        let answers = self.clone();
        let task = tokio::spawn(async move {
            let (_left, mut lane) = (left, lane);
            if let Some(lane) = &mut lane {
                lane.clear().await;
            }
            // It fails when nobody reads any more, and then there is nobody to tell.
            let _ = answers.answer(&envelope, asker, response, &answered).await;
        });
        self.open.started(&id, serial, task.abort_handle());
        true
    }

    /// Drops the answer of an id. `None`: there is none under way.
    pub(super) fn drop_answer(&self, id: &str) -> Option<Dropped> {
        self.open.drop_answer(id)
    }

    /// Drops all answers.
    pub(super) fn stop(&self) {
        self.open.stop();
    }

    /// Waits until no answer is under way.
    pub(super) async fn done(&self) {
        self.open.done().await;
    }

    async fn answer(
        &self,
        envelope: &Envelope,
        asker: Request,
        response: Response,
        answered: &AtomicBool,
    ) -> Result<(), Ended> {
        if let Some(wait) = &response.wait {
            let then = self.wait(wait, asker).await;
            for line in envelope.lines(then.as_ref().unwrap_or(&response)) {
                self.say(&line).await?;
            }
            return Ok(());
        }
        match &response.body {
            Body::Stream(tail) => self.stream(envelope, tail, answered).await,
            Body::Bytes(_) => Ok(()),
        }
    }

    /// Waits as the component wishes; the answer of afterwards, or `None` when the time passes first.
    async fn wait(&self, Wait { tail, ms, then }: &Wait, asker: Request) -> Option<Response> {
        let ended = self.follow(tail, None);
        match tokio::time::timeout(Duration::from_millis((*ms).into()), ended).await {
            Ok(Followed::Ended | Followed::Gone) => {
                let request = Request { method: "GET".into(), path: then.clone(), ..asker };
                // What was answered at first stays true.
                self.host.respond(request).await.ok()
            }
            _ => None,
        }
    }

    /// Tells the frames of a feed, a line each, until it ends.
    async fn stream(&self, envelope: &Envelope, tail: &Tail, answered: &AtomicBool) -> Result<(), Ended> {
        match self.follow(tail, Some((envelope, answered))).await {
            Followed::Ended => Ok(()),
            Followed::Left => Err(Ended),
            Followed::Gone | Followed::Failed(_) if answered.load(Ordering::SeqCst) => Ok(()),
            Followed::Gone => self.say(&envelope.gone()).await,
            Followed::Failed(error) => self.say(&envelope.broken(&error)).await,
        }
    }

    /// Follows a feed to its end. Its frames are told if somebody is to see them, and whether the answer was among them.
    async fn follow(&self, tail: &Tail, seen: Option<(&Envelope, &AtomicBool)>) -> Followed {
        let mut news = self.hub.watch(&tail.thread).await;
        let (mut after, mut failures) = (tail.after, 0);
        loop {
            news.look();
            let wait = match self.host.follow(&tail.feed, after).await {
                Ok(page) => {
                    failures = 0;
                    let more = page.next > after;
                    after = after.max(page.next);
                    if let Some((envelope, answered)) = seen {
                        for frame in &page.frames {
                            answered.fetch_or(envelope.is_answered_by(&frame.event), Ordering::SeqCst);
                            if self.say(&frame.event).await.is_err() {
                                return Followed::Left;
                            }
                        }
                    }
                    if page.end {
                        return Followed::Ended;
                    }
                    if more {
                        continue;
                    }
                    self.look_again
                }
                Err(HostError::Runtime(RuntimeError::NotFound)) => return Followed::Gone,
                Err(error) => {
                    failures += 1;
                    self.host.warn(format!("a stream of {} could not be read: {error}", tail.thread));
                    if failures == FAILURES_MAX || matches!(error, HostError::Closed) {
                        return Followed::Failed(error);
                    }
                    FAILURE_WAIT
                }
            };
            tokio::select! {
                () = news.changed(), if failures == 0 => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

/// How following a feed went.
enum Followed {
    /// To its end.
    Ended,
    /// What it was about is gone.
    Gone,
    /// It could not be read any further.
    Failed(HostError),
    /// Nobody reads any more.
    Left,
}

/// Gives its place back, however the task ends.
struct Leave {
    answers: Arc<Answers>,
    id: String,
    serial: u64,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.answers.open.leave(&self.id, self.serial);
    }
}
