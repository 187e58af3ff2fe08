//! Reads PDFs with `lopdf`, which limits nesting and decompression. Chosen over `pdf-extract`, which panics on
//! unsupported input and decompresses without limit, and over `pdfium`, which runs C++ code in the same process.

use super::{
    CharBudget, ExtractError, ExtractLimits, ExtractedPages,
    abort::{check_deadline, count_objects},
    font::Font,
    layout::Layout,
};
use lopdf::{DecompressError, Document, Error, LoadOptions, Object, ObjectId, content::Content};
use std::collections::BTreeMap;

/// The bytes that a compressed object stream may unpack to. Its objects take many times as much memory.
const MAX_TABLE_BYTES: usize = 4 * 1024 * 1024;
/// Reading the clock costs more than most operations.
const OPERATIONS_PER_CHECK: usize = 64;
const MAX_NOTES: usize = 20;

pub(super) fn read(content: &[u8], from_page: u32, limits: ExtractLimits) -> Result<ExtractedPages, ExtractError> {
    let document = load(content)?;
    let pages: Vec<ObjectId> = document.page_iter().take(limits.max_pages as usize + 1).collect();
    if pages.len() > limits.max_pages as usize {
        return Err(ExtractError::Unreadable(format!("it has more than {} pages", limits.max_pages)));
    }
    if pages.is_empty() {
        return Err(ExtractError::Unreadable("it has no pages; it is damaged or incomplete".into()));
    }
    let mut budget = CharBudget::new(limits.chars);
    let mut step =
        ExtractedPages { pages: u32::try_from(pages.len()).unwrap_or(u32::MAX), ..ExtractedPages::default() };
    let wanted = (1_u32..).zip(&pages).skip(from_page.saturating_sub(1) as usize).take(limits.pages as usize);
    for (number, page) in wanted {
        let mut notes = Vec::new();
        let text = page_text(&document, *page, limits.unpacked_bytes, &mut notes);
        if text.trim().is_empty() && notes.is_empty() {
            notes.push("contains no text; visible text may be an image".to_owned());
        }
        step.texts.push(budget.take(&text));
        step.notes.extend(notes.into_iter().map(|note| format!("page {number}: {note}")));
    }
    step.notes.truncate(MAX_NOTES);
    step.notes.extend(budget.notes());
    Ok(step)
}

fn load(content: &[u8]) -> Result<Document, ExtractError> {
    let options = LoadOptions {
        filter: Some(check_object),
        max_decompressed_size: Some(MAX_TABLE_BYTES),
        ..LoadOptions::default()
    };
    let encrypted = || ExtractError::Unreadable("it is encrypted; remove the password and upload it again".into());
    match Document::load_mem_with_options(content, options) {
        // A document that opens without a password was decrypted on loading and is no longer marked as encrypted.
        Ok(document) if document.is_encrypted() => Err(encrypted()),
        Ok(document) => Ok(document),
        Err(Error::Decryption(_) | Error::InvalidPassword | Error::UnsupportedSecurityHandler(_)) => Err(encrypted()),
        Err(error) => Err(ExtractError::Unreadable(format!("it is not a readable PDF: {error}"))),
    }
}

/// Enforces the limits on every object while the document is loaded. Some callers in `lopdf` use the changed argument,
/// others the returned object, so both are the object itself.
fn check_object(id: ObjectId, object: &mut Object) -> Option<(ObjectId, Object)> {
    check_deadline();
    count_objects(object_count(object));
    Some((id, object.clone()))
}

fn object_count(object: &Object) -> usize {
    match object {
        Object::Array(items) => 1 + items.iter().map(object_count).sum::<usize>(),
        Object::Dictionary(entries) => 1 + entries.iter().map(|(_, value)| object_count(value)).sum::<usize>(),
        _ => 1,
    }
}

fn page_text(document: &Document, page: ObjectId, unpacked_bytes: usize, notes: &mut Vec<String>) -> String {
    check_deadline();
    let content = match document.get_page_content_with_limit(page, unpacked_bytes) {
        Ok(content) => content,
        Err(Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => {
            notes.push("left out: it unpacks to more than the limit".to_owned());
            return String::new();
        }
        Err(error) => {
            notes.push(format!("left out: {error}"));
            return String::new();
        }
    };
    let fonts = fonts(document, page, unpacked_bytes);
    let mut layout = Layout::new(&fonts);
    for (done, operation) in Content::decode_iter(&content).enumerate() {
        if done.is_multiple_of(OPERATIONS_PER_CHECK) {
            check_deadline();
        }
        match operation {
            Ok(operation) => layout.apply(&operation.operator, &operation.operands),
            Err(_) => {
                notes.push("the end of the page is damaged and was left out".to_owned());
                break;
            }
        }
    }
    if layout.has_undecoded() {
        notes.push("some text uses a font without a character mapping and was left out".to_owned());
    }
    layout.into_text()
}

fn fonts(document: &Document, page: ObjectId, unpacked_bytes: usize) -> BTreeMap<Vec<u8>, Font<'_>> {
    let fonts = document.get_page_fonts(page).unwrap_or_default().into_iter();
    fonts
        .filter_map(|(name, font)| {
            check_deadline();
            Some((name, Font::new(document, font, unpacked_bytes)?))
        })
        .collect()
}
