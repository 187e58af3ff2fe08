//! Which files may be sent.

use crate::support::zip::{self, Entry};
use onceward_mail::{
    attachment::{AttachmentError, AttachmentPolicy, CheckedAttachment},
    message::encoded_len,
};

const PDF: &[u8] = b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\nstartxref\n0\n%%EOF\n";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";
const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

fn check(name: &str, content: impl Into<Vec<u8>>) -> Result<CheckedAttachment, AttachmentError> {
    AttachmentPolicy::default().check(name, content.into())
}

fn media_type(name: &str, content: impl Into<Vec<u8>>) -> &'static str {
    check(name, content).unwrap_or_else(|error| panic!("{name}: {error}")).media_type()
}

#[test]
fn the_type_comes_from_the_content() {
    assert_eq!(media_type("statement.pdf", PDF), "application/pdf");
    assert_eq!(media_type("Photo.PNG", PNG), "image/png");
    assert_eq!(media_type("notes.txt", "Grüße\r\n"), "text/plain");
    assert_eq!(media_type("list.csv", "id;name\n1;Ann\n"), "text/csv");
    assert_eq!(media_type("date.ics", "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n"), "text/calendar");
    assert_eq!(media_type("files.zip", zip::archive(&[Entry::named("a.txt")])), "application/zip");
    let docx = zip::archive(&[Entry::named("[Content_Types].xml"), Entry::named("word/document.xml")]);
    assert_eq!(media_type("letter.docx", docx), DOCX);
    let odt = zip::archive(&[Entry::named("mimetype").with(b"application/vnd.oasis.opendocument.text")]);
    assert_eq!(media_type("letter.odt", odt), "application/vnd.oasis.opendocument.text");
}

#[test]
fn a_checked_file_has_its_name_content_and_hash() {
    let file = check("C:\\Users\\ann\\Bằng.pdf", PDF).unwrap();
    assert_eq!((file.file_name(), file.content()), ("Bằng.pdf", PDF));
    assert_eq!(file.sha256()[..], *ring::digest::digest(&ring::digest::SHA256, PDF).as_ref());
    assert!(!format!("{file:?}").contains("Bằng"), "{file:?}");
    assert_eq!(check("/tmp/Ba\u{306}\u{300}ng.pdf", PDF).unwrap().file_name(), "Bằng.pdf");
}

#[test]
fn names_that_disguise_a_file_are_refused() {
    use AttachmentError::*;
    for (name, wrong) in [
        ("", NoName),
        ("folder/", NoName),
        ("a\r\nb.pdf", InvisibleCharacter),
        ("a\0.pdf", InvisibleCharacter),
        ("fdp.\u{202E}exe.pdf", InvisibleCharacter),
        ("a\u{2066}b.pdf", InvisibleCharacter),
        (".pdf", OuterDot),
        ("../.htaccess", OuterDot),
        ("a.pdf.", OuterDot),
    ] {
        assert_eq!(check(name, PDF).unwrap_err(), wrong, "{name:?}");
    }
    let name = format!("{}.pdf", "é".repeat(126));
    assert_eq!(check(&name, PDF).unwrap_err(), NameTooLong { limit: 255 });
}

#[test]
fn the_extension_must_agree_with_the_content() {
    let mismatch = |media_type| AttachmentError::ExtensionMismatch { media_type };
    assert_eq!(check("photo.jpg", PDF).unwrap_err(), mismatch("application/pdf"));
    assert_eq!(check("statement", PDF).unwrap_err(), mismatch("application/pdf"));
    assert_eq!(check("statement.pdf", "just text").unwrap_err(), mismatch("text/plain"));
    assert_eq!(check("letter.docx", zip::archive(&[Entry::named("a.txt")])).unwrap_err(), mismatch("application/zip"));
}

#[test]
fn programs_and_scripts_are_refused_by_content_by_name_and_inside_archives() {
    let mz = [&b"MZ\x90\0"[..], &[0; 64]].concat();
    let elf = [&b"\x7fELF\x02\x01\x01"[..], &[0; 64]].concat();
    for (name, content) in [("invoice.pdf", mz), ("notes.txt", elf), ("notes.txt", b"#!/bin/sh\nls\n".to_vec())] {
        assert_eq!(check(name, content).unwrap_err(), AttachmentError::Executable, "{name}");
    }
    for name in ["run.js", "invoice.pdf.exe", "a.BAT", "b.vbs", "page.hta", "x.lnk"] {
        assert_eq!(check(name, "text").unwrap_err(), AttachmentError::Executable, "{name}");
    }
    for entry in ["invoice.exe", "folder/run.JS", "word/vbaProject.bin"] {
        let archive = zip::archive(&[Entry::named("a.txt"), Entry::named(entry)]);
        assert_eq!(check("files.zip", archive).unwrap_err(), AttachmentError::Executable, "{entry}");
    }
    for markup in ["<!DOCTYPE html><p>", "<html>", "\u{FEFF}<script>", "<?xml version=\"1.0\"?><svg>"] {
        let refused = check("page.txt", markup).unwrap_err();
        assert_eq!(refused, AttachmentError::TypeNotAllowed { media_type: "text/html" }, "{markup}");
    }
}

#[test]
fn encrypted_archives_are_refused_and_encrypted_pdfs_are_not() {
    for archive in [
        zip::archive(&[Entry::named("a.txt"), Entry::named("b.txt").encrypted()]),
        zip::archive(&[Entry::named("a.txt").encrypted_in_local_header_only()]),
    ] {
        assert_eq!(check("files.zip", archive).unwrap_err(), AttachmentError::EncryptedArchive);
    }
    let pdf = [&PDF[..9], b"trailer << /Encrypt 5 0 R >>\nstartxref\n0\n%%EOF"].concat();
    assert_eq!(media_type("statement.pdf", pdf), "application/pdf");
}

#[test]
fn damaged_and_unknown_files_are_refused() {
    let damaged = |media_type| AttachmentError::Damaged { media_type };
    assert_eq!(check("a.pdf", "%PDF-1.7\nthe end is missing").unwrap_err(), damaged("application/pdf"));
    let archive = zip::archive(&[Entry::named("a.txt"), Entry::named("b.txt")]);
    for end in 4..archive.len() - 1 {
        assert_eq!(check("a.zip", &archive[..end]).unwrap_err(), damaged("application/zip"), "{end}");
    }
    assert_eq!(check("a.csv", "no table\nbut, a; comma").unwrap_err(), damaged("text/csv"));
    assert_eq!(check("a.txt", "").unwrap_err(), AttachmentError::Empty);
    assert_eq!(check("a.bin", b"\0\x01\x02\x03").unwrap_err(), AttachmentError::UnknownType);
}

#[test]
fn a_mail_as_a_file_is_refused_unless_it_is_allowed() {
    let mail = "Received: from a by b\r\nSubject: x\r\n\r\nbody\r\n";
    let refused = AttachmentError::TypeNotAllowed { media_type: "message/rfc822" };
    assert_eq!(check("mail.eml", mail).unwrap_err(), refused);
    assert_eq!(check("mail.txt", mail).unwrap_err(), refused);
    let mut policy = AttachmentPolicy::default();
    policy.allowed_media_types.push("message/rfc822".to_owned());
    assert_eq!(policy.check("mail.eml", mail.into()).unwrap().media_type(), "message/rfc822");
}

#[test]
fn number_and_size_are_limited_after_encoding() {
    let policy = AttachmentPolicy { max_files: 2, max_encoded_bytes: encoded_len(PDF.len()) * 2, ..Default::default() };
    let file = policy.check("a.pdf", PDF.to_vec()).unwrap();
    assert_eq!(policy.check_all(&[file.clone(), file.clone()]), Ok(()));
    let three = [file.clone(), file.clone(), file.clone()];
    assert_eq!(policy.check_all(&three), Err(AttachmentError::TooMany { limit: 2 }));
    let small = AttachmentPolicy { max_encoded_bytes: encoded_len(PDF.len()) * 2 - 1, ..policy };
    assert_eq!(
        small.check_all(&[file.clone(), file]),
        Err(AttachmentError::TooLarge { limit: small.max_encoded_bytes })
    );
    let tiny = AttachmentPolicy { max_encoded_bytes: encoded_len(PDF.len()) - 1, ..small };
    assert!(matches!(tiny.check("a.pdf", PDF.to_vec()), Err(AttachmentError::TooLarge { .. })));
}
