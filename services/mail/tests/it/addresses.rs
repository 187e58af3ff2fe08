//! Which text is an address, and in which form it is sent and compared.

use onceward_mail::address::{EmailAddress, EmailAddressError, Mailbox, MailboxError};

use EmailAddressError::*;

fn check(text: &str, wrong: EmailAddressError) {
    let error = EmailAddress::parse(text).expect_err(text);
    assert_eq!(error, wrong, "{text:?}");
    let shown = error.to_string();
    assert!(text.len() < 5 || !shown.contains(text), "the error repeats the address: {shown}");
}

fn long(local: usize, labels: &[usize]) -> String {
    let labels: Vec<String> = labels.iter().map(|length| "d".repeat(*length)).collect();
    format!("{}@{}", "l".repeat(local), labels.join("."))
}

#[test]
fn ordinary_addresses_are_accepted_and_kept_as_written() {
    for text in [
        "test@iana.org",
        "Test.Name+tag@iana.org",
        "a@b.co",
        "!#$%&'*+-/=?^_`{|}~@iana.org",
        "123@iana.org",
        "test@123.com",
        "test@a--b.example",
        "test@about.museum",
        "test@xn--hxajbheg2az3al.xn--jxalpdlp",
        "xn--test@iana.org",
    ] {
        let address = EmailAddress::parse(text).expect(text);
        assert_eq!(address.as_str(), text);
        assert_eq!(format!("{}@{}", address.local(), address.domain()), text);
        assert!(!address.needs_smtputf8());
    }
}

#[test]
fn lengths_are_limited_as_the_standards_have_it() {
    assert!(EmailAddress::parse(&long(64, &[4, 3])).is_ok());
    check(&long(65, &[4, 3]), LocalTooLong);
    assert!(EmailAddress::parse(&long(4, &[63, 3])).is_ok());
    check(&long(4, &[64, 3]), LabelTooLong);
    assert!(EmailAddress::parse(&long(64, &[63, 63, 57, 3])).is_ok());
    check(&long(64, &[63, 63, 58, 3]), TooLong);
}

#[test]
fn mistakes_and_forms_that_are_mistakes_far_more_often_are_refused() {
    for (text, wrong) in [
        ("", AtSign),
        ("test", AtSign),
        ("@", NoLocalPart),
        ("test@", NoDomain),
        ("@iana.org", NoLocalPart),
        ("test@iana@org", AtSign),
        (".test@iana.org", LocalDots),
        ("test.@iana.org", LocalDots),
        ("te..st@iana.org", LocalDots),
        ("test@.iana.org", DomainDots),
        ("test@iana.org.", DomainDots),
        ("test@iana..org", DomainDots),
        ("test@-iana.org", DomainHyphen),
        ("test@iana-.org", DomainHyphen),
        ("test@org", SingleLabel),
        ("test@localhost", SingleLabel),
        ("test@iana.123", NumericTopLevel),
        ("test@255.255.255.255", NumericTopLevel),
        ("test@[255.255.255.255]", DomainLiteral),
        ("test@[IPv6:::1]", DomainLiteral),
        ("test@ia_na.org", DomainCharacter),
        ("test@iana!.org", DomainCharacter),
        ("te,st@iana.org", LocalCharacter),
        ("te:st@iana.org", LocalCharacter),
        ("te\\st@iana.org", LocalCharacter),
        ("\"test\"@iana.org", Quoted),
        ("\"test\"\"test\"@iana.org", Quoted),
        ("(comment)test@iana.org", Comment),
        ("test@(comment)iana.org", Comment),
        (" test@iana.org", WhiteSpace),
        ("test@iana.org ", WhiteSpace),
        ("test@iana.org\u{A0}", WhiteSpace),
        ("test@iana.org\r\n", ControlCharacter),
        ("test\0@iana.org", ControlCharacter),
        ("a@b.c>\r\nRCPT TO:<x@y", AngleBracket),
        ("\r\na@b.c>RCPT TO:<x@y", ControlCharacter),
        ("Test <test@iana.org>", WhiteSpace),
        ("<test@iana.org>", AngleBracket),
        ("te\u{202E}st@iana.org", LocalCharacter),
        ("te\u{240A}st@iana.org", LocalCharacter),
        ("test@iana.org\u{240A}", DomainCharacter),
        ("test@ia\u{200B}na.org", DomainCharacter),
        ("test@xn--iana\u{FF}.org", DomainCharacter),
        ("test@xn--a.org", DomainCharacter),
    ] {
        check(text, wrong);
    }
}

#[test]
fn an_international_domain_is_sent_as_a_labels_and_a_local_part_as_written() {
    let address = EmailAddress::parse("Jürgen@BÜCHER.Example").unwrap();
    assert_eq!(address.as_str(), "Jürgen@xn--bcher-kva.example");
    assert!(address.needs_smtputf8());
    assert!(!EmailAddress::parse("jurgen@bücher.example").unwrap().needs_smtputf8());
}

#[test]
fn suppressions_are_compared_without_case_and_normal_form_and_nothing_else() {
    let key = |text: &str| EmailAddress::parse(text).unwrap().suppression_key();
    assert_eq!(key("Ann.Lee+News@Example.COM"), "ann.lee+news@example.com");
    assert_ne!(key("annlee@gmail.com"), key("ann.lee@gmail.com"));
    assert_ne!(key("ann@gmail.com"), key("ann+x@gmail.com"));
    assert_eq!(key("JU\u{308}RGEN@bücher.example"), key("j\u{FC}rgen@xn--bcher-kva.example"));
    assert_eq!(EmailAddress::parse(&key("İ@example.com")).unwrap().suppression_key(), key("İ@example.com"));
}

#[test]
fn addresses_and_names_are_not_printed_and_are_strings_in_json() {
    let address = EmailAddress::parse("ann@example.com").unwrap();
    let mailbox = Mailbox::new(Some(" Ann Lee "), address.clone()).unwrap();
    assert_eq!(format!("{address:?} {mailbox:?}"), "EmailAddress(…) Mailbox(…)");
    assert_eq!(serde_json::to_string(&address).unwrap(), "\"ann@example.com\"");
    let json = serde_json::to_string(&mailbox).unwrap();
    assert_eq!(json, r#"{"name":"Ann Lee","address":"ann@example.com"}"#);
    assert_eq!(serde_json::from_str::<Mailbox>(&json).unwrap(), mailbox);
    assert!(serde_json::from_str::<EmailAddress>("\"ann@\"").is_err());
    assert!(serde_json::from_str::<Mailbox>("{\"name\":\"A\\nB\",\"address\":\"ann@example.com\"}").is_err());
}

#[test]
fn a_name_that_adds_a_header_or_disguises_the_sender_is_refused() {
    let address = || EmailAddress::parse("ann@example.com").unwrap();
    for name in ["A\nB", "A\rB", "A\0B", "A\u{202E}B", "A\u{2066}B", "A\u{200B}B", "Ann\n"] {
        assert_eq!(Mailbox::new(Some(name), address()), Err(MailboxError::InvisibleCharacter), "{name:?}");
    }
    assert_eq!(Mailbox::new(Some(&"é".repeat(128)), address()), Err(MailboxError::TooLong));
    assert_eq!(Mailbox::new(Some("  "), address()).unwrap().name(), None);
}
