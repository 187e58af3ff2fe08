//! Publish from a transaction that your program already has.
//!
//! A program that uses tokio-postgres, sqlx or diesel keeps its own pool and its own transactions. It calls one SQL
//! function, and the message exists exactly if the transaction commits. The program needs no other part of Onceward.
//!
//! Run it: `cargo test -p onceward-example-recipes own_transaction`.

use serde_json::json;
use tokio_postgres::{Client, Error};
use uuid::Uuid;

const INSERT: &str = "INSERT INTO shop.invoice (invoice_id, tenant_id, amount_minor) VALUES ($1, $2, $3)";
/// The named arguments are optional. A repetition with the same idempotency key publishes nothing; messages with the same
/// ordering key keep their order.
const ENQUEUE: &str =
    "SELECT onceward.enqueue($1, $2, 'invoice.issued.v1', $3, p_idempotency_key => $4, p_ordering_key => $5)";

/// Inserts an invoice and publishes its event in one commit. Returns the message's id, or `None` if the idempotency key
/// was published before.
pub async fn issue_invoice(client: &mut Client, tenant: &str, amount_minor: i64) -> Result<Option<Uuid>, Error> {
    let invoice_id = Uuid::now_v7();
    let transaction = client.transaction().await?;
    transaction.execute(INSERT, &[&invoice_id, &tenant, &amount_minor]).await?;
    let topic = format!("shop.events:tenant.{tenant}.invoice.issued");
    let payload = json!({ "invoiceId": invoice_id, "amountMinor": amount_minor.to_string() });
    let (key, ordering_key) = (format!("invoice:{invoice_id}"), invoice_id.to_string());
    let row = transaction.query_one(ENQUEUE, &[&tenant, &topic, &payload, &key, &ordering_key]).await?;
    transaction.commit().await?;
    Ok(row.get(0))
}
