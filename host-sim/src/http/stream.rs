//! A stream: the frames of a feed as they come, until it ends, its reader leaves, or the server stops.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use super::server::{Phase, Shared};
use super::{leave, sse};
use crate::data::{RuntimeError, Tail};
use crate::error::HostError;

/// Looks that fail in a row before a stream gives up.
const FAILURES_MAX: u32 = 5;
/// Between two such looks.
const FAILURE_WAIT: Duration = Duration::from_secs(1);

/// Starts a stream; gives its body. It holds one page of frames at most, and waits for its reader with the next. When the
/// reader leaves before the end, `left` says what is to be done.
pub(super) fn start(
    shared: &Arc<Shared>,
    tail: Tail,
    permit: OwnedSemaphorePermit,
    left: Option<leave::Watch>,
) -> sse::Pieces {
    let (pieces, body) = mpsc::channel(1);
    let shared = shared.clone();
    tokio::spawn(async move {
        let _permit = permit;
        let _open = shared.options.metrics.as_ref().map(|telemetry| telemetry.metrics().stream());
        match tell(&shared, tail, pieces).await {
            Ok(()) => drop(left.map(leave::Watch::over)),
            // There is nobody to tell.
            Err(Left) => drop(left),
        }
    });
    sse::Pieces(body)
}

/// The reader has left.
struct Left;

async fn tell(shared: &Shared, tail: Tail, pieces: mpsc::Sender<Bytes>) -> Result<(), Left> {
    let send = async |piece: Bytes| pieces.send(piece).await.map_err(|_| Left);
    let mut news = shared.hub.watch(&tail.thread).await;
    let mut phase = shared.phase.subscribe();
    let (mut after, mut failures, mut is_bare) = (tail.after, 0, false);
    let mut heartbeat = Instant::now() + shared.options.heartbeat;
    loop {
        news.look();
        // Looked at before the last page: what was told until then is told here, too.
        let ending = *phase.borrow_and_update() == Phase::Ending;
        let look_again = match shared.host.follow(&tail.feed, after).await {
            Ok(page) => {
                failures = 0;
                let more = page.next > after;
                after = after.max(page.next);
                for frame in page.frames {
                    is_bare = frame.name.is_none();
                    send(sse::event(&frame)).await?;
                    heartbeat = Instant::now() + shared.options.heartbeat;
                }
                if page.end {
                    return Ok(());
                }
                if more {
                    continue;
                }
                heartbeat
            }
            Err(HostError::Runtime(RuntimeError::NotFound)) => return send(sse::end("gone", is_bare)).await,
            Err(HostError::Closed) => return send(sse::end("drain", is_bare)).await,
            Err(error) => {
                failures += 1;
                shared.host.warn(format!("a stream of {} could not be read: {error}", tail.thread));
                if failures == FAILURES_MAX {
                    return send(sse::end("error", is_bare)).await;
                }
                heartbeat.min(Instant::now() + FAILURE_WAIT)
            }
        };
        if ending {
            return send(sse::end("drain", is_bare)).await;
        }
        tokio::select! {
            () = news.changed(), if failures == 0 => {}
            () = tokio::time::sleep_until(look_again) => {}
            _ = phase.changed() => {}
            () = pieces.closed() => return Err(Left),
        }
        if Instant::now() >= heartbeat {
            send(sse::HEARTBEAT).await?;
            heartbeat = Instant::now() + shared.options.heartbeat;
        }
    }
}
