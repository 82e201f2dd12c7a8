//! A client that says exactly what it is told, also what no decent one would.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Nothing in these tests takes so long unless it is broken.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The token of all servers here.
pub const TOKEN: &str = "a-token-of-the-tests-4711";

/// Waits, but not for ever.
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Asks again and again until there is an answer.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looks = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(what, looks).await
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{} {}", self.status, String::from_utf8_lossy(&self.body)))
    }
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: Option<u64>,
    pub kind: String,
    pub data: Value,
}

/// A connection.
pub struct Client {
    io: BufReader<TcpStream>,
    host: String,
    /// What was taken from a chunked body and not read yet.
    text: String,
}

impl Client {
    pub async fn open(addr: SocketAddr) -> Self {
        Self::over(soon("a connection", TcpStream::connect(addr)).await.expect("it listens"))
    }

    pub fn over(stream: TcpStream) -> Self {
        let host = stream.peer_addr().expect("connected").to_string();
        Self { io: BufReader::new(stream), host, text: String::new() }
    }

    /// Bytes as they are. False: the other side has closed.
    pub async fn raw(&mut self, bytes: &[u8]) -> bool {
        soon("room to write", self.io.get_mut().write_all(bytes)).await.is_ok()
    }

    /// A request; `extra` are whole header lines. False: the other side has closed before it was sent.
    pub async fn send(&mut self, line: &str, extra: &[&str], body: &[u8]) -> bool {
        let mut head = format!("{line} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n", self.host);
        for header in extra {
            head.push_str(&format!("{header}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-length: {}\r\ncontent-type: application/json\r\n", body.len()));
        }
        head.push_str("\r\n");
        self.raw(&[head.as_bytes(), body].concat()).await
    }

    /// Status and headers; `None`: closed.
    pub async fn head(&mut self) -> Option<Answer> {
        let status = self.line().await?;
        let status = status.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{status:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            match line.split_once(": ") {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
                None if line.is_empty() => return Some(Answer { status, headers, body: Vec::new() }),
                None => panic!("{line:?} is no header"),
            }
        }
    }

    /// A whole answer; `None`: closed before it was whole.
    pub async fn answer(&mut self) -> Option<Answer> {
        let mut answer = self.head().await?;
        if answer.status == 100 {
            answer = self.head().await?;
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await {
                if chunk.is_empty() {
                    return Some(answer);
                }
                answer.body.extend(chunk);
            }
            return None;
        }
        let length = answer.header("content-length").and_then(|l| l.parse().ok()).unwrap_or(0);
        answer.body = vec![0; length];
        soon("a body", self.io.read_exact(&mut answer.body)).await.ok()?;
        Some(answer)
    }

    /// A request and its answer.
    pub async fn ask(&mut self, line: &str, extra: &[&str], body: &[u8]) -> Answer {
        self.send(line, extra, body).await;
        self.answer().await.unwrap_or_else(|| panic!("no answer to {line}"))
    }

    /// The next event of a stream; comments are passed over. `None`: the stream has ended.
    pub async fn event(&mut self) -> Option<Event> {
        // Comments alone may come for ever.
        soon("an event", self.next_event()).await
    }

    /// The first event of an answer that must be a stream.
    pub async fn event_after_head(&mut self) -> Event {
        let head = self.head().await.expect("an answer");
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        self.event().await.expect("an event")
    }

    async fn next_event(&mut self) -> Option<Event> {
        loop {
            let block = self.block().await?;
            let field = |name: &str| {
                let lines = block.lines().filter_map(|l| l.strip_prefix(name)).collect::<Vec<_>>();
                (!lines.is_empty()).then(|| lines.join("\n"))
            };
            let Some(data) = field("data: ") else { continue };
            return Some(Event {
                id: field("id: ").map(|id| id.parse().expect("a number")),
                kind: field("event: ").unwrap_or_default(),
                data: serde_json::from_str(&data).expect("JSON"),
            });
        }
    }

    /// What stands before the next empty line of a stream, comments included.
    pub async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block = self.text[..end].to_owned();
                self.text.drain(..end + 2);
                return Some(block);
            }
            let chunk = self.chunk().await?;
            if chunk.is_empty() {
                return None;
            }
            // The tests' own streams have no characters beyond ASCII that a chunk could cut.
            self.text.push_str(&String::from_utf8(chunk).expect("UTF-8"));
        }
    }

    /// A chunk; an empty one is the end of the body, `None` a connection that was cut.
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.line().await?;
        let mut chunk = vec![0; usize::from_str_radix(&size, 16).expect("a chunk's size") + 2];
        soon("a chunk", self.io.read_exact(&mut chunk)).await.ok()?;
        chunk.truncate(chunk.len() - 2);
        Some(chunk)
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match soon("a line", self.io.read_until(b'\n', &mut line)).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(String::from_utf8(line).expect("UTF-8").trim_end().to_owned()),
        }
    }

    /// Waits until the other side closes; gives what it said before.
    pub async fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        // Cut off or ended: both are an end.
        let _ = soon("the end", self.io.read_to_end(&mut all)).await;
        all
    }
}

/// One request on a connection of its own.
pub async fn ask(addr: SocketAddr, line: &str, extra: &[&str], body: &[u8]) -> Answer {
    Client::open(addr).await.ask(line, extra, body).await
}

/// Submits a message; gives the answer.
pub async fn submit(addr: SocketAddr, thread: &str, key: &str, message: &str, extra: &[&str]) -> Answer {
    let key = format!("idempotency-key: {key}");
    let extra = [&[key.as_str()], extra].concat();
    let body = serde_json::json!({"message": message}).to_string();
    ask(addr, &format!("POST /v1/agents/helper/threads/{thread}/submissions"), &extra, body.as_bytes()).await
}

/// Opens a stream and checks that it is one.
pub async fn stream(addr: SocketAddr, thread: &str, query: &str, extra: &[&str]) -> Client {
    let mut client = Client::open(addr).await;
    client.send(&format!("GET /v1/agents/helper/threads/{thread}/stream{query}"), extra, b"").await;
    let head = client.head().await.expect("an answer");
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    client
}
