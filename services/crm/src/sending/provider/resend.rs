//! Hands mails over to an HTTP provider that speaks Resend's protocol: `POST /emails` with an `Idempotency-Key`.
//!
//! The provider composes the mail itself from JSON, which is read from the stored bytes, so every attempt says the same. It
//! remembers keys for 24 hours, which makes a repetition after an unknown outcome safe within that time.

use super::{MailProvider, OutgoingMail, ProviderDelivery};
use crate::{CrmError, Settings};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::{FutureExt, future::BoxFuture};
use mailparse::{MailHeaderMap, ParsedMail};
use onceward_mail::outcome::SendOutcome;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_PARTS: usize = 100;
const MAX_TEXT_CHARS: usize = 300;
/// Headers that the provider does not set from members of its own.
const FORWARDED_HEADERS: &[&str] =
    &["Message-ID", "List-Unsubscribe", "List-Unsubscribe-Post", "Auto-Submitted", "X-Auto-Response-Suppress"];

/// The HTTP provider.
pub(crate) struct ResendProvider {
    client: reqwest::Client,
    url: String,
    key: String,
}

impl ResendProvider {
    pub(crate) fn new(settings: &Settings) -> Result<Self, CrmError> {
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| CrmError::Other(format!("the HTTP client cannot be created: {error}")))?;
        let url = format!("{}/emails", settings.resend_url.trim_end_matches('/'));
        Ok(Self { client, url, key: settings.resend_key.clone() })
    }

    async fn call(&self, mail: &OutgoingMail<'_>) -> (SendOutcome, Option<u16>) {
        let Some(body) = request_body(mail) else {
            let text = "the stored message cannot be read".to_owned();
            return (SendOutcome::Refused { code: 0, enhanced: None, text }, None);
        };
        let request =
            self.client.post(&self.url).bearer_auth(&self.key).header("idempotency-key", mail.key).json(&body);
        match request.send().await {
            Ok(response) => read_response(response).await,
            // Nothing was sent on a connection that was not made.
            Err(error) if error.is_connect() => {
                (SendOutcome::ProviderUnavailable { reason: "the provider cannot be reached".to_owned() }, None)
            }
            Err(error) => {
                let reason = if error.is_timeout() { "no answer within its time" } else { "the connection was lost" };
                (SendOutcome::Unknown { reason: reason.to_owned() }, None)
            }
        }
    }
}

impl MailProvider for ResendProvider {
    fn name(&self) -> &'static str {
        "resend"
    }

    fn deduplicates(&self) -> bool {
        true
    }

    fn send<'a>(&'a self, mail: &'a OutgoingMail<'a>) -> BoxFuture<'a, ProviderDelivery> {
        async move {
            let started = Instant::now();
            let (outcome, code) = self.call(mail).await;
            let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            ProviderDelivery { outcome, steps: json!([{ "step": "post", "code": code, "elapsed_ms": elapsed_ms }]) }
        }
        .boxed()
    }
}

async fn read_response(response: reqwest::Response) -> (SendOutcome, Option<u16>) {
    let code = response.status().as_u16();
    let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    let is_success = response.status().is_success();
    let Ok(body) = response.json::<Value>().await else {
        let reason = "the provider's answer cannot be read".to_owned();
        let outcome = if is_success { SendOutcome::Unknown { reason } } else { refused_or_deferred(code, "", None) };
        return (outcome, Some(code));
    };
    let outcome = match body["id"].as_str() {
        Some(id) if is_success => SendOutcome::Accepted { provider_id: Some(id.to_owned()) },
        _ => refused_or_deferred(code, body["name"].as_str().unwrap_or_default(), retry_after.map(Duration::from_secs)),
    };
    (outcome, Some(code))
}

/// Reads an error: what is wrong with our account is no reason to give up the mail.
fn refused_or_deferred(code: u16, name: &str, retry_after: Option<Duration>) -> SendOutcome {
    let text: String = name.chars().filter(|c| !c.is_control()).take(MAX_TEXT_CHARS).collect();
    match code {
        401 | 403 => SendOutcome::ProviderUnavailable { reason: format!("the provider rejects our key: {text}") },
        // The same key is being handled, or too many requests.
        409 | 429 => SendOutcome::Deferred { code, enhanced: None, text, retry_after },
        500.. => SendOutcome::Deferred { code, enhanced: None, text, retry_after },
        _ => SendOutcome::Refused { code, enhanced: None, text },
    }
}

/// Returns the request for one recipient, read from the stored message.
fn request_body(mail: &OutgoingMail<'_>) -> Option<Value> {
    let message = mailparse::parse_mail(mail.message).ok()?;
    let header = |name: &str| message.headers.get_first_value(name);
    let mut parts = MessageParts::default();
    parts.read(&message, 0);
    let headers: serde_json::Map<String, Value> =
        FORWARDED_HEADERS.iter().filter_map(|name| Some(((*name).to_owned(), json!(header(name)?)))).collect();
    let mut body = json!({
        "from": header("From")?,
        "to": [mail.recipient.as_str()],
        "subject": header("Subject")?,
        "text": parts.text,
        "headers": headers,
        "attachments": parts.attachments,
        "tags": [{ "name": "onceward_ref", "value": mail.key }],
    });
    for (member, value) in [("html", parts.html), ("reply_to", header("Reply-To"))] {
        if let Some(value) = value {
            body[member] = json!(value);
        }
    }
    Some(body)
}

#[derive(Default)]
struct MessageParts {
    text: Option<String>,
    html: Option<String>,
    attachments: Vec<Value>,
}

impl MessageParts {
    fn read(&mut self, part: &ParsedMail<'_>, depth: usize) {
        if depth > MAX_PARTS {
            return;
        }
        let disposition = part.get_content_disposition();
        match part.ctype.mimetype.as_str() {
            _ if !part.subparts.is_empty() => part.subparts.iter().for_each(|inner| self.read(inner, depth + 1)),
            "text/plain" if disposition.params.is_empty() => self.text = part.get_body().ok(),
            "text/html" if disposition.params.is_empty() => self.html = part.get_body().ok(),
            media_type => {
                let content = part.get_body_raw().unwrap_or_default();
                let filename = disposition.params.get("filename");
                let content = STANDARD.encode(content);
                self.attachments.push(json!({ "filename": filename, "content": content, "content_type": media_type }));
            }
        }
    }
}
