//! From what was given to what is meant: pairs that exclude each other, files with secrets, names that must differ.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::auth::{Auth, Client, OPERATOR, digest};
use super::found::{Found, Given, Item};
use super::kind::{TOKEN_BYTES_MAX, Value, token};
use super::problem::{ConfigError, Problem, Source};
use super::secret::Secret;
use super::{Config, LogFormat, Serve, StoreKind, Telemetry, Webhook};

/// Most webhooks that are told of one agent's submissions.
const HOOKS_OF_AGENT_MAX: usize = 8;

/// All of a configuration, or all that is wrong with it.
pub(super) fn resolve(found: &Found) -> Result<Config, ConfigError> {
    let mut resolver = Resolver { found, problems: Vec::new(), warnings: Vec::new() };
    let (auth, webhooks) = (resolver.auth(), resolver.webhooks());
    resolver.warn_of_open_file();
    let Resolver { problems, warnings, .. } = resolver;
    if !problems.is_empty() {
        return Err(ConfigError(problems));
    }
    Ok(Config {
        file: found.file.clone(),
        // The default is a path.
        data: found.path("data").unwrap_or_else(|| PathBuf::from("./writ-data")),
        store: if text(found, "store") == "memory" { StoreKind::Memory } else { StoreKind::Redb },
        component: found.path("component"),
        settings: found.path("settings"),
        script: found.path("script"),
        serve: serve(found)?,
        auth,
        webhooks,
        telemetry: Telemetry {
            log: text(found, "telemetry.log"),
            log_format: if text(found, "telemetry.log_format") == "json" { LogFormat::Json } else { LogFormat::Text },
            otlp_endpoint: Some(text(found, "telemetry.otlp_endpoint")).filter(|url| !url.is_empty()),
            metrics: matches!(found.get("telemetry.metrics"), Some(Given { value: Value::Switch(true), .. })),
        },
        warnings,
    })
}

fn serve(found: &Found) -> Result<Serve, ConfigError> {
    let count = |option| usize::try_from(number(found, option)).unwrap_or(usize::MAX);
    let seconds = |option| Duration::from_secs(number(found, option));
    let addr = text(found, "serve.addr");
    Ok(Serve {
        // It was checked when it was read.
        addr: addr.parse().map_err(|_| problem(&Source::Default, "serve.addr", "it is no address".into()))?,
        connections: count("serve.connections"),
        streams: count("serve.streams"),
        sessions: count("serve.sessions"),
        drain: seconds("serve.drain_seconds"),
        slow_reader: seconds("serve.slow_reader_seconds"),
        header: seconds("serve.header_seconds"),
        body: seconds("serve.body_seconds"),
        allowed_hosts: match found.get("serve.allowed_hosts") {
            Some(Given { value: Value::List(hosts), .. }) => hosts,
            _ => Vec::new(),
        },
    })
}

struct Resolver<'a> {
    found: &'a Found,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

impl Resolver<'_> {
    fn auth(&mut self) -> Auth {
        let mut clients = Vec::new();
        let found = self.found;
        let (plain, file) = (found.given("auth.client_token"), found.given("auth.client_token_file"));
        if let Some((token, source)) = self.one_secret("auth.client_token", plain, file) {
            clients.push((Client { digest: digest(&token), principal: OPERATOR.to_owned() }, source));
        }
        for item in self.found.items("auth.users") {
            clients.extend(self.user(item).map(|client| (client, item.source.clone())));
        }
        let mut seen: BTreeMap<&str, &Source> = BTreeMap::new();
        for (client, source) in &clients {
            if let Some(first) = seen.insert(&client.digest, source) {
                let text = format!("the same token is given at {first}: a token stands for one user");
                self.problems.push(Problem { source: source.clone(), option: Some("auth.users".into()), text });
            }
        }
        let stream_key = match found.given("auth.stream_key") {
            Some(Given { value: Value::Secret(key), .. }) => Some(key.clone()),
            _ => None,
        };
        Auth { clients: clients.into_iter().map(|(client, _)| client).collect(), stream_key }
    }

    fn user(&mut self, item: &Item) -> Option<Client> {
        let principal = self.needed(item, "auth.users", "name");
        let given: Vec<_> = ["token", "token_file", "digest"].iter().filter(|n| item.values.contains_key(*n)).collect();
        let digest = match (given.as_slice(), item.values.get("digest")) {
            ([_], Some(Given { value: Value::Text(hex), .. })) => Some(hex.clone()),
            ([_], None) => {
                let secret =
                    self.one_secret("auth.users.token", item.values.get("token"), item.values.get("token_file"));
                secret.map(|(token, _)| digest(&token))
            }
            _ => {
                self.problem(&item.source, "auth.users", "it needs one of `token`, `token_file` and `digest`".into());
                None
            }
        };
        Some(Client { principal: principal?, digest: digest? })
    }

    fn webhooks(&mut self) -> Vec<Webhook> {
        let mut hooks = Vec::new();
        let mut seen: BTreeMap<String, Source> = BTreeMap::new();
        for item in self.found.items("webhooks") {
            let name = self.needed(item, "webhooks", "name");
            let url = self.needed(item, "webhooks", "url").map(Secret::new);
            let events = list(item, "events").filter(|events| !events.is_empty());
            if events.is_none() {
                self.problem(&item.source, "webhooks", "it needs `events`, one at least".into());
            }
            let (plain, file) = (item.values.get("secret"), item.values.get("secret_file"));
            if plain.is_none() && file.is_none() {
                self.problem(&item.source, "webhooks", "it needs `secret` or `secret_file`".into());
            }
            let secret = self.one_secret("webhooks.secret", plain, file).map(|(secret, _)| secret);
            if let Some(first) = name.as_ref().and_then(|name| seen.insert(name.clone(), item.source.clone())) {
                self.problem(&item.source, "webhooks", format!("a webhook of this name stands at {first}"));
            }
            if let (Some(name), Some(url), Some(secret), Some(events)) = (name, url, secret, events) {
                hooks.push(Webhook { name, url, secret, events, agents: list(item, "agents") });
            }
        }
        self.check_hooks_of_agents(&hooks);
        hooks
    }

    /// The component would refuse the submissions of an agent with more.
    fn check_hooks_of_agents(&mut self, hooks: &[Webhook]) {
        let everywhere = hooks.iter().filter(|hook| hook.agents.is_none()).count();
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        hooks.iter().flat_map(|hook| hook.agents.iter().flatten()).for_each(|a| *named.entry(a).or_default() += 1);
        let (agent, most) = named.into_iter().max_by_key(|(_, count)| *count).unwrap_or(("", 0));
        if everywhere + most > HOOKS_OF_AGENT_MAX {
            let whose = if agent.is_empty() { "every agent".into() } else { format!("agent {agent:?}") };
            let text = format!("{} webhooks for {whose}, at most {HOOKS_OF_AGENT_MAX}", everywhere + most);
            let source = self.found.items("webhooks").last().map_or(Source::Default, |item| item.source.clone());
            self.problem(&source, "webhooks", text);
        }
    }

    fn needed(&mut self, item: &Item, list: &str, name: &str) -> Option<String> {
        match item.values.get(name) {
            Some(Given { value: Value::Text(text), .. }) => Some(text.clone()),
            Some(Given { value: Value::Secret(text), .. }) => Some(text.expose().to_owned()),
            _ => {
                // A value that was refused has been told already: then the whole was not read.
                self.problem(&item.source, list, format!("it needs `{name}`"));
                None
            }
        }
    }

    /// A secret that is given itself or as a file. Of two, the one of the stronger source counts; of two equally strong
    /// ones none.
    fn one_secret(&mut self, option: &str, plain: Option<&Given>, file: Option<&Given>) -> Option<(Secret, Source)> {
        let rank = |given: Option<&Given>| given.map(|given| given.source.rank());
        if plain.is_some() && rank(plain) == rank(file) {
            let source = &file.or(plain)?.source;
            self.problem(source, option, format!("give it or `{}_file`, not both", last(option)));
            return None;
        }
        let given = if rank(plain) > rank(file) { plain? } else { file? };
        match &given.value {
            Value::Secret(secret) => Some((secret.clone(), given.source.clone())),
            Value::Path(path) => match self.secret_file(path) {
                Ok(secret) => Some((secret, given.source.clone())),
                Err(text) => {
                    self.problem(&given.source, &format!("{option}_file"), format!("{}: {text}", path.display()));
                    None
                }
            },
            _ => None,
        }
    }

    fn secret_file(&mut self, path: &Path) -> Result<Secret, String> {
        let mut text = String::new();
        let mut file = File::open(path).map_err(|error| format!("it can't be read: {error}"))?;
        let limit = TOKEN_BYTES_MAX as u64 + 64;
        file.by_ref().take(limit).read_to_string(&mut text).map_err(|error| format!("it can't be read: {error}"))?;
        if others_read(&file) {
            let file = path.display();
            self.warnings
                .push(format!("{file} holds a secret and every user of this machine can read it: `chmod 600 {file}`"));
        }
        token(text.trim_ascii().to_owned())
    }

    fn warn_of_open_file(&mut self) {
        let Some(path) = self.found.file() else { return };
        if self.found.holds_secrets() && File::open(path).is_ok_and(|file| others_read(&file)) {
            let file = path.display();
            self.warnings
                .push(format!("{file} holds a secret and every user of this machine can read it: `chmod 600 {file}`"));
        }
    }

    fn problem(&mut self, source: &Source, option: &str, text: String) {
        self.problems.push(Problem { source: source.clone(), option: Some(option.to_owned()), text });
    }
}

impl Found {
    /// Whether a secret stands in the file itself.
    fn holds_secrets(&self) -> bool {
        let secret = |given: &Given| given.value.is_secret() && matches!(given.source, Source::File(_));
        let items = ["auth.users", "webhooks"].into_iter().flat_map(|list| self.items(list));
        ["auth.client_token", "auth.stream_key"].into_iter().filter_map(|option| self.given(option)).any(secret)
            || items.flat_map(|item| item.values.values()).any(secret)
    }
}

impl Value {
    fn is_secret(&self) -> bool {
        matches!(self, Self::Secret(_))
    }
}

fn problem(source: &Source, option: &str, text: String) -> ConfigError {
    ConfigError(vec![Problem { source: source.clone(), option: Some(option.to_owned()), text }])
}

fn text(found: &Found, option: &str) -> String {
    match found.get(option) {
        Some(Given { value: Value::Text(text), .. }) => text,
        _ => String::new(),
    }
}

fn number(found: &Found, option: &str) -> u64 {
    match found.get(option) {
        Some(Given { value: Value::Number(number), .. }) => number,
        _ => 0,
    }
}

fn list(item: &Item, name: &str) -> Option<Vec<String>> {
    match item.values.get(name) {
        Some(Given { value: Value::List(list), .. }) => Some(list.clone()),
        _ => None,
    }
}

fn last(option: &str) -> &str {
    option.rsplit('.').next().unwrap_or(option)
}

#[cfg(unix)]
fn others_read(file: &File) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o004 != 0)
}

#[cfg(not(unix))]
fn others_read(_: &File) -> bool {
    false
}
