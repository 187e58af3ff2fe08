//! Call an HTTP API from a handler, and record the result once.
//!
//! A call cannot be rolled back, so it runs under a lease, outside any transaction. The result and the acknowledgement are
//! one commit. If the process dies between the call and that commit, another worker repeats the call: pass the message's
//! idempotency key to the API, so that it recognizes the repetition. The destination's breaker, bulkhead and timeout protect
//! both sides: while the provider is down, messages wait without counting attempts.
//!
//! Run it: `cargo test -p onceward-example-recipes leased_call`.

use onceward::{CallError, Destination, LeaseContext, LeasedHandler, prelude::*};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const PROVIDER: &str = "payment-provider";
const EXCHANGE: &str = "charges.events";
const QUEUE: &str = "charges.call.v1";
const MIGRATION: &str =
    "CREATE TABLE charges.charge (tenant_id text NOT NULL, order_id text NOT NULL, reference text NOT NULL,
    PRIMARY KEY (tenant_id, order_id)); SELECT onceward_meta.protect('charges.charge');";
const INSERT: &str = "INSERT INTO charges.charge (tenant_id, order_id, reference) VALUES ($1, $2, $3)";
const SCHEMA: &str = r#"{"$id": "charge.requested.v1", "type": "object", "required": ["orderId", "amountMinor"],
    "properties": {"orderId": {"type": "string"}, "amountMinor": {"type": "string"}}, "additionalProperties": false}"#;

/// Returns the service. `url` is the payment provider's.
pub fn service(url: &str) -> Service {
    let handler = ChargeHandler(reqwest::Client::new(), url.to_owned());
    Service::new("charges")
        .migrations(Migrations { schema: "charges", steps: &[Migration { name: "0001_charge", sql: MIGRATION }] })
        .schemas(&[SCHEMA])
        .topology(
            Topology::new()
                .exchange(Exchange::topic(EXCHANGE))
                .exchange(Exchange::fanout("charges.dlq"))
                .queue(Queue::work(QUEUE).dead_letter("charges.dlq"))
                .queue(Queue::dead_letter_store("charges.dlq.v1"))
                .bind(EXCHANGE, "tenant.*.charge.requested", QUEUE)
                .bind("charges.dlq", "", "charges.dlq.v1"),
        )
        .publishes::<ChargeRequested>()
        .destination(Destination::new(PROVIDER).timeout(Duration::from_secs(10)))
        .consumer(Consumer::leased("call-provider", QUEUE).on(handler))
}

/// A request to charge for an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChargeRequested {
    /// The order.
    pub order_id: String,
    /// The amount in the smallest unit of the currency.
    pub amount_minor: String,
}

impl Event for ChargeRequested {
    const TYPE: &'static str = "charge.requested.v1";
    const EXCHANGE: &'static str = EXCHANGE;

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.charge.requested")
    }
}

/// The client and the URL of the provider.
struct ChargeHandler(reqwest::Client, String);

type Message<'m> = Received<'m, ChargeRequested>;

#[derive(Deserialize)]
struct Receipt {
    reference: String,
}

impl LeasedHandler for ChargeHandler {
    type Event = ChargeRequested;
    type Work = Receipt;

    async fn perform(&self, lease: &LeaseContext, received: &Message<'_>) -> Result<Receipt, Failure> {
        let request = self.0.post(&self.1).json(&received.event);
        let request = request.header("idempotency-key", received.envelope.idempotency_key.as_str());
        let call = async {
            let response = request.send().await.and_then(|response| response.error_for_status());
            match response.map_err(|error| (error.status().is_some_and(|status| status.is_client_error()), error)) {
                Ok(response) => response.json().await.map_err(|error| CallError::Failed(error.to_string())),
                // The provider works and rejects the request: a retry would not help.
                Err((true, error)) => Err(CallError::Refused(error.to_string())),
                Err((false, error)) => Err(CallError::Failed(error.to_string())),
            }
        };
        Ok(lease.call(PROVIDER, received)?.run(|_| call).await?)
    }

    async fn record(&self, tx: &mut Tx, received: &Message<'_>, done: &Receipt) -> Result<(), Failure> {
        let tenant = received.envelope.tenant_id.as_str();
        Ok(tx.execute(INSERT, &[&tenant, &received.event.order_id, &done.reference]).await.map(drop)?)
    }
}
