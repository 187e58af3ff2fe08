//! All SQL of this service. Row-level security restricts every statement to the tenant.

use crate::{MediaType, fields::DocumentFields, fields::DocumentKind};
use jiff::Timestamp;
use onceward::{DbError, RequiredTable, Row, Tx};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) const REQUIRED: &[RequiredTable] = &[
    RequiredTable { table: "documents.document", columns: &["tenant_id", "document_id", "media_type", "content"] },
    RequiredTable { table: "documents.analysis", columns: &["tenant_id", "document_id", "number", "state", "fields"] },
    RequiredTable { table: "documents.page", columns: &["tenant_id", "document_id", "number", "page_no", "text"] },
];

const INSERT_DOCUMENT: &str = "INSERT INTO documents.document
    (tenant_id, document_id, file_name, media_type, size_bytes, sha256, content, uploaded_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
const FIND_DOCUMENT: &str = "SELECT file_name, media_type, size_bytes, sha256, uploaded_at
    FROM documents.document WHERE document_id = $1";
/// Serializes the requests that start an analysis of the same document.
const LOCK_DOCUMENT: &str = "SELECT media_type FROM documents.document WHERE document_id = $1 FOR UPDATE";
const CONTENT: &str = "SELECT media_type, content FROM documents.document WHERE document_id = $1";
const LATEST: &str =
    "SELECT number, state, pages, pages_done, text_chars, notes, kind, fields, reason, requested_at, finished_at
    FROM documents.analysis WHERE document_id = $1 ORDER BY number DESC LIMIT 1";
const LOCK_ANALYSIS: &str = "SELECT state, pages_done, text_chars FROM documents.analysis
    WHERE document_id = $1 AND number = $2 FOR UPDATE";
const SUPERSEDE: &str = "UPDATE documents.analysis SET state = 'superseded', finished_at = now()
    WHERE document_id = $1 AND state IN ('queued', 'running')";
const INSERT_ANALYSIS: &str = "INSERT INTO documents.analysis (tenant_id, document_id, number, correlation_id)
    VALUES ($1, $2, $3, $4)";
const INSERT_PAGES: &str = "INSERT INTO documents.page (tenant_id, document_id, number, page_no, text)
    SELECT $1, $2, $3, $4 + position - 1, text FROM unnest($5::text[]) WITH ORDINALITY AS page (text, position)";
const UPDATE_PROGRESS: &str = "UPDATE documents.analysis
    SET state = 'running', pages = $3, pages_done = $4, text_chars = $5, notes = notes || $6
    WHERE document_id = $1 AND number = $2";
const PAGES: &str = "SELECT text FROM documents.page WHERE document_id = $1 AND number = $2 ORDER BY page_no";
const PAGE: &str = "SELECT text FROM documents.page WHERE document_id = $1 AND number = $2 AND page_no = $3";
const COMPLETE: &str = "UPDATE documents.analysis
    SET state = 'completed', finished_at = now(), kind = $3, fields = $4, notes = notes || $5
    WHERE document_id = $1 AND number = $2";
const FAIL: &str = "UPDATE documents.analysis SET state = 'failed', finished_at = now(), reason = $3
    WHERE document_id = $1 AND number = $2";

/// A file to be stored.
pub(crate) struct NewDocument<'a> {
    pub document_id: Uuid,
    pub file_name: Option<&'a str>,
    pub media_type: MediaType,
    pub sha256: &'a str,
    pub content: &'a [u8],
}

/// Inserts a document. Returns `false` if the id already exists.
pub(crate) async fn insert_document(tx: &Tx, new: &NewDocument<'_>) -> Result<bool, DbError> {
    let size_bytes = i64::try_from(new.content.len()).unwrap_or(i64::MAX);
    let inserted = tx
        .execute(
            INSERT_DOCUMENT,
            &[
                &tx.tenant()?.as_str(),
                &new.document_id,
                &new.file_name,
                &new.media_type.as_str(),
                &size_bytes,
                &new.sha256,
                &new.content,
                &tx.scope().actor.user_id,
            ],
        )
        .await?;
    Ok(inserted == 1)
}

/// Returns a document's metadata as the API shows it, or `None` if it does not exist.
pub(crate) async fn find_document(tx: &Tx, id: Uuid) -> Result<Option<Value>, DbError> {
    let row = tx.query_opt(FIND_DOCUMENT, &[&id]).await?;
    Ok(row.map(|row| {
        json!({
            "document_id": id,
            "file_name": row.get::<_, Option<String>>(0),
            "media_type": row.get::<_, String>(1),
            "size_bytes": row.get::<_, i64>(2),
            "sha256": row.get::<_, String>(3),
            "uploaded_at": row.get::<_, Timestamp>(4),
        })
    }))
}

/// Locks a document until the transaction ends. Returns `false` if it does not exist.
pub(crate) async fn lock_document(tx: &Tx, id: Uuid) -> Result<bool, DbError> {
    Ok(tx.query_opt(LOCK_DOCUMENT, &[&id]).await?.is_some())
}

pub(crate) async fn content(tx: &Tx, id: Uuid) -> Result<Option<(MediaType, Vec<u8>)>, DbError> {
    let row = tx.query_opt(CONTENT, &[&id]).await?;
    Ok(row.map(|row| (MediaType::from_stored(row.get(0)), row.get(1))))
}

/// One analysis of a document.
#[derive(Debug)]
pub(crate) struct Analysis {
    pub document_id: Uuid,
    pub number: i32,
    pub state: String,
    pub pages: Option<i32>,
    pub pages_done: i32,
    /// The members of the view that the code does not use.
    other_members: Value,
}

impl Analysis {
    fn from_row(document_id: Uuid, row: &Row) -> Self {
        let other_members = json!({
            "text_chars": row.get::<_, i64>(4),
            "notes": row.get::<_, Value>(5),
            "kind": row.get::<_, Option<String>>(6),
            "fields": row.get::<_, Option<Value>>(7),
            "reason": row.get::<_, Option<String>>(8),
            "requested_at": row.get::<_, Timestamp>(9),
            "finished_at": row.get::<_, Option<Timestamp>>(10),
        });
        Self {
            document_id,
            number: row.get(0),
            state: row.get(1),
            pages: row.get(2),
            pages_done: row.get(3),
            other_members,
        }
    }

    /// Returns the analysis as the API shows it.
    pub(crate) fn view(&self) -> Value {
        let mut view = json!({
            "document_id": self.document_id, "analysis": self.number, "state": self.state,
            "percent": self.percent(), "pages": self.pages, "pages_done": self.pages_done,
        });
        for (name, value) in self.other_members.as_object().into_iter().flatten() {
            view[name] = value.clone();
        }
        view
    }

    fn percent(&self) -> u8 {
        match self.state.as_str() {
            "completed" => 100,
            _ => percent(self.pages_done, self.pages.unwrap_or(0)),
        }
    }
}

/// Returns the progress in percent, at most 99: only a completed analysis shows 100.
pub(crate) fn percent(done: i32, of: i32) -> u8 {
    let percent = i64::from(done) * 99 / i64::from(of.max(1));
    u8::try_from(percent.clamp(0, 99)).unwrap_or(99)
}

pub(crate) async fn latest_analysis(tx: &Tx, document_id: Uuid) -> Result<Option<Analysis>, DbError> {
    let row = tx.query_opt(LATEST, &[&document_id]).await?;
    Ok(row.map(|row| Analysis::from_row(document_id, &row)))
}

/// Starts analysis `number`; one that is in progress is superseded.
pub(crate) async fn start_analysis(tx: &Tx, document_id: Uuid, number: i32) -> Result<(), DbError> {
    tx.execute(SUPERSEDE, &[&document_id]).await?;
    let correlation_id = tx.scope().correlation_id.as_str();
    tx.execute(INSERT_ANALYSIS, &[&tx.tenant()?.as_str(), &document_id, &number, &correlation_id]).await?;
    Ok(())
}

/// The progress of a locked analysis, read by the step that continues it.
pub(crate) struct AnalysisProgress {
    pub in_progress: bool,
    pub pages_done: i32,
    pub text_chars: i64,
}

/// Locks an analysis until the transaction ends and returns its progress.
pub(crate) async fn lock_analysis(
    tx: &Tx,
    document_id: Uuid,
    number: i32,
) -> Result<Option<AnalysisProgress>, DbError> {
    let row = tx.query_opt(LOCK_ANALYSIS, &[&document_id, &number]).await?;
    Ok(row.map(|row| AnalysisProgress {
        in_progress: matches!(row.get(0), "queued" | "running"),
        pages_done: row.get(1),
        text_chars: row.get(2),
    }))
}

/// The pages that a step adds to an analysis, and the analysis' progress after it.
pub(crate) struct NewPages<'a> {
    pub pages: i32,
    pub pages_done: i32,
    pub text_chars: i64,
    pub texts: &'a [String],
    pub notes: &'a [String],
}

pub(crate) async fn add_pages(tx: &Tx, document_id: Uuid, number: i32, new: &NewPages<'_>) -> Result<(), DbError> {
    let first = i64::from(new.pages_done) - i64::try_from(new.texts.len()).unwrap_or(i64::MAX) + 1;
    let tenant = tx.tenant()?.as_str();
    tx.execute(INSERT_PAGES, &[&tenant, &document_id, &number, &first, &new.texts]).await?;
    let notes = json!(new.notes);
    tx.execute(UPDATE_PROGRESS, &[&document_id, &number, &new.pages, &new.pages_done, &new.text_chars, &notes]).await?;
    Ok(())
}

pub(crate) async fn page_texts(tx: &Tx, document_id: Uuid, number: i32) -> Result<Vec<String>, DbError> {
    let rows = tx.query(PAGES, &[&document_id, &number]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

pub(crate) async fn page_text(tx: &Tx, document_id: Uuid, number: i32, page: i32) -> Result<Option<String>, DbError> {
    Ok(tx.query_opt(PAGE, &[&document_id, &number, &page]).await?.map(|row| row.get(0)))
}

pub(crate) async fn complete(
    tx: &Tx,
    document_id: Uuid,
    number: i32,
    found: (DocumentKind, &DocumentFields),
    notes: &[&str],
) -> Result<(), DbError> {
    let (kind, fields) = found;
    tx.execute(COMPLETE, &[&document_id, &number, &kind.as_str(), &json!(fields), &json!(notes)]).await?;
    Ok(())
}

pub(crate) async fn fail(tx: &Tx, document_id: Uuid, number: i32, reason: &str) -> Result<(), DbError> {
    tx.execute(FAIL, &[&document_id, &number, &reason]).await?;
    Ok(())
}
