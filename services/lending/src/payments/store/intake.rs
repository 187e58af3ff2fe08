//! Accepted payments, stored in batches, and the gateways that report them.

use crate::payments::provider::ReportedPayment;
use jiff::{Timestamp, civil::Date};
use onceward::{DbError, Row, Scope, Tx};
use onceward_money::{Currency, Minor};
use serde_json::Value;
use uuid::Uuid;

/// Inserts in one order, so that two files with the same payments cannot deadlock. Of two lines with the same
/// transaction, the first counts. A payment of an unknown provider is skipped, and so is one requested from us
/// directly for an unknown loan. A payment reported by a gateway is money received, whatever loan it names.
const INSERT: &str = "
    INSERT INTO lending.payment_intake (tenant_id, payment_id, loan_id, method, amount_minor, currency, received_at,
        gateway_txn_id, source_provider, idempotency_key, effective_date, allocation_hints, raw_payload, correlation_id)
    SELECT $1, n.payment_id, n.loan_id, n.method::lending.payment_method, n.amount, n.currency, $2, n.txn, n.provider, n.key,
        n.effective, n.hints, n.raw, n.correlation
    FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[],
            $11::date[], $12::jsonb[], $13::jsonb[], $14::text[])
        WITH ORDINALITY
        AS n (payment_id, loan_id, method, amount, currency, txn, provider, key, effective, hints, raw, correlation, nth)
    JOIN lending.gateway_provider g ON g.provider_code = n.provider
    LEFT JOIN lending.loan l ON l.tenant_id = $1 AND l.loan_id = n.loan_id
    WHERE l.loan_id IS NOT NULL OR n.provider <> 'direct'
    ORDER BY n.provider COLLATE \"C\", n.txn COLLATE \"C\", n.nth
    ON CONFLICT DO NOTHING
    RETURNING payment_id";

/// Finds the same transaction of the same provider. The key is not compared: it is derived from the transaction, and
/// another provider's transaction with the same id, loan, amount and day is another payment.
const KNOWN: &str = "
    SELECT w.nth, i.payment_id, i.loan_id, i.amount_minor, i.currency, i.effective_date, i.idempotency_key
    FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS w (provider, txn, nth)
    JOIN lending.payment_intake i
        ON i.tenant_id = $1
        AND i.source_provider = w.provider
        AND i.gateway_txn_id = w.txn";
const PROVIDER_EXISTS: &str = "SELECT EXISTS (SELECT FROM lending.gateway_provider WHERE provider_code = $1)";
const SECRETS: &str = "
    SELECT webhook_secret, previous_secret FROM lending.provider_account WHERE provider_code = $1";
/// The previous secret stays valid until the next one is set.
const SET_SECRET: &str = "
    INSERT INTO lending.provider_account AS a (tenant_id, provider_code, webhook_secret) VALUES ($1, $2, $3)
    ON CONFLICT (provider_code, tenant_id) DO UPDATE
        SET previous_secret = a.webhook_secret, webhook_secret = excluded.webhook_secret
        WHERE a.webhook_secret <> excluded.webhook_secret";

/// A payment to insert.
pub(crate) struct NewIntake<'s> {
    pub payment_id: Uuid,
    pub reported: ReportedPayment,
    pub effective_date: Date,
    pub key: String,
    /// The scope of the request or message that reported it.
    pub scope: &'s Scope,
}

/// A payment that was accepted before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownPayment {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub amount: Minor,
    pub currency: Currency,
    pub effective_date: Date,
    pub key: String,
}

/// Inserts the new payments and returns their ids.
pub(crate) async fn insert_intakes(
    tx: &Tx,
    received_at: Timestamp,
    new: &[NewIntake<'_>],
) -> Result<Vec<Uuid>, DbError> {
    let tenant = tx.tenant()?.as_str();
    let ids: Vec<Uuid> = new.iter().map(|new| new.payment_id).collect();
    let loans: Vec<Uuid> = new.iter().map(|new| new.reported.loan_id).collect();
    let methods: Vec<&str> = new.iter().map(|new| new.reported.method.as_str()).collect();
    let amounts: Vec<Minor> = new.iter().map(|new| new.reported.amount).collect();
    let currencies: Vec<&str> = new.iter().map(|new| new.reported.currency.as_str()).collect();
    let txns: Vec<&str> = new.iter().map(|new| new.reported.gateway_txn_id.as_str()).collect();
    let providers: Vec<&str> = new.iter().map(|new| new.reported.provider).collect();
    let keys: Vec<&str> = new.iter().map(|new| new.key.as_str()).collect();
    let days: Vec<Date> = new.iter().map(|new| new.effective_date).collect();
    let hints: Vec<Value> = new.iter().map(|new| Value::Object(new.reported.hints.clone())).collect();
    let raw: Vec<&Value> = new.iter().map(|new| &new.reported.raw).collect();
    let correlations: Vec<&str> = new.iter().map(|new| new.scope.correlation_id.as_str()).collect();
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
                &correlations,
            ],
        )
        .await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Returns the known payment for each of `new`, in their order.
pub(crate) async fn find_known(tx: &Tx, new: &[&NewIntake<'_>]) -> Result<Vec<Option<KnownPayment>>, DbError> {
    let tenant = tx.tenant()?.as_str();
    let providers: Vec<&str> = new.iter().map(|new| new.reported.provider).collect();
    let txns: Vec<&str> = new.iter().map(|new| new.reported.gateway_txn_id.as_str()).collect();
    let mut known = vec![None; new.len()];
    for row in tx.query(KNOWN, &[&tenant, &providers, &txns]).await? {
        let nth = usize::try_from(row.get::<_, i64>("nth") - 1).unwrap_or(usize::MAX);
        if let Some(slot) = known.get_mut(nth) {
            *slot = Some(read(&row)?);
        }
    }
    Ok(known)
}

fn read(row: &Row) -> Result<KnownPayment, DbError> {
    Ok(KnownPayment {
        payment_id: row.get("payment_id"),
        loan_id: row.get("loan_id"),
        amount: row.get("amount_minor"),
        currency: row.try_get("currency")?,
        effective_date: row.get("effective_date"),
        key: row.get("idempotency_key"),
    })
}

pub(crate) async fn has_provider(tx: &Tx, code: &str) -> Result<bool, DbError> {
    Ok(tx.query_one(PROVIDER_EXISTS, &[&code]).await?.get(0))
}

/// Returns the tenant's secrets at a provider: the current one, and the previous one.
pub(crate) async fn secrets(tx: &Tx, provider: &str) -> Result<Vec<String>, DbError> {
    let row = tx.query_opt(SECRETS, &[&provider]).await?;
    Ok(row.map_or_else(Vec::new, |row| std::iter::once(row.get(0)).chain(row.get::<_, Option<String>>(1)).collect()))
}

pub(crate) async fn set_secret(tx: &Tx, provider: &str, secret: &str) -> Result<(), DbError> {
    tx.execute(SET_SECRET, &[&tx.tenant()?.as_str(), &provider, &secret]).await.map(drop)
}
