//! The ports over the imports: a change of types, and nothing else.

use super::bindings::writ::runtime::{clock, control, events, kv, log, model, schema, settings, tools};
use crate::error::Error;
use crate::ports::*;
use crate::prelude::*;
use crate::record::Usage;
use core::any::Any;

/// Every export comes through here: opens the store that the host has bound to this call, and lends all handles to `work`.
pub(super) fn with_ports<T>(work: impl FnOnce(Ports) -> Result<T, Error>) -> Result<T, Error> {
    #[cfg(not(feature = "standalone"))]
    super::panics::to_log();
    let store = KvStore(kv::open().map_err(|e| Error::from(store_error(e)))?);
    let handles = Handles;
    work(Ports { store: &store, model: &handles, tools: &handles, clock: &handles, host: &handles })
}

struct KvStore(kv::Store);

/// All handles that have no state of their own.
struct Handles;

fn store_error(error: kv::Error) -> StoreError {
    match error {
        kv::Error::Denied(text) => StoreError::Denied(text),
        kv::Error::TooLarge(text) => StoreError::TooLarge(text),
        kv::Error::Unavailable(text) => StoreError::Unavailable(text),
        kv::Error::Unknown(text) => StoreError::Unknown(text),
    }
}

impl Store for KvStore {
    fn get_many(&self, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.0.get_many(keys).map_err(store_error)
    }

    fn commit(&self, guard: &Guard, writes: &[Write]) -> Result<Outcome, StoreError> {
        match self.0.commit(&kv_guard(guard), &kv_writes(writes)).map_err(store_error)? {
            kv::Outcome::Committed => Ok(Outcome::Committed),
            kv::Outcome::Stale(current) => Ok(Outcome::Stale(current)),
        }
    }

    fn append_later(&self, guard: &Guard, writes: &[Write]) {
        self.0.append_later(&kv_guard(guard), &kv_writes(writes));
    }

    fn flush(&self) -> u32 {
        self.0.flush()
    }
}

fn kv_guard(guard: &Guard) -> kv::Guard {
    kv::Guard { key: guard.key.clone(), expect: guard.expect.clone() }
}

fn kv_writes(writes: &[Write]) -> Vec<kv::Write> {
    writes.iter().map(|w| kv::Write { key: w.key.clone(), value: w.value.clone() }).collect()
}

fn model_error(error: model::Error) -> ModelError {
    match error {
        model::Error::Transient(t) => ModelError::Transient { retry_after_ms: t.retry_after_ms, message: t.message },
        model::Error::Overflow(text) => ModelError::Overflow(text),
        model::Error::Quota(text) => ModelError::Permanent("quota", text),
        model::Error::Refused(text) => ModelError::Permanent("refused", text),
        model::Error::Invalid(text) => ModelError::Permanent("invalid", text),
        model::Error::Unauthorized(text) => ModelError::Permanent("unauthorized", text),
        model::Error::Cancelled(text) => ModelError::Permanent("cancelled", text),
        model::Error::Unknown(text) => ModelError::Unknown(text),
    }
}

impl Model for Handles {
    fn describe(&self, name: &str) -> Result<Description, ModelError> {
        let known = model::describe(name).map_err(model_error)?;
        Ok(Description { context_window: known.context_window, max_output: known.max_output })
    }

    fn start(&self, request: &ModelRequest) -> Result<Box<dyn Completion>, ModelError> {
        let request = model::Request {
            model: request.model.clone(),
            system: request.system.clone(),
            messages: request.messages.clone(),
            tools: request.tools.clone(),
            options: request.options.clone(),
            key: request.key.clone(),
            turn: request.turn,
            thread: request.thread.clone(),
        };
        Ok(Box::new(Running(model::start(&request).map_err(model_error)?)))
    }
}

struct Running(model::Completion);

/// Events taken at once.
const EVENTS: u32 = 256;

impl Completion for Running {
    fn next(&self) -> Result<Vec<ModelEvent>, ModelError> {
        let events = self.0.next(EVENTS).map_err(model_error)?;
        Ok(events
            .into_iter()
            .map(|event| match event {
                model::Event::Text(text) => ModelEvent::Text(text),
                model::Event::Block(json) => ModelEvent::Block(json),
                model::Event::Call(c) => ModelEvent::Call { id: c.id, name: c.name, arguments: c.arguments },
                model::Event::Usage(u) => ModelEvent::Usage(Usage {
                    input: u.input_tokens,
                    output: u.output_tokens,
                    cost_microusd: u.cost_microusd,
                }),
                model::Event::Stop(reason) => ModelEvent::Stop(match reason {
                    model::StopReason::End => StopReason::End,
                    model::StopReason::ToolUse => StopReason::ToolUse,
                    model::StopReason::Length => StopReason::Length,
                    model::StopReason::Pause => StopReason::Pause,
                }),
                model::Event::Signal => ModelEvent::Signal,
            })
            .collect())
    }
}

struct ToolJob(tools::Job);

impl Job for ToolJob {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Tools for Handles {
    fn describe(&self) -> Vec<Declaration> {
        tools::describe()
            .into_iter()
            .map(|d| Declaration {
                name: d.name,
                description: d.description,
                parameters: d.parameters,
                policy: match d.policy {
                    tools::Policy::Plain => Policy::Plain,
                    tools::Policy::ReplaySafe => Policy::ReplaySafe,
                    tools::Policy::Stepped => Policy::Stepped,
                    tools::Policy::Ask => Policy::Ask,
                },
            })
            .collect()
    }

    fn start(&self, call: &HostCall) -> Box<dyn Job> {
        Box::new(ToolJob(tools::start(&tools::Call {
            effect_key: call.effect_key.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            thread: call.thread.clone(),
            call_id: call.call_id.clone(),
        })))
    }

    fn wait(&self, jobs: &[&dyn Job], until: Option<u64>) -> Vec<(usize, Reply)> {
        // Every job was made by `start` above: there is no other maker.
        let handles: Vec<&tools::Job> =
            jobs.iter().filter_map(|job| job.as_any().downcast_ref::<ToolJob>()).map(|job| &job.0).collect();
        tools::wait(&handles, until)
            .into_iter()
            .map(|f| (f.index as usize, Reply { content: f.reply.content, is_error: f.reply.is_error }))
            .collect()
    }
}

impl Clock for Handles {
    fn now(&self) -> u64 {
        clock::now()
    }

    fn wait_until(&self, until: u64) -> u64 {
        clock::wait_until(until)
    }

    fn entropy(&self, n: u32) -> Bytes {
        clock::entropy(n)
    }
}

impl Host for Handles {
    fn poll(&self) -> bool {
        !control::poll().is_empty()
    }

    fn publish(&self, thread: &str, number: u64, event: String) {
        events::publish(thread, number, &event);
    }

    fn setting(&self, name: &str) -> Option<String> {
        settings::get(name)
    }

    fn check(&self, schema: &str, value: &str) -> Result<Vec<String>, String> {
        let violations = schema::check(schema, value)?;
        Ok(violations
            .into_iter()
            .map(|v| if v.path.is_empty() { v.message } else { format!("{}: {}", v.path, v.message) })
            .collect())
    }

    fn warn(&self, text: &str) {
        log::write(log::Level::Warn, text);
    }
}
