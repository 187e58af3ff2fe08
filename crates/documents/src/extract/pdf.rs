//! Reading PDF with `lopdf`, which bounds nesting and unpacking itself. Chosen over `pdf-extract`, which panics on what it does
//! not know and unpacks without bound, and over `pdfium`, which is a C++ program in the same process.

use super::{
    Budget, Limits, Step, Unread,
    font::Font,
    layout::Layout,
    patience::{count, look_at_the_clock},
};
use lopdf::{DecompressError, Document, Error, LoadOptions, Object, ObjectId, content::Content};
use std::collections::BTreeMap;

/// What a compressed table of objects may unpack to. It becomes many times as much memory.
const MAX_TABLE_BYTES: usize = 4 * 1024 * 1024;
/// Looking at the clock costs more than most operations.
const OPERATIONS_PER_LOOK: usize = 64;
const MAX_NOTES: usize = 20;

pub(super) fn read(content: &[u8], from_page: u32, limits: Limits) -> Result<Step, Unread> {
    let document = load(content)?;
    let pages: Vec<ObjectId> = document.page_iter().take(limits.max_pages as usize + 1).collect();
    if pages.len() > limits.max_pages as usize {
        return Err(Unread::Document(format!("it has more than {} pages", limits.max_pages)));
    }
    if pages.is_empty() {
        return Err(Unread::Document("it has no pages: it is damaged or not complete".into()));
    }
    let mut budget = Budget::new(limits.chars);
    let mut step = Step { pages: u32::try_from(pages.len()).unwrap_or(u32::MAX), ..Step::default() };
    let wanted = (1_u32..).zip(&pages).skip(from_page.saturating_sub(1) as usize).take(limits.pages as usize);
    for (number, page) in wanted {
        let mut notes = Vec::new();
        let text = page_text(&document, *page, limits.unpacked_bytes, &mut notes);
        if text.trim().is_empty() && notes.is_empty() {
            notes.push("no text; if it shows some, that is a picture".to_owned());
        }
        step.texts.push(budget.take(&text));
        step.notes.extend(notes.into_iter().map(|note| format!("page {number}: {note}")));
    }
    step.notes.truncate(MAX_NOTES);
    step.notes.extend(budget.notes());
    Ok(step)
}

fn load(content: &[u8]) -> Result<Document, Unread> {
    let options =
        LoadOptions { filter: Some(weigh), max_decompressed_size: Some(MAX_TABLE_BYTES), ..LoadOptions::default() };
    let encrypted = || Unread::Document("it is encrypted: remove the password and upload it again".into());
    match Document::load_mem_with_options(content, options) {
        // One that opens without a password was decrypted, and is no longer marked.
        Ok(document) if document.is_encrypted() => Err(encrypted()),
        Ok(document) => Ok(document),
        Err(Error::Decryption(_) | Error::InvalidPassword | Error::UnsupportedSecurityHandler(_)) => Err(encrypted()),
        Err(error) => Err(Unread::Document(format!("it is not a readable PDF: {error}"))),
    }
}

/// Called for every object while the document is loaded. Some callers keep what they gave, others what they are given.
fn weigh(id: ObjectId, object: &mut Object) -> Option<(ObjectId, Object)> {
    look_at_the_clock();
    count(parts(object));
    Some((id, object.clone()))
}

fn parts(object: &Object) -> usize {
    match object {
        Object::Array(items) => 1 + items.iter().map(parts).sum::<usize>(),
        Object::Dictionary(entries) => 1 + entries.iter().map(|(_, value)| parts(value)).sum::<usize>(),
        _ => 1,
    }
}

fn page_text(document: &Document, page: ObjectId, unpacked_bytes: usize, notes: &mut Vec<String>) -> String {
    look_at_the_clock();
    let content = match document.get_page_content_with_limit(page, unpacked_bytes) {
        Ok(content) => content,
        Err(Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => {
            notes.push("left out: it unpacks to more than is allowed".to_owned());
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
        if done.is_multiple_of(OPERATIONS_PER_LOOK) {
            look_at_the_clock();
        }
        match operation {
            Ok(operation) => layout.apply(&operation.operator, &operation.operands),
            Err(_) => {
                notes.push("its end is damaged and was left out".to_owned());
                break;
            }
        }
    }
    if layout.undecoded() {
        notes.push("some text is in a font that does not say which characters it stands for".to_owned());
    }
    layout.text()
}

fn fonts(document: &Document, page: ObjectId, unpacked_bytes: usize) -> BTreeMap<Vec<u8>, Font<'_>> {
    let fonts = document.get_page_fonts(page).unwrap_or_default().into_iter();
    fonts
        .filter_map(|(name, font)| {
            look_at_the_clock();
            Some((name, Font::new(document, font, unpacked_bytes)?))
        })
        .collect()
}
