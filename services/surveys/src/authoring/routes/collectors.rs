//! `/api/surveys/{id}/collectors` and `/api/collectors`.

use super::LIST_MAX;
use crate::{
    SurveyError,
    authoring::{
        commands,
        store::{self, Collector, NewCollector},
    },
    runtime::SurveyContext,
    token::TokenClaim,
};
use onceward::{prelude::*, web::axum::extract::State};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

pub(super) async fn create(
    State(context): State<Arc<SurveyContext>>,
    Path(survey_id): Path<Uuid>,
    command: Command<NewCollector>,
) -> Result<Response, Problem> {
    let (new, mut command) = command.into_parts();
    let collector = commands::create_collector(&mut command.tx, survey_id, &new).await?;
    let body = collector_json(&context, &command.tx, &collector)?;
    command.respond(StatusCode::CREATED, &body).await
}

pub(super) async fn list(
    State(context): State<Arc<SurveyContext>>,
    Path(survey_id): Path<Uuid>,
    reader: Reader,
) -> Result<Response, Problem> {
    store::find_survey(&reader.tx, survey_id).await?.ok_or(SurveyError::NotFound("survey"))?;
    let collectors = store::list_collectors(&reader.tx, survey_id, LIST_MAX).await?;
    let collectors: Vec<Value> =
        collectors.iter().map(|collector| collector_json(&context, &reader.tx, collector)).collect::<Result<_, _>>()?;
    reader.respond(&json!({ "collectors": collectors })).await
}

pub(super) async fn set_status(
    Path(collector_id): Path<Uuid>,
    mut command: Command<Option<()>>,
    status: &'static str,
) -> Result<Response, Problem> {
    let collector = commands::set_collector_status(&mut command.tx, collector_id, status).await?;
    command.respond(StatusCode::OK, &collector).await
}

#[derive(Deserialize)]
pub(super) struct NewInvites {
    count: Option<usize>,
    refs: Option<Vec<String>>,
}

pub(super) async fn create_invites(
    State(context): State<Arc<SurveyContext>>,
    Path(collector): Path<Uuid>,
    command: Command<NewInvites>,
) -> Result<Response, Problem> {
    let (NewInvites { count, refs }, mut command) = command.into_parts();
    let refs = match refs {
        Some(refs) => refs.into_iter().map(Some).collect(),
        None => vec![None; count.unwrap_or(1)],
    };
    let invites = commands::create_invites(&mut command.tx, collector, refs).await?;
    let tenant = command.tx.tenant()?.to_string();
    let mut created = Vec::with_capacity(invites.len());
    for invite in invites {
        let claim = TokenClaim::Invite { tenant: tenant.clone(), collector, invite: invite.invite_id };
        let token = context.signer.sign(&claim).map_err(SurveyError::from)?;
        created.push(json!({"invite_id": invite.invite_id, "ref": invite.external_ref, "token": token}));
    }
    command.respond(StatusCode::CREATED, &json!({ "invites": created })).await
}

/// Returns the collector as JSON. A link's token is meant for many respondents, so it is included.
fn collector_json(context: &SurveyContext, tx: &Tx, collector: &Collector) -> Result<Value, Problem> {
    let mut body = json!(collector);
    if collector.kind == "link" {
        let claim = TokenClaim::Collector { tenant: tx.tenant()?.to_string(), collector: collector.collector_id };
        body["token"] = context.signer.sign(&claim).map_err(SurveyError::from)?.into();
    }
    Ok(body)
}
