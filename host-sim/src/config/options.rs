//! Every option that there is: its name, what it takes, its default, and what it is for. The file, the environment,
//! `writ config` and the table in docs/config.md all follow this list.

use super::kind::Kind;

/// One option.
#[derive(Debug)]
pub struct Spec {
    /// Its name, `section.option`; in a list of tables the option alone.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its default as text; `None`: not set.
    pub default: Option<&'static str>,
    /// A variable besides the one that the rule gives.
    pub env: Option<&'static str>,
    /// What it is for, in a line.
    pub help: &'static str,
}

/// Where people begin, so that a deployment of one user needs a word and a file at most.
pub const FILE: &str = "writ.toml";
/// Names the file.
pub const FILE_ENV: &str = "WRIT_CONFIG";
/// What every variable begins with.
pub const ENV_PREFIX: &str = "WRIT_";

/// The options that have one value.
pub const OPTIONS: &[Spec] = &[
    with_env("WRIT_DATA", given("data", Kind::Path, "./writ-data", "The data folder. One process at a time.")),
    given("store", Kind::Choice(&["redb", "memory"]), "redb", "Where `writ serve` stores; `memory` is gone with it."),
    free("component", Kind::Path, "A component to run instead of the one that is built in."),
    free(
        "settings",
        Kind::Path,
        "Settings for the component: a JSON file with `agents`, `overrides`, `limits`, `a2a`, `mcp`, `partitions`.",
    ),
    free("script", Kind::Path, "A script that plays the model and the tools."),
    given("serve.addr", Kind::Address, "127.0.0.1:8787", "Where to listen."),
    given("serve.connections", number(1, 65_536, ""), "1024", "Most connections at a time; more wait."),
    given("serve.streams", number(1, 65_536, ""), "256", "Most event streams at a time; more are refused."),
    given("serve.sessions", number(2, 4_096, ""), "256", "Most calls of the component at a time; more wait."),
    given("serve.drain_seconds", number(0, 86_400, "s"), "30", "How long a stop waits for runs and streams."),
    given(
        "serve.slow_reader_seconds",
        number(1, 3_600, "s"),
        "30",
        "How long a reader may take nothing; then it is left.",
    ),
    given("serve.header_seconds", number(1, 3_600, "s"), "10", "How long the head of a request may take."),
    given("serve.body_seconds", number(1, 3_600, "s"), "30", "How long the body of a request may take."),
    given(
        "serve.allowed_hosts",
        Kind::Hosts,
        "",
        "Names that a request may ask for in `host`, besides this machine's own.",
    ),
    with_env(
        "WRIT_CLIENT_TOKEN",
        free("auth.client_token", Kind::Token, "The token of the one user `local/operator`."),
    ),
    free("auth.client_token_file", Kind::Path, "A file with that token."),
    free("auth.stream_key", Kind::Key, "Signs stream tokens, instead of a key of the store's own: for several hosts."),
    given("telemetry.log", Kind::Filter, "info", "What is logged: a level, or levels by target."),
    given("telemetry.log_format", Kind::Choice(&["text", "json"]), "text", "How it is logged."),
    free("telemetry.otlp_endpoint", Kind::CollectorUrl, "Where traces are sent: an OpenTelemetry collector."),
    given("telemetry.metrics", Kind::Switch, "true", "Whether metrics are served, at `/metrics`."),
];

/// The options of a table under `[[auth.users]]`.
pub const USER: &[Spec] = &[
    free("name", Kind::Principal, "Who it is: `realm/subject`. Two entries of one name are two tokens of one user."),
    free("token", Kind::Token, "The token."),
    free("token_file", Kind::Path, "A file with the token."),
    free("digest", Kind::Digest, "The SHA-256 of the token, so that the token itself is nowhere here."),
];

/// The options of a table under `[[webhooks]]`.
pub const WEBHOOK: &[Spec] = &[
    free("name", Kind::Name, "Its name."),
    free("url", Kind::WebUrl, "Where to deliver."),
    free("secret", Kind::Token, "Signs what is delivered."),
    free("secret_file", Kind::Path, "A file with that secret."),
    free("events", Kind::Events, "What to deliver."),
    free("agents", Kind::Names, "Only of these agents; of all if it is not given."),
];

/// Lists of tables, by name.
pub const LISTS: &[(&str, &[Spec])] = &[("auth.users", USER), ("webhooks", WEBHOOK)];

/// Most tables in one list.
pub const ITEMS_MAX: usize = 1_000;

impl Spec {
    /// The variable that the rule gives: `WRIT_`, then the name in capitals with `__` for each dot.
    pub fn variable(&self) -> String {
        format!("{ENV_PREFIX}{}", self.name.replace('.', "__").to_ascii_uppercase())
    }

    /// All variables that set it, the first before the others.
    pub fn variables(&self) -> impl Iterator<Item = String> {
        [self.env.map(str::to_owned), Some(self.variable()).filter(|v| Some(v.as_str()) != self.env)]
            .into_iter()
            .flatten()
    }
}

/// The option of a name.
pub fn find(name: &str) -> Option<&'static Spec> {
    OPTIONS.iter().find(|spec| spec.name == name)
}

const fn given(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Spec {
    Spec { name, kind, default: Some(default), env: None, help }
}

const fn free(name: &'static str, kind: Kind, help: &'static str) -> Spec {
    Spec { name, kind, default: None, env: None, help }
}

const fn with_env(env: &'static str, spec: Spec) -> Spec {
    Spec { env: Some(env), ..spec }
}

const fn number(least: u64, most: u64, unit: &'static str) -> Kind {
    Kind::Number { least, most, unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_allowed() {
        for spec in OPTIONS {
            if let Some(text) = spec.default {
                spec.kind.of_text(text.as_ref()).unwrap_or_else(|why| panic!("{}: {why}", spec.name));
            }
        }
    }

    #[test]
    fn variables_follow_one_rule_and_the_two_old_names_stay() {
        let of = |name: &str| find(name).unwrap().variables().collect::<Vec<_>>();
        assert_eq!(of("serve.drain_seconds"), ["WRIT_SERVE__DRAIN_SECONDS"]);
        assert_eq!(of("data"), ["WRIT_DATA"]);
        assert_eq!(of("auth.client_token"), ["WRIT_CLIENT_TOKEN", "WRIT_AUTH__CLIENT_TOKEN"]);
    }

    #[test]
    fn the_documentation_has_every_option() {
        let text = include_str!("../../../docs/config.md");
        for spec in OPTIONS {
            let default = spec.default.filter(|d| !d.is_empty()).map_or("–".into(), |d| format!("`{d}`"));
            let variables: Vec<_> = spec.variables().map(|v| format!("`{v}`")).collect();
            let row = format!("| `{}` | {default} | {} | {} |", spec.name, spec.kind.allowed(), variables.join(", "));
            assert!(text.contains(&row), "docs/config.md lacks the row\n{row} {} |", spec.help);
        }
        for (list, specs) in LISTS {
            assert!(text.contains(&format!("[[{list}]]")), "{list}");
            for spec in *specs {
                let row = format!("| `{}` | {} |", spec.name, spec.kind.allowed());
                assert!(text.contains(&row), "docs/config.md lacks the row\n{row} {} |", spec.help);
            }
        }
    }
}
