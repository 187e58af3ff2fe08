//! A payment with everything known about it.

use super::{conflict::PaymentConflict, unapplied::find_unapplied};
use crate::payments::events::payment_story;
use jiff::Timestamp;
use onceward::{DbError, Tx};
use onceward_ledger as ledger;
use serde_json::{Value, json};
use uuid::Uuid;

const INTAKE: &str = "
    SELECT i.idempotency_key, i.received_at, jsonb_build_object(
        'loan_id', i.loan_id, 'method', i.method, 'amount_minor', i.amount_minor::text, 'currency', i.currency,
        'received_at', i.received_at, 'gateway_txn_id', i.gateway_txn_id, 'source', i.source_provider,
        'idempotency_key', i.idempotency_key, 'effective_date', i.effective_date,
        'allocation_hints', i.allocation_hints)
    FROM lending.payment_intake i WHERE i.payment_id = $1";
const VALIDATION: &str = "
    SELECT jsonb_build_object('is_valid', is_valid, 'reason', reason, 'allocation_hints', allocation_hints,
        'validated_at', validated_at, 'effective_date', effective_date)
    FROM lending.payment_validation WHERE payment_id = $1";
const POSTING: &str = "
    SELECT jsonb_build_object('event_id', event_id, 'applied', applied, 'new_balances', new_balances, 'held', held,
        'posted_at', posted_at)
    FROM lending.payment_posting WHERE payment_id = $1";
const REPOSTS: &str = "
    SELECT jsonb_build_object('version', r.version, 'event_id', r.event_id, 'replaces', r.replaces,
        'reversal_id', r.reversal_id, 'applied', r.applied, 'reposted_at', r.reposted_at, 'replay', r.replay,
        'because', l.because, 'caused_by', l.payment_id)
    FROM lending.payment_repost r
    JOIN lending.payment_intake i ON i.tenant_id = r.tenant_id AND i.payment_id = r.payment_id
    JOIN lending.loan_replay l ON l.tenant_id = r.tenant_id AND l.loan_id = i.loan_id AND l.number = r.replay
    WHERE r.payment_id = $1 ORDER BY r.version DESC LIMIT $2";
const RETURN: &str = "
    SELECT jsonb_build_object('event_id', event_id, 'reversal_id', reversal_id, 'returned_on', returned_on,
        'reason', reason, 'fee_minor', fee_minor::text, 'fee_event_id', fee_event_id, 'recorded_at', recorded_at)
    FROM lending.payment_return WHERE payment_id = $1";
const CONFLICTS: &str = "
    SELECT conflict_id, payment_id, differs, seen_at, last_seen_at, times, resolved_at, resolution, note
    FROM lending.payment_conflict WHERE payment_id = $1 ORDER BY conflict_id LIMIT $2";
/// A partition without an index is scanned around the known times of the payment. Payments of two providers may have
/// the same key, so messages about the other one are excluded.
const MESSAGES: &str = "
    WITH found AS (
        SELECT m.*, c.id AS correlation_id
        FROM unnest($1::text[]) AS c (id)
        CROSS JOIN onceward.story_parts() p
        CROSS JOIN LATERAL onceward.seq_range($2::timestamptz - interval '5 minutes', $3::timestamptz + interval '1 hour') w
        CROSS JOIN LATERAL onceward.story_log(p.epoch, c.id, CASE WHEN NOT p.indexed THEN w.after_seq END,
            CASE WHEN NOT p.indexed THEN w.upto_seq END, '{}', $4) m)
    SELECT jsonb_build_object('event_id', m.id, 'type', m.event_type, 'topic', m.topic, 'queue', m.queue,
        'correlation_id', m.correlation_id, 'causation_id', m.causation_id, 'occurred_at', m.occurred_at,
        'handled', m.read)
    FROM found m
    WHERE NOT EXISTS (
        SELECT FROM found o WHERE o.id = m.id AND o.aggregate_type = 'payment' AND o.aggregate_id <> $5)
    ORDER BY m.seq";
const DEAD: &str = "
    SELECT jsonb_build_object('id', d.id, 'type', d.event_type, 'queue', d.queue, 'reason', d.reason,
        'status', d.status, 'dead_at', d.dead_at, 'last_error', d.last_error)
    FROM onceward.dead_letters d
    WHERE d.correlation_id = ANY ($1)
      AND (d.message->'payload'->>'payment_id' IS NULL OR d.message->'payload'->>'payment_id' = $3)
    ORDER BY d.id LIMIT $2";

/// The other correlation ids of the stories of payments: $1 is one of them, $2 the maximum number.
pub(crate) const LINKED_STORIES: &str = "SELECT lending.linked_stories($1, $2)";

/// The most entries of each kind to return.
const MAX_ENTRIES: i64 = 50;

/// Everything known about a payment.
pub(crate) struct PaymentDetails {
    pub loan_id: Uuid,
    /// `received`, `validated`, `failed`, `moved`, `refunded`, `posted` or `returned`.
    pub status: &'static str,
    pub document: Value,
}

/// Returns everything known about a payment, if it exists.
pub(crate) async fn find_payment_details(
    tx: &Tx,
    payment_id: Uuid,
) -> Result<Option<PaymentDetails>, crate::LendingError> {
    let Some(row) = tx.query_opt(INTAKE, &[&payment_id]).await? else {
        return Ok(None);
    };
    let (key, received_at): (String, Timestamp) = (row.get(0), row.get(1));
    let intake: Value = row.get(2);
    let validation = query_document(tx, VALIDATION, payment_id).await?;
    let posting = query_document(tx, POSTING, payment_id).await?;
    let reposts = query_documents(tx, REPOSTS, payment_id).await?;
    let returned = query_document(tx, RETURN, payment_id).await?;
    let unapplied = find_unapplied(tx, payment_id).await?.map(|unapplied| json!(unapplied));
    let conflicts = tx.query(CONFLICTS, &[&payment_id, &MAX_ENTRIES]).await?;
    let conflicts: Vec<PaymentConflict> = conflicts.iter().map(super::conflict::read).collect();
    let stories = [key, payment_story(payment_id)];
    let status = match (&validation, &posting, &returned) {
        (_, _, Some(_)) => "returned",
        (_, Some(_), None) => "posted",
        (Some(validation), None, None) if validation["is_valid"] == true => "validated",
        (Some(_), None, None) => match unapplied.as_ref().and_then(|unapplied| unapplied["status"].as_str()) {
            Some("moved") => "moved",
            Some("refunded") => "refunded",
            _ => "failed",
        },
        (None, None, None) => "received",
    };
    let document = json!({
        "payment_id": payment_id,
        "status": status,
        "ledger": ledger_events(tx, [&unapplied, &posting, &returned], &reposts).await?,
        "messages": messages(tx, payment_id, &stories, received_at, [&unapplied, &posting, &returned]).await?,
        "dead_letters": dead_letters(tx, payment_id, &stories).await?,
        "intake": intake,
        "validation": validation,
        "unapplied": unapplied,
        "posting": posting,
        "reposts": reposts,
        "return": returned,
        "conflicts": conflicts,
    });
    let loan_id = document["intake"]["loan_id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_default();
    Ok(Some(PaymentDetails { loan_id, status, document }))
}

async fn query_document(tx: &Tx, sql: &'static str, payment_id: Uuid) -> Result<Option<Value>, DbError> {
    Ok(tx.query_opt(sql, &[&payment_id]).await?.map(|row| row.get(0)))
}

async fn query_documents(tx: &Tx, sql: &'static str, payment_id: Uuid) -> Result<Vec<Value>, DbError> {
    Ok(tx.query(sql, &[&payment_id, &MAX_ENTRIES]).await?.iter().map(|row| row.get(0)).collect())
}

/// Returns every ledger event of the payment, with its lines, in the order of creation.
async fn ledger_events(
    tx: &Tx,
    rows: [&Option<Value>; 3],
    reposts: &[Value],
) -> Result<Vec<Value>, ledger::LedgerError> {
    let names = ["event_id", "release_id", "reversal_id", "fee_event_id"];
    let rows = rows.into_iter().flatten().chain(reposts);
    let mut ids: Vec<Uuid> =
        rows.flat_map(|row| names.iter().filter_map(|name| row[*name].as_str()?.parse().ok())).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut events = Vec::with_capacity(ids.len());
    for id in ids {
        events.extend(ledger::event(tx, id).await?.map(|event| {
            let lines: Vec<Value> = event
                .lines
                .iter()
                .map(|line| {
                    json!({"account": line.account, "side": line.side, "amount_minor": line.amount, "memo": line.memo})
                })
                .collect();
            json!({
                "event_id": event.event_id, "schema": event.schema, "correlation_id": event.correlation_id,
                "effective_date": event.effective_date, "finalized_at": event.finalized_at,
                "reverses": event.reverses, "reversed_by": event.reversed_by, "lines": lines,
            })
        }));
    }
    Ok(events)
}

async fn dead_letters(tx: &Tx, payment_id: Uuid, stories: &[String]) -> Result<Vec<Value>, DbError> {
    let rows = tx.query(DEAD, &[&stories, &MAX_ENTRIES, &payment_id.to_string()]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

async fn messages(
    tx: &Tx,
    payment_id: Uuid,
    stories: &[String],
    received_at: Timestamp,
    later: [&Option<Value>; 3],
) -> Result<Vec<Value>, DbError> {
    let known =
        later.into_iter().flatten().flat_map(|row| [&row["posted_at"], &row["recorded_at"], &row["settled_at"]]);
    let last = known.filter_map(|at| at.as_str()?.parse().ok()).chain([received_at]).max().unwrap_or(received_at);
    let limit = i32::try_from(MAX_ENTRIES).unwrap_or(i32::MAX);
    let rows = tx.query(MESSAGES, &[&stories, &received_at, &last, &limit, &payment_id.to_string()]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
