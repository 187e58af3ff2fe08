//! The client against a real server.

use crate::support::{TestCertificate, address, certificate_for, message};
use onceward_mail::{
    outcome::SendOutcome,
    smtp::{SmtpClient, SmtpCredentials, SmtpSecurity, SmtpSettings, SmtpSettingsError, SmtpStepKind},
};
use onceward_testkit::{SmtpServer, SmtpServerOptions};
use std::{collections::BTreeSet, time::Duration};

const SENDER: &str = "bounce+abc@example.com";

fn settings(server: &SmtpServer) -> SmtpSettings {
    SmtpSettings::new("127.0.0.1", server.port(), SmtpSecurity::None)
}

fn client(server: &SmtpServer) -> SmtpClient {
    SmtpClient::new(settings(server)).unwrap()
}

async fn outcome(client: &SmtpClient, recipient: &str) -> SendOutcome {
    client.send(SENDER, &address(recipient), &message().to_bytes().unwrap()).await.outcome
}

fn is_accepted(outcome: &SendOutcome) -> bool {
    matches!(outcome, SendOutcome::Accepted { provider_id: Some(id) } if !id.is_empty())
}

#[tokio::test]
async fn a_mail_arrives_byte_for_byte_with_its_envelope() {
    for options in [SmtpServerOptions::default(), SmtpServerOptions::default().without_pipelining()] {
        let server = SmtpServer::start_with(options);
        let mut mail = message();
        mail.text = ".\n..two dots\n.\r\n\nend with spaces   \n".to_owned();
        let bytes = mail.to_bytes().unwrap();
        let delivery = client(&server).send(SENDER, &address("Ann.Lee@Example.org"), &bytes).await;
        assert!(is_accepted(&delivery.outcome), "{delivery:?}");
        let received = server.wait_for(1).await.remove(0);
        assert_eq!(received.content, bytes);
        assert_eq!((received.mail_from.as_str(), received.rcpt_to), (SENDER, vec!["Ann.Lee@example.org".to_owned()]));
        let steps: Vec<SmtpStepKind> = delivery.steps.iter().map(|step| step.step).collect();
        use SmtpStepKind::*;
        assert_eq!(steps, [Connect, Greeting, Hello, Mail, Rcpt, Data, Body, FinalDot]);
        assert_eq!(delivery.steps.last().unwrap().enhanced.as_deref(), Some("2.0.0"));
    }
}

#[tokio::test]
async fn refused_and_deferred_recipients_are_told_apart_without_naming_them() {
    let server = SmtpServer::start();
    let client = client(&server);
    let refused = client.send(SENDER, &address("refuse-550@example.org"), &message().to_bytes().unwrap()).await;
    assert!(
        matches!(&refused.outcome, SendOutcome::Refused { code: 550, enhanced: Some(status), .. } if status == "5.1.1"),
        "{refused:?}"
    );
    assert!(!format!("{refused:?}").contains("refuse-550@"), "{refused:?}");
    let wait = |seconds| Some(Duration::from_secs(seconds));
    let deferred = outcome(&client, "defer-451@example.org").await;
    assert!(matches!(deferred, SendOutcome::Deferred { code: 451, retry_after, .. } if retry_after == wait(300)));
    let content = outcome(&client, "refuse-data-554@example.org").await;
    assert!(matches!(content, SendOutcome::Refused { code: 554, .. }), "{content:?}");
    let greylisted = outcome(&client, "greylist@example.org").await;
    assert!(matches!(greylisted, SendOutcome::Deferred { code: 451, retry_after, .. } if retry_after == wait(60)));
    assert_eq!(server.received().len(), 0);
    assert!(is_accepted(&outcome(&client, "greylist@example.org").await));
    assert_eq!(server.wait_for(1).await.len(), 1);
}

#[tokio::test]
async fn a_connection_dropped_after_the_final_dot_is_unknown_whether_or_not_the_mail_was_stored() {
    let server = SmtpServer::start();
    let client = client(&server);
    for recipient in ["drop-after-dot@example.org", "lose-after-dot@example.org"] {
        let outcome = outcome(&client, recipient).await;
        assert!(matches!(outcome, SendOutcome::Unknown { .. }), "{outcome:?}");
    }
    let received = server.wait_for(1).await;
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].rcpt_to, ["drop-after-dot@example.org"]);
}

#[tokio::test]
async fn concurrent_mails_share_as_many_connections_as_the_pool_may_have() {
    let server = SmtpServer::start();
    let mut limited = settings(&server);
    limited.max_connections = 3;
    let client = SmtpClient::new(limited).unwrap();
    let bytes = message().to_bytes().unwrap();
    let recipient = address("ann@example.org");
    for _ in 0..5 {
        let send = || client.send(SENDER, &recipient, &bytes);
        let ten = tokio::join!(send(), send(), send(), send(), send(), send(), send(), send());
        for delivery in [ten.0, ten.1, ten.2, ten.3, ten.4, ten.5, ten.6, ten.7] {
            assert!(is_accepted(&delivery.outcome), "{delivery:?}");
        }
    }
    let received = server.wait_for(40).await;
    let connections: BTreeSet<u64> = received.iter().map(|mail| mail.peer_port).collect();
    assert_eq!((received.len(), connections.len()), (40, 3));
}

fn with_account(mut settings: SmtpSettings, password: &str) -> SmtpSettings {
    settings.credentials = Some(SmtpCredentials { user: "platform".to_owned(), password: password.to_owned() });
    settings
}

#[tokio::test]
async fn starttls_and_both_mechanisms_of_auth_work() {
    let TestCertificate { certificate, key } = certificate_for("localhost");
    for excluded in ["LOGIN", "PLAIN"] {
        let options = SmtpServerOptions::default().with_starttls(&certificate, &key);
        let server = SmtpServer::start_with(options.with_account("platform", "s3cret").without_auth(excluded));
        let mut settings = SmtpSettings::new("localhost", server.port(), SmtpSecurity::StartTls);
        settings.extra_roots_pem = certificate.clone().into_bytes();
        let client = SmtpClient::new(with_account(settings.clone(), "s3cret")).unwrap();
        let accepted = outcome(&client, "ann@example.org").await;
        assert!(is_accepted(&accepted), "{accepted:?}");
        let received = server.wait_for(1).await.remove(0);
        assert!(received.is_encrypted && received.user.as_deref() == Some("platform"), "{received:?}");

        let client = SmtpClient::new(with_account(settings, "wrong-s3cret")).unwrap();
        let refused = client.send(SENDER, &address("ann@example.org"), &message().to_bytes().unwrap()).await;
        assert!(matches!(refused.outcome, SendOutcome::ProviderUnavailable { .. }), "{refused:?}");
        assert!(!format!("{refused:?} {client:?}").contains("s3cret"), "{refused:?}");
    }
}

#[tokio::test]
async fn implicit_tls_works_and_an_untrusted_certificate_receives_nothing() {
    let TestCertificate { certificate, key } = certificate_for("localhost");
    let server = SmtpServer::start_with(SmtpServerOptions::default().with_implicit_tls(&certificate, &key));
    let trusting = |name: &str, roots: &str| {
        let mut settings = SmtpSettings::new(name, server.port(), SmtpSecurity::ImplicitTls);
        settings.extra_roots_pem = roots.as_bytes().to_vec();
        SmtpClient::new(settings).unwrap()
    };
    let other = certificate_for("localhost").certificate;
    // The second is trusted and issued for another name.
    for client in [trusting("localhost", &other), trusting("127.0.0.1", &certificate)] {
        let outcome = outcome(&client, "ann@example.org").await;
        assert!(
            matches!(&outcome, SendOutcome::ProviderUnavailable { reason } if reason.contains("TLS")),
            "{outcome:?}"
        );
    }
    assert_eq!(server.received().len(), 0);
    assert!(is_accepted(&outcome(&trusting("localhost", &certificate), "ann@example.org").await));
}

#[tokio::test]
async fn a_local_part_beyond_ascii_needs_smtputf8_and_is_never_changed() {
    let recipient = "jürgen@bücher.example";
    let server = SmtpServer::start();
    assert!(is_accepted(&outcome(&client(&server), recipient).await));
    let received = server.wait_for(1).await.remove(0);
    assert_eq!(received.rcpt_to, ["jürgen@xn--bcher-kva.example"]);
    assert!(received.mail_options.iter().any(|option| option == "SMTPUTF8"), "{received:?}");

    let server = SmtpServer::start_with(SmtpServerOptions::default().without_smtputf8());
    let client = client(&server);
    let refused = outcome(&client, recipient).await;
    assert!(
        matches!(&refused, SendOutcome::Refused { code: 553, text, .. } if text.contains("SMTPUTF8")),
        "{refused:?}"
    );
    // Only the local part matters: the domain is sent as A-labels.
    assert!(is_accepted(&outcome(&client, "jurgen@bücher.example").await));
    assert_eq!(server.wait_for(1).await[0].rcpt_to, ["jurgen@xn--bcher-kva.example"]);
}

#[tokio::test]
async fn a_message_over_the_servers_limit_is_refused_before_it_is_sent() {
    let server = SmtpServer::start_with(SmtpServerOptions::default().with_max_bytes(200));
    let refused = outcome(&client(&server), "ann@example.org").await;
    assert!(matches!(refused, SendOutcome::Refused { code: 552, .. }), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let server = SmtpServer::start();
    let client = client(&server);
    drop(server);
    assert!(matches!(outcome(&client, "ann@example.org").await, SendOutcome::ProviderUnavailable { .. }));
}

#[test]
fn mails_do_not_leave_the_machine_unencrypted_unless_it_is_allowed() {
    let mut settings = SmtpSettings::new("mail.example.com", 25, SmtpSecurity::None);
    assert_eq!(SmtpClient::new(settings.clone()).err(), Some(SmtpSettingsError::Plaintext));
    settings.allow_plaintext = true;
    assert!(SmtpClient::new(settings.clone()).is_ok());
    settings.hello_name = "a\r\nMAIL".to_owned();
    assert_eq!(SmtpClient::new(settings).err(), Some(SmtpSettingsError::InvalidName));
}
