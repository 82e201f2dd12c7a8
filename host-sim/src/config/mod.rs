//! The configuration: a file, the environment, and flags; each value with its source (docs/config.md).
//!
//! ```no_run
//! use host_sim::config::{Config, Input};
//!
//! let config = Config::load(&Input::of_process())?;
//! println!("listens at {}", config.serve.addr);
//! # Ok::<(), host_sim::config::ConfigError>(())
//! ```

mod auth;
mod file;
mod found;
mod kind;
mod options;
mod problem;
mod resolve;
mod secret;
mod show;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

pub use self::auth::{Auth, Client, OPERATOR};
pub use self::found::{Flag, Found, Given, Input, Item};
pub use self::kind::{Kind, TOKEN_BYTES_MAX, TOKEN_CHARS_MIN, Value};
pub use self::options::{FILE, OPTIONS, Spec};
pub use self::problem::{ConfigError, Position, Problem, Source};
pub use self::secret::{MASK, Secret};
pub use self::show::Row;
use crate::limits::HostLimits;

/// All of it, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file that it came from, if there was one.
    pub file: Option<PathBuf>,
    /// The data folder.
    pub data: PathBuf,
    /// Where `writ serve` stores.
    pub store: StoreKind,
    /// A component to run instead of the one that is built in.
    pub component: Option<PathBuf>,
    /// The JSON file with the component's settings.
    pub settings: Option<PathBuf>,
    /// A script that plays the model and the tools.
    pub script: Option<PathBuf>,
    /// The server.
    pub serve: Serve,
    /// Who is let in.
    pub auth: Auth,
    /// Who is told.
    pub webhooks: Vec<Webhook>,
    /// How it is watched.
    pub telemetry: Telemetry,
    /// What is allowed but unwise, a sentence each.
    pub warnings: Vec<String>,
}

/// Where to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// In memory: gone with the process.
    Memory,
    /// In the data folder.
    Redb,
}

/// The server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// Where to listen.
    pub addr: SocketAddr,
    /// Most connections at a time.
    pub connections: usize,
    /// Most event streams at a time.
    pub streams: usize,
    /// Most calls of the component at a time.
    pub sessions: usize,
    /// How long a stop waits.
    pub drain: Duration,
    /// How long a reader may take nothing.
    pub slow_reader: Duration,
    /// How long the head of a request may take.
    pub header: Duration,
    /// How long the body of a request may take.
    pub body: Duration,
    /// Names that a request may ask for in `host`, besides this machine's own.
    pub allowed_hosts: Vec<String>,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its name.
    pub name: String,
    /// Where to deliver. Its path may be secret: for logs there is [`Webhook::origin`].
    pub url: Secret,
    /// Signs what is delivered.
    pub secret: Secret,
    /// What to deliver: `settled`, `failed`, `needs-you`.
    pub events: Vec<String>,
    /// Only of these agents.
    pub agents: Option<Vec<String>>,
}

/// How it is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telemetry {
    /// What is logged: directives of a filter.
    pub log: String,
    /// How it is logged.
    pub log_format: LogFormat,
    /// Where traces are sent.
    pub otlp_endpoint: Option<String>,
    /// Whether metrics are served.
    pub metrics: bool,
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A JSON object a line.
    Json,
    /// For people.
    Text,
}

impl Config {
    /// Reads and checks everything, the files with secrets too.
    pub fn load(input: &Input) -> Result<Self, ConfigError> {
        resolve::resolve(&Found::read(input)?)
    }

    /// What the component is told of it, beside what its settings file says: `auth` and `webhooks`, as JSON text. No
    /// token, secret or URL is in it, but the key of stream tokens, if one is given.
    pub fn component_settings(&self) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::new();
        settings.extend(self.auth.setting().map(|auth| ("auth".to_owned(), auth.to_string())));
        if !self.webhooks.is_empty() {
            let hook = |hook: &Webhook| match &hook.agents {
                Some(agents) => json!({"name": hook.name, "events": hook.events, "agents": agents}),
                None => json!({"name": hook.name, "events": hook.events}),
            };
            let hooks: Vec<_> = self.webhooks.iter().map(hook).collect();
            settings.insert("webhooks".to_owned(), json!(hooks).to_string());
        }
        settings
    }
}

impl Serve {
    /// The caps of a host that serves.
    pub fn limits(&self) -> HostLimits {
        HostLimits { sessions: self.sessions, ..HostLimits::default() }
    }
}

impl Webhook {
    /// Where it leads, without the path.
    pub fn origin(&self) -> String {
        kind::origin(self.url.expose())
    }
}
