//! Creates, opens, pauses and closes collectors, and creates invites.

use crate::{
    SurveyError,
    authoring::store::{self, Collector, Invite, NewCollector},
    events::{CollectorClosed, CollectorOpened, CollectorPaused, publish},
};
use onceward::Tx;
use onceward_audit::{self as audit, Entry};
use serde_json::json;
use uuid::Uuid;

pub(in crate::authoring) async fn create_collector(
    tx: &mut Tx,
    survey_id: Uuid,
    new: &NewCollector,
) -> Result<Collector, SurveyError> {
    store::find_survey(tx, survey_id).await?.ok_or(SurveyError::NotFound("survey"))?;
    if new.opens_at.zip(new.closes_at).is_some_and(|(opens, closes)| opens >= closes) {
        return Err(SurveyError::NotAllowed(
            "The collector would close before it opens. Send a later `closes_at`.".to_owned(),
        ));
    }
    let collector = store::insert_collector(tx, survey_id, new).await?;
    let entry = Entry::new("collector_created").object("collector", collector.collector_id);
    audit::record(tx, entry.new_value(json!(collector)))?;
    Ok(collector)
}

/// Opens, pauses or closes a collector. A closed collector cannot be opened again.
pub(in crate::authoring) async fn set_collector_status(
    tx: &mut Tx,
    collector_id: Uuid,
    status: &'static str,
) -> Result<Collector, SurveyError> {
    let mut collector = lock(tx, collector_id).await?;
    if collector.status == status {
        return Ok(collector);
    }
    if collector.status == "closed" {
        return Err(SurveyError::NotAllowed(
            "The collector is closed and cannot be opened again. Create another one.".to_owned(),
        ));
    }
    store::set_collector_status(tx, collector_id, status).await?;
    let entry = Entry::new(format!("collector_{status}")).object("collector", collector_id);
    audit::record(tx, entry.old(json!(collector.status)).new_value(json!(status)))?;
    let survey_id = collector.survey_id;
    match status {
        "open" => publish(tx, &CollectorOpened { collector_id, survey_id }).await?,
        "paused" => publish(tx, &CollectorPaused { collector_id, survey_id }).await?,
        _ => publish(tx, &CollectorClosed { collector_id, survey_id }).await?,
    }
    collector.status = status.to_owned();
    Ok(collector)
}

/// Creates invites that are valid for one session each, with the sender's references if any were sent.
pub(in crate::authoring) async fn create_invites(
    tx: &mut Tx,
    collector_id: Uuid,
    refs: Vec<Option<String>>,
) -> Result<Vec<Invite>, SurveyError> {
    let collector = lock(tx, collector_id).await?;
    if collector.kind != "invite" || collector.status == "closed" {
        let reason = "Only a collector of the kind \"invite\" that is not closed has invites. Create one.";
        return Err(SurveyError::NotAllowed(reason.to_owned()));
    }
    let invites: Vec<Invite> =
        refs.into_iter().map(|external_ref| Invite { invite_id: Uuid::now_v7(), external_ref }).collect();
    store::insert_invites(tx, collector_id, &invites).await?;
    let entry = Entry::new("invites_created").object("collector", collector_id);
    audit::record(tx, entry.new_value(json!({ "count": invites.len() })))?;
    Ok(invites)
}

async fn lock(tx: &Tx, collector_id: Uuid) -> Result<Collector, SurveyError> {
    store::lock_collector(tx, collector_id).await?.ok_or(SurveyError::NotFound("collector"))
}
