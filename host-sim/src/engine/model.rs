//! `model`: completions, with deadlines, woken by signals.

use std::time::Duration;

use wasmtime::component::Resource;

use super::bindings::writ::runtime::model::{
    Description, Error, Event, Host, HostCompletion, Request, StopReason, ToolCall, Transient, Usage,
};
use super::guard::{Lapse, guarded};
use super::hook::{End, Import};
use super::observer::Answer;
use super::state::State;
use crate::model::{self, Completion, ModelError, ModelRequest};

/// Most events of one `next`.
const EVENTS_MAX: u32 = 1024;
/// Most data of one `next`, in bytes.
const EVENTS_BYTES_MAX: usize = 8 << 20;
/// Largest request, in bytes.
const REQUEST_BYTES_MAX: usize = 32 << 20;
/// How a provider is named in texts.
const NAME: &str = "the model";

/// What the component holds of a completion. Dropping it, or the whole call, drops the completion: that cancels it.
pub struct CompletionHandle {
    /// `None` after a panic or a deadline: it can't be trusted to go on.
    completion: Option<Box<dyn Completion>>,
    /// What came while more events were waited for and did not go with them: for the next call.
    held: Option<Result<Vec<model::Event>, Error>>,
}

impl Host for State {
    async fn describe(&mut self, name: String) -> wasmtime::Result<Result<Description, Error>> {
        let entered = self.enter(Import::ModelDescribe, || name.clone()).await?;
        let described = match &entered.fail {
            Some(text) => Err(injected(text)),
            None => self.describe_model(name).await,
        };
        self.leave(entered, || End::of(&described, |_| String::new())).await?;
        Ok(described)
    }

    async fn start(&mut self, request: Request) -> wasmtime::Result<Result<Resource<CompletionHandle>, Error>> {
        let entered = self.enter(Import::ModelStart, || format!("turn {} key {}", request.turn, request.key)).await?;
        let started = match &entered.fail {
            Some(text) => Err(injected(text)),
            None => self.start_model(request).await,
        };
        self.leave(entered, || End::of(&started, |_| String::new())).await?;
        Ok(match started {
            Ok(completion) => Ok(self.table.push(CompletionHandle { completion: Some(completion), held: None })?),
            Err(error) => Err(error),
        })
    }
}

impl HostCompletion for State {
    async fn next(
        &mut self,
        this: Resource<CompletionHandle>,
        max: u32,
    ) -> wasmtime::Result<Result<Vec<Event>, Error>> {
        let entered = self.enter(Import::ModelNext, String::new).await?;
        let events = match &entered.fail {
            Some(text) => Err(injected(text)),
            None => self.next_events(&this, max.clamp(1, EVENTS_MAX)).await?,
        };
        self.leave(entered, || End::of(&events, |events| format!("{} events", events.len()))).await?;
        Ok(events)
    }

    async fn drop(&mut self, this: Resource<CompletionHandle>) -> wasmtime::Result<()> {
        let entered = self.enter_sure(Import::ModelDrop, String::new).await?;
        self.table.delete(this)?;
        self.leave(entered, End::done).await?;
        Ok(())
    }
}

impl State {
    async fn describe_model(&mut self, name: String) -> Result<Description, Error> {
        self.waited();
        let describe = self.handles.model.describe(&name);
        match guarded(NAME, self.handles.limits.model_start_ms, describe).await {
            Ok(Ok(found)) => Ok(Description { context_window: found.context_window, max_output: found.max_output }),
            Ok(Err(error)) => Err(error.into()),
            Err(lapse) => Err(lapse.into()),
        }
    }

    async fn start_model(&mut self, request: Request) -> Result<Box<dyn Completion>, Error> {
        let bytes = request.system.len() + request.messages.len() + request.tools.len() + request.options.len();
        if bytes > REQUEST_BYTES_MAX {
            return Err(Error::Invalid(format!("a request of {bytes} bytes, at most {REQUEST_BYTES_MAX}")));
        }
        self.waited();
        let seen = self.watch().map(|watch| Answer::begin(watch, &request.model, &request.options));
        let start = self.handles.model.start(request.into());
        match guarded(NAME, self.handles.limits.model_start_ms, start).await {
            Ok(Ok(completion)) => Ok(match seen {
                Some(seen) => seen.over(completion),
                None => completion,
            }),
            Ok(Err(error)) => {
                seen.into_iter().for_each(|seen| seen.failed(&error));
                Err(error.into())
            }
            Err(lapse) => Err(lapse.into()),
        }
    }

    async fn next_events(
        &mut self,
        this: &Resource<CompletionHandle>,
        max: u32,
    ) -> wasmtime::Result<Result<Vec<Event>, Error>> {
        self.waited();
        let (limit_ms, linger) = (self.handles.limits.model_next_ms, self.linger());
        let handle = self.table.get_mut(this)?;
        match handle.held.take() {
            None => {}
            Some(Err(error)) => return Ok(Err(error)),
            Some(Ok(mut events)) => {
                if events.len() > max as usize {
                    handle.held = Some(Ok(events.split_off(max as usize)));
                }
                return Ok(Ok(events.into_iter().map(Into::into).collect()));
            }
        }
        let next = tokio::select! {
            biased;
            () = self.signals.pending() => return Ok(Ok(vec![Event::Signal])),
            next = handle.take(max, limit_ms) => next,
        };
        let mut events = match next {
            Ok(events) => events,
            Err(error) => return Ok(Err(error)),
        };
        if !linger.is_zero() {
            // A completion loses nothing when a wait for it is dropped.
            tokio::select! {
                biased;
                () = self.signals.pending() => {}
                () = handle.take_more(&mut events, max, limit_ms) => {}
                () = tokio::time::sleep(linger) => {}
            }
        }
        Ok(Ok(events.into_iter().map(Into::into).collect()))
    }

    /// How long to wait for more events after the first: not at all where a run must be the same every time.
    fn linger(&self) -> Duration {
        let scripted = self.probe.is_some() || self.handles.clock.is_virtual();
        Duration::from_millis(if scripted { 0 } else { self.handles.limits.linger_ms })
    }
}

impl CompletionHandle {
    /// The next events, checked.
    async fn take(&mut self, max: u32, limit_ms: u64) -> Result<Vec<model::Event>, Error> {
        let Some(completion) = &mut self.completion else {
            return Err(Error::Unknown("the completion ended with an error before".into()));
        };
        match guarded(NAME, limit_ms, completion.next(max)).await {
            Ok(Ok(events)) => check_events(events, max),
            Ok(Err(error)) => Err(error.into()),
            Err(lapse) => {
                self.completion = None;
                Err(lapse.into())
            }
        }
    }

    /// Adds what comes to `events`, until they have the end event or are `max`. What can't join them is held.
    async fn take_more(&mut self, events: &mut Vec<model::Event>, max: u32, limit_ms: u64) {
        while goes_on(events, max) {
            match self.take(max - events.len() as u32, limit_ms).await {
                Ok(more) if !more.is_empty() && bytes_of(events) + bytes_of(&more) <= EVENTS_BYTES_MAX => {
                    events.extend(more);
                }
                // The end, an error, and what would be too much at once are for a call of their own.
                held => {
                    self.held = Some(held);
                    return;
                }
            }
        }
    }
}

/// Whether more events may still join these.
fn goes_on(events: &[model::Event], max: u32) -> bool {
    let ended = events.last().is_none_or(|last| matches!(last, model::Event::Stop(_)));
    !ended && events.len() < max as usize
}

/// The error of a call that a hook makes fail.
fn injected(text: &str) -> Error {
    Error::Transient(Transient { retry_after_ms: None, message: text.to_owned() })
}

fn check_events(events: Vec<model::Event>, max: u32) -> Result<Vec<model::Event>, Error> {
    if events.len() > max as usize {
        return Err(Error::Unknown(format!("{NAME} gave {} events, at most {max} were asked for", events.len())));
    }
    let bytes = bytes_of(&events);
    if bytes > EVENTS_BYTES_MAX {
        return Err(Error::Unknown(format!("{NAME} gave {bytes} bytes at once, at most {EVENTS_BYTES_MAX}")));
    }
    Ok(events)
}

fn bytes_of(events: &[model::Event]) -> usize {
    events.iter().map(event_bytes).sum()
}

fn event_bytes(event: &model::Event) -> usize {
    match event {
        model::Event::Text(text) | model::Event::Block(text) => text.len(),
        model::Event::Call { id, name, arguments } => id.len() + name.len() + arguments.len(),
        model::Event::Usage(_) | model::Event::Stop(_) => 0,
    }
}

impl From<Lapse> for Error {
    fn from(lapse: Lapse) -> Self {
        match lapse {
            Lapse::Late(message) => Self::Transient(Transient { retry_after_ms: None, message }),
            Lapse::Panicked(_) => Self::Unknown(format!("{NAME} failed: {}", lapse.text())),
        }
    }
}

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Transient { retry_after_ms, message } => Self::Transient(Transient { retry_after_ms, message }),
            ModelError::Overflow(text) => Self::Overflow(text),
            ModelError::Quota(text) => Self::Quota(text),
            ModelError::Refused(text) => Self::Refused(text),
            ModelError::Invalid(text) => Self::Invalid(text),
            ModelError::Unauthorized(text) => Self::Unauthorized(text),
            ModelError::Cancelled(text) => Self::Cancelled(text),
            ModelError::Unknown(text) => Self::Unknown(text),
        }
    }
}

impl From<Request> for ModelRequest {
    fn from(request: Request) -> Self {
        let Request { model, system, messages, tools, options, key, turn, thread } = request;
        Self { model, system, messages, tools, options, key, turn, thread }
    }
}

impl From<model::Event> for Event {
    fn from(event: model::Event) -> Self {
        match event {
            model::Event::Text(text) => Self::Text(text),
            model::Event::Block(json) => Self::Block(json),
            model::Event::Call { id, name, arguments } => Self::Call(ToolCall { id, name, arguments }),
            model::Event::Usage(usage) => Self::Usage(Usage {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cost_microusd: usage.cost_microusd,
            }),
            model::Event::Stop(reason) => Self::Stop(match reason {
                model::StopReason::End => StopReason::End,
                model::StopReason::ToolUse => StopReason::ToolUse,
                model::StopReason::Length => StopReason::Length,
                model::StopReason::Pause => StopReason::Pause,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathering_ends_with_the_end_event_or_with_the_most() {
        let text = || model::Event::Text("x".into());
        assert!(goes_on(&[text()], 2));
        assert!(!goes_on(&[text(), text()], 2));
        assert!(!goes_on(&[text(), model::Event::Stop(model::StopReason::End)], 9));
        // The end of the stream itself: there is nothing to wait for.
        assert!(!goes_on(&[], 9));
    }
}
