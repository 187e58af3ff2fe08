//! All SQL of the orders service.

use onceward::{DbError, Tx};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) async fn insert_order(tx: &Tx, id: Uuid, sku: &str, quantity: i32) -> Result<(), DbError> {
    let tenant = tx.tenant()?.as_str();
    tx.execute(
        "INSERT INTO orders.customer_order (tenant_id, order_id, sku, quantity) VALUES ($1, $2, $3, $4)",
        &[&tenant, &id, &sku, &quantity],
    )
    .await?;
    Ok(())
}

pub(crate) async fn find_order(tx: &Tx, id: Uuid) -> Result<Option<Value>, DbError> {
    let row = tx.query_opt("SELECT sku, quantity, status FROM orders.customer_order WHERE order_id = $1", &[&id]).await?;
    Ok(row.map(|row| {
        json!({"orderId": id, "sku": row.get::<_, &str>(0), "quantity": row.get::<_, i32>(1), "status": row.get::<_, &str>(2)})
    }))
}

/// Takes the order's quantity out of the stock, which starts at 1000 of everything. `false`: there is not enough.
pub(crate) async fn reserve(tx: &Tx, id: Uuid, sku: &str, quantity: i32) -> Result<bool, DbError> {
    let tenant = tx.tenant()?.as_str();
    tx.execute("INSERT INTO orders.stock (tenant_id, sku, available) VALUES ($1, $2, 1000) ON CONFLICT DO NOTHING", &[&tenant, &sku])
        .await?;
    let taken = tx
        .execute("UPDATE orders.stock SET available = available - $2 WHERE sku = $1 AND available >= $2", &[&sku, &quantity])
        .await?;
    let status = if taken == 1 { "reserved" } else { "rejected" };
    tx.execute("UPDATE orders.customer_order SET status = $2 WHERE order_id = $1", &[&id, &status]).await?;
    Ok(taken == 1)
}
