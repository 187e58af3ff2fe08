//! The start page, and the start.

use super::{Failed, cookie, form, html, page, see_other, shown, store};
use crate::{
    SurveyError,
    runtime::{Desk, commands, desk::Visit, routes::session_token},
    token::{Claim, TokenError},
};
use onceward::prelude::*;
use std::sync::Arc;
use uuid::Uuid;

const KEY_BYTES: usize = 64;

pub(super) async fn show(Path(link): Path<String>, visit: Visit, desk: Arc<Desk>) -> Result<Response, Problem> {
    shown(try_show(&link, &visit, &desk).await)
}

async fn try_show(link: &str, visit: &Visit, desk: &Desk) -> Result<Response, Failed> {
    let claim = desk.claim_by(link, visit)?;
    let (collector, _) = target(&claim)?;
    let tx = visit.begin(&claim).await.map_err(Failed::Other)?;
    let title = store::title_of_collector(&tx, collector).await?;
    tx.rollback().await?;
    let begun = visit.header("cookie").and_then(cookie::begun).map(cookie::session_path);
    // The same page sent twice begins one session.
    let key = Uuid::new_v4().to_string();
    Ok(page(StatusCode::OK, html::start(&title, link, &key, begun.as_deref())))
}

pub(super) async fn begin(Path(link): Path<String>, visit: Visit, desk: Arc<Desk>) -> Result<Response, Problem> {
    shown(try_begin(&link, &visit, &desk).await)
}

async fn try_begin(link: &str, visit: &Visit, desk: &Desk) -> Result<Response, Failed> {
    let claim = desk.claim_by(link, visit)?;
    let (collector, invite) = target(&claim)?;
    let fields = form(visit);
    let key = fields.get("key").filter(|key| (1..=KEY_BYTES).contains(&key.len())).ok_or(TokenError::Invalid)?;
    let mut tx = visit.begin(&claim).await.map_err(Failed::Other)?;
    let digest = commands::start_digest(collector, invite, key);
    let begun = commands::start(&mut tx, desk, collector, invite, &digest).await?;
    let tenant = claim.tenant()?;
    let token = session_token(desk, tenant.as_str(), &begun, collector).map_err(Failed::Other)?;
    tx.commit().await?;
    let secure = visit.header("x-forwarded-proto").is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let cookies = cookie::of(begun.session_id, &token, link, desk.settings.session_token_hours, secure);
    see_other(&cookie::session_path(begun.session_id), &cookies).map_err(Failed::Other)
}

fn target(claim: &Claim) -> Result<(Uuid, Option<Uuid>), SurveyError> {
    match claim {
        Claim::Collector { collector, .. } => Ok((*collector, None)),
        Claim::Invite { collector, invite, .. } => Ok((*collector, Some(*invite))),
        Claim::Session(_) => Err(TokenError::Invalid.into()),
    }
}
