//! Streams all answers of a survey, one batch in memory at a time.

use super::{
    csv::{self, AnswerColumn, AnswerColumns, COLUMNS_MAX, TooManyColumns},
    read,
    store::{self, SessionAnswers},
};
use crate::{
    SurveyError,
    definition::parse_definition,
    runtime::{self, SurveyContext},
};
use futures_util::{Stream, stream};
use onceward::{Db, Scope};
use serde::Deserialize;
use std::{io, sync::Arc};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

/// Sessions per batch.
const BATCH_SESSIONS: i64 = 100;
/// The maximum number of versions whose questions become columns, latest first.
const VERSIONS_MAX: i64 = 50;

/// The export's file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ExportFormat {
    #[default]
    Csv,
    Jsonl,
}

impl ExportFormat {
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Jsonl => "application/x-ndjson",
        }
    }

    pub(super) const fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
        }
    }
}

/// An export in progress.
pub(super) struct AnswerExport {
    pub db: Db,
    pub scope: Scope,
    pub context: Arc<SurveyContext>,
    pub survey_id: Uuid,
    pub format: ExportFormat,
    /// The last session that was written.
    pub after: Uuid,
    pub columns: Vec<AnswerColumn>,
    /// Limits the number of concurrent exports.
    pub _permit: OwnedSemaphorePermit,
}

/// Returns the columns of an export; JSON has none. Definitions are read one at a time, because all versions together
/// may be large. Fails if the columns are too many for CSV.
pub(super) async fn columns(
    tx: &onceward::Tx,
    survey_id: Uuid,
    format: ExportFormat,
) -> Result<Vec<AnswerColumn>, SurveyError> {
    let mut columns = AnswerColumns::default();
    if format == ExportFormat::Jsonl {
        return Ok(columns.into_vec());
    }
    for version in store::versions(tx, survey_id, VERSIONS_MAX).await? {
        let definition = runtime::store::find_published(tx, survey_id, version).await?;
        let Ok(definition) = parse_definition(&definition) else { continue };
        columns.add(&definition).map_err(|TooManyColumns| {
            SurveyError::NotAllowed(format!(
                "A CSV export of this survey would have more than {COLUMNS_MAX} columns. Export it with `?format=jsonl`."
            ))
        })?;
    }
    Ok(columns.into_vec())
}

/// Returns the export as chunks. A failed export ends with an error, so that the connection is aborted and a partial
/// export is not mistaken for a whole one.
pub(super) fn chunks(export: AnswerExport) -> impl Stream<Item = io::Result<String>> {
    let header = match export.format {
        ExportFormat::Csv => Some(csv::header(&export.columns)),
        ExportFormat::Jsonl => None,
    };
    let first = stream::iter(header.map(Ok));
    let rest = stream::try_unfold(export, |mut export| async move {
        let batch = next_batch(&export).await.map_err(|error| {
            tracing::warn!(%error, survey_id = %export.survey_id, "exporting answers failed; the connection is aborted");
            io::Error::other("the export failed")
        })?;
        Ok(batch.map(|(text, last)| {
            export.after = last;
            (text, export)
        }))
    });
    futures_util::StreamExt::chain(first, rest)
}

/// Returns the next batch and the id of its last session, or `None` after the last batch.
async fn next_batch(export: &AnswerExport) -> Result<Option<(String, Uuid)>, SurveyError> {
    let tx = export.db.begin(export.scope.clone()).await?;
    let sessions = store::list(&tx, export.survey_id, export.after, BATCH_SESSIONS).await?;
    let Some(last) = sessions.last().map(|last| last.session_id) else {
        tx.rollback().await?;
        return Ok(None);
    };
    let mut text = String::new();
    for session in &sessions {
        let answers = read::by_question(&tx, &export.context, export.survey_id, session).await?;
        text.push_str(&render(export, session, answers));
    }
    tx.rollback().await?;
    Ok(Some((text, last)))
}

fn render(
    export: &AnswerExport,
    session: &SessionAnswers,
    answers: serde_json::Map<String, serde_json::Value>,
) -> String {
    match export.format {
        ExportFormat::Csv => csv::record(session, &answers, &export.columns),
        ExportFormat::Jsonl => format!("{}\n", read::to_json(session, answers)),
    }
}
