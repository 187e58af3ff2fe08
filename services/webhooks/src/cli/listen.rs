//! `webhooks listen`: a receiver that verifies deliveries and prints them.

use crate::{
    SignatureHeaders, WebhookSecret,
    signature::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER},
    verify,
};
use anyhow::Context;
use jiff::Timestamp;
use onceward::web::{
    self, WebConfig,
    axum::{
        Router,
        body::Bytes,
        http::{HeaderMap, StatusCode},
    },
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Arguments of `webhooks listen`.
#[derive(Clone, Debug, clap::Args)]
pub struct ListenArgs {
    /// The port on 127.0.0.1; 0 chooses a free one
    #[arg(long, default_value_t = 8090)]
    port: u16,
    /// The endpoint's secret, whsec_…; without it, signatures are not checked
    #[arg(long, env = "WEBHOOK_SECRET", hide_env_values = true)]
    secret: Option<WebhookSecret>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Listens until Ctrl-C.
pub(super) fn run(args: ListenArgs) -> anyhow::Result<()> {
    tokio::runtime::Runtime::new()?.block_on(listen(args))
}

async fn listen(args: ListenArgs) -> anyhow::Result<()> {
    let address = format!("127.0.0.1:{}", args.port);
    let listener = TcpListener::bind(&address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}; choose another port with --port"))?;
    eprintln!("listening on http://{}/ until Ctrl-C", listener.local_addr()?);
    eprintln!(
        "the server must be started with ONCEWARD_WEBHOOKS_ALLOW_HTTP=true ONCEWARD_WEBHOOKS_ALLOWED_NETWORKS=127.0.0.1/32"
    );
    if args.secret.is_none() {
        eprintln!("signatures are not checked: pass the endpoint's secret with --secret");
    }
    let args = Arc::new(args);
    let router = Router::new().fallback(move |headers: HeaderMap, body: Bytes| {
        let args = args.clone();
        async move { receive(&args, &headers, &body) }
    });
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    Ok(web::serve(listener, router, &WebConfig::default(), stop).await?)
}

/// Prints a delivery. Responds with 401 if its signature does not match, as a real receiver would.
fn receive(args: &ListenArgs, headers: &HeaderMap, body: &[u8]) -> StatusCode {
    let delivery = ReceivedDelivery::new(args.secret.as_ref(), headers, body, Timestamp::now());
    if args.json {
        println!("{}", delivery.to_json());
    } else {
        println!("{}", delivery.to_text());
    }
    if matches!(delivery.verified, Some(Err(_))) { StatusCode::UNAUTHORIZED } else { StatusCode::NO_CONTENT }
}

/// A request, with the result of its verification.
struct ReceivedDelivery {
    at: Timestamp,
    id: String,
    traceparent: Option<String>,
    /// `None` if there is no secret to verify the signature with.
    verified: Option<Result<(), String>>,
    body: Value,
}

impl ReceivedDelivery {
    fn new(secret: Option<&WebhookSecret>, headers: &HeaderMap, body: &[u8], at: Timestamp) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let id = text(ID_HEADER).unwrap_or_default();
        let signature_headers = SignatureHeaders {
            id,
            timestamp: text(TIMESTAMP_HEADER).unwrap_or_default(),
            signature: text(SIGNATURE_HEADER).unwrap_or_default(),
        };
        let verified =
            secret.map(|secret| verify(secret, &signature_headers, body, at).map_err(|error| error.to_string()));
        let as_text = || Value::String(String::from_utf8_lossy(body).into_owned());
        Self {
            at,
            id: id.to_owned(),
            traceparent: text("traceparent").map(str::to_owned),
            verified,
            body: serde_json::from_slice(body).unwrap_or_else(|_| as_text()),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "at": self.at, "id": self.id, "type": self.body["type"], "verified": self.verified.as_ref().map(Result::is_ok),
            "error": self.verified.as_ref().and_then(|verified| verified.as_ref().err()),
            "traceparent": self.traceparent, "body": self.body,
        })
    }

    fn to_text(&self) -> String {
        let signature = match &self.verified {
            None => "signature not checked".to_owned(),
            Some(Ok(())) => "signature ok".to_owned(),
            Some(Err(error)) => format!("REJECTED: {error}"),
        };
        let at = self.at.strftime("%H:%M:%SZ");
        let event_type = self.body["type"].as_str().unwrap_or("no type");
        // JSON escapes control characters, so a sender cannot manipulate the terminal.
        let plain: String = format!("{event_type}  {}", self.id).chars().filter(|c| !c.is_control()).collect();
        format!("{at}  {plain}  {signature}\n  {}", self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward::web::axum::http::HeaderValue;

    const BODY: &[u8] = br#"{"type": "shop.sold.v1", "data": {"number": 7}}"#;

    fn receive_signed(secret: Option<&WebhookSecret>, signed_by: &WebhookSecret) -> ReceivedDelivery {
        let now = Timestamp::now();
        let mut headers = HeaderMap::new();
        let mut set = |name, value: String| headers.insert(name, HeaderValue::try_from(value).unwrap());
        set(ID_HEADER, "msg_1".to_owned());
        set(TIMESTAMP_HEADER, now.as_second().to_string());
        set(SIGNATURE_HEADER, signed_by.sign("msg_1", now.as_second(), BODY));
        ReceivedDelivery::new(secret, &headers, BODY, now)
    }

    #[test]
    fn a_delivery_is_verified_and_one_with_a_wrong_signature_is_rejected() {
        let (ours, other) = (WebhookSecret::generate(), WebhookSecret::generate());
        let valid = receive_signed(Some(&ours), &ours);
        assert!(valid.to_text().contains("shop.sold.v1  msg_1  signature ok"), "{}", valid.to_text());
        assert_eq!(
            (&valid.to_json()["verified"], &valid.to_json()["body"]["data"]["number"]),
            (&json!(true), &json!(7))
        );
        let rejected = receive_signed(Some(&other), &ours);
        assert!(
            rejected.to_text().contains("REJECTED") && rejected.to_json()["error"].is_string(),
            "{}",
            rejected.to_text()
        );
        assert_eq!(receive_signed(None, &ours).to_json()["verified"], Value::Null);
    }
}
