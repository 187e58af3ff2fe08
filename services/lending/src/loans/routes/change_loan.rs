//! `PATCH /api/loans/{id}`: accepted, and executed asynchronously.

use crate::{
    LendingError,
    loans::{events::LoanUpdate, request::LoanChange, store},
    payments::OPERATE,
    progress::CommandState,
};
use onceward::{prelude::*, web::Caller};
use serde_json::Value;
use uuid::Uuid;

pub(super) async fn change(Path(loan_id): Path<Uuid>, command: Command<Value>) -> Result<Response, Problem> {
    let (body, mut command) = command.into_parts();
    let update = read(loan_id, body)?;
    check_role(&command.caller, &update.change)?;
    match store::find_loan(&command.tx, loan_id).await? {
        Some(loan) => {
            if let Some(expected) = update.version.filter(|expected| *expected != loan.version) {
                return Err(LendingError::LoanChanged { expected, found: loan.version }.into());
            }
        }
        None if store::is_creation_accepted(&command.tx, loan_id).await? => {}
        None => return Err(LendingError::LoanMissing(loan_id).into()),
    }
    store::mark_processing(&command.tx, LoanUpdate::TYPE, loan_id, None).await?;
    outbox::publish(&mut command.tx, &update).await?;
    let body = json!({"status": CommandState::Processing.as_str(), "loanId": loan_id});
    command.accepted(format!("/api/loans/{loan_id}/status"), &body).await
}

/// Checks the role: a refund pays cash out, which is an operator's task. The other changes need only the route's own
/// role.
fn check_role(caller: &Caller, change: &LoanChange) -> Result<(), Problem> {
    if matches!(change, LoanChange::RefundSuspense { .. }) && !caller.has_role(OPERATE) {
        let detail =
            format!("The action refund_suspense pays money out and therefore also requires the role {OPERATE}.");
        return Err(Problem::new(codes::FORBIDDEN).detail(detail));
    }
    Ok(())
}

/// The body contains the change, and the version that it is based on.
fn read(loan_id: Uuid, mut body: Value) -> Result<LoanUpdate, Problem> {
    let invalid = |error: serde_json::Error| {
        Problem::new(codes::VALIDATION_FAILED)
            .detail("The change does not have the form that its action requires.")
            .error("", error.to_string())
    };
    let version = body.as_object_mut().and_then(|fields| fields.remove("version")).unwrap_or(Value::Null);
    Ok(LoanUpdate {
        loan_id,
        version: serde_json::from_value(version).map_err(invalid)?,
        change: serde_json::from_value(body).map_err(invalid)?,
    })
}
