//! Lines for stderr, which must not hold anybody up: a terminal that is stopped, or a pipe that nobody reads, would
//! otherwise stop every turn that has something to log.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait for a slow reader; more are lost.
const LINES_MAX: usize = 4096;
/// How long the end waits for lines that are still to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Where lines are handed over. Clones write to the same place.
#[derive(Clone)]
pub(super) struct Stderr {
    lines: SyncSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

impl Stderr {
    /// Stderr, written by a thread of its own.
    pub(super) fn new() -> io::Result<Self> {
        Self::over(io::stderr())
    }

    fn over(mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, written) = mpsc::sync_channel::<Vec<u8>>(LINES_MAX);
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = waiting.clone();
        thread::Builder::new().name("writ-log".into()).spawn(move || {
            for line in written {
                // A stderr that has gone is no reason to stop.
                let _ = out.write_all(&line);
                left.fetch_sub(1, Ordering::SeqCst);
            }
        })?;
        Ok(Self { lines, waiting })
    }

    /// Waits until what was handed over is written, for a second at most.
    pub(super) async fn flush(&self) {
        let end = Instant::now() + LAST_LINES;
        while self.waiting.load(Ordering::SeqCst) > 0 && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.lines.try_send(line.to_vec()) {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Stderr {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that takes nothing until it is let.
    struct Stuck(mpsc::Receiver<()>, Arc<AtomicUsize>);

    impl Write for Stuck {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.fetch_add(1, Ordering::SeqCst);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_holds_nobody_up() {
        let (release, stuck) = mpsc::channel();
        let read = Arc::new(AtomicUsize::new(0));
        let mut stderr = Stderr::over(Stuck(stuck, read.clone())).unwrap();
        for _ in 0..3 * LINES_MAX {
            stderr.write_all(b"a line\n").unwrap();
        }
        assert_eq!(read.load(Ordering::SeqCst), 0);
        // What fitted is written once somebody reads; one line was under way already, or not.
        drop(release);
        while stderr.waiting.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        assert!((LINES_MAX..=LINES_MAX + 1).contains(&read.load(Ordering::SeqCst)));
    }
}
