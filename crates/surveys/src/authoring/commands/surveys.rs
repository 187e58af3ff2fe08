//! Surveys: made, written, published, paused.

use crate::{
    SurveyError,
    authoring::store::{self, Survey},
    definition::{Definition, Fault, Form},
};
use onceward::Tx;
use onceward_audit::{self as audit, Entry};
use serde_json::{Value, json};
use uuid::Uuid;

/// A definition of the right form. What else is wrong with it is asked when it is published.
pub(in crate::authoring) fn read_definition(given: &Value) -> Result<Definition, SurveyError> {
    serde_path_to_error::deserialize(given).map_err(|error| {
        let place = error.path().to_string();
        SurveyError::Faults(vec![Fault { place, message: error.into_inner().to_string() }])
    })
}

pub(in crate::authoring) async fn create_survey(
    tx: &mut Tx,
    title: &str,
    definition: Option<&Value>,
) -> Result<Survey, SurveyError> {
    let id = Uuid::now_v7();
    store::insert_survey(tx, id, title).await?;
    audit::record(tx, Entry::new("survey_created").object("survey", id).new_value(json!({ "title": title })))?;
    if let Some(definition) = definition {
        write(tx, id, 1, definition).await?;
    }
    store::find_survey(tx, id).await?.ok_or(SurveyError::Missing("survey"))
}

pub(in crate::authoring) async fn save_definition(
    tx: &mut Tx,
    survey_id: Uuid,
    definition: &Value,
) -> Result<Survey, SurveyError> {
    let survey = lock(tx, survey_id).await?;
    write(tx, survey_id, survey.draft_version(), definition).await?;
    Ok(survey)
}

async fn write(tx: &mut Tx, survey_id: Uuid, version: i32, definition: &Value) -> Result<(), SurveyError> {
    read_definition(definition)?;
    store::save_draft(tx, survey_id, version, definition).await?;
    let entry = Entry::new("survey_definition_saved").object("survey", survey_id);
    audit::record(tx, entry.new_value(json!({ "version": version })).payload_hash(definition.to_string()))?;
    Ok(())
}

pub(in crate::authoring) async fn publish_survey(tx: &mut Tx, survey_id: Uuid) -> Result<Survey, SurveyError> {
    let survey = lock(tx, survey_id).await?;
    let version = survey.draft_version();
    let Some((definition, _)) = store::find_definition(tx, survey_id, version).await? else {
        return Err(SurveyError::Refused("there is no draft to publish: save a definition first".to_owned()));
    };
    let form = Form::new(read_definition(&definition)?).map_err(SurveyError::Faults)?;
    let mut faults = Vec::new();
    for (name, condition) in store::find_conditions(tx, survey_id).await? {
        faults.extend(form.faults_of(&format!("quotas[{name:?}].condition"), &condition));
    }
    if !faults.is_empty() {
        return Err(SurveyError::Faults(faults));
    }
    store::publish_draft(tx, survey_id, version).await?;
    let entry = Entry::new("survey_published").object("survey", survey_id);
    audit::record(
        tx,
        entry.old(json!({ "version": survey.published_version })).new_value(json!({ "version": version })),
    )?;
    store::find_survey(tx, survey_id).await?.ok_or(SurveyError::Missing("survey"))
}

/// Pauses a published survey, or lets it go on.
pub(in crate::authoring) async fn set_paused(
    tx: &mut Tx,
    survey_id: Uuid,
    paused: bool,
) -> Result<Survey, SurveyError> {
    let mut survey = lock(tx, survey_id).await?;
    let status = if paused { "paused" } else { "published" };
    if survey.status == "draft" {
        return Err(SurveyError::Refused("the survey was never published: publish it first".to_owned()));
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
    store::lock_survey(tx, survey_id).await?.ok_or(SurveyError::Missing("survey"))
}
