//! Payments as they were taken in, many at a time.

use crate::payments::provider::Claim;
use jiff::{Timestamp, civil::Date};
use onceward::{DbError, Row, Tx};
use onceward_money::{Currency, Minor};
use serde_json::Value;
use uuid::Uuid;

/// In one order, so that two files with the same payments wait for each other in one direction only. Of two lines with the
/// same transaction the first counts. A payment whose loan or provider there is not is left out.
const INSERT: &str = "
    INSERT INTO lending.payment_intake (tenant_id, payment_id, loan_id, method, amount_minor, currency, received_at,
        gateway_txn_id, source_provider, idempotency_key, effective_date, allocation_hints, raw_payload)
    SELECT $1, n.payment_id, n.loan_id, n.method::lending.payment_method, n.amount, n.currency, $2, n.txn, n.provider, n.key,
        n.effective, n.hints, n.raw
    FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[],
            $11::date[], $12::jsonb[], $13::jsonb[])
        WITH ORDINALITY AS n (payment_id, loan_id, method, amount, currency, txn, provider, key, effective, hints, raw, nth)
    JOIN lending.gateway_provider g ON g.provider_code = n.provider
    JOIN lending.loan l ON l.tenant_id = $1 AND l.loan_id = n.loan_id
    ORDER BY n.provider COLLATE \"C\", n.txn COLLATE \"C\", n.nth
    ON CONFLICT DO NOTHING
    RETURNING payment_id";

/// What is known under the same transaction, or else under the same key.
const KNOWN: &str = "
    SELECT w.nth, k.*
    FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS w (provider, txn, key, nth)
    CROSS JOIN LATERAL (
        SELECT i.payment_id, i.loan_id, i.amount_minor, i.currency, i.effective_date, i.idempotency_key
        FROM lending.payment_intake i
        WHERE i.tenant_id = $1 AND i.source_provider = w.provider AND i.gateway_txn_id = w.txn
        UNION ALL
        SELECT i.payment_id, i.loan_id, i.amount_minor, i.currency, i.effective_date, i.idempotency_key
        FROM lending.payment_intake i
        WHERE i.tenant_id = $1 AND i.idempotency_key = w.key
        LIMIT 1) k";

/// A payment to take in.
pub(crate) struct NewIntake {
    pub payment_id: Uuid,
    pub claim: Claim,
    pub effective_date: Date,
    pub key: String,
}

/// A payment that was taken in before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub amount: Minor,
    pub currency: Currency,
    pub effective_date: Date,
    pub key: String,
}

/// Writes what is new, and gives the ids of it.
pub(crate) async fn insert_intakes(tx: &Tx, received_at: Timestamp, new: &[NewIntake]) -> Result<Vec<Uuid>, DbError> {
    let tenant = tx.tenant()?.as_str();
    let ids: Vec<Uuid> = new.iter().map(|new| new.payment_id).collect();
    let loans: Vec<Uuid> = new.iter().map(|new| new.claim.loan_id).collect();
    let methods: Vec<&str> = new.iter().map(|new| new.claim.method.as_str()).collect();
    let amounts: Vec<Minor> = new.iter().map(|new| new.claim.amount).collect();
    let currencies: Vec<&str> = new.iter().map(|new| new.claim.currency.as_str()).collect();
    let txns: Vec<&str> = new.iter().map(|new| new.claim.gateway_txn_id.as_str()).collect();
    let providers: Vec<&str> = new.iter().map(|new| new.claim.provider).collect();
    let keys: Vec<&str> = new.iter().map(|new| new.key.as_str()).collect();
    let days: Vec<Date> = new.iter().map(|new| new.effective_date).collect();
    let hints: Vec<Value> = new.iter().map(|new| Value::Object(new.claim.hints.clone())).collect();
    let raw: Vec<&Value> = new.iter().map(|new| &new.claim.raw).collect();
    let rows = tx
        .query(
            INSERT,
            &[
                &tenant,
                &received_at,
                &ids,
                &loans,
                &methods,
                &amounts,
                &currencies,
                &txns,
                &providers,
                &keys,
                &days,
                &hints,
                &raw,
            ],
        )
        .await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// What is known of each of `new`, in their order.
pub(crate) async fn find_known(tx: &Tx, new: &[&NewIntake]) -> Result<Vec<Option<Known>>, DbError> {
    let tenant = tx.tenant()?.as_str();
    let providers: Vec<&str> = new.iter().map(|new| new.claim.provider).collect();
    let txns: Vec<&str> = new.iter().map(|new| new.claim.gateway_txn_id.as_str()).collect();
    let keys: Vec<&str> = new.iter().map(|new| new.key.as_str()).collect();
    let mut known = vec![None; new.len()];
    for row in tx.query(KNOWN, &[&tenant, &providers, &txns, &keys]).await? {
        let nth = usize::try_from(row.get::<_, i64>("nth") - 1).unwrap_or(usize::MAX);
        if let Some(place) = known.get_mut(nth) {
            *place = Some(read(&row)?);
        }
    }
    Ok(known)
}

fn read(row: &Row) -> Result<Known, DbError> {
    Ok(Known {
        payment_id: row.get("payment_id"),
        loan_id: row.get("loan_id"),
        amount: row.get("amount_minor"),
        currency: row.try_get("currency")?,
        effective_date: row.get("effective_date"),
        key: row.get("idempotency_key"),
    })
}
