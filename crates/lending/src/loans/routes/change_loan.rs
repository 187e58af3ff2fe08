//! `PATCH /api/loans/{id}`: accepted, and done by a message.

use crate::{
    LendingError,
    loans::{
        events::{LoanCreate, LoanUpdate},
        store::{self, State},
    },
};
use onceward::prelude::*;
use serde_json::Value;
use uuid::Uuid;

pub(super) async fn change(Path(loan_id): Path<Uuid>, command: Command<Value>) -> Result<Response, Problem> {
    let (body, mut command) = command.into_parts();
    let update = read(loan_id, body)?;
    match store::find_loan(&command.tx, loan_id).await? {
        Some(loan) => {
            if let Some(expected) = update.version.filter(|expected| *expected != loan.version) {
                return Err(LendingError::LoanChanged { expected, found: loan.version }.into());
            }
        }
        None => {
            let creation = store::latest(&command.tx, loan_id, &[LoanCreate::TYPE]).await?;
            if creation.is_none_or(|creation| creation.state != State::Processing) {
                return Err(LendingError::LoanMissing(loan_id).into());
            }
        }
    }
    store::begin(&command.tx, LoanUpdate::TYPE, loan_id, None).await?;
    outbox::publish(&mut command.tx, &update).await?;
    let body = json!({"status": State::Processing.as_str(), "loanId": loan_id});
    command.accepted(format!("/api/loans/{loan_id}/status"), &body).await
}

/// The body is the change, and beside it the version that it was made for.
fn read(loan_id: Uuid, mut body: Value) -> Result<LoanUpdate, Problem> {
    let unfit = |error: serde_json::Error| {
        Problem::new(codes::VALIDATION_FAILED)
            .detail("The change does not have the form that its action asks for.")
            .error("", error.to_string())
    };
    let version = body.as_object_mut().and_then(|fields| fields.remove("version")).unwrap_or(Value::Null);
    Ok(LoanUpdate {
        loan_id,
        version: serde_json::from_value(version).map_err(unfit)?,
        change: serde_json::from_value(body).map_err(unfit)?,
    })
}
