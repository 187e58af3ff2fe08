//! What a file is by its content.

use super::{
    AttachmentError,
    media::{CALENDAR, CSV, MESSAGE, PDF, TEXT, known_type},
    zip,
};

/// A complete PDF ends with its marker; programs append some bytes after it.
const PDF_TAIL_BYTES: usize = 1024;
/// Headers with which a stored mail begins, and a letter does not.
const MESSAGE_OPENINGS: &[&str] = &[
    "return-path:",
    "received:",
    "delivered-to:",
    "dkim-signature:",
    "message-id:",
    "mime-version:",
    "x-original-to:",
];

/// Returns the type of the content. The extension decides only between kinds of text, which have no signature.
pub(super) fn media_type(content: &[u8], extension: &str) -> Result<&'static str, AttachmentError> {
    if content.is_empty() {
        return Err(AttachmentError::Empty);
    }
    if content.starts_with(b"#!") || infer::is_app(content) {
        return Err(AttachmentError::Executable);
    }
    if content.starts_with(b"PK") {
        return zip::media_type(content);
    }
    if content.starts_with(b"%PDF-") {
        return if is_whole_pdf(content) { Ok(PDF) } else { Err(AttachmentError::Damaged { media_type: PDF }) };
    }
    if let Some(text) = as_text(content) {
        return text_type(text, extension);
    }
    let kind = infer::get(content).ok_or(AttachmentError::UnknownType)?;
    known_type(kind.mime_type()).ok_or(AttachmentError::TypeNotAllowed { media_type: kind.mime_type() })
}

fn is_whole_pdf(content: &[u8]) -> bool {
    let tail = &content[content.len().saturating_sub(PDF_TAIL_BYTES)..];
    let contains = |marker: &[u8]| tail.windows(marker.len()).any(|window| window == marker);
    contains(b"startxref") && contains(b"%%EOF")
}

/// Returns the content if it is text: UTF-8 without control characters other than those of layout.
fn as_text(content: &[u8]) -> Option<&str> {
    let text = str::from_utf8(content).ok()?;
    let is_layout = |character: char| matches!(character, '\t' | '\n' | '\r' | '\u{C}');
    text.chars().all(|character| !character.is_control() || is_layout(character)).then_some(text)
}

fn text_type(text: &str, extension: &str) -> Result<&'static str, AttachmentError> {
    let text = text.trim_start_matches('\u{FEFF}').trim_start();
    let opening = text.lines().next().unwrap_or_default().to_ascii_lowercase();
    if extension == "eml" || MESSAGE_OPENINGS.iter().any(|header| opening.starts_with(header)) {
        return Ok(MESSAGE);
    }
    if opening.starts_with("begin:vcalendar") {
        return Ok(CALENDAR);
    }
    // A browser runs what it finds in markup, whatever the file is called.
    let is_markup = ["<!doctype html", "<html", "<script", "<svg", "<?xml", "<body", "<head", "<iframe", "<?php"]
        .iter()
        .any(|tag| opening.starts_with(tag));
    if is_markup {
        return Err(AttachmentError::TypeNotAllowed { media_type: "text/html" });
    }
    match extension {
        "csv" if is_table(text) => Ok(CSV),
        "csv" => Err(AttachmentError::Damaged { media_type: CSV }),
        _ => Ok(TEXT),
    }
}

/// Returns whether text is a table: its first line has a separator, or every line is one value.
fn is_table(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let separators = [',', ';', '\t', '|'];
    separators.iter().any(|separator| first.contains(*separator)) || !text.contains(separators)
}
