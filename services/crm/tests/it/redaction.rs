//! No log line, at any level, contains an address, a name, a subject, a body, a variable or an attachment.

use crate::support::{CrmFixture, TENANT};
use onceward_testkit::{SmtpServer, eventually};
use parking_lot::Mutex;
use serde_json::json;
use std::{io, sync::Arc};
use tracing_subscriber::fmt::MakeWriter;

/// What must appear nowhere.
const SECRETS: &[&str] = &[
    "zephyrine",
    "quillfeather",
    "refuse-550-secret",
    "defer-451-secret",
    "drop-after-dot-secret",
    "Confidential subject",
    "body-of-the-mail",
    "attached-content",
    "c2VjcmV0LWF0dGFjaG1lbnQ",
];

#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for CapturedLog {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn no_log_line_of_any_outcome_contains_anything_personal() {
    let log = CapturedLog::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_max_level(tracing::Level::TRACE).finish();
    // The runtime of this test has one thread, so everything that it runs writes here.
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = SmtpServer::start();
    let mut fixture = CrmFixture::start_with(|settings| {
        settings.providers = "smtp".to_owned();
        settings.smtp_host = "127.0.0.1".to_owned();
        settings.smtp_port = server.port();
        settings.smtp_tls = "none".to_owned();
        settings.attempts = 1;
    })
    .await;
    fixture.platform.run_consumers();
    let source = json!({
        "subject": "Confidential subject for {{ name }}", "text": "body-of-the-mail for {{ name }}",
        "variables": [{ "name": "name", "kind": "text", "example": "Ada" }],
    });
    let template = json!({ "template_id": "notice", "class": "transactional", "source": source });
    fixture.post(TENANT, "templates", template).await.with_status(201);
    fixture.create_person(TENANT, "Zephyrine Quillfeather", "zephyrine@example.org").await;
    let request = |to: &str| {
        json!({
            "template_id": "notice", "to": [format!("Zephyrine Quillfeather <{to}>")],
            "variables": { "name": "Zephyrine Quillfeather" },
            "attachments": [{ "filename": "a.txt", "content": "c2VjcmV0LWF0dGFjaG1lbnQK", "type": "text/plain" }],
        })
    };
    for (to, status) in [
        ("zephyrine@example.org", "sent"),
        ("refuse-550-secret@example.org", "failed"),
        ("defer-451-secret@example.org", "failed"),
        ("drop-after-dot-secret@example.org", "unknown"),
    ] {
        let id = fixture.request_mail_with(request(to)).await;
        fixture.wait_for_status(&id, status).await;
    }
    fixture.post(TENANT, "emails", request("not an address")).await.with_status(422);
    let foreign = json!({
        "template_id": "notice", "subject": "Confidential subject", "to": ["zephyrine@example.org"],
        "correlation_id": "story-1", "variables": {},
    });
    let sql =
        "SELECT onceward.enqueue('acme', 'notifications.topic:crm.email.requested.v1', 'crm.email.requested.v1', $1)";
    fixture.owner.execute(sql, &[&foreign]).await.expect("it is published");
    eventually("the dead letters", || async { (fixture.count_dead_letters().await == 2).then_some(()) }).await;
    let text = String::from_utf8_lossy(&log.0.lock()).to_lowercase();
    assert!(text.len() > 10_000, "the log was captured");
    // Traces of the test's own HTTP client and of PostgreSQL's driver are not ours.
    let is_ours = |line: &&str| !["tokio_postgres", "hyper", "reqwest"].iter().any(|library| line.contains(library));
    for secret in SECRETS {
        let found = text.lines().filter(is_ours).find(|line| line.contains(&secret.to_lowercase()));
        assert_eq!(found, None, "{secret} is in the log");
    }
    for column in ["reason", "last_error", "first_error"] {
        let sql =
            format!("SELECT count(*) FROM onceward.dead_letters WHERE {column} ~* 'zephyrine|quillfeather|secret@'");
        let found: i64 = fixture.owner.query_one(&sql, &[]).await.expect("a count").get(0);
        assert_eq!(found, 0, "{column} of a dead letter names a person");
    }
    let chain: i64 = fixture
        .query(
            "SELECT count(*) FROM audit.entry WHERE document ~* 'zephyrine|quillfeather|example.org|Confidential'",
            &[],
        )
        .await;
    assert_eq!(chain, 0, "the audit chain names a person");
}
