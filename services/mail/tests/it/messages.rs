//! The bytes of messages, read back by another program's parser.

use crate::support::{address, mailbox, message};
use mailparse::{DispositionType, MailHeaderMap, ParsedMail, parse_mail};
use onceward_mail::{
    address::Mailbox,
    attachment::{AttachmentPolicy, CheckedAttachment},
    message::{MailMessage, MessageError},
};
use proptest::prelude::*;
use uuid::Uuid;

fn bytes(message: &MailMessage) -> Vec<u8> {
    message.to_bytes().expect("a valid message")
}

fn text(message: &MailMessage) -> String {
    String::from_utf8(bytes(message)).expect("headers and bodies are text")
}

fn header(parsed: &ParsedMail<'_>, name: &str) -> String {
    parsed.headers.get_first_value(name).unwrap_or_else(|| panic!("there is no {name}"))
}

/// Checks what holds for every message.
fn check_lines(bytes: &[u8]) {
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    assert!(text.ends_with("\r\n"));
    assert!(!text.replace("\r\n", "").contains(['\r', '\n', '\0']), "a bare line break");
    assert!(text.split("\r\n").all(|line| line.len() <= 998), "a long line");
}

fn pdf(name: &str) -> CheckedAttachment {
    let content = b"%PDF-1.7\nstartxref\n0\n%%EOF\n".to_vec();
    AttachmentPolicy::default().check(name, content).expect("a valid file")
}

#[test]
fn a_plain_message_has_exactly_these_bytes() {
    let mut plain = message();
    plain.is_auto_submitted = true;
    plain.list_unsubscribe = Some("https://example.com/u/opaque".to_owned());
    let expected = "Message-ID: <01923456-789a-7bcd-8ef0-123456789abc@loans.example.com>\r\n\
        Date: Wed, 18 Nov 2026 10:20:30 +0000\r\n\
        From: Lending Team <team@loans.example.com>\r\n\
        To: Ann <ann@example.org>\r\n\
        Subject: Your payment\r\n\
        Auto-Submitted: auto-generated\r\n\
        X-Auto-Response-Suppress: All\r\n\
        List-Unsubscribe: <https://example.com/u/opaque>\r\n\
        List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n\
        MIME-Version: 1.0\r\n\
        Content-Type: text/plain; charset=utf-8\r\n\
        Content-Transfer-Encoding: quoted-printable\r\n\
        \r\n\
        Hello,\r\n\
        thank you.\r\n";
    assert_eq!(text(&plain), expected);
}

#[test]
fn the_reference_decoder_reads_encoded_words_as_the_standard_has_it() {
    for (encoded, decoded) in [
        ("=?ISO-8859-1?Q?a?=", "a"),
        ("(=?ISO-8859-1?Q?a?= b)", "(a b)"),
        ("(=?ISO-8859-1?Q?a?=  =?ISO-8859-1?Q?b?=)", "(ab)"),
        ("(=?ISO-8859-1?Q?a_b?=)", "(a b)"),
        ("=?US-ASCII?Q?Keith_Moore?=", "Keith Moore"),
        ("=?ISO-8859-1?Q?Keld_J=F8rn_Simonsen?=", "Keld Jørn Simonsen"),
        ("=?ISO-8859-1?Q?Andr=E9?= Pirard", "André Pirard"),
    ] {
        let message = format!("Subject: {encoded}\r\n\r\n");
        assert_eq!(header(&parse_mail(message.as_bytes()).unwrap(), "Subject"), decoded, "{encoded}");
    }
}

#[test]
fn a_vietnamese_subject_is_encoded_in_whole_characters() {
    let mut vietnamese = message();
    vietnamese.subject = "Hồ sơ của bạn đã được tiếp nhận".to_owned();
    let bytes = bytes(&vietnamese);
    check_lines(&bytes);
    assert!(bytes.is_ascii());
    assert_eq!(header(&parse_mail(&bytes).unwrap(), "Subject"), vietnamese.subject);
}

#[test]
fn text_html_and_files_are_nested_in_their_order() {
    let mut full = message();
    full.text = "Chào Ann,\nxin chào.".to_owned();
    full.html = Some("<p>Chào Ann</p>".to_owned());
    full.attachments = vec![pdf("Bằng tốt nghiệp.pdf"), pdf("plain.pdf")];
    let bytes = bytes(&full);
    check_lines(&bytes);
    let parsed = parse_mail(&bytes).unwrap();
    assert_eq!(parsed.ctype.mimetype, "multipart/mixed");
    let kinds: Vec<&str> = parsed.subparts.iter().map(|part| part.ctype.mimetype.as_str()).collect();
    assert_eq!(kinds, ["multipart/alternative", "application/pdf", "application/pdf"]);
    let bodies: Vec<String> = parsed.subparts[0].subparts.iter().map(|part| part.get_body().unwrap()).collect();
    assert_eq!(
        bodies.iter().map(|body| body.trim_end()).collect::<Vec<_>>(),
        ["Chào Ann,\r\nxin chào.", "<p>Chào Ann</p>"]
    );
    for (part, name) in parsed.subparts[1..].iter().zip(["Bang tot nghiep.pdf", "plain.pdf"]) {
        let disposition = part.get_content_disposition();
        assert_eq!(disposition.disposition, DispositionType::Attachment);
        // This parser reads the ASCII form if there are both.
        assert_eq!(disposition.params["filename"], name);
        assert_eq!(part.get_body_raw().unwrap(), full.attachments[0].content());
    }
    let source = String::from_utf8(bytes).unwrap();
    assert!(source.contains(" filename=\"Bang tot nghiep.pdf\";\r\n filename*=utf-8''B%E1%BA%B1ng%20t%E1%BB%91t%20nghi%E1%BB%87p.pdf\r\n"), "{source}");
}

#[test]
fn the_same_message_has_the_same_bytes_and_no_hidden_recipient() {
    let mut full = message();
    full.html = Some("<p>Hi</p>".to_owned());
    full.attachments = vec![pdf("a.pdf")];
    assert_eq!(bytes(&full), bytes(&full.clone()));
    assert!(!text(&full).to_lowercase().contains("bcc"));
    let other = MailMessage { message_id: Uuid::now_v7(), ..full.clone() };
    assert_ne!(bytes(&full), bytes(&other));
    let hidden = MailMessage { to: Vec::new(), ..full };
    assert!(text(&hidden).contains("\r\nTo: undisclosed-recipients:;\r\n"));
}

#[test]
fn names_are_atoms_quoted_or_encoded_and_never_encoded_inside_quotation_marks() {
    let mut named = message();
    named.to = vec![
        mailbox("Ann Lee", "ann@example.org"),
        mailbox("Lee, Ann \"Annie\" (x)", "lee@example.org"),
        mailbox("Nguyễn Thị Ánh", "anh@example.org"),
        Mailbox::from(address("bare@example.org")),
        mailbox(&"A very long name. ".repeat(10), "long@example.org"),
    ];
    let bytes = bytes(&named);
    check_lines(&bytes);
    let source = String::from_utf8(bytes.clone()).unwrap();
    assert!(source.contains("To: Ann Lee <ann@example.org>, \"Lee, Ann \\\"Annie\\\" (x)\""), "{source}");
    assert!(source.split("\r\n").all(|line| line.len() <= 76), "{source}");
    let parsed = parse_mail(&bytes).unwrap();
    let list = mailparse::addrparse_header(parsed.headers.get_first_header("To").unwrap()).unwrap();
    let read: Vec<(Option<String>, String)> = list
        .iter()
        .map(|entry| match entry {
            mailparse::MailAddr::Single(single) => (single.display_name.clone(), single.addr.clone()),
            mailparse::MailAddr::Group(_) => panic!("no groups are written"),
        })
        .collect();
    let written: Vec<(Option<String>, String)> =
        named.to.iter().map(|to| (to.name().map(str::to_owned), to.address().as_str().to_owned())).collect();
    assert_eq!(read, written);
}

#[test]
fn a_value_that_could_add_a_header_is_refused_with_its_field() {
    let refused = |change: &dyn Fn(&mut MailMessage)| {
        let mut message = message();
        change(&mut message);
        message.to_bytes().expect_err("a refusal")
    };
    let control = |field: &str| MessageError::ControlCharacter { field: field.to_owned() };
    for subject in ["Hi\r\nBcc: x@y", "Hi\nBcc: x@y", "Hi\rx", "Hi\0", "Hi\u{85}"] {
        assert_eq!(refused(&|message| message.subject = subject.to_owned()), control("subject"));
    }
    let url = |url: &str| refused(&|message| message.list_unsubscribe = Some(url.to_owned()));
    assert_eq!(url("https://example.com/\r\nBcc: x@y"), control("list_unsubscribe"));
    let long = format!("https://example.com/{}", "a".repeat(900));
    for wrong in ["http://example.com/u", "https://", "https:///u", "https://a.b/ü", "https://a.b/>,<mailto:x", &long]
    {
        assert_eq!(url(wrong), MessageError::UnsubscribeUrl { limit: 900 }, "{wrong}");
    }
    let extra =
        |name: &str, value: &str| refused(&|message| message.headers = vec![(name.to_owned(), value.to_owned())]);
    assert_eq!(extra("References", "<a@b>\r\nBcc: x@y"), control("References"));
    assert_eq!(extra("Bcc", "x@y.example"), MessageError::HeaderNotAllowed { name: "Bcc".to_owned() });
    assert_eq!(extra("X: y\r\nBcc", "x"), MessageError::HeaderNotAllowed { name: "(not a name)".to_owned() });
    assert!(matches!(extra("Feedback-ID", "ü"), MessageError::HeaderValue { .. }));
    assert_eq!(refused(&|message| message.text = "a\0b".to_owned()), control("text"));
    assert_eq!(refused(&|message| message.html = Some("\0".to_owned())), control("html"));
}

#[test]
fn a_message_without_content_or_beyond_its_limits_is_refused() {
    let refused = |change: &dyn Fn(&mut MailMessage)| {
        let mut message = message();
        change(&mut message);
        message.to_bytes().expect_err("a refusal")
    };
    assert_eq!(refused(&|message| message.subject = " ".to_owned()), MessageError::Empty { field: "subject" });
    assert_eq!(refused(&|message| message.text = "\n".to_owned()), MessageError::Empty { field: "text" });
    let is_too_long =
        |error: &MessageError, wrong: &str| matches!(error, MessageError::TooLong { field, .. } if field == wrong);
    assert!(is_too_long(&refused(&|message| message.subject = "ü".repeat(256)), "subject"));
    assert!(is_too_long(&refused(&|message| message.html = Some("a".repeat(2 * 1024 * 1024 + 1))), "html"));
    let mut largest = message();
    largest.subject = "ü".repeat(255);
    check_lines(&bytes(&largest));
}

#[test]
fn long_headers_are_folded_and_the_unsubscribe_link_is_not() {
    let mut long = message();
    let url = format!("https://example.com/u/{}", "0123456789".repeat(60));
    long.list_unsubscribe = Some(url.clone());
    let references: Vec<String> = (0..60).map(|number| format!("<{number}.abcdef@mail.example.com>")).collect();
    long.headers = vec![("references".to_owned(), references.join(" "))];
    let bytes = bytes(&long);
    check_lines(&bytes);
    let source = String::from_utf8(bytes.clone()).unwrap();
    assert!(source.contains(&format!("\r\nList-Unsubscribe: <{url}>\r\nList-Unsubscribe-Post: ")), "{source}");
    let parsed = parse_mail(&bytes).unwrap();
    assert_eq!(header(&parsed, "References"), references.join(" "));
    let is_folded = |line: &str| line.len() <= 76 || line.starts_with("List-Unsubscribe: ");
    assert!(source.split("\r\n").all(is_folded), "{source}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_is_written_reads_back_unchanged(
        subject in "\\PC{0,80}[a-zồ]\\PC{0,80}",
        name in "\\PC{0,30}",
        body in "(\\PC{0,100}(\n|\r\n|\r)?){0,5}x",
        html in proptest::option::of("(\\PC{0,100}\n?){0,5}"),
    ) {
        let mut any = message();
        any.subject = subject;
        any.text = body;
        any.html = html;
        if let Ok(to) = Mailbox::new(Some(&name), address("ann@example.org")) {
            any.to = vec![to];
        }
        let bytes = bytes(&any);
        check_lines(&bytes);
        prop_assert!(bytes.is_ascii());
        let parsed = parse_mail(&bytes).unwrap();
        prop_assert_eq!(header(&parsed, "Subject"), any.subject);
        let normal = |text: &str| text.replace("\r\n", "\n").replace('\r', "\n").trim_end_matches('\n').to_owned();
        let read = |part: &ParsedMail<'_>| normal(&part.get_body().unwrap());
        match &any.html {
            None => prop_assert_eq!(read(&parsed), normal(&any.text)),
            Some(html) => {
                prop_assert_eq!(read(&parsed.subparts[0]), normal(&any.text));
                prop_assert_eq!(read(&parsed.subparts[1]), normal(html));
            }
        }
    }
}
