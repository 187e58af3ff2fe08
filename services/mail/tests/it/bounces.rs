//! Returned mail: what is read from reports of several forms, and what the failures mean.

use std::sync::LazyLock;

use onceward_mail::bounce::{
    BounceClassifier, BounceVerdict, RecipientAction, ReportedRecipient, ReturnedMail, ReturnedMailKind,
};
use proptest::prelude::*;

/// A report with fields for programs: the text for people, the groups of fields, and the returned header.
fn report(notice: &str, groups: &str) -> String {
    format!(
        "Return-Path: <>\nFrom: MAILER-DAEMON@mx.example.net\nTo: bounce+token@example.com\nSubject: Undelivered mail\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=\"sep\"\n\n\
         --sep\nContent-Type: text/plain\n\n{notice}\n\n\
         --sep\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.net\n\n{groups}\n\n\
         --sep\nContent-Type: message/rfc822\n\nMessage-ID: <mail-1@example.com>\nFrom: us@example.com\nSubject: Hi\n\n\
         Hello\n--sep--\n"
    )
}

fn plain(subject: &str, text: &str) -> String {
    format!("From: Mail Delivery <MAILER-DAEMON@mx.example.net>\nTo: us@example.com\nSubject: {subject}\n\n{text}")
}

fn read(message: &str) -> ReturnedMail {
    ReturnedMail::read(message.as_bytes())
}

static CLASSIFIER: LazyLock<BounceClassifier> = LazyLock::new(BounceClassifier::bundled);

fn classify(recipient: &ReportedRecipient) -> BounceVerdict {
    CLASSIFIER.classify(recipient)
}

#[track_caller]
fn check(message: &str, address: &str, class: &str, is_hard: bool) {
    let mail = read(message);
    assert_eq!(mail.kind, ReturnedMailKind::Bounce, "{mail:?}");
    let recipient = &mail.recipients[0];
    assert_eq!(recipient.address.as_deref(), Some(address));
    assert_eq!(classify(recipient), BounceVerdict { class: class.into(), is_hard }, "{recipient:?}");
}

#[test]
fn several_recipients_of_one_report_have_their_own_outcome() {
    // The facts of RFC 3464, appendix E: one failure without a reason, one delay, and one unknown user.
    let groups = "\
Original-Recipient: rfc822;arathib@vnet.example\nFinal-Recipient: rfc822;arathib@vnet.example\nAction: failed\n\
Status: 5.0.0 (permanent failure)\nDiagnostic-Code: smtp; 550 'arathib@vnet.example' is not a\n  registered gateway user\n\n\
Original-Recipient: rfc822;johnh@hpnjld.example\nFinal-Recipient: rfc822;johnh@hpnjld.example\nAction: delayed\n\
Status: 4.0.0 (hpnjld.example: host name lookup failure)\n\n\
Original-Recipient: rfc822;wsnell@sdcc13.example\nFinal-Recipient: rfc822;wsnell@sdcc13.example\nAction: failed\n\
Status: 5.1.1\nDiagnostic-Code: smtp; 550 user unknown";
    let mail = read(&report("Your mail has problems.", groups));
    assert_eq!(mail.kind, ReturnedMailKind::Bounce);
    let addresses: Vec<_> = mail.recipients.iter().map(|recipient| recipient.address.as_deref().unwrap()).collect();
    assert_eq!(addresses, ["arathib@vnet.example", "johnh@hpnjld.example", "wsnell@sdcc13.example"]);
    let verdicts: Vec<_> = mail.recipients.iter().map(|recipient| classify(recipient).is_hard).collect();
    assert_eq!(verdicts, [false, false, true]);
    assert_eq!(mail.recipients[1].action, RecipientAction::Delayed);
    assert_eq!(mail.recipients[2].reply_code, Some(550));
    assert_eq!(mail.returned_message_id.as_deref(), Some("<mail-1@example.com>"));
    assert_eq!(mail.delivered_to, ["bounce+token@example.com"]);
}

#[test]
fn a_failure_with_a_temporary_status_is_soft() {
    // The facts of RFC 3464, appendix E: a connection that timed out.
    let groups = "Final-Recipient: RFC822; louisl@larry.example\nAction: failed\nStatus: 4.0.0\n\
                  Diagnostic-Code: smtp; 426 connection timed out";
    let mail = read(&report("Delivery failed.", groups));
    assert_eq!(mail.recipients[0].status.as_deref(), Some("4.0.0"));
    assert_eq!(mail.recipients[0].reply_code, Some(426));
    check(&report("Delivery failed.", groups), "louisl@larry.example", "network", false);
}

#[test]
fn the_original_recipient_counts_and_a_broken_delivery_program_is_not_an_unknown_user() {
    let groups = "final-recipient: rfc822; r@host77.example\noriginal-recipient: rfc822;person@example.org\n\
                  action: failed\nstatus: 5.1.1\ndiagnostic-code: x-unix; procmail: Couldn't create \"/var/mail/person\"";
    check(&report("It failed.", groups), "person@example.org", "system", false);
}

#[test]
fn a_mailbox_that_receives_too_much_is_soft_although_the_status_is_permanent() {
    let groups = "Final-Recipient: rfc822; busy@example.org\nAction: failed\nStatus: 5.2.1\n\
                  Diagnostic-Code: smtp; 550-5.2.1 The user you are trying to contact is receiving mail at a rate that\n \
                  550-5.2.1 prevents additional messages from being delivered. Please resend your\n 550 5.2.1 message";
    check(&report("It failed.", groups), "busy@example.org", "rate_limited", false);
}

#[test]
fn failures_are_classified_by_what_was_said() {
    for (status, said, class, is_hard) in [
        ("5.1.1", "smtp; 550 5.1.1 <a@example.org>: Recipient address rejected: User unknown", "user_unknown", true),
        ("5.1.1", "smtp; 550-5.1.1 The email account that you tried to reach does not exist.", "user_unknown", true),
        ("4.1.1", "smtp; 450 4.1.1 <a@example.org>: User unknown in virtual alias table", "user_unknown", true),
        ("5.1.10", "smtp; 550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found", "user_unknown", true),
        ("5.1.1", "smtp; 550 5.1.1 https://mail.example.org/why", "user_unknown", true),
        (
            "5.4.4",
            "X-Postfix; Host or domain name not found. Name service error for name=b.example",
            "host_unknown",
            true,
        ),
        ("5.1.2", "smtp; 550 Host unknown", "host_unknown", true),
        ("5.1.6", "smtp; 550 5.1.6 recipient no longer on server: a@example.org", "moved", true),
        ("5.0.0", "smtp; 550 Unknown user a@example.org", "filtered", false),
        ("5.2.2", "smtp; 552 5.2.2 Over quota", "mailbox_full", false),
        ("5.1.1", "smtp; 552 5.2.2 Mailbox full", "mailbox_full", false),
        (
            "5.7.26",
            "smtp; 550-5.7.26 Unauthenticated email is not accepted due to domain's DMARC policy",
            "auth_failure",
            false,
        ),
        (
            "5.7.1",
            "smtp; 554 5.7.1 Service unavailable; client [192.0.2.1] blocked using dnsbl.example",
            "reputation",
            false,
        ),
        ("5.1.8", "smtp; 501 5.1.8 Sender address rejected", "sender_rejected", false),
        ("5.7.1", "smtp; 550 5.7.1 Message content rejected, UBE", "spam", false),
        ("5.3.4", "smtp; 552 5.3.4 Message too big for system", "too_big", false),
        ("5.2.1", "smtp; 550 5.2.1 The email account that you tried to reach is disabled.", "suspended", false),
        ("5.1.1", "smtp; 550 5.1.1 Refused due to recipient preferences", "policy", false),
        ("4.4.7", "smtp; 554 4.4.7 Message expired: unable to deliver in 840 minutes", "expired", false),
        ("5.0.0", "smtp; 550 No", "undetermined", false),
    ] {
        let groups = format!(
            "Final-Recipient: rfc822; a@example.org\nAction: failed\nStatus: {status}\nDiagnostic-Code: {said}"
        );
        check(&report("It failed.", &groups), "a@example.org", class, is_hard);
    }
}

#[test]
fn an_unknown_user_without_a_status_is_hard_only_if_the_recipient_was_refused() {
    let said = |command: &str| {
        let notice =
            format!("<a@example.org>: host mx.example.org said: 550 No such user\n    (in reply to {command} command)");
        let groups = "Final-Recipient: rfc822; a@example.org\nAction: failed\nStatus: 5.0.0\n\
                      Diagnostic-Code: smtp; 550 No such user";
        report(&notice, groups)
    };
    check(&said("RCPT TO"), "a@example.org", "user_unknown", true);
    check(&said("end of DATA"), "a@example.org", "filtered", false);
}

#[test]
fn reports_for_people_are_read_as_well() {
    let qmail = "Hi. This is the program at mx.example.net.\nI'm afraid I wasn't able to deliver your message.\n\n\
        <gone@example.org>:\n192.0.2.1 does not like recipient.\nRemote host said: 550 sorry, no mailbox here by that name.\n\
        Giving up on 192.0.2.1.\n\n<full@example.org>:\nRemote host said: 552 5.2.2 Mailbox full\n\n\
        --- Below this line is a copy of the message.\n\nReturn-Path: <us@example.com>\nMessage-ID: <mail-2@example.com>\n\
        From: us@example.com\nTo: gone@example.org\nSubject: Hi\n\nHello full@example.org\n";
    let mail = read(&plain("failure notice", qmail));
    let found: Vec<_> =
        mail.recipients.iter().map(|recipient| (recipient.address.as_deref(), classify(recipient).class)).collect();
    let expected = [(Some("gone@example.org"), "user_unknown"), (Some("full@example.org"), "mailbox_full")];
    assert_eq!(found, expected.map(|(address, class)| (address, class.to_owned())));
    assert_eq!(mail.returned_message_id.as_deref(), Some("<mail-2@example.com>"));

    let exim = "A message that you sent could not be delivered.\nThe following address(es) failed:\n\n  gone@example.org\n\
        \u{20}   SMTP error from remote mail server after RCPT TO:<gone@example.org>:\n    host mx.example.org [192.0.2.1]: \
        550 Unknown recipient\n\n------ This is a copy of the message, including all the headers. ------\n\n\
        Received: from us\nFrom: us@example.com\nTo: gone@example.org\nSubject: Hi\n";
    check(&plain("Mail delivery failed: returning message to sender", exim), "gone@example.org", "user_unknown", true);

    let sendmail = "   ----- The following addresses had permanent fatal errors -----\n<gone@example.org>\n\n\
        \u{20}  ----- Transcript of session follows -----\n... while talking to mx.example.org.:\n\
        >>> RCPT To:<gone@example.org>\n<<< 550 5.1.1 <gone@example.org>... User unknown\n";
    check(&plain("Returned mail: see transcript for details", sendmail), "gone@example.org", "user_unknown", true);

    let notes = "Your message was not delivered to:\n\ngone@example.org\n\nbecause:\n\n\
        User gone (gone@example.org) not listed in Domino Directory\n";
    check(&plain("DELIVERY FAILURE: User gone not listed", notes), "gone@example.org", "user_unknown", true);
}

#[test]
fn fields_without_their_parts_are_found_in_the_text() {
    let text = "It could not be delivered.\n\nReporting-MTA: dns; mx.example.net\n\nFinal-Recipient: RFC822; <a@example.org>\n\
                Action: failed\nStatus: 5.1.1\nDiagnostic-Code: SMTP; 550 unknown user\n";
    check(&plain("Returned mail", text), "a@example.org", "user_unknown", true);
}

#[test]
fn a_notification_in_json_is_read() {
    let json = r#"{"notificationType":"Bounce","bounce":{"bouncedRecipients":[{"emailAddress":"a@example.org",
        "action":"failed","status":"5.1.1","diagnosticCode":"smtp; 550 5.1.1 user unknown"}]},"mail":{}}"#;
    check(&plain("Notification", json), "a@example.org", "user_unknown", true);
    let delivered = r#"{"notificationType":"Delivery","delivery":{"recipients":["a@example.org"]}}"#;
    assert_eq!(read(&plain("Notification", delivered)).kind, ReturnedMailKind::Delivered);
}

#[test]
fn a_complaint_is_read_although_the_address_is_hidden() {
    let message = "From: fbl@example.net\nTo: abuse@example.com\nSubject: Report\n\
        Content-Type: multipart/report; report-type=feedback-report; boundary=sep\n\n\
        --sep\nContent-Type: text/plain\n\nThis is an abuse report.\n\
        --sep\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\nUser-Agent: X/1\nVersion: 1\n\
        --sep\nContent-Type: message/rfc822\n\nMessage-ID: <mail-3@example.com>\nFrom: us@example.com\n\nHi\n--sep--\n";
    let mail = read(message);
    assert_eq!(mail.kind, ReturnedMailKind::Complaint);
    assert_eq!(mail.recipients[0].address, None);
    assert!(!classify(&mail.recipients[0]).is_hard);
    assert_eq!(mail.returned_message_id.as_deref(), Some("<mail-3@example.com>"));
    assert!(mail.original_headers.contains(&("from".to_owned(), "us@example.com".to_owned())));
}

#[test]
fn auto_replies_delays_and_letters_are_not_bounces() {
    let headers = |more: &str| format!("From: a@example.org\nTo: us@example.com\n{more}\n\nI am away until May 5.\n");
    for more in [
        "Auto-Submitted: auto-replied\nSubject: Away until May 5",
        "Subject: Out of Office: Hi",
        "X-Autoreply: yes\nSubject: Hi",
        "Precedence: auto_reply\nSubject: Hi",
        "Subject: =?utf-8?q?Automatic_reply:_Hi?=",
    ] {
        let mail = read(&headers(more));
        assert_eq!((mail.kind, mail.recipients.len()), (ReturnedMailKind::AutoReply, 0), "{more}");
    }
    let letter = headers("Subject: Re: Hi");
    assert_eq!(read(&letter).kind, ReturnedMailKind::Other);
    assert_eq!(read("").kind, ReturnedMailKind::Other);
    let delayed = "Final-Recipient: rfc822; a@example.org\nAction: delayed\nStatus: 4.4.1";
    assert_eq!(read(&report("Late.", delayed)).kind, ReturnedMailKind::Delayed);
    let relayed = "Final-Recipient: rfc822; a@example.org\nAction: relayed\nStatus: 2.0.0";
    assert_eq!(read(&report("Sent.", relayed)).kind, ReturnedMailKind::Delivered);
}

#[test]
fn encoded_parts_are_decoded() {
    let text = "=?x\n<a@example.org>: 550 5.1.1 User =\nunknown=2E\n";
    let message = format!(
        "From: MAILER-DAEMON@example.net\nTo: us@example.com\nSubject: Undelivered\n\
         Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\n{text}"
    );
    check(&message, "a@example.org", "user_unknown", true);
}

#[test]
fn rules_can_be_replaced_and_wrong_rules_are_refused() {
    let rules = "[[rule]]\nclass = \"closed\"\nhard = true\nreply = [550]\ntext = ['shop is closed']\n";
    let classifier = BounceClassifier::from_toml(rules).unwrap();
    let groups = "Final-Recipient: rfc822; a@example.org\nAction: failed\nDiagnostic-Code: smtp; 550 Shop IS closed";
    let verdict = classifier.classify(&read(&report("x", groups)).recipients[0]);
    assert_eq!(verdict, BounceVerdict { class: "closed".into(), is_hard: true });
    for wrong in
        ["rule = 1", "[[rule]]\nclass = \"x\"", "[[rule]]\nclass = \"x\"\ntext = ['(']", "[[rule]]\nkind = \"x\""]
    {
        assert!(BounceClassifier::from_toml(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_bundled_rules_can_be_read() {
    BounceClassifier::from_toml(include_str!("../../data/bounce-classes.toml")).unwrap();
}

#[test]
fn nested_and_endless_parts_end() {
    let mut message = String::from("From: MAILER-DAEMON@x\nSubject: Undelivered\n");
    for depth in 0..2_000 {
        message.push_str(&format!("Content-Type: multipart/mixed; boundary=b{depth}\n\n--b{depth}\n"));
    }
    read(&message);
    read(&format!("{}{}", message, "--b0\n\n".repeat(100_000)));
    read(&format!("Subject: {}\n\n{}", "x ".repeat(2_000_000), "<a@example.org>:\n550 x\n".repeat(10_000)));
}

fn messages() -> Vec<String> {
    let groups =
        "Final-Recipient: rfc822; a@example.org\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 unknown";
    vec![
        report("<a@example.org>: said: 550 5.1.1 unknown\n (in reply to RCPT TO command)", groups),
        plain(
            "failure notice",
            "<a@example.org>:\nRemote host said: 550 5.1.1 unknown\n\n--- Below this line is a copy\n",
        ),
        plain(
            "Notification",
            r#"{"notificationType":"Bounce","bounce":{"bouncedRecipients":[{"emailAddress":"a@b.c"}]}}"#,
        ),
        format!("{}\u{fe}\u{0}é", report("Это", groups)),
    ]
}

proptest! {
    #[test]
    fn reading_a_damaged_message_never_fails(
        index in 0usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 0..30),
    ) {
        let mut bytes = messages()[index].clone().into_bytes();
        for (at, byte, change) in changes {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            match change {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 if at < bytes.len() => bytes[at] = byte,
                _ => bytes.truncate(at.max(20)),
            }
        }
        let mail = ReturnedMail::read(&bytes);
        mail.recipients.iter().for_each(|recipient| drop(classify(recipient)));
    }

    #[test]
    fn any_bytes_are_read_the_same_with_every_line_end(text in "[ -~\n<>@:;.0-9=]{0,300}", index in 0usize..4) {
        let message = format!("{}{text}", messages()[index]);
        let expected = ReturnedMail::read(message.as_bytes());
        for end in ["\r\n", "\r"] {
            prop_assert_eq!(&ReturnedMail::read(message.replace('\n', end).as_bytes()), &expected);
        }
    }
}
