//! The orders: each does one thing with the handles, and says how it went.

use crate::writ::runtime::{clock, control, events, kv, log, model, schema, tools};

/// Does one thing.
pub fn obey(order: &str, lines: &[String], thread: &str) -> String {
    let line = |n: usize| lines.get(n).cloned().unwrap_or_default();
    match order {
        "loop" => loop {
            std::hint::spin_loop();
        },
        "loop-calling" => loop {
            clock::now();
        },
        "grow" => grow(),
        "recurse" => recurse(std::hint::black_box(1)).to_string(),
        "trap" => {
            log::write(log::Level::Error, &line(0));
            std::process::abort()
        }
        "get" => get(&line(0)),
        "get-many" => format!("{:?}", store().get_many(lines)),
        "commit" => commit(&line(0), &lines[1..]),
        "append" => {
            let store = store();
            store.append_later(&guard(&line(0)), &[write("host/x=1")]);
            format!("{} then {}", store.flush(), store.flush())
        }
        "huge-key" => get(&"k".repeat(8 << 20)),
        "too-much" => get(&"k".repeat(65 << 20)),
        "leak" => {
            let stores: Vec<_> = (0..2000).map(|_| store()).collect();
            stores.len().to_string()
        }
        "entropy" => clock::entropy(line(0).parse().expect("a number"))
            .len()
            .to_string(),
        "publish" => {
            events::publish(&line(0), 1, &line(1));
            String::new()
        }
        "schema" => format!("{:?}", schema::check(&line(0), &line(1))),
        "environment" => format!(
            "{} {}",
            std::env::vars().count(),
            std::fs::read_dir("/").is_ok()
        ),
        "model" => model_events(&line(0), line(1).parse().unwrap_or(2)),
        "tools" => tools_batch(lines, thread),
        "declared" => tools::describe()
            .iter()
            .map(|tool| tool.name.as_str())
            .collect::<Vec<_>>()
            .join(" "),
        "drop-job" => {
            let job = start("hang", thread);
            let began = tools_batch(&["hung".into()], thread);
            drop(job);
            // The call goes on: it is not its end that stops the tool.
            format!("{began} {}", tools_batch(&["gate".into()], thread))
        }
        "wait-model" => match model::start(&request("hang")) {
            Ok(completion) => format!("{:?}, {:?}", completion.next(8), control::poll()),
            Err(error) => format!("{error:?}"),
        },
        "wait-tools" => {
            let job = start("hang", thread);
            format!("{:?}, {:?}", tools::wait(&[&job], None), control::poll())
        }
        "wait-clock" => {
            // Says that it has its order: a signal that comes from here on is for this wait.
            tools_batch(&["tell".into()], thread);
            let until = line(0).parse().unwrap_or(u64::MAX);
            format!("{}, {:?}", clock::wait_until(until), control::poll())
        }
        "wait-tools-until" => {
            let job = start("hang", thread);
            let until = line(0).parse().expect("a time");
            format!(
                "{:?} at {}",
                tools::wait(&[&job], Some(until)),
                clock::now()
            )
        }
        other => format!("no such order: {other}"),
    }
}

/// Asks the tool `next` what to do.
pub fn next(thread: &str, last: &str) -> String {
    let call = tools::Call {
        effect_key: "next".into(),
        name: "next".into(),
        arguments: last.into(),
        thread: thread.into(),
        call_id: "next".into(),
    };
    let job = tools::start(&call);
    let finished = loop {
        if let Some(finished) = tools::wait(&[&job], None).pop() {
            break finished;
        }
        // A signal woke us: put aside here only, the test's orders take it.
        if let [signal, ..] = control::poll()[..] {
            return format!("signalled-{signal:?}");
        }
    };
    text(&finished.reply.content)
}

fn store() -> kv::Store {
    kv::open().expect("a store")
}

fn get(key: &str) -> String {
    match store().get(key) {
        Ok(Some(value)) => String::from_utf8_lossy(&value).into_owned(),
        Ok(None) => "nothing".into(),
        Err(error) => format!("{error:?}").chars().take(200).collect(),
    }
}

fn guard(key: &str) -> kv::Guard {
    kv::Guard {
        key: key.into(),
        expect: None,
    }
}

fn write(line: &str) -> kv::Write {
    let (key, value) = line.split_once('=').expect("key=value");
    kv::Write {
        key: key.into(),
        value: Some(value.into()),
    }
}

fn commit(key: &str, writes: &[String]) -> String {
    let writes: Vec<_> = writes.iter().map(|line| write(line)).collect();
    format!("{:?}", store().commit(&guard(key), &writes))
}

/// Takes memory until there is no more; how much there was, in MiB.
fn grow() -> String {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(1 << 20).is_err() {
            return all.len().to_string();
        }
        piece.resize(1 << 20, 1);
        all.push(std::hint::black_box(piece));
    }
}

#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    std::hint::black_box(recurse(depth + 1)) + std::hint::black_box(depth)
}

fn request(model: &str) -> model::Request {
    let (system, options) = (String::new(), "{}".into());
    let (messages, tools) = ("[]".into(), "[]".into());
    model::Request {
        model: model.into(),
        system,
        messages,
        tools,
        options,
        key: "k".into(),
        turn: 0,
        thread: "t".into(),
    }
}

fn model_events(name: &str, max: u32) -> String {
    let completion = match model::start(&request(name)) {
        Ok(completion) => completion,
        Err(error) => return format!("{error:?}"),
    };
    let mut seen = Vec::new();
    for _ in 0..100 {
        match completion.next(max) {
            Ok(events) if events.is_empty() => return seen.join(" "),
            Ok(events) => {
                seen.push(format!("{events:?}"));
                if matches!(events[..], [model::Event::Signal]) {
                    control::poll();
                    return seen.join(" ");
                }
            }
            Err(error) => {
                seen.push(format!("{error:?}"));
                return seen.join(" ");
            }
        }
    }
    "no end".into()
}

fn start(name: &str, thread: &str) -> tools::Job {
    tools::start(&tools::Call {
        effect_key: format!("{thread}.{name}"),
        name: name.into(),
        arguments: "{}".into(),
        thread: thread.into(),
        call_id: "c".into(),
    })
}

/// Starts all, then collects all; `index:text` in the order of the list, `!` for an error.
fn tools_batch(names: &[String], thread: &str) -> String {
    let jobs: Vec<_> = names.iter().map(|name| start(name, thread)).collect();
    let borrowed: Vec<_> = jobs.iter().collect();
    let mut finished = Vec::new();
    while finished.len() < jobs.len() {
        finished.extend(tools::wait(&borrowed, None));
    }
    finished.sort_by_key(|one| one.index);
    let show = |one: &tools::Finished| {
        format!(
            "{}:{}{}",
            one.index,
            if one.reply.is_error { "!" } else { "" },
            text(&one.reply.content)
        )
    };
    finished.iter().map(show).collect::<Vec<_>>().join("|")
}

/// The text of a reply with one text block, without a JSON parser: `[{"text":"…","type":"text"}]`.
fn text(content: &str) -> String {
    let from = content.find(r#""text":""#).map_or(0, |at| at + 8);
    let to = content[from..]
        .find('"')
        .map_or(content.len(), |at| from + at);
    content[from..to].replace("\\n", "\n")
}
