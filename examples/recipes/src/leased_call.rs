//! Call an HTTP API from a handler, and record the result once.
//!
//! A call cannot be rolled back, so it runs under a lease, outside any transaction. The result and the acknowledgement are
//! one commit. If the process dies between the call and that commit, another worker repeats the call: pass the message's
//! idempotency key to the API, so that it recognizes the repetition.
//!
//! Run it: `cargo test -p onceward-example-recipes leased_call`.

use onceward::{LeaseContext, LeasedHandler, prelude::*};
use serde::{Deserialize, Serialize};
use std::time::Duration;

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
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build().expect("the system has TLS roots");
    let handler = ChargeHandler { client, url: url.to_owned() };
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

struct ChargeHandler {
    client: reqwest::Client,
    url: String,
}

/// The provider's response.
#[derive(Deserialize)]
struct Receipt {
    reference: String,
}

impl LeasedHandler for ChargeHandler {
    type Event = ChargeRequested;
    type Work = Receipt;

    async fn perform(&self, _: &LeaseContext, received: &Received<'_, ChargeRequested>) -> Result<Receipt, Failure> {
        let request = self.client.post(&self.url).json(&received.event);
        let request = request.header("idempotency-key", received.envelope.idempotency_key.as_str());
        let transient = |error: reqwest::Error| Failure::transient(error.to_string());
        let response = request.send().await.map_err(transient)?;
        match response.status() {
            status if status.is_success() => response.json().await.map_err(transient),
            // The provider rejects the request: a retry would not help.
            status if status.is_client_error() => Err(Failure::permanent(format!("the provider responded {status}"))),
            status => Err(Failure::transient(format!("the provider responded {status}"))),
        }
    }

    async fn record(
        &self,
        tx: &mut Tx,
        received: &Received<'_, ChargeRequested>,
        receipt: Receipt,
    ) -> Result<(), Failure> {
        let tenant = received.envelope.tenant_id.as_str();
        tx.execute(INSERT, &[&tenant, &received.event.order_id, &receipt.reference]).await?;
        Ok(())
    }
}
