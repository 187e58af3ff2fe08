//! `GET /api/payments/{id}`: everything that is known of a payment.

use crate::loans::store::latest;
use crate::payments::{
    events::{PostPayment, ProcessPayment},
    problems::no_such_payment,
    store,
};
use onceward::prelude::*;
use uuid::Uuid;

/// Right after a payment was asked for there may be nothing but the command.
pub(super) async fn show(Path(payment_id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let asked = latest(&reader.tx, payment_id, &[ProcessPayment::TYPE, PostPayment::TYPE]).await?;
    let command = asked.as_ref().map(|asked| {
        json!({
            "kind": asked.kind, "state": asked.state.as_str(), "reason": asked.detail,
            "correlationId": asked.correlation_id, "updatedAt": asked.updated_at
        })
    });
    let mut document = match (store::find_whole(&reader.tx, payment_id).await?, &asked) {
        (Some(whole), _) => whole.document,
        (None, Some(asked)) => json!({"payment_id": payment_id, "status": asked.state.as_str()}),
        (None, None) => return Err(no_such_payment()),
    };
    document["command"] = json!(command);
    reader.respond(&document).await
}
