//! Lines: read one at a time within a bound, written one at a time and whole.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// So much of a line is kept in any case: its answer has to name its id. In bytes.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// A line.
pub(super) enum Line {
    /// Without its end.
    Whole(Vec<u8>),
    /// It was longer than what is kept, and is gone.
    TooLong,
}

/// The lines of an input.
pub(super) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    too_long: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::new(input), line: Vec::new(), too_long: false }
    }

    /// The next line, `None` at the end. The last one may lack its end. Cancel-safe.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let read = self.input.fill_buf().await?;
            if read.is_empty() {
                return Ok(Some(self.take()).filter(|line| !matches!(line, Line::Whole(line) if line.is_empty())));
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let piece = &read[..end.unwrap_or(read.len())];
            match self.line.len() + piece.len() {
                all if all <= KEPT_BYTES_MAX && !self.too_long => self.line.extend_from_slice(piece),
                _ => {
                    self.too_long = true;
                    self.line = Vec::new();
                }
            }
            let used = piece.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(self.take()));
            }
        }
    }

    fn take(&mut self) -> Line {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.too_long) { Line::TooLong } else { Line::Whole(line) }
    }
}

/// Lines that were read and wait to be looked at: so many bytes of them, about.
const AHEAD_BYTES_MAX: usize = KEPT_BYTES_MAX;

/// Reads lines ahead of who looks at them, so that the end of the input is seen while one of them is stuck.
pub(super) fn ahead<R: AsyncRead + Unpin>(input: R) -> (Reader<R>, Read) {
    let (send, receive) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(AHEAD_BYTES_MAX));
    (Reader { lines: Lines::new(input), room, send }, Read(receive))
}

type Kept = (io::Result<Line>, OwnedSemaphorePermit);

/// The reading end.
pub(super) struct Reader<R> {
    lines: Lines<R>,
    room: Arc<Semaphore>,
    send: mpsc::UnboundedSender<Kept>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// Reads to the end of the input.
    pub(super) async fn read(mut self) {
        loop {
            let line = match self.lines.next().await {
                Ok(None) => return,
                Ok(Some(line)) => Ok(line),
                Err(error) => Err(error),
            };
            let size = match &line {
                Ok(Line::Whole(line)) => line.len().clamp(1, AHEAD_BYTES_MAX),
                _ => 1,
            };
            let is_last = line.is_err();
            // Nobody closes it; no line is larger than what fits a `u32`.
            let Ok(room) = self.room.clone().acquire_many_owned(size as u32).await else { return };
            if self.send.send((line, room)).is_err() || is_last {
                return;
            }
        }
    }
}

/// What was read.
pub(super) struct Read(mpsc::UnboundedReceiver<Kept>);

impl Read {
    /// The next line, `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<io::Result<Line>> {
        self.0.recv().await.map(|(line, _room)| line)
    }
}

/// Writes lines until nobody has any, or nobody reads them.
pub(super) async fn write(mut output: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<String>) {
    while let Some(line) = lines.recv().await {
        let mut bytes = line.into_bytes();
        // In JSON a line's end stands between its parts only, where a space does as well.
        bytes.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        bytes.push(b'\n');
        if output.write_all(&bytes).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_whole_or_told_to_be_too_long() {
        let long = vec![b'x'; KEPT_BYTES_MAX + 1];
        let input = [b"one\r\n\n", long.as_slice(), b"\ntwo\nthe last"].concat();
        let mut lines = Lines::new(input.as_slice());
        let mut seen = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            seen.push(match line {
                Line::Whole(line) => String::from_utf8(line).unwrap(),
                Line::TooLong => "too long".into(),
            });
        }
        assert_eq!(seen, ["one\r", "", "too long", "two", "the last"]);
    }

    #[tokio::test]
    async fn what_is_written_is_a_line_whatever_it_holds() {
        let (send, receive) = mpsc::channel(4);
        let (near, far) = tokio::io::duplex(64);
        let writer = tokio::spawn(write(far, receive));
        for line in ["{\n \"a\": 1\r\n}", "{}"] {
            send.send(line.to_owned()).await.unwrap();
        }
        drop(send);
        writer.await.unwrap();
        let mut lines = Lines::new(near);
        for expected in ["{  \"a\": 1  }", "{}"] {
            let Some(Line::Whole(line)) = lines.next().await.unwrap() else { panic!("a line") };
            assert_eq!(line, expected.as_bytes());
        }
    }
}
