//! Returned mail by LMTP and by maildir: who it is about, what it says, and nothing lost or recorded twice by a crash.

use crate::support::{CrmFixture, SentMail};
use onceward_testkit::{eventually, free_port};
use std::{fs, path::PathBuf};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufStream},
    net::TcpStream,
};

const TENANT: &str = "acme";

/// A report about `address` with this action, status and diagnostic text.
fn report(address: &str, action: &str, status: &str, diagnostic: &str) -> String {
    let lines = [
        "From: MAILER-DAEMON@mx.example.net",
        "To: somebody@bounces.onceward.example",
        "Subject: Delivery Status Notification",
        "MIME-Version: 1.0",
        "Content-Type: multipart/report; report-type=delivery-status; boundary=\"b\"",
        "",
        "--b",
        "Content-Type: text/plain",
        "",
        "This is a report about your mail.",
        "--b",
        "Content-Type: message/delivery-status",
        "",
        "Reporting-MTA: dns; mx.example.net",
        "",
        &format!("Final-Recipient: rfc822; {address}"),
        &format!("Action: {action}"),
        &format!("Status: {status}"),
        &format!("Diagnostic-Code: smtp; {diagnostic}"),
        "",
        "--b--",
        "",
    ];
    lines.join("\r\n")
}

fn hard_bounce() -> String {
    report("ada@example.org", "failed", "5.1.1", "550 5.1.1 user unknown")
}

/// A complaint that returns a mail with this header.
fn complaint(header: &str) -> String {
    let lines = [
        "From: feedback@mailbox.example",
        "To: complaints@onceward.example",
        "Subject: complaint",
        "MIME-Version: 1.0",
        "Content-Type: multipart/report; report-type=feedback-report; boundary=\"b\"",
        "",
        "--b",
        "Content-Type: text/plain",
        "",
        "This is an abuse report.",
        "--b",
        "Content-Type: message/feedback-report",
        "",
        "Feedback-Type: abuse",
        "Version: 1",
        "",
        "--b",
        "Content-Type: message/rfc822",
        "",
        "From: noreply@onceward.example",
        "To: redacted@mailbox.example",
        "Subject: Hello",
        header,
        "",
        "Hello",
        "--b--",
        "",
    ];
    lines.join("\r\n")
}

/// A mail server that hands returned mail over.
struct LmtpClient(BufStream<TcpStream>);

impl LmtpClient {
    async fn connect(port: u16) -> Self {
        let connect = || async { TcpStream::connect(("127.0.0.1", port)).await.ok() };
        let mut client = Self(BufStream::new(eventually("the listener accepts connections", connect).await));
        assert!(client.reply().await.starts_with("220 "));
        assert!(client.command("LHLO mx.onceward.example").await.starts_with("250 "));
        client
    }

    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("the server reads");
        self.0.flush().await.expect("the server reads");
    }

    /// Returns the last line of a reply.
    async fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.expect("the server replies");
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }

    async fn command(&mut self, text: &str) -> String {
        self.send(&format!("{text}\r\n")).await;
        self.reply().await
    }

    async fn envelope(&mut self, recipients: &[String]) {
        assert!(self.command("MAIL FROM:<>").await.starts_with("250 "));
        for recipient in recipients {
            assert!(self.command(&format!("RCPT TO:<{recipient}>")).await.starts_with("250 "), "{recipient}");
        }
        assert!(self.command("DATA").await.starts_with("354 "));
    }

    /// Delivers a message to one recipient, and returns the reply.
    async fn deliver(&mut self, recipient: &str, message: &str) -> String {
        self.envelope(&[recipient.to_owned()]).await;
        self.command(&format!("{message}\r\n.")).await
    }
}

async fn start() -> (CrmFixture, u16) {
    let port = free_port();
    let mut fixture = CrmFixture::start_with(|settings| settings.lmtp_listen = format!("127.0.0.1:{port}")).await;
    fixture.platform.run_consumers();
    (fixture, port)
}

#[tokio::test]
async fn only_return_paths_that_we_signed_are_accepted() {
    let (fixture, port) = start().await;
    let mail = fixture.insert_mail(TENANT, "transactional", &["ada@example.org"]).await;
    let mut client = LmtpClient::connect(port).await;
    let ours = mail.return_path(0);
    let (local, domain) = ours.split_once('@').expect("an address");
    let (signed, last) = local.split_at(local.len() - 1);
    let forged = format!("{signed}{}@{domain}", if last == "a" { "b" } else { "a" });
    assert!(client.command("RCPT TO:<complaints@onceward.example>").await.starts_with("503 "), "before MAIL");
    assert!(client.command("MAIL FROM:<>").await.starts_with("250 "));
    for address in [forged.as_str(), "ada@example.org", "bounce+x@onceward.example", ""] {
        assert!(client.command(&format!("RCPT TO:<{address}>")).await.starts_with("550 "), "{address}");
    }
    assert!(client.command("DATA").await.starts_with("503 "), "there is no valid recipient");
    assert!(client.command("EHLO x").await.starts_with("500 "));
    assert!(client.command("QUIT").await.starts_with("221 "));
}

#[tokio::test]
async fn a_bounce_is_recorded_before_it_is_answered_and_a_repetition_changes_nothing() {
    let (fixture, port) = start().await;
    let mail = fixture.insert_mail(TENANT, "transactional", &["ada@example.org", "bob@example.org"]).await;
    let mut client = LmtpClient::connect(port).await;
    let reply = client.deliver(&mail.return_path(0).to_uppercase(), &hard_bounce()).await;
    assert!(reply.starts_with("250 2.6.0 recorded"), "{reply}");
    assert_eq!(fixture.feedback_of(&mail).await.as_deref(), Some("bounced"));
    let suppressions = fixture.suppressions(TENANT, "ada@example.org").await;
    assert_eq!(suppressions, [("*".to_owned(), "hard_bounce".to_owned(), None)]);
    // One message for two recipients has two replies.
    client.envelope(&[mail.return_path(0), mail.return_path(1)]).await;
    client.send(&format!("{}\r\n.\r\n", hard_bounce())).await;
    assert_eq!(client.reply().await, "250 2.6.0 recorded before");
    assert_eq!(client.reply().await, "250 2.6.0 recorded");
    assert_eq!(fixture.count_reports(&mail).await, 2);
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.EMAIL.BOUNCED").await, 2);
}

#[tokio::test]
async fn a_report_whose_answer_was_lost_is_recorded_once() {
    let (fixture, port) = start().await;
    let mail = fixture.insert_mail(TENANT, "transactional", &["ada@example.org"]).await;
    let mut client = LmtpClient::connect(port).await;
    client.envelope(&[mail.return_path(0)]).await;
    client.send(&format!("{}\r\n.\r\n", hard_bounce())).await;
    // The connection breaks after the final dot and before its answer.
    drop(client);
    let recorded = || async { (fixture.count_reports(&mail).await == 1).then_some(()) };
    eventually("the report is recorded", recorded).await;
    let mut client = LmtpClient::connect(port).await;
    assert_eq!(client.deliver(&mail.return_path(0), &hard_bounce()).await, "250 2.6.0 recorded before");
    assert_eq!(fixture.count_reports(&mail).await, 1);
}

#[tokio::test]
async fn a_report_that_was_not_committed_stays_with_the_mail_server() {
    let (fixture, port) = start().await;
    let mail = fixture.insert_mail(TENANT, "transactional", &["ada@example.org"]).await;
    let mut client = LmtpClient::connect(port).await;
    fixture.execute("ALTER TABLE crm.suppression RENAME TO suppression_elsewhere").await;
    let reply = client.deliver(&mail.return_path(0), &hard_bounce()).await;
    assert!(reply.starts_with("451 "), "{reply}");
    fixture.execute("ALTER TABLE crm.suppression_elsewhere RENAME TO suppression").await;
    assert_eq!(fixture.count_reports(&mail).await, 0);
    assert_eq!(client.deliver(&mail.return_path(0), &hard_bounce()).await, "250 2.6.0 recorded");
    assert_eq!(fixture.count_reports(&mail).await, 1);
}

#[tokio::test]
async fn delays_and_automatic_replies_are_no_bounces() {
    let (fixture, port) = start().await;
    let mail = fixture.insert_mail(TENANT, "transactional", &["ada@example.org"]).await;
    let mut client = LmtpClient::connect(port).await;
    let away = "From: ada@example.org\r\nSubject: Away until May 5\r\nAuto-Submitted: auto-replied\r\n\r\nI am away.";
    let reply = client.deliver(&mail.return_path(0), away).await;
    assert!(reply.starts_with("250 "), "{reply}");
    assert_eq!(fixture.feedback_of(&mail).await, None);
    let delayed = report("ada@example.org", "delayed", "4.4.1", "connection timed out");
    client.deliver(&mail.return_path(0), &delayed).await;
    assert_eq!(fixture.feedback_of(&mail).await.as_deref(), Some("deferred"));
    let full = report("ada@example.org", "failed", "5.2.2", "552 5.2.2 mailbox full");
    client.deliver(&mail.return_path(0), &full).await;
    assert_eq!(fixture.feedback_of(&mail).await.as_deref(), Some("bounced"));
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, [], "a full mailbox exists");
}

#[tokio::test]
async fn a_complaint_is_joined_by_a_signed_link_or_weakly_by_the_message_id() {
    let (fixture, port) = start().await;
    let mut client = LmtpClient::connect(port).await;
    let joined_by = async |mail: &SentMail| -> Vec<String> {
        let rows = fixture.owner.query("SELECT joined_by FROM crm.feedback WHERE email_id = $1", &[&mail.id]).await;
        rows.expect("reports can be read").iter().map(|row| row.get(0)).collect()
    };
    let by_link = fixture.insert_mail(TENANT, "marketing", &["ada@example.org"]).await;
    let link = format!("List-Unsubscribe: <https://mail.onceward.example/crm/u/{}>", by_link.token(0));
    client.deliver("complaints@onceward.example", &complaint(&link)).await;
    assert_eq!(joined_by(&by_link).await, ["token"]);
    let suppressions = fixture.suppressions(TENANT, "ada@example.org").await;
    assert_eq!(suppressions, [("*".to_owned(), "complaint".to_owned(), None)]);

    let by_id = fixture.insert_mail(TENANT, "marketing", &["bob@example.org"]).await;
    let header = format!("Message-ID: {}", by_id.message_id());
    client.deliver("complaints@onceward.example", &complaint(&header)).await;
    assert_eq!(joined_by(&by_id).await, ["message_id"]);

    // Every recipient of a mail knows its Message-ID, and could accuse another.
    let of_two = fixture.insert_mail(TENANT, "marketing", &["eve@example.org", "mallory@example.org"]).await;
    let header = format!("Message-ID: {}", of_two.message_id());
    client.deliver("complaints@onceward.example", &complaint(&header)).await;
    assert_eq!(joined_by(&of_two).await, [""; 0]);

    // A bounce needs a token, and the address alone proves nothing.
    client.deliver("complaints@onceward.example", &report("eve@example.org", "failed", "5.1.1", "user unknown")).await;
    assert_eq!(fixture.suppressions(TENANT, "eve@example.org").await, []);
}

#[tokio::test]
async fn a_line_without_an_end_ends_the_conversation_only() {
    let (_fixture, port) = start().await;
    let mut client = LmtpClient::connect(port).await;
    client.send(&"x".repeat(5_000)).await;
    assert!(client.reply().await.starts_with("500 "));
    let mut client = LmtpClient::connect(port).await;
    assert!(client.command("NOOP").await.starts_with("250 "));
}

#[tokio::test]
async fn a_maildir_is_read_and_a_crash_before_the_move_records_nothing_twice() {
    let mut folder = PathBuf::new();
    let mut fixture = CrmFixture::start_with(|settings| {
        folder = PathBuf::from(&settings.folder).with_file_name("returned");
        settings.bounce_maildir = folder.display().to_string();
    })
    .await;
    let mail = fixture.insert_mail(TENANT, "transactional", &["ada@example.org"]).await;
    let message = format!("Delivered-To: {}\r\n{}", mail.return_path(0), hard_bounce());
    let forged = format!("Delivered-To: bounce+{}@bounces.onceward.example\r\n{}", "a".repeat(48), hard_bounce());
    fs::create_dir_all(folder.join("new")).expect("a folder");
    fs::write(folder.join("new/1.a.host"), &message).expect("a message");
    fs::write(folder.join("new/2.b.host"), &forged).expect("a message");
    fixture.platform.run_consumers();
    let moved = |name: &'static str| {
        let (new, cur) = (folder.join("new").join(name), folder.join("cur").join(format!("{name}:2,S")));
        move || {
            let is_moved = !new.exists() && cur.exists();
            async move { is_moved.then_some(()) }
        }
    };
    eventually("the message is moved", moved("1.a.host")).await;
    eventually("the forged message is moved, too", moved("2.b.host")).await;
    assert_eq!(fixture.count_reports(&mail).await, 1);
    // As after a crash between the commit and the move.
    fs::rename(folder.join("cur/1.a.host:2,S"), folder.join("new/1.a.host")).expect("a message");
    eventually("the message is moved again", moved("1.a.host")).await;
    assert_eq!(fixture.count_reports(&mail).await, 1);
    let sql = "SELECT source FROM crm.feedback";
    assert_eq!(fixture.query::<String>(sql, &[]).await, "maildir");
}
