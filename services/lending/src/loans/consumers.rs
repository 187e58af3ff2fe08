//! The consumers of loan commands.

use super::{
    commands::{create_loan, service_loans, update_loan},
    events::{LoanAccrue, LoanCreate, LoanUpdate},
    metrics, store,
};
use crate::{
    LendingError, Settings,
    progress::CommandState,
    topology::{exchanges, keys, queues, tenant_key},
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use onceward::{Consumer, Event, Failure, Handler, NewMessage, Received, Schedule, Service, Tx, db::Savepoint, outbox};
use onceward_audit::{self as audit, Entry};
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

pub(crate) fn consumers(service: Service, settings: &Settings) -> Service {
    let topic = format!("{}:{}", exchanges::SCHEDULES, tenant_key("{tenant}", keys::LOAN_ACCRUE));
    let accrual = Schedule::new("lending-accrual", &settings.accrual_cron, topic, LoanAccrue::TYPE);
    service
        .consumer(Consumer::transactional("create-loan", queues::LOAN_CREATE).on(OnLoanCreate))
        .consumer(Consumer::transactional("update-loan", queues::LOAN_UPDATE).on(OnLoanUpdate))
        .consumer(Consumer::transactional("accrue-loans", queues::LOAN_ACCRUE).on(OnAccrualTick))
        .schedule(accrual.each_tenant())
}

/// `loan.create.v1`: creates the loan of an accepted request.
struct OnLoanCreate;

impl Handler for OnLoanCreate {
    type Event = LoanCreate;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, LoanCreate>) -> Result<(), Failure> {
        let LoanCreate { loan_id, loan_data } = &received.event;
        let savepoint = tx.savepoint();
        let result = create_loan(tx, *loan_id, loan_data).await;
        if result.is_ok() {
            metrics::created(tx, received.envelope.occurred_at);
        }
        record_outcome(tx, savepoint, LoanCreate::TYPE, *loan_id, result).await
    }
}

/// How long a change waits for its loan to be created: both may be requested at the same time, through different
/// queues.
const CREATION_WAIT_MAX: SignedDuration = SignedDuration::from_mins(10);
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// `loan.update.v1`: changes a loan.
struct OnLoanUpdate;

impl Handler for OnLoanUpdate {
    type Event = LoanUpdate;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, LoanUpdate>) -> Result<(), Failure> {
        let update = &received.event;
        let today = received.envelope.occurred_at.to_zoned(TimeZone::UTC).date();
        let savepoint = tx.savepoint();
        let result = update_loan(tx, update, today).await;
        let waited = Timestamp::now().duration_since(received.envelope.occurred_at);
        if matches!(result, Err(LendingError::LoanMissing(_)))
            && waited < CREATION_WAIT_MAX
            && store::is_creation_accepted(tx, update.loan_id).await?
        {
            return Err(Failure::snooze(POLL_INTERVAL, "the loan is still being created"));
        }
        record_outcome(tx, savepoint, LoanUpdate::TYPE, update.loan_id, result).await
    }
}

/// The number of loans per transaction.
const BATCH: usize = 200;
/// An upper bound far above the number of batches that a tenant has.
const MAX_PARTS: u32 = 1_000_000;
/// The delay before loans locked by other transactions are tried again.
const LOCKED_LOANS_DELAY: Duration = Duration::from_secs(1);

/// `loan.accrue.v1`: services a tenant's loans for a day, one batch per transaction.
struct OnAccrualTick;

impl Handler for OnAccrualTick {
    type Event = LoanAccrue;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, LoanAccrue>) -> Result<(), Failure> {
        let tick = &received.event;
        let day = tick.scheduled_for.to_zoned(TimeZone::UTC).date();
        let loans = store::lock_unserviced(tx, day, BATCH as i64).await?;
        service_loans(tx, &loans, day).await?;
        if !store::has_unserviced(tx, day).await? {
            return Ok(());
        }
        if tick.part >= MAX_PARTS {
            return Err(Failure::permanent("the tick was split into too many parts; the next tick continues"));
        }
        let next = LoanAccrue { part: tick.part + 1, ..tick.clone() };
        let message = NewMessage::from_event(&next, tx.tenant()?)?
            .once_per(format!("loan.accrue:{}", received.envelope.event_id));
        let message = if loans.len() < BATCH { message.after(LOCKED_LOANS_DELAY) } else { message };
        outbox::send(tx, message).await?;
        Ok(())
    }
}

/// Records the outcome of a command about a loan. A refusal rolls back to `savepoint` and is a final result, not a
/// failure: the reason appears in the command's status.
async fn record_outcome<T>(
    tx: &mut Tx,
    savepoint: Savepoint,
    kind: &str,
    loan_id: Uuid,
    result: Result<T, LendingError>,
) -> Result<(), Failure> {
    match result {
        Ok(_) => {
            tx.release(savepoint);
            store::set_command_state(tx, kind, loan_id, CommandState::Done, None).await?;
        }
        Err(refusal) if refusal.is_refusal() => {
            tx.rollback_to(savepoint).await?;
            tx.release(savepoint);
            let reason = refusal.to_string();
            store::set_command_state(tx, kind, loan_id, CommandState::Refused, Some(&reason)).await?;
            let payload = json!({"command": kind, "reason": reason});
            let entry = Entry::new("loan_command_refused").object("loan", loan_id).loan(loan_id).payload(payload);
            audit::record(tx, entry).map_err(LendingError::from)?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
