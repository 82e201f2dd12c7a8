//! A component that does as it is told. `respond` takes its order from the path and its arguments from the lines of
//! the body; `run` asks the tool `next` for orders, and tells it in the arguments how the last one went.

mod orders;

wit_bindgen::generate!({ world: "writ", path: "../../../wit" });

use exports::writ::runtime::runtime::{
    AuditPage, Body, Error, FeedPage, Finding, Frame, Guest, PendingPage, Request, Response,
    RunOutcome, RunReport, Tail, Wait, Work,
};
use writ::runtime::control::Signal;
use writ::runtime::settings;

struct Component;

export!(Component);

impl Guest for Component {
    fn respond(request: Request) -> Response {
        let lines: Vec<String> = String::from_utf8_lossy(&request.body)
            .lines()
            .map(str::to_owned)
            .collect();
        let mut response = Response {
            status: 200,
            headers: vec![],
            body: Body::Bytes(vec![]),
            work: vec![],
            wait: None,
            left: None,
        };
        match request.path.as_str() {
            "/echo" => {
                response.headers = request.headers;
                let who = request.principal.unwrap_or_else(|| "nobody".into());
                response.body = Body::Bytes([who.as_bytes(), b" ", &request.body].concat());
            }
            "/work" => response.work = lines.iter().map(|line| work(line)).collect(),
            path if under(path, "/stream") => response.body = Body::Stream(tail(path)),
            // Then the path in the first line is asked.
            path if under(path, "/wait") => {
                response.body = Body::Bytes(b"not yet".to_vec());
                response.wait = Some(Wait {
                    tail: tail(path),
                    ms: 1_000,
                    then: lines[0].clone(),
                })
            }
            "/framing" => {
                response.headers = [
                    ("content-length", "7"),
                    ("transfer-encoding", "chunked"),
                    ("x-split", "a\r\nx-more: b"),
                    ("not a name", "x"),
                    ("x-good", "kept"),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
                response.body = Body::Bytes(b"whole".to_vec());
            }
            "/switch" => response.status = 101,
            "/bad-status" => response.status = 7,
            path => {
                response.body =
                    Body::Bytes(orders::obey(&path[1..], &lines, "respond").into_bytes())
            }
        }
        response
    }

    fn run(work: Work) -> RunReport {
        RunReport {
            outcome: drive(work),
            work: vec![],
        }
    }

    /// The lines of the setting `pending`, one a page.
    fn pending(page: Option<String>) -> Result<PendingPage, Error> {
        let at: usize = page.map_or(0, |page| page.parse().expect("a number"));
        let all = settings::get("pending").unwrap_or_default();
        let lines: Vec<&str> = all.lines().collect();
        let next = (at + 1 < lines.len()).then(|| (at + 1).to_string());
        Ok(PendingPage {
            work: lines.get(at).map(|line| work(line)).into_iter().collect(),
            next,
        })
    }

    fn follow(feed: String, after: u64) -> Result<FeedPage, Error> {
        match feed.as_str() {
            "feed" => Ok(FeedPage {
                frames: vec![Frame {
                    number: after + 1,
                    name: None,
                    event: "{}".into(),
                }],
                next: after + 1,
                end: after > 0,
            }),
            // Never ends, and has always more.
            "flood" => Ok(FeedPage {
                frames: (1..=200)
                    .map(|n| Frame {
                        number: after + n,
                        name: Some("water".into()),
                        event: format!("{{\"type\":\"water\",\"drops\":\"{}\"}}", ".".repeat(4096)),
                    })
                    .collect(),
                next: after + 200,
                end: false,
            }),
            "quiet" => Ok(FeedPage {
                frames: vec![],
                next: after,
                end: false,
            }),
            // One frame, and then it is deleted.
            "goes" if after == 7 => Ok(FeedPage {
                frames: vec![Frame {
                    number: 8,
                    name: Some("last".into()),
                    event: "{\"type\":\"last\"}".into(),
                }],
                next: 8,
                end: false,
            }),
            "breaks" => Err(Error::Unavailable("as told".into())),
            "traps" => panic!("as told"),
            _ => Err(Error::NotFound),
        }
    }

    /// Three pages of one finding each.
    fn audit(page: Option<String>) -> Result<AuditPage, Error> {
        let at: u32 = page.map_or(0, |page| page.parse().expect("a number"));
        let finding = Finding {
            invariant: "I1".into(),
            key: at.to_string(),
            text: "as told".into(),
        };
        let next = (at < 2).then(|| (at + 1).to_string());
        Ok(AuditPage {
            findings: vec![finding],
            threads: 1,
            submissions: 2,
            messages: 3,
            keys: 4,
            next,
        })
    }
}

/// `instance` or `instance cancel` or `instance steer`.
fn work(line: &str) -> Work {
    let (instance, signal) = line.split_once(' ').unwrap_or((line, ""));
    let signal = match signal {
        "cancel" => Some(Signal::Cancel),
        "steer" => Some(Signal::Steer),
        _ => None,
    };
    Work {
        instance: instance.into(),
        submission: None,
        signal,
    }
}

fn under(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What `/stream` streams and `/wait` waits for: `/stream/quiet` streams the feed `quiet`.
fn tail(path: &str) -> Tail {
    Tail {
        feed: path.split('/').nth(2).unwrap_or("feed").into(),
        after: 7,
        thread: "thread".into(),
    }
}

fn drive(work: Work) -> RunOutcome {
    let mut last = "began".to_owned();
    loop {
        let order = orders::next(&work.instance, &last);
        let (name, rest) = order.split_once(' ').unwrap_or((&order, ""));
        match name {
            "idle" => return RunOutcome::Idle,
            "later" => return RunOutcome::Later(rest.parse().expect("a time")),
            "fenced" => return RunOutcome::Fenced,
            "failed" => return RunOutcome::Failed(Error::Unavailable("as told".into())),
            _ => {
                last = orders::obey(
                    name,
                    &rest.lines().map(str::to_owned).collect::<Vec<_>>(),
                    &work.instance,
                )
            }
        }
    }
}
