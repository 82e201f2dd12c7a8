//! Webhooks: the host's side of the outbox. The component says whom to tell and what, by the tool [`WEBHOOK`]; where that
//! is and how it is signed only the host knows, and it tells nobody else.
//!
//! Requests are those of the Standard Webhooks specification (1.0): `webhook-id`, which is the same on every try,
//! `webhook-timestamp` in Unix seconds, and `webhook-signature`, which is `v1,` and the base64 of an HMAC-SHA-256 over
//! `id.timestamp.body`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use serde::Deserialize;
use serde_json::Value;
use sha2::Sha256;

use crate::clock::Clock;
use crate::tls;
use crate::tools::{Call, Declaration, Reply, Tools, WEBHOOK};

/// How long a target may take to answer.
const ANSWER: Duration = Duration::from_secs(15);

/// How secrets begin that are given as base64, in the specification's own form.
const BASE64_SECRET: &str = "whsec_";

/// A target, as the operator configured it.
#[derive(Clone)]
pub struct Target {
    /// Where it listens.
    pub url: String,
    /// What requests are signed with: the bytes of this text, or what follows `whsec_` as base64.
    pub secret: String,
}

/// A box of tools, and the targets that the runtime may tell something.
pub struct WithWebhooks {
    inner: Arc<dyn Tools>,
    targets: BTreeMap<String, Target>,
    clock: Arc<dyn Clock>,
    client: reqwest::Client,
    heard: Heard,
}

/// Hears of each try: the target, and whether it was told.
pub type Heard = Arc<dyn Fn(&str, bool) + Send + Sync>;

/// What the component wants to be told.
#[derive(Deserialize)]
struct Order {
    target: String,
    id: String,
    body: Value,
}

impl WithWebhooks {
    /// Adds targets, by name, to a box of tools. An error when the system gives no HTTP client.
    pub fn new(
        inner: Arc<dyn Tools>,
        targets: BTreeMap<String, Target>,
        clock: Arc<dyn Clock>,
        heard: Heard,
    ) -> Result<Self, reqwest::Error> {
        tls::provide();
        // A redirect could lead anywhere, and only configured targets are told anything.
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(ANSWER)
            .no_proxy()
            .build()?;
        Ok(Self { inner, targets, clock, client, heard })
    }

    async fn tell(&self, arguments: &str) -> Result<u16, String> {
        let order: Order = serde_json::from_str(arguments).map_err(|error| format!("not an order: {error}"))?;
        let target = self.targets.get(&order.target).ok_or("this target is not configured any more")?;
        let told = self.send(target, &order).await;
        (self.heard)(&order.target, told.is_ok());
        told
    }

    async fn send(&self, target: &Target, order: &Order) -> Result<u16, String> {
        let (body, seconds) = (order.body.to_string(), self.clock.now() / 1000);
        let signature = sign(&target.secret, &order.id, seconds, &body)?;
        let request = self
            .client
            .post(&target.url)
            .header("content-type", "application/json")
            .header("user-agent", concat!("writ/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", &order.id)
            .header("webhook-timestamp", seconds.to_string())
            .header("webhook-signature", format!("v1,{signature}"))
            .body(body);
        // The URL may hold a secret: it is not told.
        let answer = request.send().await.map_err(|error| why(error.without_url()))?;
        match answer.status() {
            status if status.is_success() => Ok(status.as_u16()),
            status => Err(format!("it answered {}", status.as_u16())),
        }
    }
}

#[async_trait]
impl Tools for WithWebhooks {
    fn describe(&self) -> Vec<Declaration> {
        self.inner.describe()
    }

    async fn run(&self, call: Call) -> Reply {
        if call.name != WEBHOOK {
            return self.inner.run(call).await;
        }
        match self.tell(&call.arguments).await {
            Ok(status) => Reply::text(status.to_string()),
            Err(why) => Reply::error(why),
        }
    }
}

/// The signature of a body, in base64.
pub fn sign(secret: &str, id: &str, seconds: u64, body: &str) -> Result<String, String> {
    let key = match secret.strip_prefix(BASE64_SECRET) {
        Some(encoded) => BASE64.decode(encoded).map_err(|_| format!("what follows `{BASE64_SECRET}` is no base64"))?,
        None => secret.as_bytes().to_vec(),
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| error.to_string())?;
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    Ok(BASE64.encode(mac.finalize().into_bytes()))
}

/// The innermost cause: `connection refused` says more than `error sending request`.
fn why(error: reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    #[test]
    fn a_signature_is_that_of_the_specification() {
        let body = r#"{"test": 2432232314}"#;
        let signed = sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body);
        assert_eq!(signed.as_deref(), Ok("g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
        assert!(sign("whsec_%", "i", 1, "{}").is_err());
    }
}
