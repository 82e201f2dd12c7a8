//! A connection that doesn't wait for ever for a reader who takes nothing.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Fails a write that could not go on for a while. With it the connection ends, and what it held is given back.
pub(super) struct Patience<S> {
    io: S,
    stall: Duration,
    /// Set while a write waits.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Patience<S> {
    /// Waits so long at most for the reader to take something.
    pub(super) fn new(io: S, stall: Duration) -> Self {
        Self { io, stall, until: None }
    }

    fn patient<T>(&mut self, context: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.until = None;
            return poll;
        }
        let stall = self.stall;
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + stall)));
        match until.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the reader takes nothing"))),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patience<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patience<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write(context, bytes);
        self.patient(context, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        self.patient(context, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_given_up() {
        let (mut near, far) = tokio::io::duplex(8);
        let mut far = Patience::new(far, Duration::from_millis(50));
        far.write_all(b"12345678").await.unwrap();
        let error = far.write_all(b"9").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // One that takes a little at a time is not.
        let (slow, far) = tokio::io::duplex(8);
        let mut far = Patience::new(far, Duration::from_secs(60));
        let write = tokio::spawn(async move { far.write_all(&[7; 64]).await });
        let mut slow = slow;
        let mut all = Vec::new();
        slow.read_to_end(&mut all).await.unwrap();
        assert!(write.await.unwrap().is_ok() && all.len() == 64);
        near.read_exact(&mut [0; 8]).await.unwrap();
    }
}
