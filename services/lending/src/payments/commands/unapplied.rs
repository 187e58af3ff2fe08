//! Money of payments that failed, by a rule or because their loan's books refused them: booked as unapplied cash of
//! the tenant, and settled by an operator.
//!
//! ```text
//!                      ┌─ revalidate ──► posted to its loan
//! failed ──► held ─────┼─ move ────────► posted to another loan, as a payment of its own
//!        (unapplied    └─ refund ──────► back to its payer
//!         cash)
//! ```
//!
//! The money leaves unapplied cash and is posted to a loan in one transaction, so it is booked at any time. Each
//! happens once: the row of the payment is locked and must be `held`.

use super::{
    post_payment::{PaymentRef, PostPaymentOutcome, post_payment},
    receive_payment::{ReceiveOutcome, receive_payment_with_id},
};
use crate::loans::store::ScheduleCache;
use crate::payments::{
    events::{PaymentMoved, PaymentRefunded, PaymentRevalidated},
    provider::{DIRECT, ReportedPayment, utc_day},
    rules::{self, PaymentFacts, PaymentLimits},
    store::{self, NewUnapplied, UnappliedPayment, UnappliedSettlement, ValidationDecision},
};
use crate::{LendingError, Settings};
use jiff::{Timestamp, civil::Date};
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger::{self as ledger, Account, NO_LOAN, NewLedgerEvent, credit, debit};
use onceward_money::{Currency, Minor};
use serde_json::json;
use uuid::Uuid;

/// Money that was received and is not applied to anything.
const UNAPPLIED: &str = "posting.unapplied_cash.v1";
/// The money is applied to a loan after all.
const RELEASE: &str = "posting.unapplied_release.v1";
/// The money is refunded to its payer.
const REFUND: &str = "posting.unapplied_refund.v1";

/// A payment that failed.
#[derive(Clone, Copy)]
pub(crate) struct FailedPayment<'a> {
    pub payment_id: Uuid,
    pub amount: Minor,
    pub currency: Currency,
    pub reason: &'a str,
    /// The reason given by the loan's books, if they refused it.
    pub detail: Option<&'a str>,
    pub received_on: Date,
    /// The id of the new event that books the money.
    pub event_id: Uuid,
}

/// Books the money of newly failed payments, from the day on which it was received.
pub(crate) async fn book(tx: &Tx, failed: &[FailedPayment<'_>]) -> Result<(), LendingError> {
    let events: Vec<NewLedgerEvent> = failed.iter().map(FailedPayment::ledger_event).collect();
    for events in events.chunks(ledger::MAX_EVENTS) {
        ledger::post_all(tx, events).await?;
    }
    let rows = failed.iter().map(|failed| NewUnapplied {
        payment_id: failed.payment_id,
        amount: failed.amount,
        currency: failed.currency,
        reason: failed.reason,
        detail: failed.detail,
        received_on: failed.received_on,
        event_id: failed.event_id,
    });
    let rows: Vec<NewUnapplied<'_>> = rows.collect();
    if !rows.is_empty() {
        store::insert_unapplied(tx, &rows).await?;
    }
    Ok(())
}

impl FailedPayment<'_> {
    fn ledger_event(&self) -> NewLedgerEvent {
        let memo = format!("payment that failed: {}", self.reason);
        NewLedgerEvent {
            event_id: self.event_id,
            loan_id: NO_LOAN,
            effective_date: self.received_on,
            correlation_id: format!("unapplied:{}", self.payment_id),
            schema: UNAPPLIED.to_owned(),
            currency: self.currency,
            lines: vec![debit(Account::Cash, self.amount, &memo), credit(Account::UnappliedCash, self.amount, memo)],
            note: None,
        }
    }
}

/// Checks a payment again by the current rules and state of the loan, and posts it. `effective_date` replaces the
/// original effective day.
pub(crate) async fn revalidate(
    tx: &mut Tx,
    schedules: &ScheduleCache,
    settings: &Settings,
    payment_id: Uuid,
    effective_date: Option<Date>,
) -> Result<(), LendingError> {
    let held = lock(tx, payment_id).await?;
    let day = effective_date.unwrap_or(held.effective_date);
    let release_id = release(tx, &held, RELEASE, held.received_on).await?;
    Box::pin(check_and_post(tx, schedules, settings, payment_id, day)).await?;
    let settled = UnappliedSettlement { status: "applied", release_id, moved_to: None, note: None };
    store::settle_unapplied(tx, payment_id, &settled).await?;
    let loan_id = held.loan_id;
    let event = PaymentRevalidated { payment_id, loan_id, release_id, effective_date: day };
    audit::record(tx, entry("payment_revalidated", &held).payload(json!(event)))?;
    outbox::publish(tx, &event).await?;
    Ok(())
}

/// The target of a move.
pub(crate) struct MoveTarget<'a> {
    pub loan_id: Uuid,
    /// The id of the new payment on that loan.
    pub payment_id: Uuid,
    pub effective_date: Option<Date>,
    pub reason: Option<&'a str>,
}

/// Posts the money to another loan, as a payment of that loan with the original time of receipt.
pub(crate) async fn move_payment(
    tx: &mut Tx,
    schedules: &ScheduleCache,
    settings: &Settings,
    payment_id: Uuid,
    target: MoveTarget<'_>,
) -> Result<(), LendingError> {
    let held = lock(tx, payment_id).await?;
    let day = target.effective_date.unwrap_or(held.effective_date);
    let release_id = release(tx, &held, RELEASE, held.received_on).await?;
    let reported = ReportedPayment {
        provider: DIRECT,
        loan_id: target.loan_id,
        method: held.method,
        amount: held.amount_minor,
        currency: held.currency,
        gateway_txn_id: format!("moved:{payment_id}"),
        effective_date: Some(day),
        hints: held.hints.clone(),
        raw: json!({"moved_from": payment_id}),
    };
    if held.currency != Currency::USD {
        return Err(still_fails(rules::FailureReason::Currency));
    }
    match receive_payment_with_id(tx, target.payment_id, reported, held.received_at).await? {
        ReceiveOutcome::Accepted { .. } => {}
        ReceiveOutcome::LoanMissing { loan_id } => return Err(LendingError::LoanMissing(loan_id)),
        _ => return Err(LendingError::PaymentRefused("the payment was moved before".to_owned())),
    }
    Box::pin(check_and_post(tx, schedules, settings, target.payment_id, day)).await?;
    let moved_to = Some((target.loan_id, target.payment_id));
    store::settle_unapplied(
        tx,
        payment_id,
        &UnappliedSettlement { status: "moved", release_id, moved_to, note: target.reason },
    )
    .await?;
    let event = PaymentMoved {
        payment_id,
        loan_id: held.loan_id,
        to_payment_id: target.payment_id,
        to_loan_id: target.loan_id,
        release_id,
        reason: target.reason.map(str::to_owned),
    };
    audit::record(tx, entry("payment_moved", &held).payload(json!(event)))?;
    outbox::publish(tx, &event).await?;
    Ok(())
}

/// Refunds the money to its payer, on a day not before its receipt.
pub(crate) async fn refund(tx: &mut Tx, payment_id: Uuid, refunded_on: Date, reason: &str) -> Result<(), LendingError> {
    let held = lock(tx, payment_id).await?;
    if refunded_on < held.received_on {
        let text = format!("the payment was received on {}: use that day or a later one", held.received_on);
        return Err(LendingError::PaymentRefused(text));
    }
    let release_id = release(tx, &held, REFUND, refunded_on).await?;
    let settled = UnappliedSettlement { status: "refunded", release_id, moved_to: None, note: Some(reason) };
    store::settle_unapplied(tx, payment_id, &settled).await?;
    let event = PaymentRefunded {
        payment_id,
        loan_id: held.loan_id,
        event_id: release_id,
        amount_minor: held.amount_minor,
        currency: held.currency,
        refunded_on,
        reason: reason.to_owned(),
    };
    audit::record(tx, entry("payment_refunded", &held).payload(json!(event)))?;
    outbox::publish(tx, &event).await?;
    Ok(())
}

async fn lock(tx: &Tx, payment_id: Uuid) -> Result<UnappliedPayment, LendingError> {
    let refused = |text: String| LendingError::PaymentRefused(text);
    let found = store::lock_unapplied(tx, payment_id).await?;
    let found = found.ok_or_else(|| refused("the payment is not held as unapplied cash".to_owned()))?;
    if found.status != "held" {
        return Err(refused(format!("the payment is not held as unapplied cash any more: it was {}", found.status)));
    }
    Ok(found)
}

/// Takes the money out of unapplied cash. Money for a loan leaves on the day on which it was received, as if it had
/// never been there.
async fn release(tx: &Tx, held: &UnappliedPayment, schema: &str, day: Date) -> Result<Uuid, LendingError> {
    let memo = if schema == REFUND { "refund to the payer" } else { "applied to a loan" };
    let event = NewLedgerEvent {
        event_id: Uuid::now_v7(),
        loan_id: NO_LOAN,
        effective_date: day,
        correlation_id: format!("unapplied_settled:{}", held.payment_id),
        schema: schema.to_owned(),
        currency: held.currency,
        lines: vec![
            debit(Account::UnappliedCash, held.amount_minor, memo),
            credit(Account::Cash, held.amount_minor, memo),
        ],
        note: None,
    };
    Ok(ledger::post(tx, &event).await?.event_id)
}

/// Validates a payment for `day`, or refuses it, and posts it. A day that was in the future at the time of receipt may
/// have come.
async fn check_and_post(
    tx: &mut Tx,
    schedules: &ScheduleCache,
    settings: &Settings,
    payment_id: Uuid,
    day: Date,
) -> Result<(), LendingError> {
    let stored = store::load_validations(tx, &[payment_id]).await?.remove(&payment_id);
    let stored = stored.ok_or_else(|| LendingError::PaymentRefused("there is no such payment".to_owned()))?;
    let facts = PaymentFacts {
        loan: stored.loan,
        amount: stored.amount,
        currency: stored.currency,
        received_on: utc_day(stored.received_at),
        latest: utc_day(Timestamp::now()),
        effective_date: day,
        hints: &stored.hints,
    };
    rules::check(&facts, PaymentLimits::from(settings)).map_err(still_fails)?;
    let decision = ValidationDecision { payment_id, reason: None, hints: &stored.hints, effective_date: day };
    store::save_validations(tx, &[decision]).await?;
    let entry = Entry::new("payment_validated").object("payment", payment_id).loan(stored.loan_id);
    audit::record(tx, entry.payload(json!({ "effective_date": day })))?;
    let scope = &tx.scope().clone();
    let payment = PaymentRef { payment_id, loan_id: stored.loan_id, amount: None, effective_date: day, scope };
    match Box::pin(post_payment(tx, schedules, payment)).await? {
        PostPaymentOutcome::Posted => Ok(()),
        PostPaymentOutcome::AlreadyPosted => {
            Err(LendingError::PaymentRefused("the payment is posted already".to_owned()))
        }
        PostPaymentOutcome::Refused(reason) => Err(LendingError::PaymentRefused(reason.to_owned())),
    }
}

fn still_fails(reason: rules::FailureReason) -> LendingError {
    let text =
        format!("the payment still fails validation ({}): correct the cause, move it or refund it", reason.as_str());
    LendingError::PaymentRefused(text)
}

fn entry(event_type: &str, held: &UnappliedPayment) -> Entry {
    Entry::new(event_type).object("payment", held.payment_id).loan(held.loan_id)
}
