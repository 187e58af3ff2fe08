//! What the client makes of servers that misbehave: above all, whether it knows that a mail may have been sent.

use crate::support::{Act, Act::*, ScriptedServer, address, certificate_for};
use onceward_mail::{
    outcome::SendOutcome,
    smtp::{SmtpClient, SmtpDelivery, SmtpSecurity, SmtpSettings, SmtpStepKind},
};
use std::time::Duration;

const MESSAGE: &[u8] = b"Subject: Hi\r\n\r\n.leading dot\r\nbody\r\n";
/// Short, for answers that never come.
const SOON: Duration = Duration::from_millis(200);

const HELLO: [Act; 3] = [Send("220 ready\r\n"), Expect("EHLO "), Send("250 sink\r\n")];
const TO_DATA: [Act; 6] = [
    Expect("MAIL FROM:<bounce@example.com>"),
    Send("250 ok\r\n"),
    Expect("RCPT TO:<ann@example.org>"),
    Send("250 ok\r\n"),
    Expect("DATA"),
    Send("354 go\r\n"),
];

fn script(parts: &[&[Act]]) -> Vec<Act> {
    parts.concat()
}

fn settings(server: &ScriptedServer) -> SmtpSettings {
    SmtpSettings::new("127.0.0.1", server.port(), SmtpSecurity::None)
}

async fn send(client: &SmtpClient) -> SmtpDelivery {
    client.send("bounce@example.com", &address("ann@example.org"), MESSAGE).await
}

/// Runs one send against one script.
async fn outcome_of(acts: &[&[Act]]) -> SendOutcome {
    let server = ScriptedServer::start(vec![script(acts)]).await;
    let client = SmtpClient::new(settings(&server)).unwrap();
    let outcome = send(&client).await.outcome;
    drop(client);
    server.finish().await;
    outcome
}

fn is_unavailable(outcome: &SendOutcome) -> bool {
    matches!(outcome, SendOutcome::ProviderUnavailable { .. })
}

#[tokio::test]
async fn a_connection_closed_after_the_final_dot_leaves_the_outcome_unknown() {
    let outcome = outcome_of(&[&HELLO, &TO_DATA, &[ReadBody, Close]]).await;
    assert!(matches!(outcome, SendOutcome::Unknown { .. }), "{outcome:?}");
    assert!(!outcome.is_not_handed_over());
}

#[tokio::test]
async fn no_answer_to_the_final_dot_leaves_the_outcome_unknown() {
    let server = ScriptedServer::start(vec![script(&[&HELLO, &TO_DATA, &[ReadBody, Hang]])]).await;
    let mut settings = settings(&server);
    settings.timeouts.final_dot = SOON;
    let delivery = send(&SmtpClient::new(settings).unwrap()).await;
    assert!(matches!(delivery.outcome, SendOutcome::Unknown { .. }), "{delivery:?}");
    assert_eq!(delivery.steps.last().unwrap().step, SmtpStepKind::FinalDot);
}

#[tokio::test]
async fn a_malformed_answer_to_the_final_dot_leaves_the_outcome_unknown() {
    for answer in ["what?\r\n", "250-never\r\n550 consistent\r\n", "354 go on\r\n", "99 ok\r\n"] {
        let outcome = outcome_of(&[&HELLO, &TO_DATA, &[ReadBody, Send(answer)]]).await;
        assert!(matches!(outcome, SendOutcome::Unknown { .. }), "{answer:?} {outcome:?}");
    }
}

#[tokio::test]
async fn a_server_that_stops_reading_the_body_does_not_have_the_mail() {
    let server = ScriptedServer::start(vec![script(&[&HELLO, &TO_DATA, &[Hang]])]).await;
    let mut settings = settings(&server);
    settings.timeouts.data_block = SOON;
    // More than the buffers of two sockets hold.
    let message = [b"Subject: large\r\n\r\n".to_vec(), [&[b'x'; 900][..], b"\r\n"].concat().repeat(64 * 1024)].concat();
    let client = SmtpClient::new(settings).unwrap();
    let delivery = client.send("bounce@example.com", &address("ann@example.org"), &message).await;
    assert!(is_unavailable(&delivery.outcome), "{delivery:?}");
    assert_eq!(delivery.steps.last().unwrap().step, SmtpStepKind::Body);
}

#[tokio::test]
async fn the_body_and_the_final_dot_are_one_write() {
    let outcome = outcome_of(&[&HELLO, &TO_DATA, &[ReadBodyAtOnce, Send("250 queued as 4XyZ\r\n")]]).await;
    assert_eq!(outcome, SendOutcome::Accepted { provider_id: Some("4XyZ".to_owned()) });
}

#[tokio::test]
async fn a_connection_lost_before_the_final_dot_hands_nothing_over() {
    let mail = [Expect("MAIL "), Send("250 ok\r\n")];
    let rcpt = [Expect("RCPT "), Send("250 ok\r\n")];
    let cases: [&[&[Act]]; 6] = [
        &[&[Close]],
        &[&[Send("220 ready\r\n"), Expect("EHLO "), Close]],
        &[&HELLO, &[Expect("MAIL "), Close]],
        &[&HELLO, &mail, &[Expect("RCPT "), Close]],
        &[&HELLO, &mail, &rcpt, &[Expect("DATA"), Close]],
        &[&HELLO, &mail, &rcpt, &[Expect("DATA"), Send("250 ok\r\n")]],
    ];
    for case in cases {
        let outcome = outcome_of(case).await;
        assert!(is_unavailable(&outcome), "{case:?} {outcome:?}");
    }
}

#[tokio::test]
async fn a_421_on_an_unused_connection_is_answered_by_a_new_connection() {
    let accepted: &[Act] = &[ReadBody, Send("250 ok\r\n")];
    let first = script(&[&HELLO, &TO_DATA, accepted, &[Send("421 4.4.2 idle too long\r\n"), Close]]);
    let server = ScriptedServer::start(vec![first, script(&[&HELLO, &TO_DATA, accepted])]).await;
    let client = SmtpClient::new(settings(&server)).unwrap();
    for _ in 0..2 {
        let delivery = send(&client).await;
        assert_eq!(delivery.outcome, SendOutcome::Accepted { provider_id: None }, "{delivery:?}");
    }
    server.finish().await;
}

#[tokio::test]
async fn a_421_or_an_end_in_answer_to_mail_on_a_reused_connection_is_no_attempt() {
    for ending in [&[Expect("MAIL "), Send("421 4.3.2 shutting down\r\n"), Close][..], &[Expect("MAIL "), Close]] {
        let accepted: &[Act] = &[ReadBody, Send("250 ok\r\n")];
        let first = script(&[&HELLO, &TO_DATA, accepted, ending]);
        let server = ScriptedServer::start(vec![first, script(&[&HELLO, &TO_DATA, accepted])]).await;
        let client = SmtpClient::new(settings(&server)).unwrap();
        assert_eq!(send(&client).await.outcome, SendOutcome::Accepted { provider_id: None });
        let second = send(&client).await;
        assert_eq!(second.outcome, SendOutcome::Accepted { provider_id: None }, "{second:?}");
        assert_eq!(second.steps[0].step, SmtpStepKind::Reuse);
        assert!(second.steps.iter().any(|step| step.step == SmtpStepKind::Connect), "{second:?}");
        server.finish().await;
    }
}

#[tokio::test]
async fn endless_and_overlong_answers_are_bounded() {
    let outcome = outcome_of(&[&[SendForEver("220-more\r\n")]]).await;
    assert!(
        matches!(&outcome, SendOutcome::ProviderUnavailable { reason } if reason.contains("100 lines")),
        "{outcome:?}"
    );
    let outcome = outcome_of(&[&[SendForEver("220 no line break ")]]).await;
    assert!(
        matches!(&outcome, SendOutcome::ProviderUnavailable { reason } if reason.contains("1000 bytes")),
        "{outcome:?}"
    );
    let outcome = outcome_of(&[&HELLO, &TO_DATA, &[ReadBody, SendForEver("250-more\r\n")]]).await;
    assert!(matches!(outcome, SendOutcome::Unknown { .. }), "{outcome:?}");
}

#[tokio::test]
async fn answers_that_end_with_lf_alone_are_understood() {
    let acts = [
        Send("220 ready\n"),
        Expect("EHLO "),
        Send("250-sink\n250 SIZE 0\n"),
        Expect("MAIL FROM:<bounce@example.com> SIZE=35"),
        Send("250 ok\n"),
        Expect("RCPT "),
        Send("250 ok\n"),
        Expect("DATA"),
        Send("354 go\n"),
        ReadBody,
        Send("250 ok id=1rAbCd-0004Xy-2Z\n"),
    ];
    let outcome = outcome_of(&[&acts]).await;
    assert_eq!(outcome, SendOutcome::Accepted { provider_id: Some("1rAbCd-0004Xy-2Z".to_owned()) });
}

#[tokio::test]
async fn each_answer_has_its_outcome() {
    let mail = |answer| [&HELLO[..], &[Expect("MAIL "), Send(answer)]].concat();
    let rcpt = |answer| [mail("250 ok\r\n"), vec![Expect("RCPT "), Send(answer)]].concat();
    let data = |answer| [rcpt("250 ok\r\n"), vec![Expect("DATA"), Send(answer)]].concat();
    let dot = |answer| [data("354 go\r\n"), vec![ReadBody, Send(answer)]].concat();
    let reset = [Expect("RSET"), Send("250 ok\r\n")];

    for greeting in ["421 busy\r\n", "450 busy\r\n", "554 no\r\n"] {
        assert!(is_unavailable(&outcome_of(&[&[Send(greeting)]]).await), "{greeting}");
    }
    assert!(is_unavailable(&outcome_of(&[&mail("421 bye\r\n")]).await));
    assert!(is_unavailable(&outcome_of(&[&mail("550 5.7.1 sender rejected\r\n"), &reset]).await));
    assert!(is_unavailable(&outcome_of(&[&rcpt("530 5.7.0 Authentication required\r\n"), &reset]).await));
    let too_large = outcome_of(&[&mail("552 5.3.4 too large\r\n"), &reset]).await;
    assert!(matches!(too_large, SendOutcome::Refused { code: 552, .. }), "{too_large:?}");
    let busy = outcome_of(&[&mail("451 4.3.0 try again in 2 minutes\r\n"), &reset]).await;
    let wait = Some(Duration::from_secs(120));
    assert!(matches!(busy, SendOutcome::Deferred { code: 451, retry_after, .. } if retry_after == wait), "{busy:?}");
    let unknown = outcome_of(&[&rcpt("550-5.1.1 no such\r\n550 5.1.1 user\r\n"), &reset]).await;
    let expected = SendOutcome::Refused {
        code: 550,
        enhanced: Some("5.1.1".to_owned()),
        text: "5.1.1 no such 5.1.1 user".to_owned(),
    };
    assert_eq!(unknown, expected);
    let closing = outcome_of(&[&rcpt("421 4.7.0 too many\r\n")]).await;
    assert!(matches!(closing, SendOutcome::Deferred { code: 421, .. }), "{closing:?}");
    let refused = outcome_of(&[&data("554 5.5.1 no valid recipients\r\n"), &reset]).await;
    assert!(matches!(refused, SendOutcome::Refused { code: 554, .. }), "{refused:?}");
    let spam = outcome_of(&[&dot("554 5.7.1 spam\r\n")]).await;
    assert!(matches!(spam, SendOutcome::Refused { code: 554, .. }), "{spam:?}");
    let full = outcome_of(&[&dot("452 4.3.1 disk full\r\n")]).await;
    assert!(matches!(full, SendOutcome::Deferred { code: 452, retry_after: None, .. }), "{full:?}");
}

#[tokio::test]
async fn a_connection_is_reset_and_reused_after_a_refused_recipient() {
    let refused =
        [Expect("MAIL "), Send("250 ok\r\n"), Expect("RCPT "), Send("550 5.1.1 <ann@example.org> unknown\r\n")];
    let reset = [Expect("RSET"), Send("250 ok\r\n")];
    let acts = script(&[&HELLO, &refused, &reset, &TO_DATA, &[ReadBody, Send("250 ok\r\n")]]);
    let server = ScriptedServer::start(vec![acts]).await;
    let client = SmtpClient::new(settings(&server)).unwrap();
    let first = send(&client).await;
    assert!(matches!(first.outcome, SendOutcome::Refused { code: 550, .. }), "{first:?}");
    assert!(!format!("{first:?}").contains("ann@example.org"), "{first:?}");
    assert_eq!(send(&client).await.outcome, SendOutcome::Accepted { provider_id: None });
    server.finish().await;
}

#[tokio::test]
async fn a_connection_is_replaced_after_its_mails_and_after_its_time() {
    let one = [&TO_DATA[..], &[ReadBody, Send("250 ok\r\n")]].concat();
    let server = ScriptedServer::start(vec![script(&[&HELLO, &one, &one]), script(&[&HELLO, &one])]).await;
    let mut limited = settings(&server);
    limited.max_mails_per_connection = 2;
    let client = SmtpClient::new(limited).unwrap();
    for _ in 0..3 {
        assert_eq!(send(&client).await.outcome, SendOutcome::Accepted { provider_id: None });
    }
    server.finish().await;

    let server = ScriptedServer::start(vec![script(&[&HELLO, &one]), script(&[&HELLO, &one])]).await;
    let mut impatient = settings(&server);
    impatient.idle_limit = Duration::ZERO;
    let client = SmtpClient::new(impatient).unwrap();
    for _ in 0..2 {
        assert_eq!(send(&client).await.outcome, SendOutcome::Accepted { provider_id: None });
    }
    server.finish().await;
}

#[tokio::test]
async fn a_send_waits_for_a_free_connection_no_longer_than_it_may() {
    let server = ScriptedServer::start(vec![script(&[&HELLO, &TO_DATA, &[ReadBody, Hang]])]).await;
    let mut settings = settings(&server);
    settings.max_connections = 1;
    settings.timeouts.pool = SOON;
    let client = SmtpClient::new(settings).unwrap();
    // The first send takes the only slot and keeps it: its server never answers.
    tokio::select! {
        biased;
        first = send(&client) => panic!("the server has not answered: {first:?}"),
        second = send(&client) => {
            assert!(is_unavailable(&second.outcome) && second.steps.is_empty(), "{second:?}");
        }
    }
}

#[tokio::test]
async fn nothing_is_said_in_plain_text_to_a_server_without_starttls() {
    let hello = [Send("220 ready\r\n"), Expect("EHLO ")];
    let cases: [&[Act]; 3] = [
        &[Send("250 sink\r\n")],
        &[Send("250-sink\r\n250 STARTTLS\r\n"), Expect("STARTTLS"), Send("454 not now\r\n")],
        // What follows the answer in plain text could pose as an answer of the encrypted session.
        &[Send("250-sink\r\n250 STARTTLS\r\n"), Expect("STARTTLS"), Send("220 go\r\n250 injected\r\n")],
    ];
    for case in cases {
        let server = ScriptedServer::start(vec![script(&[&hello, case])]).await;
        let mut settings = SmtpSettings::new("127.0.0.1", server.port(), SmtpSecurity::StartTls);
        settings.extra_roots_pem = certificate_for("localhost").certificate.into_bytes();
        let delivery = send(&SmtpClient::new(settings).unwrap()).await;
        assert!(is_unavailable(&delivery.outcome), "{delivery:?}");
        server.finish().await;
    }
}
