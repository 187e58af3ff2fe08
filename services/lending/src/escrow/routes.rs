//! The HTTP routes: parse, command, response.

use super::{
    Disbursement, DisbursementRequest, DisbursementStatus, Payee, Purpose, commands, events::EscrowDisburse, store,
};
use crate::{
    LendingError, Settings,
    loans::{Loan, store::find_loan},
};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use onceward::{prelude::*, web::axum::extract::Query};
use onceward_ledger::{self as ledger, Account};
use onceward_money::Minor;
use serde::Deserialize;
use std::sync::Arc;
use uuid::Uuid;

const PAGE: u16 = 50;
const PAGE_MAX: u16 = 500;

pub(crate) fn routes() -> Routes<Arc<Settings>> {
    Routes::new()
        .post("/api/loans/{id}/escrow/disbursements", Access::role("escrow:write"), request_disbursement)
        .summary("Pay taxes or insurance out of a loan's escrow, asynchronously")
        .request("escrow.request.v1")
        .responds(202, "escrow.accepted.v1")
        .get("/api/loans/{id}/escrow", Access::role("escrow:read"), show)
        .summary("Show the escrow balance and the disbursements; page with `?limit=` and `?after=`")
        .responds(200, "escrow.account.v1")
        .get("/api/loans/{id}/escrow/disbursements/{disbursement}", Access::role("escrow:read"), show_disbursement)
        .summary("Show a disbursement")
        .responds(200, "escrow.disbursement.v1")
}

#[derive(Deserialize)]
struct NewDisbursement {
    payee: Payee,
    amount_minor: Minor,
    purpose: Purpose,
    effective_date: Option<Date>,
    due_date: Option<Date>,
}

async fn request_disbursement(
    Path(loan_id): Path<Uuid>,
    command: Command<NewDisbursement>,
) -> Result<Response, Problem> {
    let (new, mut command) = command.into_parts();
    let loan = find(&command.tx, loan_id).await?;
    let disbursement_id = Uuid::now_v7();
    let disburse = EscrowDisburse { disbursement_id, loan_id, disbursement: new.into_request()? };
    commands::request_disbursement(&mut command.tx, &loan, &disburse).await?;
    let body = json!({"status": DisbursementStatus::Requested, "disbursementId": disbursement_id, "loanId": loan_id});
    command.accepted(format!("/api/loans/{loan_id}/escrow/disbursements/{disbursement_id}"), &body).await
}

impl NewDisbursement {
    /// Reports errors that can be found without the loan at once.
    fn into_request(self) -> Result<DisbursementRequest, Problem> {
        let Self { payee, amount_minor, purpose, effective_date, due_date } = self;
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        let effective_date = effective_date.unwrap_or(today);
        if !amount_minor.is_positive() {
            return Err(invalid("/amount_minor", "must be greater than 0".to_owned()));
        }
        if effective_date > today {
            return Err(invalid("/effective_date", LendingError::FutureDate(effective_date).to_string()));
        }
        Ok(DisbursementRequest { payee, amount_minor, purpose, effective_date, due_date })
    }
}

fn invalid(path: &str, message: String) -> Problem {
    Problem::new(codes::VALIDATION_FAILED).detail("The disbursement is invalid; see `errors`.").error(path, message)
}

#[derive(Deserialize)]
struct DisbursementListQuery {
    limit: Option<u16>,
    after: Option<Uuid>,
}

async fn show(
    Path(loan_id): Path<Uuid>,
    Query(query): Query<DisbursementListQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    let loan = find(&reader.tx, loan_id).await?;
    let balances = ledger::balances(&reader.tx, loan_id, loan.currency).await.map_err(LendingError::from)?;
    let balance = balances.normal(Account::EscrowLiability).map_err(LendingError::from)?;
    let limit = usize::from(query.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX));
    // One row more than the page size shows whether there is another page.
    let mut disbursements = store::list(&reader.tx, loan_id, query.after, limit as i64 + 1).await?;
    let has_more = disbursements.len() > limit;
    disbursements.truncate(limit);
    let next = disbursements.last().filter(|_| has_more).map(|last| last.disbursement_id);
    let body = json!({
        "loan_id": loan_id, "currency": loan.currency, "balance_minor": balance, "disbursements": disbursements,
        "next": next,
    });
    reader.respond(&body).await
}

async fn show_disbursement(
    Path((loan_id, disbursement_id)): Path<(Uuid, Uuid)>,
    reader: Reader,
) -> Result<Response, Problem> {
    let found = store::find(&reader.tx, disbursement_id).await?;
    let missing = || Problem::new(codes::NOT_FOUND).detail("There is no such disbursement of this loan.");
    let found: Disbursement = found.filter(|found| found.loan_id == loan_id).ok_or_else(missing)?;
    reader.respond(&found).await
}

async fn find(tx: &Tx, loan_id: Uuid) -> Result<Loan, Problem> {
    Ok(find_loan(tx, loan_id).await?.ok_or(LendingError::LoanMissing(loan_id))?)
}
