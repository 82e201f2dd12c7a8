//! The place between the component and its handles: every call that the component makes passes here twice, in the
//! order in which it makes them. Nothing stands here unless a host was made with a [`Hook`] (see [`crate::fault`]).

use std::sync::Arc;

use async_trait::async_trait;

use super::bindings::writ::runtime::kv;
use super::state::State;

/// What the component calls. The names are those of `wit/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is named as in `wit/`")]
pub enum Import {
    ClockEntropy,
    ClockNow,
    ClockWaitUntil,
    ControlPoll,
    EventsPublish,
    KvAppendLater,
    KvCommit,
    KvFlush,
    KvGet,
    KvGetMany,
    KvOpen,
    LogWrite,
    ModelDescribe,
    ModelDrop,
    ModelNext,
    ModelStart,
    SchemaCheck,
    SettingsGet,
    ToolsDescribe,
    ToolsStart,
    ToolsWait,
}

impl Import {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::ClockEntropy,
        Self::ClockNow,
        Self::ClockWaitUntil,
        Self::ControlPoll,
        Self::EventsPublish,
        Self::KvAppendLater,
        Self::KvCommit,
        Self::KvFlush,
        Self::KvGet,
        Self::KvGetMany,
        Self::KvOpen,
        Self::LogWrite,
        Self::ModelDescribe,
        Self::ModelDrop,
        Self::ModelNext,
        Self::ModelStart,
        Self::SchemaCheck,
        Self::SettingsGet,
        Self::ToolsDescribe,
        Self::ToolsStart,
        Self::ToolsWait,
    ];

    /// Its name: interface and function, as in `kv.commit`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClockEntropy => "clock.entropy",
            Self::ClockNow => "clock.now",
            Self::ClockWaitUntil => "clock.wait-until",
            Self::ControlPoll => "control.poll",
            Self::EventsPublish => "events.publish",
            Self::KvAppendLater => "kv.append-later",
            Self::KvCommit => "kv.commit",
            Self::KvFlush => "kv.flush",
            Self::KvGet => "kv.get",
            Self::KvGetMany => "kv.get-many",
            Self::KvOpen => "kv.open",
            Self::LogWrite => "log.write",
            Self::ModelDescribe => "model.describe",
            Self::ModelDrop => "model.drop",
            Self::ModelNext => "model.next",
            Self::ModelStart => "model.start",
            Self::SchemaCheck => "schema.check",
            Self::SettingsGet => "settings.get",
            Self::ToolsDescribe => "tools.describe",
            Self::ToolsStart => "tools.start",
            Self::ToolsWait => "tools.wait",
        }
    }
}

/// One call of the component.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// The instance that makes it, counted from 0 within one host.
    pub instance: u64,
    /// The export that the instance was made for.
    pub export: &'static str,
    /// What is called.
    pub import: Import,
    /// What with, in a few words.
    pub detail: String,
}

/// What happens instead of a call, or before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// The call is made.
    Go,
    /// The call is not made and fails, with the error that its handle can give; without one, the instance traps.
    Fail(String),
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer.
    Answered(String),
    /// A commit was applied.
    Committed,
    /// A commit lost its guard.
    Stale,
    /// With an error.
    Failed(String),
    /// A commit that may have been applied.
    Unknown(String),
}

/// What the component is told of a call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// How it ended.
    Go,
    /// That nobody knows. Of commits only.
    Unanswered(String),
}

/// The instance is to be dropped here and now, with this reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed(pub String);

/// Sees every call of the component, and may stop it.
#[async_trait]
pub trait Hook: Send + Sync + 'static {
    /// A fresh instance begins; gives its number.
    fn begin(&self, export: &'static str) -> u64;
    /// Before a call. Gives the call's number for [`Hook::after`].
    async fn before(&self, call: &HostCall) -> Result<(u32, Before), Killed>;
    /// After a call, before the component learns of it.
    async fn after(&self, number: u32, call: &HostCall, end: End) -> Result<After, Killed>;
    /// Random bytes for an instance that are the same in every run, and never those of another instance.
    fn entropy(&self, instance: u64, bytes: &mut [u8]);
}

/// The hook of one instance.
#[derive(Clone)]
pub(super) struct Probe {
    pub(super) hook: Arc<dyn Hook>,
    instance: u64,
    export: &'static str,
}

impl Probe {
    pub(super) fn begin(hook: Arc<dyn Hook>, export: &'static str) -> Self {
        let instance = hook.begin(export);
        Self { hook, instance, export }
    }

    pub(super) fn entropy(&self, bytes: &mut [u8]) {
        self.hook.entropy(self.instance, bytes);
    }
}

/// A call that has passed [`State::enter`].
#[derive(Default)]
pub(super) struct Entered {
    call: Option<(u32, HostCall)>,
    /// The call is to fail with this text instead of being made.
    pub(super) fail: Option<String>,
}

/// The futures hold nothing of the state: it can't be shared between threads.
impl State {
    /// Before a call whose handle can give an error.
    pub(super) fn enter<D: FnOnce() -> String>(
        &self,
        import: Import,
        detail: D,
    ) -> impl Future<Output = wasmtime::Result<Entered>> + Send + use<D> {
        let call = self.probe.as_ref().map(|probe| {
            let call = HostCall { instance: probe.instance, export: probe.export, import, detail: detail() };
            (probe.hook.clone(), call)
        });
        async move {
            let Some((hook, call)) = call else { return Ok(Entered::default()) };
            let (number, before) = hook.before(&call).await.map_err(trap)?;
            let fail = match before {
                Before::Go => None,
                Before::Fail(text) => Some(text),
            };
            Ok(Entered { call: Some((number, call)), fail })
        }
    }

    /// Before a call that can give no error: a failing one traps.
    pub(super) fn enter_sure<D: FnOnce() -> String>(
        &self,
        import: Import,
        detail: D,
    ) -> impl Future<Output = wasmtime::Result<Entered>> + Send + use<D> {
        let entered = self.enter(import, detail);
        async move {
            let entered = entered.await?;
            match &entered.fail {
                None => Ok(entered),
                Some(text) => Err(wasmtime::Error::msg(text.clone())),
            }
        }
    }

    /// After a call. `Some` is what a commit is to be told instead.
    pub(super) fn leave<E: FnOnce() -> End>(
        &self,
        entered: Entered,
        end: E,
    ) -> impl Future<Output = wasmtime::Result<Option<String>>> + Send + use<E> {
        let left = self.probe.as_ref().zip(entered.call).map(|(probe, call)| (probe.hook.clone(), call, end()));
        async move {
            let Some((hook, (number, call), end)) = left else { return Ok(None) };
            match hook.after(number, &call, end).await.map_err(trap)? {
                After::Go => Ok(None),
                After::Unanswered(text) => Ok(Some(text)),
            }
        }
    }
}

fn trap(killed: Killed) -> wasmtime::Error {
    wasmtime::Error::msg(killed.0)
}

impl End {
    pub(crate) fn done() -> Self {
        Self::Answered(String::new())
    }

    pub(super) fn of<T, E: std::fmt::Display>(result: &Result<T, E>, shown: impl FnOnce(&T) -> String) -> Self {
        match result {
            Ok(value) => Self::Answered(shown(value)),
            Err(error) => Self::Failed(error.to_string()),
        }
    }

    pub(super) fn of_commit(result: &Result<kv::Outcome, kv::Error>) -> Self {
        match result {
            Ok(kv::Outcome::Committed) => Self::Committed,
            Ok(kv::Outcome::Stale(_)) => Self::Stale,
            Err(kv::Error::Unknown(text)) => Self::Unknown(text.clone()),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}
