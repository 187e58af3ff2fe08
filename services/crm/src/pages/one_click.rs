//! One-click unsubscription: the request that mail programs send, without cookies, from any origin (RFC 8058).

use super::{begin, form, html, not_found, page};
use crate::{feedback, state::CrmState};
use onceward::{UnauthenticatedRequest, prelude::*, web::axum::extract::State};
use std::sync::Arc;

/// Unsubscribes the recipient from the class of the mail. It is committed before the answer; a repetition changes nothing.
pub(super) async fn unsubscribe(
    State(state): State<Arc<CrmState>>,
    Path(token): Path<String>,
    request: UnauthenticatedRequest,
) -> Result<Response, Problem> {
    let Some((mut tx, recipient)) = begin(&state, &request, &token).await? else { return Ok(not_found()) };
    let class = recipient.class;
    if !class.needs_unsubscribe_link() {
        let text = "This mail was sent because of something that you did, or because it has to be sent.";
        return Ok(page(StatusCode::NOT_FOUND, html::notice("You cannot unsubscribe from this mail", text)));
    }
    let content_type = request.header("content-type").unwrap_or_default();
    if !form::is_one_click(content_type, &request.body) {
        let text = "Nothing was changed. Open the link in the mail, and choose there what you want to receive.";
        return Ok(page(StatusCode::BAD_REQUEST, html::notice("This request is incomplete", text)));
    }
    feedback::unsubscribe(&mut tx, &recipient, class, "one_click").await?;
    tx.commit().await?;
    Ok(page(StatusCode::OK, html::unsubscribed(class, &token)))
}
