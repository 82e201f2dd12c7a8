//! `model`: completions, with deadlines, woken by signals.

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
            Ok(completion) => Ok(self.table.push(CompletionHandle { completion: Some(completion) })?),
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
        let limit_ms = self.handles.limits.model_next_ms;
        let handle = self.table.get_mut(this)?;
        let Some(completion) = &mut handle.completion else {
            return Ok(Err(Error::Unknown("the completion ended with an error before".into())));
        };
        let next = tokio::select! {
            biased;
            () = self.signals.pending() => return Ok(Ok(vec![Event::Signal])),
            next = guarded(NAME, limit_ms, completion.next(max)) => next,
        };
        Ok(match next {
            Ok(Ok(events)) => check_events(events, max),
            Ok(Err(error)) => Err(error.into()),
            Err(lapse) => {
                handle.completion = None;
                Err(lapse.into())
            }
        })
    }
}

/// The error of a call that a hook makes fail.
fn injected(text: &str) -> Error {
    Error::Transient(Transient { retry_after_ms: None, message: text.to_owned() })
}

fn check_events(events: Vec<model::Event>, max: u32) -> Result<Vec<Event>, Error> {
    if events.len() > max as usize {
        return Err(Error::Unknown(format!("{NAME} gave {} events, at most {max} were asked for", events.len())));
    }
    let bytes: usize = events.iter().map(event_bytes).sum();
    if bytes > EVENTS_BYTES_MAX {
        return Err(Error::Unknown(format!("{NAME} gave {bytes} bytes at once, at most {EVENTS_BYTES_MAX}")));
    }
    Ok(events.into_iter().map(Into::into).collect())
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
