//! Surveys and their definitions.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

const INSERT: &str = "INSERT INTO surveys.survey (tenant_id, survey_id, title) VALUES ($1, $2, $3)";
const FIND: &str = "
    SELECT survey_id, title, status, published_version, quota_revision, created_at, updated_at
    FROM surveys.survey WHERE survey_id = $1";
const LOCK: &str = "
    SELECT survey_id, title, status, published_version, quota_revision, created_at, updated_at
    FROM surveys.survey WHERE survey_id = $1 FOR NO KEY UPDATE";
const LIST: &str = "
    SELECT survey_id, title, status, published_version, quota_revision, created_at, updated_at
    FROM surveys.survey WHERE $1::uuid IS NULL OR survey_id < $1 ORDER BY survey_id DESC LIMIT $2";
const SAVE_DRAFT: &str = "
    INSERT INTO surveys.definition (tenant_id, survey_id, version, definition) VALUES ($1, $2, $3, $4)
    ON CONFLICT (survey_id, tenant_id, version) DO UPDATE SET definition = excluded.definition, created_at = now()";
const PUBLISH: &str = "
    WITH published AS (
        UPDATE surveys.definition SET published_at = now() WHERE survey_id = $1 AND version = $2 RETURNING version)
    UPDATE surveys.survey SET published_version = p.version, updated_at = now(),
        status = CASE WHEN status = 'draft' THEN 'published' ELSE status END
    FROM published p WHERE survey_id = $1";
const SET_STATUS: &str = "UPDATE surveys.survey SET status = $2, updated_at = now() WHERE survey_id = $1";
const DEFINITION: &str = "
    SELECT definition, published_at FROM surveys.definition WHERE survey_id = $1 AND version = $2";

/// A survey.
#[derive(Clone, Debug, Serialize)]
pub(in crate::authoring) struct Survey {
    pub survey_id: Uuid,
    pub title: String,
    pub status: String,
    pub published_version: Option<i32>,
    pub quota_revision: i32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Survey {
    fn parse(row: &Row) -> Self {
        Self {
            survey_id: row.get(0),
            title: row.get(1),
            status: row.get(2),
            published_version: row.get(3),
            quota_revision: row.get(4),
            created_at: row.get(5),
            updated_at: row.get(6),
        }
    }

    /// Returns the version number of the draft, if one exists.
    pub fn draft_version(&self) -> i32 {
        self.published_version.unwrap_or(0) + 1
    }
}

pub(in crate::authoring) async fn insert_survey(tx: &Tx, survey_id: Uuid, title: &str) -> Result<(), DbError> {
    tx.execute(INSERT, &[&tx.tenant()?.as_str(), &survey_id, &title]).await?;
    Ok(())
}

pub(in crate::authoring) async fn find_survey(tx: &Tx, survey_id: Uuid) -> Result<Option<Survey>, DbError> {
    Ok(tx.query_opt(FIND, &[&survey_id]).await?.as_ref().map(Survey::parse))
}

pub(in crate::authoring) async fn lock_survey(tx: &Tx, survey_id: Uuid) -> Result<Option<Survey>, DbError> {
    Ok(tx.query_opt(LOCK, &[&survey_id]).await?.as_ref().map(Survey::parse))
}

/// Returns surveys older than `after`, latest first.
pub(in crate::authoring) async fn list_surveys(
    tx: &Tx,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Survey>, DbError> {
    Ok(tx.query(LIST, &[&after, &limit]).await?.iter().map(Survey::parse).collect())
}

pub(in crate::authoring) async fn save_draft(
    tx: &Tx,
    survey_id: Uuid,
    version: i32,
    definition: &Value,
) -> Result<(), DbError> {
    tx.execute(SAVE_DRAFT, &[&tx.tenant()?.as_str(), &survey_id, &version, definition]).await?;
    Ok(())
}

pub(in crate::authoring) async fn publish_draft(tx: &Tx, survey_id: Uuid, version: i32) -> Result<(), DbError> {
    tx.execute(PUBLISH, &[&survey_id, &version]).await?;
    Ok(())
}

pub(in crate::authoring) async fn set_survey_status(tx: &Tx, survey_id: Uuid, status: &str) -> Result<(), DbError> {
    tx.execute(SET_STATUS, &[&survey_id, &status]).await?;
    Ok(())
}

/// Returns a version's definition and its publication time.
pub(in crate::authoring) async fn find_definition(
    tx: &Tx,
    survey_id: Uuid,
    version: i32,
) -> Result<Option<(Value, Option<Timestamp>)>, DbError> {
    let row = tx.query_opt(DEFINITION, &[&survey_id, &version]).await?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}
