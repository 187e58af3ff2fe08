//! ZIP archives, read by their central directory: whether they are encrypted, what they contain, and which document
//! format they are. Nothing is unpacked.

use super::{
    AttachmentError,
    file_name::extension,
    media::{DOCX, ODP, ODS, ODT, PPTX, XLSX, ZIP, is_executable_extension},
};

const MAX_ENTRIES: usize = 10_000;
const END_BYTES: usize = 22;
/// The end record may be followed by a comment of this length.
const MAX_COMMENT_BYTES: usize = 65_535;
const ENTRY_BYTES: usize = 46;
/// General purpose flags: encrypted, strongly encrypted, encrypted directory.
const ENCRYPTED_FLAGS: u16 = 1 | 1 << 6 | 1 << 13;
const AES_METHOD: u16 = 99;
/// The value of sizes that only a ZIP64 record holds.
const ZIP64_COUNT: usize = 0xFFFF;

const DAMAGED: AttachmentError = AttachmentError::Damaged { media_type: ZIP };

/// Returns whether the archive is a document or a plain archive. Refuses encrypted archives and those with programs.
pub(super) fn media_type(archive: &[u8]) -> Result<&'static str, AttachmentError> {
    let names = entry_names(archive)?;
    for name in &names {
        let is_macro = name.ends_with("vbaProject.bin");
        if is_macro || is_executable_extension(&extension(name.trim_end_matches('.'))) {
            return Err(AttachmentError::Executable);
        }
    }
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if has("[Content_Types].xml") {
        let office = [("word/document.xml", DOCX), ("xl/workbook.xml", XLSX), ("ppt/presentation.xml", PPTX)];
        return Ok(office.into_iter().find(|(part, _)| has(part)).map_or(ZIP, |(_, media_type)| media_type));
    }
    Ok(open_document_type(archive).unwrap_or(ZIP))
}

/// OpenDocument stores its type, uncompressed, as its first entry.
fn open_document_type(archive: &[u8]) -> Option<&'static str> {
    let name_len = usize::from(u16_at(archive, 26)?);
    let extra_len = usize::from(u16_at(archive, 28)?);
    if archive.get(30..30 + name_len)? != b"mimetype" {
        return None;
    }
    let content = archive.get(30 + name_len + extra_len..)?;
    [ODT, ODS, ODP].into_iter().find(|media_type| content.starts_with(media_type.as_bytes()))
}

fn entry_names(archive: &[u8]) -> Result<Vec<String>, AttachmentError> {
    let (count, mut at) = central_directory(archive).ok_or(DAMAGED)?;
    if count == ZIP64_COUNT || count > MAX_ENTRIES {
        return Err(DAMAGED);
    }
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        let entry = archive.get(at..).filter(|rest| rest.starts_with(b"PK\x01\x02")).ok_or(DAMAGED)?;
        let field = |offset| u16_at(entry, offset).ok_or(DAMAGED);
        let local = u32_at(entry, 42).and_then(|local| archive.get(usize::try_from(local).ok()?..)).ok_or(DAMAGED)?;
        if !local.starts_with(b"PK\x03\x04") {
            return Err(DAMAGED);
        }
        // Both headers have the flags, and a program may trust either.
        let flags = field(8)? | u16_at(local, 6).ok_or(DAMAGED)?;
        if flags & ENCRYPTED_FLAGS != 0 || field(10)? == AES_METHOD {
            return Err(AttachmentError::EncryptedArchive);
        }
        let name_len = usize::from(field(28)?);
        let name = entry.get(ENTRY_BYTES..ENTRY_BYTES + name_len).ok_or(DAMAGED)?;
        names.push(String::from_utf8_lossy(name).into_owned());
        at += ENTRY_BYTES + name_len + usize::from(field(30)?) + usize::from(field(32)?);
    }
    Ok(names)
}

/// Returns the number of entries and where their directory begins.
fn central_directory(archive: &[u8]) -> Option<(usize, usize)> {
    let start = archive.len().saturating_sub(END_BYTES + MAX_COMMENT_BYTES);
    let last = archive.len().checked_sub(END_BYTES)?;
    let end = (start..=last).rev().find(|at| archive[*at..].starts_with(b"PK\x05\x06"))?;
    let count = usize::from(u16_at(archive, end + 10)?);
    Some((count, usize::try_from(u32_at(archive, end + 16)?).ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
