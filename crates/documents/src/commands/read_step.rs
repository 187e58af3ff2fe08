//! Reads the next pages of a document, and what they say once the last is read.

use super::Machinery;
use crate::{
    events::{self, DocumentProcess, StatusUpdate},
    extract::{CUT, Step},
    fields,
    store::{self, Place, Progress},
};
use onceward::{Tx, audit, outbox};
use onceward_audit::Entry;
use serde_json::json;

const TOO_MANY: &str = "more was found than is kept; the rest was left out";
/// What a status message may hold.
const DETAIL_MAX_CHARS: usize = 300;

/// Records what a step has read, or that the document cannot be read.
pub(crate) async fn read_step(
    tx: &mut Tx,
    process: &DocumentProcess,
    place: &Place,
    read: Result<Step, String>,
) -> Result<(), Machinery> {
    match read {
        Ok(step) => go_on(tx, process, place, step).await,
        Err(reason) => give_up(tx, process, &reason).await,
    }
}

async fn go_on(tx: &mut Tx, process: &DocumentProcess, place: &Place, mut step: Step) -> Result<(), Machinery> {
    let DocumentProcess { document_id, analysis, .. } = *process;
    let read = i32::try_from(step.texts.len()).unwrap_or(i32::MAX);
    let pages = i32::try_from(step.pages).unwrap_or(i32::MAX);
    let pages_done = place.pages_done.saturating_add(read).min(pages);
    let chars: usize = step.texts.iter().map(|text| text.chars().count()).sum();
    // Said by the step that reached the limit; those after it have nothing left to cut.
    let cut_before = place.text_chars > 0 && chars == 0;
    step.notes.retain(|note| !(cut_before && note == CUT));
    let progress = Progress {
        pages,
        pages_done,
        text_chars: place.text_chars + i64::try_from(chars).unwrap_or(i64::MAX),
        texts: &step.texts,
        notes: &step.notes,
    };
    store::add_pages(tx, document_id, analysis, &progress).await?;
    metrics::counter!("documents_pages_read_total").increment(step.texts.len() as u64);
    if pages_done < pages && read > 0 {
        let detail = format!("{} %: {pages_done} of {pages} pages are read", store::percent(pages_done, pages));
        tell(tx, process, events::Progress::Processing, detail).await?;
        let from_page = u32::try_from(pages_done + 1).unwrap_or(u32::MAX);
        outbox::publish(tx, &DocumentProcess { document_id, analysis, from_page }).await?;
        return Ok(());
    }
    finish(tx, process, pages).await
}

async fn finish(tx: &mut Tx, process: &DocumentProcess, pages: i32) -> Result<(), Machinery> {
    let DocumentProcess { document_id, analysis, .. } = *process;
    let texts = store::page_texts(tx, document_id, analysis).await?;
    let (kind, fields, cut) = fields::find(texts.iter().map(String::as_str));
    let notes: &[&str] = if cut { &[TOO_MANY] } else { &[] };
    store::complete(tx, document_id, analysis, (kind, &fields), notes).await?;
    let found = json!({
        "analysis": analysis, "pages": pages, "kind": kind, "loanNumbers": fields.loan_numbers.len(),
        "amounts": fields.amounts.len(), "dates": fields.dates.len(), "unclear": fields.unclear.len(),
    });
    let entry = Entry::new("document_analyzed").object("document", document_id);
    audit::record(tx, entry.payload(found))?;
    tell(tx, process, events::Progress::Done, format!("100 %: {pages} pages are read")).await?;
    metrics::counter!("documents_analyses_total", "result" => "completed").increment(1);
    Ok(())
}

async fn give_up(tx: &mut Tx, process: &DocumentProcess, reason: &str) -> Result<(), Machinery> {
    let DocumentProcess { document_id, analysis, .. } = *process;
    let reason: String = reason.chars().filter(|character| !character.is_control()).take(DETAIL_MAX_CHARS).collect();
    store::fail(tx, document_id, analysis, &reason).await?;
    let entry = Entry::new("document_analysis_failed").object("document", document_id);
    audit::record(tx, entry.payload(json!({ "analysis": analysis, "reason": reason })))?;
    tell(tx, process, events::Progress::Refused, reason).await?;
    metrics::counter!("documents_analyses_total", "result" => "failed").increment(1);
    Ok(())
}

async fn tell(
    tx: &mut Tx,
    process: &DocumentProcess,
    state: events::Progress,
    detail: String,
) -> Result<(), Machinery> {
    outbox::publish(tx, &StatusUpdate::new(process.document_id, state, detail)).await?;
    Ok(())
}
