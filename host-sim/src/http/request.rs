//! From HTTP to the component's request, within the bounds that `wit/runtime.wit` states.

use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt;

use super::problem::Problem;
use crate::data::Request;

/// Most headers.
const HEADERS_MAX: usize = 128;
/// Longest path with query, in bytes.
const PATH_BYTES_MAX: usize = 8 << 10;
/// Longest method, in bytes.
const METHOD_BYTES_MAX: usize = 32;
/// Largest body, in bytes.
const BODY_BYTES_MAX: usize = 262_144;
/// Headers by which a host says what nobody else can know: over the network they mean nothing.
const OF_THE_HOST: [&str; 2] = ["writ-transport", "writ-connection"];
/// So many bytes of a body that is too large are read and thrown away, so that who is still sending gets to the answer.
const DISCARD_BYTES_MAX: usize = 4 << 20;
/// And for so long at most.
const DISCARD_FOR: Duration = Duration::from_secs(2);

/// Takes a request, whose body must come within `patience`.
pub(super) async fn take(parts: &Parts, body: Body, patience: Duration) -> Result<Request, Problem> {
    let target = parts.uri.path_and_query().map(ToString::to_string);
    let path = target.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "bad-path", "The request names no path."))?;
    if path.len() > PATH_BYTES_MAX {
        let value = Some(path.len() as u64);
        return Err(Problem::too_large(StatusCode::URI_TOO_LONG, "The path", "bytes", value, PATH_BYTES_MAX).closing());
    }
    if parts.method.as_str().len() > METHOD_BYTES_MAX {
        let detail = format!("A method has at most {METHOD_BYTES_MAX} characters.");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad-method", detail).with("limit", METHOD_BYTES_MAX));
    }
    let headers = headers(parts)?;
    let body = self::body(parts, body, patience).await?;
    Ok(Request { method: parts.method.to_string(), path, headers, body, principal: None })
}

fn headers(parts: &Parts) -> Result<Vec<(String, String)>, Problem> {
    let count = parts.headers.len();
    if count > HEADERS_MAX {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        let value = Some(count as u64);
        return Err(Problem::too_large(status, "The request's head", "headers", value, HEADERS_MAX).closing());
    }
    let text = |(name, value): (&header::HeaderName, &header::HeaderValue)| {
        // The value is not shown: it may be a secret.
        let value = std::str::from_utf8(value.as_bytes()).map_err(|_| {
            let detail = format!("The value of the header `{name}` is not UTF-8.");
            Problem::new(StatusCode::BAD_REQUEST, "bad-header", detail).with("field", name.as_str())
        })?;
        Ok((name.as_str().to_owned(), value.to_owned()))
    };
    parts.headers.iter().filter(|(name, _)| !OF_THE_HOST.contains(&name.as_str())).map(text).collect()
}

async fn body(parts: &Parts, mut body: Body, patience: Duration) -> Result<Vec<u8>, Problem> {
    let told = body.size_hint().exact();
    let large = |value| {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Problem::too_large(status, "The request", "bytes", value, BODY_BYTES_MAX).closing()
    };
    if told.is_some_and(|told| told > BODY_BYTES_MAX as u64) {
        // Who asks first has sent nothing yet.
        if !parts.headers.contains_key(header::EXPECT) {
            discard(body).await;
        }
        return Err(large(told));
    }
    let mut bytes = Vec::with_capacity(told.unwrap_or(0) as usize);
    let read = async {
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| broken())?.into_data() else { continue };
            if bytes.len() + data.len() > BODY_BYTES_MAX {
                return Err(large(None));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(())
    };
    match tokio::time::timeout(patience, read).await {
        Ok(Ok(())) => Ok(bytes),
        Ok(Err(problem)) => {
            discard(body).await;
            Err(problem)
        }
        Err(_) => {
            let limit = patience.as_millis() as u64;
            let detail =
                format!("The request's body did not come within {limit} ms. Send it again, with the same key.");
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", detail).with("limit", limit).closing())
        }
    }
}

fn broken() -> Problem {
    let detail = "The request's body broke off, or is not framed as HTTP is. Send it again, with the same key.";
    Problem::new(StatusCode::BAD_REQUEST, "bad-body", detail).closing()
}

async fn discard(mut body: Body) {
    let mut left = DISCARD_BYTES_MAX;
    let discard = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len()));
            if left == 0 {
                return;
            }
        }
    };
    // What is not read by then ends with the connection.
    let _ = tokio::time::timeout(DISCARD_FOR, discard).await;
}
