//! The client of the thread API that every command uses.

use std::time::Duration;

use serde_json::Value;
use serde_json::json;
use tokio::sync::mpsc;

use super::exit;
use super::failure::Failure;
use super::feed::Feed;
use super::names::Key;
use super::names::SubmissionId;
use super::names::Target;
use super::names::Thread;
use super::out::Out;
use super::record::Record;
use super::runtime::Answer;
use super::runtime::Ask;
use super::runtime::Runtime;
use super::spans;

/// Largest body of a request, in bytes.
pub const BODY_BYTES_MAX: usize = 262_144;

/// Most messages that are asked for at once.
pub const PAGE_MESSAGES: u64 = 100;

/// What a lost event costs at most.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How long a command may hang without a word.
const SILENCE: Duration = Duration::from_millis(500);

/// How often a host without work is looked at before a submission counts as stuck: a failed run is tried again later.
const IDLE_LOOKS_MAX: u32 = 5;

/// A runtime, spoken to through its API.
pub struct Session {
    runtime: Box<dyn Runtime>,
}

impl Session {
    /// Over a runtime.
    pub fn new(runtime: Box<dyn Runtime>) -> Self {
        Self { runtime }
    }

    /// The runtime itself.
    pub fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    /// One request; an answer that is no success is a failure.
    pub async fn ask(
        &self,
        method: &'static str,
        path: String,
        key: Option<&Key>,
        body: Option<&Value>,
    ) -> Result<Answer, Failure> {
        let mut headers = Vec::new();
        if body.is_some() {
            headers.push(("content-type".to_string(), "application/json".to_string()));
        }
        if let Some(key) = key {
            headers.push(("idempotency-key".to_string(), key.to_string()));
        }
        let body = body.map(|b| b.to_string().into_bytes()).unwrap_or_default();
        self.send(Ask { method, path, headers, body }).await
    }

    /// As [`Session::ask`], with the request as it is.
    pub async fn send(&self, ask: Ask) -> Result<Answer, Failure> {
        let answer = self.runtime.respond(ask).await?;
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        Err(Failure::of_answer(answer.status, &answer.body))
    }

    /// The JSON of a GET.
    pub async fn get(&self, path: String) -> Result<Value, Failure> {
        self.ask("GET", path, None, None).await?.json()
    }

    /// Submits a message.
    pub async fn submit(&self, thread: &Thread, key: &Key, delivery: &Value) -> Result<Record, Failure> {
        Record::of(self.ask("POST", thread.path("/submissions"), Some(key), Some(delivery)).await?)
    }

    /// A submission as it is now.
    pub async fn record(&self, id: &SubmissionId) -> Result<Record, Failure> {
        Record::of(self.ask("GET", id.path(""), None, None).await?)
    }

    /// Asks a submission to stop, durably.
    pub async fn cancel(&self, id: &SubmissionId) -> Result<Record, Failure> {
        Record::of(self.ask("POST", id.path("/cancel"), None, Some(&json!({}))).await?)
    }

    /// The thread that is meant.
    pub async fn thread_of(&self, target: &Target) -> Result<Thread, Failure> {
        match target {
            Target::Thread(thread) => Ok(thread.clone()),
            Target::Submission(id) => self.record(id).await?.thread(),
        }
    }

    /// The messages of a thread from number `from` on, one page, each as its raw text.
    pub async fn messages(&self, thread: &Thread, from: u64, limit: u64) -> Result<Vec<String>, Failure> {
        let path = thread.path(&format!("/messages?after={from}&limit={limit}"));
        let answer = self.ask("GET", path, None, None).await?;
        answer.json()?;
        let text = std::str::from_utf8(&answer.body).unwrap_or_default();
        let Some(messages) = spans::field(text, "messages").and_then(spans::elements) else {
            return Err(Failure::internal("answer", "the component's page of messages has no array `messages`"));
        };
        Ok(messages.into_iter().map(String::from).collect())
    }

    /// Waits for the outcome of a submission. Events only say when to look: the record decides. The first interrupt
    /// cancels durably, the second one leaves.
    pub async fn wait(
        &self,
        receipt: &Record,
        feed: &mut Feed,
        interrupts: &mut mpsc::Receiver<()>,
        mut seen: impl FnMut(&Value) -> Result<(), Failure>,
    ) -> Result<Record, Failure> {
        let id = receipt.submission()?;
        feed.only(receipt.instance.clone(), &receipt.id);
        let (mut cancelled, mut idle) = (false, 0);
        loop {
            let record = self.record(&id).await?;
            if record.settled() {
                while let Some(event) = feed.ready() {
                    seen(&event)?;
                }
                return Ok(record);
            }
            match self.news(feed, interrupts, idle > 0, &mut seen).await? {
                News::Interrupt if cancelled => return Err(left(&id)),
                News::Interrupt => {
                    cancelled = true;
                    self.cancel(&id).await?;
                }
                News::Idle if idle == IDLE_LOOKS_MAX || record.state == "waiting" => return Err(stuck(&record)),
                News::Idle => idle += 1,
                News::Look if record.state == "retrying" => idle = 0,
                News::Look => {}
            }
        }
    }

    /// Waits until the record is worth a look. With `patient`, being idle is told no sooner than after a while: what is
    /// due later is not running now.
    async fn news(
        &self,
        feed: &mut Feed,
        interrupts: &mut mpsc::Receiver<()>,
        patient: bool,
        seen: &mut impl FnMut(&Value) -> Result<(), Failure>,
    ) -> Result<News, Failure> {
        let look = tokio::time::sleep(LOOK_AGAIN);
        tokio::pin!(look);
        let idle = async {
            if patient {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            self.runtime.idle().await;
        };
        tokio::pin!(idle);
        loop {
            tokio::select! {
                biased;
                Some(()) = interrupts.recv() => return Ok(News::Interrupt),
                event = feed.next() => {
                    seen(&event)?;
                    if event.is_null() || event["type"] == "settled" {
                        return Ok(News::Look);
                    }
                }
                () = &mut idle => return Ok(News::Idle),
                () = &mut look => return Ok(News::Look),
            }
        }
    }
}

impl Session {
    /// Waits for work of others that was taken up here, so that a short command doesn't cut it off again. An interrupt
    /// leaves it for the next one.
    pub async fn finish(&self, interrupts: &mut mpsc::Receiver<()>, out: Out) {
        let idle = self.runtime.idle();
        tokio::pin!(idle);
        tokio::select! {
            () = &mut idle => return,
            () = tokio::time::sleep(SILENCE) => {}
        }
        let text = "writ: finishing what an earlier command left; Ctrl-C leaves it for the next one";
        out.note(text, &json!({"finishing": true}));
        tokio::select! {
            () = &mut idle => {}
            Some(()) = interrupts.recv() => {}
        }
    }
}

enum News {
    Idle,
    Interrupt,
    Look,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|e| Failure::internal("answer", format!("the component's answer is no JSON: {e}")))
    }
}

fn left(id: &SubmissionId) -> Failure {
    Failure::new(exit::ABORTED, "left", format!("left while submission {id} was stopping; it is stored and goes on"))
        .advise(format!("See how it ended with `writ inspect submission {id}`."))
}

fn stuck(record: &Record) -> Failure {
    let reason = record.reason.as_deref().unwrap_or("the component gives no reason");
    let message = format!("submission {} is {} and nothing is running: {reason}", record.id, record.state);
    let id = &record.id;
    let advice = match record.questions.is_empty() {
        true => format!("It is stored and safe. `writ explain {id}` shows every fact; the same command goes on."),
        false => format!("It is stored and safe. Answer with `writ approve {id}` or `writ deny {id}`."),
    };
    Failure::new(exit::FAILED, "not-settled", message)
        .advise(advice)
        .fact("id", record.id.clone())
        .fact("state", record.state.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::Fake;

    async fn waited(states: &'static [&'static str]) -> (Result<Record, Failure>, u32) {
        let looks = std::sync::Arc::new(std::sync::Mutex::new(0usize));
        let counted = looks.clone();
        let session = Fake::session(move |ask| {
            assert_eq!((ask.method, ask.path.as_str()), ("GET", "/v1/submissions/3f-a"));
            let mut look = counted.lock().unwrap();
            let state = states[(*look).min(states.len() - 1)];
            *look += 1;
            let outcome = if state == "settled" { r#"{"status":"completed","text":"hi"}"# } else { "null" };
            (200, format!(r#"{{"id":"3f-a","state":"{state}","reason":"because","outcome":{outcome}}}"#))
        });
        let receipt = Record { id: "3f-a".into(), instance: Some("t".into()), ..Record::default() };
        let mut feed = session.runtime().watch();
        let (_keep, mut interrupts) = mpsc::channel(1);
        let ended = session.wait(&receipt, &mut feed, &mut interrupts, |_| Ok(())).await;
        let looks = *looks.lock().unwrap() as u32;
        (ended, looks)
    }

    /// Shows A22.
    #[tokio::test]
    async fn the_record_decides_without_any_event() {
        let (ended, looks) = waited(&["running", "settled"]).await;
        assert_eq!(ended.unwrap().outcome.unwrap().text.as_deref(), Some("hi"));
        assert_eq!(looks, 2);
    }

    #[tokio::test]
    async fn waiting_for_a_person_is_told_with_the_reason() {
        let (ended, _) = waited(&["waiting"]).await;
        let failure = ended.unwrap_err();
        assert_eq!((failure.exit, failure.code.as_str()), (exit::FAILED, "not-settled"));
        assert!(failure.text().contains("because") && failure.text().contains("writ explain 3f-a"));
    }

    #[tokio::test]
    async fn a_second_interrupt_leaves() {
        let session = Fake::session(|_| (202, r#"{"id":"3f-a","state":"running"}"#.into()));
        let receipt = Record { id: "3f-a".into(), ..Record::default() };
        let (send, mut interrupts) = mpsc::channel(2);
        send.send(()).await.unwrap();
        send.send(()).await.unwrap();
        let mut feed = session.runtime().watch();
        let failure = session.wait(&receipt, &mut feed, &mut interrupts, |_| Ok(())).await.unwrap_err();
        assert_eq!((failure.exit, failure.code.as_str()), (exit::ABORTED, "left"));
    }

    #[tokio::test]
    async fn messages_keep_their_bytes() {
        let body = r#"{"messages": [ {"b":1.0,"a":"\u00e9"} , {"n":1e2}],"next":null}"#;
        let session = Fake::session(move |_| (200, body.into()));
        let messages = session.messages(&"a/t".parse().unwrap(), 0, 2).await.unwrap();
        assert_eq!(messages, [r#"{"b":1.0,"a":"\u00e9"}"#, r#"{"n":1e2}"#]);
    }
}
