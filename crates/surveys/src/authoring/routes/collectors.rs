//! `/api/surveys/{id}/collectors` and `/api/collectors`.

use super::LIST_MAX;
use crate::{
    SurveyError,
    authoring::{
        commands,
        store::{self, Collector, NewCollector},
    },
    runtime::Desk,
    token::Claim,
};
use onceward::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

pub(super) async fn create(
    Path(survey_id): Path<Uuid>,
    command: Command<NewCollector>,
    desk: Arc<Desk>,
) -> Result<Response, Problem> {
    let (new, mut command) = command.into_parts();
    let collector = commands::create_collector(&mut command.tx, survey_id, &new).await?;
    let body = shown(&desk, &command.tx, &collector)?;
    command.respond(StatusCode::CREATED, &body).await
}

pub(super) async fn list(Path(survey_id): Path<Uuid>, reader: Reader, desk: Arc<Desk>) -> Result<Response, Problem> {
    store::find_survey(&reader.tx, survey_id).await?.ok_or(SurveyError::Missing("survey"))?;
    let collectors = store::list_collectors(&reader.tx, survey_id, LIST_MAX).await?;
    let shown: Vec<Value> =
        collectors.iter().map(|collector| shown(&desk, &reader.tx, collector)).collect::<Result<_, _>>()?;
    reader.respond(&json!({ "collectors": shown })).await
}

pub(super) async fn change(
    Path(collector_id): Path<Uuid>,
    mut command: Command<Option<()>>,
    status: &'static str,
) -> Result<Response, Problem> {
    let collector = commands::move_collector(&mut command.tx, collector_id, status).await?;
    command.respond(StatusCode::OK, &collector).await
}

#[derive(Deserialize)]
pub(super) struct NewInvites {
    count: Option<usize>,
    refs: Option<Vec<String>>,
}

pub(super) async fn invite(
    Path(collector): Path<Uuid>,
    command: Command<NewInvites>,
    desk: Arc<Desk>,
) -> Result<Response, Problem> {
    let (NewInvites { count, refs }, mut command) = command.into_parts();
    let refs = match refs {
        Some(refs) => refs.into_iter().map(Some).collect(),
        None => vec![None; count.unwrap_or(1)],
    };
    let invites = commands::create_invites(&mut command.tx, collector, refs).await?;
    let tenant = command.tx.tenant()?.to_string();
    let mut shown = Vec::with_capacity(invites.len());
    for invite in invites {
        let claim = Claim::Invite { tenant: tenant.clone(), collector, invite: invite.invite_id };
        let token = desk.signer.sign(&claim).map_err(SurveyError::from)?;
        shown.push(json!({"invite_id": invite.invite_id, "ref": invite.external_ref, "token": token}));
    }
    command.respond(StatusCode::CREATED, &json!({ "invites": shown })).await
}

/// A link's token is for many, so it is shown with the collector.
fn shown(desk: &Desk, tx: &Tx, collector: &Collector) -> Result<Value, Problem> {
    let mut body = json!(collector);
    if collector.kind == "link" {
        let claim = Claim::Collector { tenant: tx.tenant()?.to_string(), collector: collector.collector_id };
        body["token"] = desk.signer.sign(&claim).map_err(SurveyError::from)?.into();
    }
    Ok(body)
}
