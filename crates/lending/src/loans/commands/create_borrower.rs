//! A borrower is made known.

use crate::{
    LendingError,
    loans::store::{self, Borrower, NewBorrower},
};
use onceward::Tx;
use onceward_audit::{self as audit, Entry};
use serde_json::json;
use uuid::Uuid;

pub(crate) async fn create_borrower(tx: &mut Tx, facts: NewBorrower) -> Result<Borrower, LendingError> {
    let id = Uuid::now_v7();
    let reference = facts.external_ref.clone().unwrap_or_default();
    let borrower =
        store::insert_borrower(tx, id, facts).await?.ok_or_else(|| LendingError::BorrowerExists(reference))?;
    // Names and addresses stay out of the trail, which nobody can delete from.
    let new = json!({"kind": borrower.facts.kind, "external_ref": borrower.facts.external_ref});
    audit::record(tx, Entry::new("borrower_created").object("borrower_entity", id).new_value(new))?;
    Ok(borrower)
}
