//! A product gets its next version.

use crate::{LendingError, loans::store, model::ProductPolicy};
use onceward::Tx;
use onceward_audit::{self as audit, Entry};
use serde_json::json;

/// Gives the number of the version. Loans that were made by earlier ones keep theirs.
pub(crate) async fn create_product(tx: &mut Tx, policy: &ProductPolicy) -> Result<i32, LendingError> {
    let version = store::insert_product(tx, policy).await?;
    let entry = Entry::new("product_created")
        .object("product_policy", format!("{}:{version}", policy.code))
        .new_value(json!({"version": version, "policy": policy}));
    audit::record(tx, entry)?;
    Ok(version)
}
