//! All SQL of the orders service. Row-level security adds the tenant to every condition.

use onceward::{DbError, Tx};
use serde_json::{Value, json};
use uuid::Uuid;

const INSERT: &str = "INSERT INTO orders.customer_order (tenant_id, order_id, sku, quantity) VALUES ($1, $2, $3, $4)";
const FIND: &str = "SELECT sku, quantity, status FROM orders.customer_order WHERE order_id = $1";
const INIT_STOCK: &str =
    "INSERT INTO orders.stock (tenant_id, sku, available) VALUES ($1, $2, 1000) ON CONFLICT DO NOTHING";
const DEDUCT_STOCK: &str = "UPDATE orders.stock SET available = available - $2 WHERE sku = $1 AND available >= $2";
const UPDATE_STATUS: &str = "UPDATE orders.customer_order SET status = $2 WHERE order_id = $1";

pub(crate) async fn insert_order(tx: &Tx, id: Uuid, sku: &str, quantity: i32) -> Result<u64, DbError> {
    tx.execute(INSERT, &[&tx.tenant()?.as_str(), &id, &sku, &quantity]).await
}

pub(crate) async fn find_order(tx: &Tx, id: Uuid) -> Result<Option<Value>, DbError> {
    let order = tx.query_opt(FIND, &[&id]).await?.map(|row| (row.get(0), row.get(1), row.get(2)));
    Ok(order.map(|(sku, quantity, status): (String, i32, String)| {
        json!({"orderId": id, "sku": sku, "quantity": quantity, "status": status})
    }))
}

/// Deducts the quantity from the stock, which starts at 1000 of each article. Returns `false` if there is not enough.
pub(crate) async fn reserve(tx: &Tx, id: Uuid, sku: &str, quantity: i32) -> Result<bool, DbError> {
    tx.execute(INIT_STOCK, &[&tx.tenant()?.as_str(), &sku]).await?;
    let reserved = tx.execute(DEDUCT_STOCK, &[&sku, &quantity]).await? == 1;
    tx.execute(UPDATE_STATUS, &[&id, &if reserved { "reserved" } else { "rejected" }]).await?;
    Ok(reserved)
}
