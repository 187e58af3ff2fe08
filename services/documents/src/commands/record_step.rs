//! Records the result of reading some pages; after the last page, extracts the fields and completes the analysis.

use super::DocumentsError;
use crate::{
    events::{CommandState, DocumentProcess, StatusUpdate},
    extract::{ExtractedPages, TEXT_CUT},
    fields,
    store::{self, AnalysisProgress, NewPages},
};
use onceward::{Tx, audit, outbox};
use onceward_audit::Entry;
use serde_json::json;

const TOO_MANY_FIELDS: &str = "more values were found than are stored; the rest was left out";
/// The longest reason that a status message carries.
const DETAIL_MAX_CHARS: usize = 300;

/// Records the pages that a step has read, or that the document cannot be read.
pub(crate) async fn record_step(
    tx: &mut Tx,
    process: &DocumentProcess,
    progress: &AnalysisProgress,
    read: Result<ExtractedPages, String>,
) -> Result<(), DocumentsError> {
    match read {
        Ok(step) => record_pages(tx, process, progress, step).await,
        Err(reason) => fail(tx, process, &reason).await,
    }
}

async fn record_pages(
    tx: &mut Tx,
    process: &DocumentProcess,
    progress: &AnalysisProgress,
    mut step: ExtractedPages,
) -> Result<(), DocumentsError> {
    let DocumentProcess { document_id, analysis, .. } = *process;
    let read = i32::try_from(step.texts.len()).unwrap_or(i32::MAX);
    let pages = i32::try_from(step.pages).unwrap_or(i32::MAX);
    let pages_done = progress.pages_done.saturating_add(read).min(pages);
    let chars: usize = step.texts.iter().map(|text| text.chars().count()).sum();
    // Only the step that reached the limit notes it; later steps have no text left to cut.
    let cut_before = progress.text_chars > 0 && chars == 0;
    step.notes.retain(|note| !(cut_before && note == TEXT_CUT));
    let new_pages = NewPages {
        pages,
        pages_done,
        text_chars: progress.text_chars + i64::try_from(chars).unwrap_or(i64::MAX),
        texts: &step.texts,
        notes: &step.notes,
    };
    store::add_pages(tx, document_id, analysis, &new_pages).await?;
    let read_now = step.texts.len() as u64;
    tx.after_commit(move || metrics::counter!("documents_pages_read_total").increment(read_now));
    if pages_done < pages && read > 0 {
        let detail = format!("{} %: {pages_done} of {pages} pages read", store::percent(pages_done, pages));
        publish_status(tx, process, CommandState::Processing, detail).await?;
        let from_page = u32::try_from(pages_done + 1).unwrap_or(u32::MAX);
        outbox::publish(tx, &DocumentProcess { document_id, analysis, from_page }).await?;
        return Ok(());
    }
    finish(tx, process, pages).await
}

async fn finish(tx: &mut Tx, process: &DocumentProcess, pages: i32) -> Result<(), DocumentsError> {
    let DocumentProcess { document_id, analysis, .. } = *process;
    let texts = store::page_texts(tx, document_id, analysis).await?;
    let (kind, fields, cut) = fields::find(texts.iter().map(String::as_str));
    let notes: &[&str] = if cut { &[TOO_MANY_FIELDS] } else { &[] };
    store::complete(tx, document_id, analysis, (kind, &fields), notes).await?;
    let found = json!({
        "analysis": analysis, "pages": pages, "kind": kind, "loanNumbers": fields.loan_numbers.len(),
        "amounts": fields.amounts.len(), "dates": fields.dates.len(), "unclear": fields.unclear.len(),
    });
    let entry = Entry::new("document_analyzed").object("document", document_id);
    audit::record(tx, entry.payload(found))?;
    publish_status(tx, process, CommandState::Done, format!("100 %: {pages} pages read")).await?;
    tx.after_commit(|| metrics::counter!("documents_analyses_total", "result" => "completed").increment(1));
    Ok(())
}

async fn fail(tx: &mut Tx, process: &DocumentProcess, reason: &str) -> Result<(), DocumentsError> {
    let DocumentProcess { document_id, analysis, .. } = *process;
    let reason: String = reason.chars().filter(|character| !character.is_control()).take(DETAIL_MAX_CHARS).collect();
    store::fail(tx, document_id, analysis, &reason).await?;
    let entry = Entry::new("document_analysis_failed").object("document", document_id);
    audit::record(tx, entry.payload(json!({ "analysis": analysis, "reason": reason })))?;
    publish_status(tx, process, CommandState::Refused, reason).await?;
    tx.after_commit(|| metrics::counter!("documents_analyses_total", "result" => "failed").increment(1));
    Ok(())
}

async fn publish_status(
    tx: &mut Tx,
    process: &DocumentProcess,
    state: CommandState,
    detail: String,
) -> Result<(), DocumentsError> {
    outbox::publish(tx, &StatusUpdate::new(process.document_id, state, detail)).await?;
    Ok(())
}
