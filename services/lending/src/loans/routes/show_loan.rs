//! Reading loans.

use super::today;
use crate::{
    LendingError,
    loans::{
        Loan,
        events::{LoanCreate, LoanUpdate},
        position,
        store::{self, LoanFilter},
    },
    model::LoanStatus,
    progress::CommandState,
};
use jiff::civil::Date;
use onceward::{prelude::*, web::axum::extract::Query};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

const PAGE: u16 = 50;
const PAGE_MAX: u16 = 500;

pub(super) async fn find(tx: &Tx, loan_id: Uuid) -> Result<Loan, Problem> {
    Ok(store::find_loan(tx, loan_id).await?.ok_or(LendingError::LoanMissing(loan_id))?)
}

pub(super) async fn show(Path(loan_id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let loan = find(&reader.tx, loan_id).await?;
    let balances = onceward_ledger::balances(&reader.tx, loan_id, loan.currency).await.map_err(LendingError::from)?;
    let mut document = loan.view();
    document["balances"] = super::ledger::view(&balances).map_err(LendingError::from)?;
    document["status_since"] = json!(loan.status_since);
    document["created_at"] = json!(loan.created_at);
    document["updated_at"] = json!(loan.updated_at);
    reader.respond(&document).await
}

/// Right after a command was accepted, only the command may exist.
pub(super) async fn status(Path(loan_id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    // The command is read first: if it is done, the loan that is read afterwards shows its effect.
    let last = store::latest_command(&reader.tx, loan_id, &[LoanCreate::TYPE, LoanUpdate::TYPE]).await?;
    let loan = store::find_loan(&reader.tx, loan_id).await?;
    if loan.is_none() && last.is_none() {
        return Err(LendingError::LoanMissing(loan_id).into());
    }
    let state = last.as_ref().map_or(CommandState::Done, |last| last.state);
    let status = loan.as_ref().map_or(state.as_str(), |loan| loan.status.as_str());
    let body = json!({
        "loanId": loan_id,
        "status": status,
        "state": state.as_str(),
        "reason": last.as_ref().and_then(|last| last.detail.as_deref()),
        "command": last.as_ref().map(|last| &last.kind),
        "correlationId": last.as_ref().map(|last| &last.correlation_id),
        "version": loan.as_ref().map(|loan| loan.version),
        "updatedAt": last.as_ref().map(|last| last.updated_at).or(loan.as_ref().map(|loan| loan.updated_at)),
    });
    reader.respond(&body).await
}

#[derive(Deserialize)]
pub(super) struct ScheduleQuery {
    version: Option<i32>,
}

/// Returns the schedule in force, or an earlier one by its number. Numbers start at 1 and have no gaps.
pub(super) async fn schedule(
    Path(loan_id): Path<Uuid>,
    Query(query): Query<ScheduleQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    let loan = find(&reader.tx, loan_id).await?;
    let schedule_no = query.version.unwrap_or(loan.schedule_no);
    if !(1..=loan.schedule_no).contains(&schedule_no) {
        let detail = format!("This loan has no schedule {schedule_no}. Use 1 to {}.", loan.schedule_no);
        return Err(Problem::new(codes::NOT_FOUND).detail(detail));
    }
    let schedule = store::find_schedule(&reader.tx, loan_id, schedule_no).await?;
    let body = json!({
        "loan_id": loan_id, "currency": loan.currency, "schedule_no": schedule_no, "in_force_no": loan.schedule_no,
        "instalment_minor": schedule.instalment, "rows": schedule.rows,
    });
    reader.respond(&body).await
}

/// Returns the loan's statuses with their effective days, in the order in which they were recorded.
pub(super) async fn statuses(Path(loan_id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let loan = find(&reader.tx, loan_id).await?;
    let changes = store::status_changes(&reader.tx, loan_id).await?;
    reader.respond(&json!({"loan_id": loan_id, "status": loan.status, "changes": changes})).await
}

#[derive(Deserialize)]
pub(super) struct PayoffQuery {
    #[serde(rename = "goodThrough")]
    good_through: Option<Date>,
}

pub(super) async fn payoff(
    Path(loan_id): Path<Uuid>,
    Query(query): Query<PayoffQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    let loan = find(&reader.tx, loan_id).await?;
    let accrued_to = loan.accrued_to.ok_or(LendingError::NotFunded)?;
    if !loan.status.accrues_interest() {
        let (action, needs) = ("a payoff quote", "active, in_modification or bankruptcy");
        return Err(LendingError::WrongStatus { action, needs, status: loan.status }.into());
    }
    let good_through = query.good_through.unwrap_or_else(|| today().max(accrued_to));
    let quote = position::payoff(&reader.tx, &loan, good_through).await?;
    let mut body = json!(quote);
    body["loan_id"] = json!(loan_id);
    body["currency"] = json!(loan.currency);
    reader.respond(&body).await
}

#[derive(Deserialize)]
pub(super) struct LoanListQuery {
    status: Option<LoanStatus>,
    borrower_entity_id: Option<Uuid>,
    after: Option<Uuid>,
    limit: Option<u16>,
}

pub(super) async fn list(Query(query): Query<LoanListQuery>, reader: Reader) -> Result<Response, Problem> {
    let limit = usize::from(query.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX));
    let filter = LoanFilter { status: query.status, borrower_entity_id: query.borrower_entity_id, after: query.after };
    // One row more than the page size shows whether there is another page.
    let mut loans = store::list_loans(&reader.tx, &filter, limit as i64 + 1).await?;
    let more = loans.len() > limit;
    loans.truncate(limit);
    let next = loans.last().filter(|_| more).map(|loan| loan.loan_id);
    let loans: Vec<Value> = loans.iter().map(Loan::view).collect();
    reader.respond(&json!({"loans": loans, "next": next})).await
}
