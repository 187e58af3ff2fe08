//! Conflicting payments, for operators.

use super::PaymentListQuery;
use crate::LendingError;
use crate::payments::{problems::PAYMENT_REFUSES, store};
use onceward::{prelude::*, web::axum::extract::Query};
use onceward_audit::{self as audit, Entry};
use serde::Deserialize;
use uuid::Uuid;

pub(super) async fn list(Query(query): Query<PaymentListQuery>, reader: Reader) -> Result<Response, Problem> {
    let rows = store::list_conflicts(&reader.tx, query.all, query.after, query.rows()).await?;
    let (conflicts, next) = query.page(rows, |last| last.conflict_id);
    reader.respond(&json!({"conflicts": conflicts, "next": next})).await
}

#[derive(Deserialize)]
pub(super) struct ResolveConflictRequest {
    resolution: String,
    note: Option<String>,
}

pub(super) async fn resolve(
    Path(id): Path<Uuid>,
    command: Command<ResolveConflictRequest>,
) -> Result<Response, Problem> {
    let (ResolveConflictRequest { resolution, note }, mut command) = command.into_parts();
    let missing = || Problem::new(codes::NOT_FOUND).detail("There is no such conflict.");
    let conflict = store::find_conflict(&command.tx, id).await?.ok_or_else(missing)?;
    if conflict.resolved_at.is_some() {
        return Err(Problem::new(PAYMENT_REFUSES).detail("The conflict is already resolved."));
    }
    let resolved = store::resolve_conflict(&command.tx, id, &resolution, note.as_deref()).await?;
    let entry = Entry::new("payment_conflict_resolved").object("payment", resolved.payment_id);
    let payload = json!({"conflict_id": id, "resolution": resolution, "note": note});
    audit::record(&mut command.tx, entry.payload(payload)).map_err(LendingError::from)?;
    command.respond(StatusCode::OK, &resolved).await
}
