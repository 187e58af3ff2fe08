//! The titles of surveys.

use crate::SurveyError;
use onceward::Tx;
use uuid::Uuid;

pub(super) async fn title(tx: &Tx, survey_id: Uuid) -> Result<String, SurveyError> {
    let row = tx.query_opt("SELECT title FROM surveys.survey WHERE survey_id = $1", &[&survey_id]).await?;
    Ok(row.ok_or(SurveyError::Missing("survey"))?.get(0))
}

/// Of a survey that was published at least once.
pub(super) async fn title_of_collector(tx: &Tx, collector_id: Uuid) -> Result<String, SurveyError> {
    let row = tx
        .query_opt(
            "SELECT s.title FROM surveys.collector c
             JOIN surveys.survey s ON s.survey_id = c.survey_id AND s.tenant_id = c.tenant_id
             WHERE c.collector_id = $1 AND s.status <> 'draft'",
            &[&collector_id],
        )
        .await?;
    Ok(row.ok_or(SurveyError::Missing("survey"))?.get(0))
}
