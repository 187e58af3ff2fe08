//! Failed payments, and the settlement of their money.

use crate::payments::events::PaymentMethod;
use jiff::{Timestamp, civil::Date};
use onceward::{DbError, Row, Tx, db::ToSql};
use onceward_money::{Currency, Minor};
use postgres_types::Json;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

const INSERT: &str = "
    INSERT INTO lending.unapplied_payment
        (tenant_id, payment_id, amount_minor, currency, reason, detail, received_on, event_id)
    SELECT $1, n.payment_id, n.amount, n.currency, n.reason, n.detail, n.received_on, n.event_id
    FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::date[], $8::uuid[])
        AS n (payment_id, amount, currency, reason, detail, received_on, event_id)";
macro_rules! select_unapplied {
    ($rest:literal) => {
        concat!(
            "
    SELECT u.payment_id, i.loan_id, i.method::text AS method, u.amount_minor, u.currency, u.reason, u.detail,
        u.received_on, u.event_id, u.release_id, u.status, u.to_loan_id, u.to_payment_id, u.note, u.settled_by, u.booked_at, u.settled_at,
        i.received_at, i.effective_date, i.allocation_hints
    FROM lending.unapplied_payment u
    JOIN lending.payment_intake i ON i.tenant_id = u.tenant_id AND i.payment_id = u.payment_id",
            $rest
        )
    };
}
const FIND: &str = select_unapplied!(
    "
    WHERE u.payment_id = $1"
);
const LOCK: &str = select_unapplied!(
    "
    WHERE u.payment_id = $1
    FOR UPDATE OF u"
);
const LIST_HELD: &str = select_unapplied!(
    "
    WHERE u.status = 'held'
      AND ($1::uuid IS NULL OR u.payment_id > $1)
    ORDER BY u.payment_id
    LIMIT $2"
);
const LIST_ALL: &str = select_unapplied!(
    "
    WHERE $1::uuid IS NULL OR u.payment_id > $1
    ORDER BY u.payment_id
    LIMIT $2"
);
const SETTLE: &str = "
    UPDATE lending.unapplied_payment
    SET status = $2,
        release_id = $3,
        to_loan_id = $4,
        to_payment_id = $5,
        note = $6,
        settled_by = $7,
        settled_at = now()
    WHERE payment_id = $1
      AND status = 'held'";

/// The money of a failed payment, to be booked.
pub(crate) struct NewUnapplied<'a> {
    pub payment_id: Uuid,
    pub amount: Minor,
    pub currency: Currency,
    pub reason: &'a str,
    pub detail: Option<&'a str>,
    pub received_on: Date,
    pub event_id: Uuid,
}

/// A failed payment as operators see it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct UnappliedPayment {
    pub payment_id: Uuid,
    /// The loan named by the payer.
    pub loan_id: Uuid,
    pub method: PaymentMethod,
    pub amount_minor: Minor,
    pub currency: Currency,
    /// The rule that the payment broke.
    pub reason: String,
    /// The reason given by the loan's books, if they refused it.
    pub detail: Option<String>,
    pub received_on: Date,
    pub event_id: Uuid,
    pub release_id: Option<Uuid>,
    /// `held`, `applied`, `moved` or `refunded`.
    pub status: String,
    pub to_loan_id: Option<Uuid>,
    pub to_payment_id: Option<Uuid>,
    pub note: Option<String>,
    pub settled_by: Option<String>,
    pub booked_at: Timestamp,
    pub settled_at: Option<Timestamp>,
    #[serde(skip)]
    pub received_at: Timestamp,
    /// The requested effective day of the payment.
    pub effective_date: Date,
    #[serde(skip)]
    pub hints: Map<String, Value>,
}

/// The settlement of the money.
pub(crate) struct UnappliedSettlement<'a> {
    pub status: &'static str,
    pub release_id: Uuid,
    /// The loan and the payment to which it was moved.
    pub moved_to: Option<(Uuid, Uuid)>,
    pub note: Option<&'a str>,
}

pub(crate) async fn insert_unapplied(tx: &Tx, new: &[NewUnapplied<'_>]) -> Result<(), DbError> {
    let tenant = tx.tenant()?.as_str();
    let payments: Vec<Uuid> = new.iter().map(|new| new.payment_id).collect();
    let amounts: Vec<Minor> = new.iter().map(|new| new.amount).collect();
    let currencies: Vec<&str> = new.iter().map(|new| new.currency.as_str()).collect();
    let reasons: Vec<&str> = new.iter().map(|new| new.reason).collect();
    let details: Vec<Option<&str>> = new.iter().map(|new| new.detail).collect();
    let days: Vec<Date> = new.iter().map(|new| new.received_on).collect();
    let events: Vec<Uuid> = new.iter().map(|new| new.event_id).collect();
    tx.execute(INSERT, &[&tenant, &payments, &amounts, &currencies, &reasons, &details, &days, &events]).await.map(drop)
}

pub(crate) async fn find_unapplied(tx: &Tx, payment_id: Uuid) -> Result<Option<UnappliedPayment>, DbError> {
    tx.query_opt(FIND, &[&payment_id]).await?.as_ref().map(read).transpose()
}

/// Returns the failed payment, locked until the transaction ends.
pub(crate) async fn lock_unapplied(tx: &Tx, payment_id: Uuid) -> Result<Option<UnappliedPayment>, DbError> {
    tx.query_opt(LOCK, &[&payment_id]).await?.as_ref().map(read).transpose()
}

/// Lists payments whose money is held, or `all`, starting after `after`.
pub(crate) async fn list_unapplied(
    tx: &Tx,
    all: bool,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<UnappliedPayment>, DbError> {
    tx.query(if all { LIST_ALL } else { LIST_HELD }, &[&after, &limit]).await?.iter().map(read).collect()
}

/// Records the settlement of held money.
pub(crate) async fn settle_unapplied(
    tx: &Tx,
    payment_id: Uuid,
    settled: &UnappliedSettlement<'_>,
) -> Result<(), DbError> {
    let UnappliedSettlement { status, release_id, moved_to, note } = settled;
    let (to_loan, to_payment) = moved_to.unzip();
    let actor = &tx.scope().actor;
    let by = actor.user_id.as_deref().or(actor.service.as_deref());
    let params: [&(dyn ToSql + Sync); 7] = [&payment_id, status, release_id, &to_loan, &to_payment, note, &by];
    tx.execute(SETTLE, &params).await.map(drop)
}

fn read(row: &Row) -> Result<UnappliedPayment, DbError> {
    let method = serde_json::from_value(Value::String(row.get("method")))
        .map_err(|error| DbError::Config(format!("a payment's method cannot be read, correct the row: {error}")))?;
    let Json(hints) = row.try_get("allocation_hints")?;
    Ok(UnappliedPayment {
        payment_id: row.get("payment_id"),
        loan_id: row.get("loan_id"),
        method,
        amount_minor: row.get("amount_minor"),
        currency: row.try_get("currency")?,
        reason: row.get("reason"),
        detail: row.get("detail"),
        received_on: row.get("received_on"),
        event_id: row.get("event_id"),
        release_id: row.get("release_id"),
        status: row.get("status"),
        to_loan_id: row.get("to_loan_id"),
        to_payment_id: row.get("to_payment_id"),
        note: row.get("note"),
        settled_by: row.get("settled_by"),
        booked_at: row.get("booked_at"),
        settled_at: row.get("settled_at"),
        received_at: row.get("received_at"),
        effective_date: row.get("effective_date"),
        hints,
    })
}
