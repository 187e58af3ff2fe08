//! The SQL of answers.

use crate::definition::AnswersByPage;
use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use postgres_types::Json;
use uuid::Uuid;

const LIST: &str = "
    SELECT s.session_id, s.collector_id, s.version, s.status, s.reason, s.started_at, s.ended_at, s.erased_at, i.external_ref,
        a.answers
    FROM surveys.session s
    LEFT JOIN surveys.invite i ON i.invite_id = s.invite_id AND i.tenant_id = s.tenant_id
    CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_object_agg(a.page_id, a.answers), '{}') AS answers
        FROM surveys.answer a
        WHERE a.session_id = s.session_id AND a.tenant_id = s.tenant_id) a
    WHERE s.survey_id = $1 AND s.session_id > $2
    ORDER BY s.session_id
    LIMIT $3";
const FIND: &str = "
    SELECT s.session_id, s.collector_id, s.version, s.status, s.reason, s.started_at, s.ended_at, s.erased_at, i.external_ref,
        a.answers
    FROM surveys.session s
    LEFT JOIN surveys.invite i ON i.invite_id = s.invite_id AND i.tenant_id = s.tenant_id
    CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_object_agg(a.page_id, a.answers), '{}') AS answers
        FROM surveys.answer a
        WHERE a.session_id = s.session_id AND a.tenant_id = s.tenant_id) a
    WHERE s.survey_id = $1 AND s.session_id = $2";
const VERSIONS: &str = "
    SELECT version
    FROM surveys.definition
    WHERE survey_id = $1 AND published_at IS NOT NULL
    ORDER BY version DESC
    LIMIT $2";
const SURVEY: &str = "SELECT 1 FROM surveys.survey WHERE survey_id = $1";
const SESSIONS_OF_REF: &str = "
    SELECT i.session_id
    FROM surveys.invite i
    JOIN surveys.session s ON s.session_id = i.session_id AND s.tenant_id = i.tenant_id
    WHERE i.external_ref = $2 AND s.survey_id = $1
    ORDER BY i.session_id
    LIMIT $3";
const DELETE: &str = "DELETE FROM surveys.answer WHERE session_id = $1";
// Removes every link from the person to the session: the digest of the start key and the invite's external reference.
const ANONYMIZE: &str = "
    WITH erased AS (
        UPDATE surveys.session
        SET erased_at = coalesce(erased_at, now()), start_digest = sha256(uuid_send(gen_random_uuid()))
        WHERE session_id = $1
        RETURNING invite_id)
    UPDATE surveys.invite i
    SET external_ref = NULL
    FROM erased e
    WHERE i.invite_id = e.invite_id";

/// A session with its answers by page.
pub(super) struct SessionAnswers {
    pub session_id: Uuid,
    pub collector_id: Uuid,
    pub version: i32,
    pub status: String,
    pub reason: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub erased_at: Option<Timestamp>,
    pub external_ref: Option<String>,
    pub answers: AnswersByPage,
}

impl SessionAnswers {
    fn parse(row: &Row) -> Result<Self, DbError> {
        let Json(answers) = row.try_get(9)?;
        Ok(Self {
            session_id: row.get(0),
            collector_id: row.get(1),
            version: row.get(2),
            status: row.get(3),
            reason: row.get(4),
            started_at: row.get(5),
            ended_at: row.get(6),
            erased_at: row.get(7),
            external_ref: row.get(8),
            answers,
        })
    }
}

pub(super) async fn survey_exists(tx: &Tx, survey_id: Uuid) -> Result<bool, DbError> {
    Ok(tx.query_opt(SURVEY, &[&survey_id]).await?.is_some())
}

/// Returns sessions after `after`, in the order in which they were started.
pub(super) async fn list(tx: &Tx, survey_id: Uuid, after: Uuid, limit: i64) -> Result<Vec<SessionAnswers>, DbError> {
    tx.query(LIST, &[&survey_id, &after, &limit]).await?.iter().map(SessionAnswers::parse).collect()
}

pub(super) async fn find(tx: &Tx, survey_id: Uuid, session_id: Uuid) -> Result<Option<SessionAnswers>, DbError> {
    tx.query_opt(FIND, &[&survey_id, &session_id]).await?.as_ref().map(SessionAnswers::parse).transpose()
}

/// Returns the published versions, latest first.
pub(super) async fn versions(tx: &Tx, survey_id: Uuid, limit: i64) -> Result<Vec<i32>, DbError> {
    Ok(tx.query(VERSIONS, &[&survey_id, &limit]).await?.iter().map(|row| row.get(0)).collect())
}

/// Returns the sessions that were started by invites with this reference.
pub(super) async fn find_sessions_of(
    tx: &Tx,
    survey_id: Uuid,
    reference: &str,
    limit: i64,
) -> Result<Vec<Uuid>, DbError> {
    Ok(tx.query(SESSIONS_OF_REF, &[&survey_id, &reference, &limit]).await?.iter().map(|row| row.get(0)).collect())
}

/// Removes a session's answers and everything that identifies its respondent. Returns the number of pages removed.
pub(super) async fn erase(tx: &Tx, session_id: Uuid) -> Result<u64, DbError> {
    let pages = tx.execute(DELETE, &[&session_id]).await?;
    tx.execute(ANONYMIZE, &[&session_id]).await?;
    Ok(pages)
}
