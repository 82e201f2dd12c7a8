//! What an option takes, and the check of it. No text in here ever holds a value that may be a secret.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::PathBuf;

use tracing_subscriber::EnvFilter;
use url::Url;

use super::secret::{MASK, Secret};

/// Fewest characters of a token or secret.
pub const TOKEN_CHARS_MIN: usize = 16;
/// Longest token or secret, in bytes.
pub const TOKEN_BYTES_MAX: usize = 4096;
/// Fewest bytes of a key.
const KEY_BYTES_MIN: usize = 16;
/// Most bytes of a key.
const KEY_BYTES_MAX: usize = 256;
/// Longest principal, URL, or other text, in bytes.
const TEXT_BYTES_MAX: usize = 2048;
/// Longest principal, in bytes.
const PRINCIPAL_BYTES_MAX: usize = 256;
/// Most entries of a list.
const LIST_MAX: usize = 256;
/// What a webhook can be told.
pub const EVENTS: [&str; 3] = ["settled", "failed", "needs-you"];
/// How to get a token.
const MAKE_ONE: &str = "make one with `openssl rand -hex 32`";

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address and a port.
    Address,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The address of a collector: http only, the host brings no TLS.
    CollectorUrl,
    /// A SHA-256, in hex.
    Digest,
    /// A list of events.
    Events,
    /// Directives of a log filter.
    Filter,
    /// A list of host names, each with or without a port.
    Hosts,
    /// A secret key, in hex.
    Key,
    /// A name of something of ours.
    Name,
    /// A list of such names.
    Names,
    /// A whole number.
    Number {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
        /// Its unit.
        unit: &'static str,
    },
    /// A file or folder.
    Path,
    /// `realm/subject`.
    Principal,
    /// Yes or no.
    Switch,
    /// A secret text.
    Token,
    /// A web address.
    WebUrl,
}

/// A value that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Texts.
    List(Vec<String>),
    /// A number.
    Number(u64),
    /// A file or folder.
    Path(PathBuf),
    /// What is not shown.
    Secret(Secret),
    /// Yes or no.
    Switch(bool),
    /// A text.
    Text(String),
}

impl Kind {
    /// What is allowed, for people.
    pub fn allowed(self) -> String {
        match self {
            Self::Address => "address and port, as `127.0.0.1:8787`".into(),
            Self::Choice(words) => words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(" or "),
            Self::CollectorUrl => "http URL".into(),
            Self::Digest => "64 hex digits".into(),
            Self::Events => "list of `settled`, `failed`, `needs-you`".into(),
            Self::Filter => "log filter, as `info` or `warn,writ=debug`".into(),
            Self::Hosts => "list of host names, each with or without a port".into(),
            Self::Key => format!("hex digits of {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes"),
            Self::Name => "1 to 128 of `A–Z a–z 0–9 . _ -`, not starting with a dot".into(),
            Self::Names => "list of names".into(),
            Self::Number { least, most, unit: "" } => format!("{least} to {most}"),
            Self::Number { least, most, unit } => format!("{least} to {most} {unit}"),
            Self::Path => "path".into(),
            Self::Principal => "`realm/subject`".into(),
            Self::Switch => "`true` or `false`".into(),
            Self::Token => format!("{TOKEN_CHARS_MIN} to {TOKEN_BYTES_MAX} visible ASCII characters"),
            Self::WebUrl => "http or https URL".into(),
        }
    }

    /// The same, with its article.
    fn takes(self) -> String {
        let article = match self {
            Self::Address | Self::CollectorUrl | Self::WebUrl => "an ",
            Self::Events | Self::Filter | Self::Hosts | Self::Names | Self::Path => "a ",
            Self::Number { .. } => "a whole number, ",
            _ => "",
        };
        format!("{article}{}", self.allowed())
    }

    /// Whether its values are not to be shown.
    pub fn is_secret(self) -> bool {
        matches!(self, Self::Key | Self::Token | Self::WebUrl)
    }

    /// Whether it takes a list.
    pub fn is_list(self) -> bool {
        matches!(self, Self::Events | Self::Hosts | Self::Names)
    }

    /// A value from a flag or the environment: a list is divided by commas.
    pub fn of_text(self, text: &OsStr) -> Result<Value, String> {
        if self == Self::Path {
            return path(PathBuf::from(text));
        }
        let text = text.to_str().ok_or("it is no UTF-8 text")?;
        match self {
            Self::Number { .. } => self.of_number(text.trim().parse().map_err(|_| self.due("this"))?),
            Self::Switch => match text.trim() {
                "true" => Ok(Value::Switch(true)),
                "false" => Ok(Value::Switch(false)),
                _ => Err(self.due("this")),
            },
            _ if self.is_list() => self
                .of_list(text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()),
            _ => self.of_string(text.to_owned()),
        }
    }

    /// From a number.
    pub fn of_number(self, number: i128) -> Result<Value, String> {
        let Self::Number { least, most, .. } = self else { return Err(self.due("a number")) };
        let fits = u64::try_from(number).ok().filter(|n| (least..=most).contains(n));
        fits.map(Value::Number).ok_or_else(|| format!("{number} is not allowed: it takes {}", self.takes()))
    }

    /// From yes or no.
    pub fn of_switch(self, yes: bool) -> Result<Value, String> {
        if self == Self::Switch { Ok(Value::Switch(yes)) } else { Err(self.due("a boolean")) }
    }

    /// From a list of texts.
    pub fn of_list(self, texts: Vec<String>) -> Result<Value, String> {
        if !self.is_list() {
            return Err(self.due("a list"));
        }
        if texts.len() > LIST_MAX {
            return Err(format!("{} entries, at most {LIST_MAX}", texts.len()));
        }
        for (i, text) in texts.iter().enumerate() {
            let fits = match self {
                Self::Events => EVENTS.contains(&text.as_str()),
                Self::Hosts => is_host(text),
                _ => is_name(text),
            };
            if !fits {
                return Err(format!("{text:?} is not allowed: it takes {}", self.takes()));
            }
            if texts[..i].contains(text) {
                return Err(format!("{text:?} stands in the list twice"));
            }
        }
        Ok(Value::List(texts))
    }

    /// From a text.
    pub fn of_string(self, text: String) -> Result<Value, String> {
        if self != Self::Token && text.len() > TEXT_BYTES_MAX {
            return Err(format!("{} bytes, at most {TEXT_BYTES_MAX}", text.len()));
        }
        let shown = || format!("{text:?} is not allowed: it takes {}", self.takes());
        match self {
            Self::Address if text.parse::<SocketAddr>().is_ok() => {}
            Self::Choice(words) if words.contains(&text.as_str()) => {}
            Self::Name if is_name(&text) => {}
            Self::Principal if is_principal(&text) => {}
            Self::Address | Self::Choice(_) | Self::Name | Self::Principal => return Err(shown()),
            Self::Filter => {
                EnvFilter::builder().parse(&text).map_err(|why| format!("{text:?} is no log filter: {why}"))?;
            }
            Self::Digest if is_hex(&text, 32, 32) => return Ok(Value::Text(text.to_ascii_lowercase())),
            Self::Digest => return Err(format!("it takes the SHA-256 of the token, {}", self.allowed())),
            Self::Path => return path(PathBuf::from(text)),
            Self::Token => return token(text).map(Value::Secret),
            Self::Key if is_hex(&text, KEY_BYTES_MIN, KEY_BYTES_MAX) => return Ok(Value::Secret(Secret::new(text))),
            Self::Key => return Err(format!("it takes {}; {MAKE_ONE}", self.takes())),
            Self::CollectorUrl => url(&text, &["http"]).map_err(|why| {
                format!("{why}; this host speaks no TLS to a collector: run one nearby, and let it send on")
            })?,
            Self::WebUrl => {
                url(&text, &["http", "https"])?;
                // Its path is often all that keeps others from using it.
                return Ok(Value::Secret(Secret::new(text)));
            }
            Self::Events | Self::Hosts | Self::Names | Self::Number { .. } | Self::Switch => {
                return Err(self.due("a string"));
            }
        }
        Ok(Value::Text(text))
    }

    /// It takes something else.
    pub fn due(self, got: &str) -> String {
        format!("{got} is not allowed: it takes {}", self.takes())
    }
}

/// A token or secret, checked. The text of the error does not hold it.
pub fn token(text: String) -> Result<Secret, String> {
    let chars = text.chars().count();
    if chars < TOKEN_CHARS_MIN {
        return Err(format!("{chars} characters are too easy to guess, {TOKEN_CHARS_MIN} at least; {MAKE_ONE}"));
    }
    if text.len() > TOKEN_BYTES_MAX {
        return Err(format!("{} bytes, at most {TOKEN_BYTES_MAX}", text.len()));
    }
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!("it holds characters that no header can: it takes {}", Kind::Token.allowed()));
    }
    Ok(Secret::new(text))
}

fn path(path: PathBuf) -> Result<Value, String> {
    if path.as_os_str().is_empty() { Err("an empty path".into()) } else { Ok(Value::Path(path)) }
}

fn url(text: &str, schemes: &[&str]) -> Result<(), String> {
    // The address is not told: it may hold a secret.
    let url = Url::parse(text).map_err(|why| format!("it is no URL: {why}"))?;
    if !schemes.contains(&url.scheme()) || url.host_str().is_none_or(str::is_empty) {
        return Err(format!("it takes an address that begins with `{}://`", schemes.join("://` or `")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user or password in a URL ends up in logs: leave it out".into());
    }
    Ok(())
}

fn is_hex(text: &str, least: usize, most: usize) -> bool {
    text.len().is_multiple_of(2)
        && (least..=most).contains(&(text.len() / 2))
        && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

fn is_host(text: &str) -> bool {
    // As the start of a URL it must be its host and port, and nothing else.
    let parsed = Url::parse(&format!("http://{text}/"));
    !text.contains(['/', '?', '#', '@', '\\']) && parsed.is_ok_and(|url| url.host().is_some() && url.path() == "/")
}

fn is_principal(text: &str) -> bool {
    text.len() <= PRINCIPAL_BYTES_MAX
        && !text.contains(char::is_control)
        && text
            .split_once('/')
            .is_some_and(|(realm, subject)| !realm.is_empty() && !subject.is_empty() && !subject.contains('/'))
}

/// Where a URL leads, without its path, which is often the secret itself.
pub fn origin(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) if url.path() == "/" && url.query().is_none() => url.origin().ascii_serialization(),
        Ok(url) => format!("{}/…", url.origin().ascii_serialization()),
        Err(_) => MASK.into(),
    }
}
