//! The standard streams as a transport: JSON-RPC, one message a line, for clients that start this process themselves.
//!
//! It knows no protocol. Each line of the input is a request to one path of the component; what is answered goes out as
//! lines, and nothing else does. Lines are handed over one after the other, so what the component answers to one it has
//! decided before it sees the next; waits and streams go on beside that (docs/stdio.md).

mod answer;
mod lanes;
mod lines;
mod message;
mod open;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use self::answer::Answers;
use self::lines::Line;
use self::message::Envelope;
use crate::data::{Body, Request, Response};
use crate::error::HostError;
use crate::host::Host;

/// Largest line that is handed to the component, in bytes: what `wit/runtime.wit` lets a request's body be.
pub const LINE_BYTES_MAX: usize = 262_144;
/// Largest connection state, in bytes.
const CONNECTION_BYTES_MAX: usize = 64 << 10;
/// Lines that wait to be written; then what makes them waits.
const LINES_WAITING_MAX: usize = 64;
/// How long the last lines may take to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The state of a connection, which the component keeps with its client: it comes with an answer and goes with the next
/// request.
const CONNECTION: &str = "writ-connection";
/// In an answer: the id, as JSON, of a request whose answer this one takes the place of.
const DROP: &str = "writ-drop";

/// In an answer: the id, as JSON, of a request whose answer its caller does not want any more.
const LEFT: &str = "writ-left";

/// What a server on the standard streams is given.
#[derive(Clone, Debug)]
pub struct StdioOptions {
    /// The path that each line is posted to.
    pub path: String,
    /// Whose requests they are, `realm/subject`.
    pub principal: String,
    /// Answers that may be under way at the same time; more are refused.
    pub answers: usize,
    /// After how long a stream is looked at again without having been woken.
    pub look_again: Duration,
    /// How long answers and runs may go on after the input has ended.
    pub drain: Duration,
}

impl StdioOptions {
    /// For a path, as a principal; the rest by default.
    pub fn new(path: impl Into<String>, principal: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            principal: principal.into(),
            answers: 256,
            look_again: Duration::from_secs(15),
            drain: Duration::ZERO,
        }
    }
}

/// Serves one client, until its input ends or it reads the output no more. Runs that are not done by then are still
/// under way: shut the host down next; what is unfinished goes on at its next start.
///
/// # Errors
/// The input can't be read.
pub async fn serve<R, W>(host: Host, options: StdioOptions, input: R, output: W) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (out, written) = mpsc::channel(LINES_WAITING_MAX);
    let writer = tokio::spawn(lines::write(output, written));
    let answers = Arc::new(Answers::new(host.clone(), out.clone(), &options));
    let mut connection = Connection { answers: answers.clone(), options, state: None };
    let drain = connection.options.drain;
    let (reader, mut lines) = lines::ahead(input);
    let serving = async {
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                () = out.closed() => break Ok(()),
            };
            match line {
                None => break Ok(()),
                Some(Ok(line)) => match connection.take(line).await {
                    Ok(()) => {}
                    Err(Ended) => break Ok(()),
                },
                Some(Err(error)) => break Err(error),
            }
        }
    };
    let reading = async {
        reader.read().await;
        unread(&out).await;
    };
    let ended = tokio::select! {
        ended = serving => ended,
        () = reading => Ok(()),
    };
    if !drain.is_zero() && ended.is_ok() {
        let quiet = async {
            answers.done().await;
            host.settled().await;
        };
        let _ = tokio::time::timeout(drain, quiet).await;
    }
    answers.stop();
    drop((out, connection, answers));
    let _ = tokio::time::timeout(LAST_LINES, writer).await;
    ended
}

/// Waits until nobody has read the output for a while: once the input has ended, there is nobody any more.
async fn unread(out: &mpsc::Sender<String>) {
    let mut since = tokio::time::Instant::now();
    while since.elapsed() < LAST_LINES {
        tokio::time::sleep(LAST_LINES / 20).await;
        if out.capacity() > 0 {
            since = tokio::time::Instant::now();
        }
    }
}

/// The client has gone, or the host has stopped.
struct Ended;

/// One client.
struct Connection {
    answers: Arc<Answers>,
    options: StdioOptions,
    state: Option<String>,
}

impl Connection {
    async fn take(&mut self, line: Line) -> Result<(), Ended> {
        let line = match line {
            Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => return Ok(()),
            Line::Whole(line) => line,
            Line::TooLong => return self.say(&Envelope::default().too_long()).await,
        };
        let envelope = Envelope::read(&line);
        if line.len() > LINE_BYTES_MAX {
            return self.say(&envelope.too_long()).await;
        }
        let request = self.request("POST", self.options.path.clone(), line);
        let headers = request.headers.clone();
        let response = match self.answers.host().respond(request).await {
            Ok(response) => response,
            Err(HostError::Closed) => return Err(Ended),
            Err(error) => {
                self.answers.host().warn(format!("a line could not be answered: {error}"));
                return match envelope.wants_answer() {
                    true => self.say(&envelope.broken(&error)).await,
                    false => Ok(()),
                };
            }
        };
        if let Some(state) = response.header(CONNECTION) {
            self.keep(state.to_owned());
        }
        if let Some(id) = response.header(LEFT) {
            self.left(id).await?;
        }
        if let Some(id) = response.header(DROP) {
            self.replaced(id).await?;
        }
        self.answer(&envelope, headers, response).await
    }

    async fn answer(
        &self,
        envelope: &Envelope,
        headers: Vec<(String, String)>,
        response: Response,
    ) -> Result<(), Ended> {
        let later = response.wait.is_some() || matches!(response.body, Body::Stream(_));
        if !later {
            for line in envelope.lines(&response) {
                self.say(&line).await?;
            }
            return Ok(());
        }
        let asker = Request { headers, principal: Some(self.options.principal.clone()), ..Request::default() };
        let left = response.left.clone();
        if self.answers.start(envelope.clone(), asker, response) {
            return Ok(());
        }
        // Nobody will see its answer.
        if let Some(path) = left {
            self.give_up(path).await?;
        }
        self.say(&envelope.busy(self.options.answers)).await
    }

    /// The caller does not want the answer of an id any more.
    async fn left(&self, id: &str) -> Result<(), Ended> {
        match self.answers.drop_answer(id).and_then(|dropped| dropped.left) {
            Some(path) => self.give_up(path).await,
            None => Ok(()),
        }
    }

    /// Tells the component what it wanted to be told when the caller leaves.
    async fn give_up(&self, path: String) -> Result<(), Ended> {
        let host = self.answers.host();
        match host.respond(self.request("POST", path, Vec::new())).await {
            Err(HostError::Closed) => return Err(Ended),
            Err(error) => host.warn(format!("a cancelled request could not be told so: {error}")),
            Ok(told) if told.status >= 500 => {
                host.warn(format!("a cancelled request could not be told so: it answered {}", told.status));
            }
            Ok(_) => {}
        }
        Ok(())
    }

    /// The component has put another answer in the place of that of an id.
    async fn replaced(&self, id: &str) -> Result<(), Ended> {
        match self.answers.drop_answer(id) {
            Some(dropped) if !dropped.answered => self.say(&Envelope::of(id).replaced()).await,
            _ => Ok(()),
        }
    }

    fn request(&self, method: &str, path: String, body: Vec<u8>) -> Request {
        let request = Request { body, ..Request::new(method, path) }
            .principal(self.options.principal.clone())
            .header("content-type", "application/json")
            .header("writ-transport", "stdio");
        match &self.state {
            Some(state) => request.header(CONNECTION, state.clone()),
            None => request,
        }
    }

    fn keep(&mut self, state: String) {
        if state.len() <= CONNECTION_BYTES_MAX {
            self.state = Some(state);
            return;
        }
        let size = state.len();
        self.answers
            .host()
            .warn(format!("a connection state of {size} bytes was not kept: {CONNECTION_BYTES_MAX} fit"));
    }

    async fn say(&self, line: &str) -> Result<(), Ended> {
        self.answers.say(line).await
    }
}
