//! The small imports: `clock`, `control`, `events`, `settings`, `schema`, `log`.

use std::time::Duration;

use super::bindings::writ::runtime::{clock, control, events, log, schema, settings};
use super::hook::{End, Import};
use super::observer::Seen;
use super::schema as checker;
use super::state::State;
use crate::data::{Level, LogLine, Published, Signal};

/// Most random bytes of one call.
const ENTROPY_BYTES_MAX: u32 = 1024;
/// Largest event for live viewers, in bytes.
const EVENT_BYTES_MAX: usize = 64 << 10;
/// Longest name of a thread, in bytes.
const THREAD_BYTES_MAX: usize = 256;
/// Longest line of the log, in bytes; the rest is cut.
const LOG_BYTES_MAX: usize = 8 << 10;

impl clock::Host for State {
    async fn now(&mut self) -> wasmtime::Result<u64> {
        let entered = self.enter_sure(Import::ClockNow, String::new).await?;
        let now = self.handles.clock.now();
        self.leave(entered, || End::Answered(now.to_string())).await?;
        Ok(now)
    }

    async fn wait_until(&mut self, until: u64) -> wasmtime::Result<u64> {
        let entered = self.enter_sure(Import::ClockWaitUntil, || until.to_string()).await?;
        self.waited();
        let limit = Duration::from_millis(self.handles.limits.wait_ms);
        tokio::select! {
            biased;
            () = self.signals.pending() => {}
            () = self.handles.clock.wait_until(until) => {}
            () = tokio::time::sleep(limit) => {}
        }
        let now = self.handles.clock.now();
        self.leave(entered, || End::Answered(now.to_string())).await?;
        Ok(now)
    }

    async fn entropy(&mut self, n: u32) -> wasmtime::Result<Vec<u8>> {
        if !(1..=ENTROPY_BYTES_MAX).contains(&n) {
            return Err(wasmtime::Error::msg(format!("`clock.entropy` of {n} bytes, 1 to {ENTROPY_BYTES_MAX}")));
        }
        let entered = self.enter_sure(Import::ClockEntropy, || format!("{n} bytes")).await?;
        let mut bytes = vec![0; n as usize];
        match &self.probe {
            Some(probe) => probe.entropy(&mut bytes),
            None => {
                getrandom::fill(&mut bytes).map_err(|error| wasmtime::Error::msg(format!("no randomness: {error}")))?;
            }
        }
        self.leave(entered, End::done).await?;
        Ok(bytes)
    }
}

impl control::Host for State {
    async fn poll(&mut self) -> wasmtime::Result<Vec<control::Signal>> {
        let entered = self.enter_sure(Import::ControlPoll, String::new).await?;
        let signals = self.signals.take();
        self.leave(entered, || End::Answered(format!("{signals:?}"))).await?;
        Ok(signals.into_iter().map(Into::into).collect())
    }
}

impl events::Host for State {
    async fn publish(&mut self, thread: String, number: u64, event: String) -> wasmtime::Result<()> {
        let entered = self.enter_sure(Import::EventsPublish, || event.clone()).await?;
        if thread.len() <= THREAD_BYTES_MAX && event.len() <= EVENT_BYTES_MAX {
            if let Some(watch) = self.watch() {
                watch.see(&Seen::Published { thread: &thread, event: &event });
            }
            // Nobody may be watching.
            let _ = self.handles.events.send(Published { thread, number, event });
        }
        self.leave(entered, End::done).await?;
        Ok(())
    }
}

impl settings::Host for State {
    async fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        let entered = self.enter_sure(Import::SettingsGet, || name.clone()).await?;
        let setting = self.handles.settings.get(&name).cloned();
        self.leave(entered, End::done).await?;
        Ok(setting)
    }
}

impl schema::Host for State {
    async fn check(
        &mut self,
        schema: String,
        value: String,
    ) -> wasmtime::Result<Result<Vec<schema::Violation>, String>> {
        let entered = self.enter_sure(Import::SchemaCheck, || value.clone()).await?;
        self.waited();
        let violations = match &self.probe {
            // On this thread: a hooked run must be the same every time.
            Some(_) => checker::check_now(&schema, &value),
            None => checker::check(schema, value).await,
        };
        self.leave(entered, || End::of(&violations, |all| format!("{} violations", all.len()))).await?;
        let convert = |found: checker::Violation| schema::Violation { path: found.path, message: found.message };
        Ok(violations.map(|all| all.into_iter().map(convert).collect()))
    }
}

impl log::Host for State {
    async fn write(&mut self, level: log::Level, mut text: String) -> wasmtime::Result<()> {
        text.truncate(text.floor_char_boundary(LOG_BYTES_MAX));
        let entered = self.enter_sure(Import::LogWrite, || text.clone()).await?;
        if level == log::Level::Error {
            self.last_error = Some(text.clone());
        }
        if let Some(watch) = self.watch() {
            watch.see(&Seen::Logged { level: level.into(), thread: None, text: &text });
        }
        let _ = self.handles.log.send(LogLine { level: level.into(), text });
        self.leave(entered, End::done).await?;
        Ok(())
    }
}

impl From<Signal> for control::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Cancel => Self::Cancel,
            Signal::Steer => Self::Steer,
        }
    }
}

impl From<control::Signal> for Signal {
    fn from(signal: control::Signal) -> Self {
        match signal {
            control::Signal::Cancel => Self::Cancel,
            control::Signal::Steer => Self::Steer,
        }
    }
}

impl From<log::Level> for Level {
    fn from(level: log::Level) -> Self {
        match level {
            log::Level::Debug => Self::Debug,
            log::Level::Info => Self::Info,
            log::Level::Warn => Self::Warn,
            log::Level::Error => Self::Error,
        }
    }
}
