//! Posts payments: locks the loan, accrues interest, divides, posts to the ledger and publishes, in one transaction.

use super::{
    apply_suspense::apply_suspense,
    independent_groups,
    replay::{self, ReplayReason},
};
use crate::LendingError;
use crate::loans::store::ScheduleCache;
use crate::loans::{self, BooksRequest, Loan, postings};
use crate::model::{self, Allocation, AllocationHints, Dues, LoanBooks, RepaymentSchedule};
use crate::payments::{
    events::{NewBalances, PaymentPosted, payment_story},
    metrics,
    store::{self, NewPosting, PostingState},
};
use futures_util::try_join;
use jiff::{Timestamp, civil::Date};
use onceward::{Scope, Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_ledger::{self as ledger, Balances, LedgerError, NewLedgerEvent, PostingOutcome};
use onceward_money::{Minor, MoneyError};
use serde_json::json;
use std::{collections::HashMap, sync::Arc};
use uuid::Uuid;

/// The outcome of posting a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PostPaymentOutcome {
    /// The payment was posted now.
    Posted,
    /// The payment was posted before.
    AlreadyPosted,
    /// The payment may not be posted, with the reason.
    Refused(&'static str),
}

/// A payment to post, as a message or a request describes it. It must match the validated payment.
pub(crate) struct PaymentRef<'s> {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub amount: Option<Minor>,
    pub effective_date: Date,
    /// The scope of that message or request.
    pub scope: &'s Scope,
}

/// Posts one payment.
pub(crate) async fn post_payment(
    tx: &mut Tx,
    schedules: &ScheduleCache,
    payment: PaymentRef<'_>,
) -> Result<PostPaymentOutcome, LendingError> {
    let mut outcomes = Box::pin(post_payments(tx, schedules, &[payment])).await?;
    Ok(outcomes.pop().expect("every payment has an outcome"))
}

/// Posts many payments and publishes an event for each. Returns their outcomes, in no particular order.
///
/// Payments of different loans are independent and are posted by the same statements; a loan's next payment follows
/// when the previous one is in the books.
pub(crate) async fn post_payments(
    tx: &mut Tx,
    schedules: &ScheduleCache,
    payments: &[PaymentRef<'_>],
) -> Result<Vec<PostPaymentOutcome>, LendingError> {
    let mut outcomes = Vec::with_capacity(payments.len());
    for group in independent_groups(payments, |payment| payment.loan_id) {
        let locked = lock_payments(tx, schedules, &group).await?;
        let without_loan = group.len() - locked.len();
        outcomes.extend(vec![PostPaymentOutcome::Refused("there is no such loan"); without_loan]);
        let ids: Vec<Uuid> = locked.iter().map(|locked| locked.payment.payment_id).collect();
        let requests: Vec<BooksRequest<'_>> = locked.iter().map(LockedPayment::books_request).collect();
        let (mut states, books) = try_join!(
            async { store::posting_states(tx, &ids).await.map_err(LendingError::from) },
            loans::books_of_all(tx, &requests),
        )?;
        let mut divided = Vec::with_capacity(locked.len());
        for (mut locked, (books, balances)) in locked.into_iter().zip(books) {
            let (state, validated_at) = match check_postable(locked.payment, states.remove(&locked.payment.payment_id))
            {
                Ok(postable) => postable,
                Err(outcome) => {
                    outcomes.push(outcome);
                    continue;
                }
            };
            if replay::can_be_replayed(&locked.loan) && !locked.ended && is_backdated(&locked.loan, &state) {
                // Rare and large: boxed, so that it does not enlarge the future of every posting.
                Box::pin(post_backdated(tx, schedules, &mut locked, &state)).await?;
            } else {
                divided.push(locked.divide(tx, &state, books, balances).await?);
            }
            metrics::posted(tx, state.received_at, validated_at);
            outcomes.push(PostPaymentOutcome::Posted);
        }
        record(tx, divided).await?;
    }
    Ok(outcomes)
}

/// A payment and its loan, which is locked and has its interest booked up to the day on which the payment is divided.
struct LockedPayment<'p> {
    payment: &'p PaymentRef<'p>,
    loan: Loan,
    schedule: Arc<RepaymentSchedule>,
    day: Date,
    held: bool,
    /// The loan no longer takes payments; they are held.
    ended: bool,
}

/// Locks the loans and prepares them for their payments. Leaves out the payments whose loan does not exist.
async fn lock_payments<'p>(
    tx: &mut Tx,
    schedules: &ScheduleCache,
    payments: &[&'p PaymentRef<'p>],
) -> Result<Vec<LockedPayment<'p>>, LendingError> {
    let ids: Vec<Uuid> = payments.iter().map(|payment| payment.loan_id).collect();
    let locked = loans::store::lock_loans(tx, &ids).await?;
    let mut loans: HashMap<Uuid, Loan> = locked.into_iter().map(|loan| (loan.loan_id, loan)).collect();
    let mut locked = Vec::with_capacity(payments.len());
    for payment in payments {
        let Some(mut loan) = loans.remove(&payment.loan_id) else {
            continue;
        };
        let day = loans::division_day(&loan, payment.effective_date);
        Box::pin(apply_suspense(tx, payment.scope, schedules, &mut loan, day)).await?;
        let held = loans::is_held(tx, &loan, payment.effective_date).await?;
        let ended = !loan.status.accrues_interest();
        if !held {
            loans::accrue(tx, payment.scope, &mut loan, day).await?;
        }
        let schedule = schedules.schedule_of(tx, &loan).await?;
        locked.push(LockedPayment { payment, loan, schedule, day, held, ended });
    }
    Ok(locked)
}

/// Returns the validated payment and the time of its validation, or the outcome if it must not be posted.
fn check_postable(
    payment: &PaymentRef<'_>,
    state: Option<PostingState>,
) -> Result<(PostingState, Timestamp), PostPaymentOutcome> {
    let state = state.ok_or(PostPaymentOutcome::Refused("there is no such payment"))?;
    if !matches_payment(&state, payment) {
        return Err(PostPaymentOutcome::Refused("the payment with this id has another loan, amount or effective date"));
    }
    if state.posted {
        return Err(PostPaymentOutcome::AlreadyPosted);
    }
    let validated_at = state.validated_at.ok_or(PostPaymentOutcome::Refused("the payment did not pass validation"))?;
    Ok((state, validated_at))
}

fn matches_payment(state: &PostingState, payment: &PaymentRef<'_>) -> bool {
    state.loan_id == payment.loan_id
        && payment.amount.is_none_or(|amount| amount == state.amount)
        && state.effective_date == payment.effective_date
}

/// Returns whether something in the books depends on the payment.
fn is_backdated(loan: &Loan, state: &PostingState) -> bool {
    state.later || loan.accrued_to.is_some_and(|accrued_to| accrued_to > state.effective_date)
}

/// A payment that is divided and ready to be recorded.
struct DividedPayment<'p> {
    scope: &'p Scope,
    loan: Loan,
    event: NewLedgerEvent,
    posting: NewPosting,
    is_owed: bool,
}

impl<'p> LockedPayment<'p> {
    fn books_request(&self) -> BooksRequest<'_> {
        BooksRequest { loan: &self.loan, day: self.day, with_receipts: self.has_due_instalment() }
    }

    /// Returns whether an instalment is due. Before the first one, earlier receipts cannot have paid any.
    fn has_due_instalment(&self) -> bool {
        !self.schedule.due_by(self.day).is_empty()
    }

    async fn divide(
        self,
        tx: &mut Tx,
        state: &PostingState,
        books: LoanBooks,
        mut balances: Balances,
    ) -> Result<DividedPayment<'p>, LendingError> {
        let PaymentRef { payment_id, scope, .. } = *self.payment;
        let applied =
            if self.held { model::hold(state.amount) } else { self.apply(tx, state, books, &mut balances).await? };
        let event = ledger_event(&self.loan, payment_id, state, &applied)?;
        balances.apply(&event.lines)?;
        let new_balances = NewBalances::of(&balances)?;
        let posting = NewPosting { payment_id, event_id: event.event_id, applied, new_balances, held: self.held };
        Ok(DividedPayment { scope, loan: self.loan, event, posting, is_owed: loans::owes(&balances) })
    }

    /// Divides the payment, after charging late fees up to its day; interest is already booked.
    async fn apply(
        &self,
        tx: &mut Tx,
        state: &PostingState,
        mut books: LoanBooks,
        balances: &mut Balances,
    ) -> Result<Vec<Allocation>, LendingError> {
        let Self { payment, loan, schedule, day, .. } = self;
        if loans::update_late_fees(tx, payment.scope, loan, schedule, &books, *day).await? {
            (books, *balances) = loans::books_and_balances(tx, loan, *day, self.has_due_instalment()).await?;
        }
        let dues = Dues::on(*day, &loan.policy, &loan.calendar, schedule, &books)?;
        let hints = AllocationHints::from_stored(&state.hints);
        Ok(model::allocate(state.amount, &loan.policy, &dues.outstanding, hints)?)
    }
}

/// Posts the payments to the ledger, stores their postings and publishes them.
async fn record(tx: &mut Tx, divided: Vec<DividedPayment<'_>>) -> Result<(), LendingError> {
    if divided.is_empty() {
        return Ok(());
    }
    let (mut events, mut postings, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for DividedPayment { scope, loan, event, posting, is_owed } in divided {
        rest.push((scope, loan, event.effective_date, is_owed));
        events.push(event);
        postings.push(posting);
    }
    let (posted, ()) = try_join!(async { ledger::post_all(tx, &events).await.map_err(LendingError::from) }, async {
        store::insert_postings(tx, &postings).await.map_err(LendingError::from)
    })?;
    for outcome in posted {
        if let PostingOutcome::AlreadyPosted { event_id } = outcome {
            return Err(LedgerError::AlreadyPosted { event_id }.into());
        }
    }
    for ((scope, mut loan, effective_date, is_owed), posting) in rest.into_iter().zip(postings) {
        publish(tx, scope, &loan, effective_date, posting).await?;
        if !is_owed {
            loans::settle_if_paid(tx, scope, &mut loan, effective_date).await?;
        }
    }
    Ok(())
}

/// Posts a payment that takes effect before existing postings, and replays those.
async fn post_backdated(
    tx: &mut Tx,
    schedules: &ScheduleCache,
    locked: &mut LockedPayment<'_>,
    state: &PostingState,
) -> Result<(), LendingError> {
    let LockedPayment { payment: PaymentRef { payment_id, scope, .. }, loan, held, .. } = locked;
    let hints = AllocationHints::from_stored(&state.hints);
    let reason =
        ReplayReason::Backdated { payment_id: *payment_id, amount: state.amount, hints, event_id: Uuid::now_v7() };
    let replayed = Box::pin(replay::replay(tx, scope, schedules, loan, state.effective_date, reason)).await?;
    let (event_id, applied) = replayed.posted.expect("a replay posts its backdated payment");
    let balances = ledger::balances(tx, loan.loan_id, loan.currency).await?;
    let new_balances = NewBalances::of(&balances)?;
    let posting = NewPosting { payment_id: *payment_id, event_id, applied, new_balances, held: *held };
    store::insert_postings(tx, std::slice::from_ref(&posting)).await?;
    publish(tx, scope, loan, state.effective_date, posting).await?;
    let day = loan.accrued_to.unwrap_or(state.effective_date);
    loans::settle_if_paid(tx, scope, loan, day).await?;
    Ok(())
}

fn ledger_event(
    loan: &Loan,
    payment_id: Uuid,
    state: &PostingState,
    applied: &[Allocation],
) -> Result<NewLedgerEvent, MoneyError> {
    let lines = postings::payment_lines(state.amount, applied)?;
    let schema = postings::payment_schema(AllocationHints::from_stored(&state.hints));
    Ok(postings::event(loan, schema, state.effective_date, payment_story(payment_id), lines))
}

/// Records the posting in the audit trail and publishes it.
async fn publish(
    tx: &mut Tx,
    scope: &Scope,
    loan: &Loan,
    effective_date: Date,
    posting: NewPosting,
) -> Result<(), LendingError> {
    let NewPosting { payment_id, event_id, applied, new_balances, .. } = posting;
    let loan_id = loan.loan_id;
    let payload = json!({"event_id": event_id, "effective_date": effective_date, "applied": applied});
    let entry = Entry::new("payment_posted").object("payment", payment_id).loan(loan_id);
    audit::record_as(tx, scope, entry.payload(payload))?;
    let posted = PaymentPosted { payment_id, loan_id, event_id, effective_date, applied, new_balances };
    outbox::publish_as(tx, scope, &posted).await?;
    Ok(())
}
