//! Creates, edits, publishes, pauses and resumes surveys.

use crate::{
    SurveyError,
    authoring::store::{self, Survey},
    compile,
    definition::{escape_pointer, parse_definition},
};
use onceward::Tx;
use onceward_audit::{self as audit, Entry};
use serde_json::{Value, json};
use uuid::Uuid;

pub(in crate::authoring) async fn create_survey(
    tx: &mut Tx,
    title: &str,
    definition: Option<&Value>,
) -> Result<Survey, SurveyError> {
    let id = Uuid::now_v7();
    store::insert_survey(tx, id, title).await?;
    audit::record(tx, Entry::new("survey_created").object("survey", id).new_value(json!({ "title": title })))?;
    if let Some(definition) = definition {
        write_draft(tx, id, 1, definition).await?;
    }
    store::find_survey(tx, id).await?.ok_or(SurveyError::NotFound("survey"))
}

pub(in crate::authoring) async fn save_definition(
    tx: &mut Tx,
    survey_id: Uuid,
    definition: &Value,
) -> Result<Survey, SurveyError> {
    let survey = lock(tx, survey_id).await?;
    write_draft(tx, survey_id, survey.draft_version(), definition).await?;
    Ok(survey)
}

async fn write_draft(tx: &mut Tx, survey_id: Uuid, version: i32, definition: &Value) -> Result<(), SurveyError> {
    parse_definition(definition).map_err(|mut fault| {
        fault.pointer.insert_str(0, "/definition");
        SurveyError::InvalidDefinition(vec![fault])
    })?;
    store::save_draft(tx, survey_id, version, definition).await?;
    let entry = Entry::new("survey_definition_saved").object("survey", survey_id);
    audit::record(tx, entry.new_value(json!({ "version": version })).payload_hash(definition.to_string()))?;
    Ok(())
}

pub(in crate::authoring) async fn publish_survey(tx: &mut Tx, survey_id: Uuid) -> Result<Survey, SurveyError> {
    let survey = lock(tx, survey_id).await?;
    let version = survey.draft_version();
    let Some((definition, _)) = store::find_definition(tx, survey_id, version).await? else {
        return Err(SurveyError::NotAllowed("There is no draft to publish. Save a definition first.".to_owned()));
    };
    let questionnaire = compile::compile(definition).await?;
    let conditions = store::find_conditions(tx, survey_id).await?;
    let conditions =
        conditions.iter().map(|(name, condition)| (format!("/quotas/{}/condition", escape_pointer(name)), condition));
    let faults = questionnaire.condition_faults(conditions);
    if !faults.is_empty() {
        return Err(SurveyError::InvalidDefinition(faults));
    }
    store::publish_draft(tx, survey_id, version).await?;
    let entry = Entry::new("survey_published").object("survey", survey_id);
    audit::record(
        tx,
        entry.old(json!({ "version": survey.published_version })).new_value(json!({ "version": version })),
    )?;
    store::find_survey(tx, survey_id).await?.ok_or(SurveyError::NotFound("survey"))
}

/// Pauses a published survey, or resumes it.
pub(in crate::authoring) async fn set_paused(
    tx: &mut Tx,
    survey_id: Uuid,
    paused: bool,
) -> Result<Survey, SurveyError> {
    let mut survey = lock(tx, survey_id).await?;
    let status = if paused { "paused" } else { "published" };
    if survey.status == "draft" {
        return Err(SurveyError::NotAllowed("The survey was never published. Publish it first.".to_owned()));
    }
    if survey.status != status {
        store::set_survey_status(tx, survey_id, status).await?;
        let entry = Entry::new(if paused { "survey_paused" } else { "survey_resumed" }).object("survey", survey_id);
        audit::record(tx, entry.old(json!(survey.status)).new_value(json!(status)))?;
        survey.status = status.to_owned();
    }
    Ok(survey)
}

async fn lock(tx: &Tx, survey_id: Uuid) -> Result<Survey, SurveyError> {
    store::lock_survey(tx, survey_id).await?.ok_or(SurveyError::NotFound("survey"))
}
