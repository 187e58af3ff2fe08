//! The pages of recipients: one-click unsubscription (RFC 8058) and preferences, without scripts, cookies or sign-in.
//!
//! ```text
//! POST /crm/u/{token}              one-click: unsubscribes from the class of the mail, 200 without a redirect
//! GET  /crm/u/{token}              shows the preferences and changes nothing: link scanners follow links
//! POST /crm/u/{token}/preferences  saves the preferences
//! ```
//!
//! The token in the link names one recipient of one mail and is signed; it is all that a request needs, so there is nothing for
//! another site to abuse, and requests of any origin are served. It does not expire, because mails are read late. `one_click` and
//! `preferences` handle the requests, `form` reads their bodies, `html` renders.

mod form;
mod html;
mod one_click;
mod preferences;

use crate::{
    CrmError,
    feedback::{
        store::{self, MailRecipient},
        tenant_of_email,
    },
    html_response::html_response,
    keys::MailReference,
    state::CrmState,
};
use onceward::{
    Idempotency, UnauthenticatedRequest,
    prelude::*,
    web::axum::{http::header, response::IntoResponse},
};
use std::sync::Arc;

const SERVICE: &str = "crm-preferences";
const STYLE: &str = include_str!("assets/preferences.css");
/// Allows no scripts, and forms that submit to this site only.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const BODY_BYTES_MAX: usize = 64 * 1024;
const RECIPIENT_PATH: &str = "/crm/u/{token}";

pub(crate) fn routes() -> Routes<Arc<CrmState>> {
    Routes::new()
        .get(RECIPIENT_PATH, Access::public(), preferences::show)
        .summary("Show the preferences of a recipient. Changes nothing")
        .responds_media(200, "text/html")
        .responds_media(404, "text/html")
        .post(RECIPIENT_PATH, Access::public(), one_click::unsubscribe)
        .summary("Unsubscribe a recipient with one click, as mail programs do: List-Unsubscribe=One-Click (RFC 8058)")
        .max_body_bytes(BODY_BYTES_MAX)
        .responds_media(200, "text/html")
        .responds_media(400, "text/html")
        .responds_media(404, "text/html")
        .idempotency(Idempotency::Off)
        .post("/crm/u/{token}/preferences", Access::public(), preferences::save)
        .summary("Save the preferences of a recipient from the page's form")
        .max_body_bytes(BODY_BYTES_MAX)
        .responds_media(200, "text/html")
        .responds_media(400, "text/html")
        .responds_media(404, "text/html")
        .idempotency(Idempotency::Off)
        .get("/crm/assets/preferences.css", Access::public(), style)
        .summary("The style sheet of the pages")
        .responds_media(200, "text/css")
}

async fn style() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=300"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, STYLE).into_response()
}

fn page(status: StatusCode, html: String) -> Response {
    html_response(status, POLICY, html)
}

fn not_found() -> Response {
    let text = "The address is incomplete, or the mail was removed. Copy the whole link from the mail.";
    page(StatusCode::NOT_FOUND, html::notice("This link does not work", text))
}

/// Begins a transaction of the tenant of a link, and returns it with the recipient that the link names. `None` if we did not
/// sign the link, or if the mail does not exist.
async fn begin(
    state: &CrmState,
    request: &UnauthenticatedRequest,
    token: &str,
) -> Result<Option<(Tx, MailRecipient)>, Problem> {
    let Some(MailReference { email_id, position }) = state.keys.read_link_token(token) else { return Ok(None) };
    let tenant = tenant_of_email(request.db(), email_id).await.map_err(CrmError::from)?;
    let (Some(tenant), Ok(position)) = (tenant, i16::try_from(position)) else { return Ok(None) };
    let tx = request.begin(tenant, SERVICE).await?;
    let recipient = store::find_recipient(&tx, email_id, position).await?;
    Ok(recipient.map(|recipient| (tx, recipient)))
}
