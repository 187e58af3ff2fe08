//! A thousand mails to a real SMTP server while processes are killed at seven named points: no recipient gets two, and
//! every one is accounted for as sent or unknown.

use crate::support::{Process, Scratch, migrated_database};
use futures_util::{StreamExt, stream};
use onceward_testkit::{HttpResponse, SECRET, SmtpServer, TestDb, eventually, free_port, token, wait_until_ready};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use tokio::net::TcpListener;
use tokio_postgres::Client;
use uuid::Uuid;

/// Mails per point; seven points make a thousand and one.
const MAILS: usize = 143;
/// As many as a worker hands over at the same time, so that a held point stops all of it.
const IN_FLIGHT: usize = 8;
const REQUESTS_AT_ONCE: usize = 16;

struct MailDrill {
    _database: TestDb,
    owner: Client,
    scratch: Scratch,
    url: String,
    smtp: SmtpServer,
    api: Process,
    api_url: String,
    requested: Vec<String>,
}

impl MailDrill {
    async fn start() -> Self {
        let database = migrated_database().await;
        let (owner, url, scratch, smtp) = (database.owner().await, database.url(), Scratch::new(), SmtpServer::start());
        let (api, api_url) = Self::start_process(&url, &scratch, smtp.port(), "api").await;
        let mut drill = Self { _database: database, owner, scratch, url, smtp, api, api_url, requested: Vec::new() };
        let source = json!({ "subject": "Your statement", "text": "It is ready.", "variables": [] });
        let body = json!({ "template_id": "statement", "class": "transactional", "source": source });
        drill.post("templates", &Uuid::now_v7().to_string(), &body).await.with_status(201);
        drill.requested.reserve(7 * MAILS);
        drill
    }

    async fn start_process(url: &str, scratch: &Scratch, smtp_port: u16, role: &str) -> (Process, String) {
        let listen = format!("127.0.0.1:{}", free_port());
        let (port, objects) = (smtp_port.to_string(), scratch.join("objects").display().to_string());
        let variables = [
            ("DATABASE_URL", url),
            ("ONCEWARD_AUTH_SECRET", SECRET),
            ("ONCEWARD_CRM_PROVIDERS", "smtp"),
            ("ONCEWARD_CRM_SMTP_HOST", "127.0.0.1"),
            ("ONCEWARD_CRM_SMTP_PORT", &port),
            ("ONCEWARD_CRM_SMTP_TLS", "none"),
            ("ONCEWARD_CRM_SENDER_ADDRESS", "servicing@lender.example"),
            ("ONCEWARD_CRM_OBJECTS", &objects),
        ];
        let args = ["serve", "--listen", &listen, "--role", role];
        let process = Process::start(&args, &variables, &scratch.join(&format!("{role}.log")));
        let address = format!("http://{listen}");
        wait_until_ready(&address).await;
        (process, address)
    }

    async fn start_worker(&self) -> Process {
        self.start_worker_at(self.smtp.port()).await
    }

    async fn start_worker_at(&self, smtp_port: u16) -> Process {
        Self::start_process(&self.url, &self.scratch, smtp_port, "worker").await.0
    }

    async fn post(&self, path: &str, key: &str, body: &serde_json::Value) -> HttpResponse {
        let token = token("acme", &["crm:read", "crm:write", "crm:admin"]);
        let request = crate::support::http().post(format!("{}/api/crm/{path}", self.api_url));
        HttpResponse::to(request.bearer_auth(token).header("idempotency-key", key).json(body)).await
    }

    /// Requests `MAILS` mails, of which the first have the prefix that the server acts upon.
    async fn request_mails(&mut self, prefix: &str) {
        let point = self.requested.len() / MAILS;
        let address = |number: usize| {
            let prefix = if number < IN_FLIGHT { prefix } else { "borrower" };
            format!("{prefix}-{point}-{number}@example.org")
        };
        let addresses: Vec<String> = (0..MAILS).map(address).collect();
        let drill = &*self;
        stream::iter(&addresses)
            .for_each_concurrent(REQUESTS_AT_ONCE, |address| async move {
                let body = json!({ "template_id": "statement", "to": [address] });
                drill.post("emails", address, &body).await.with_status(202);
            })
            .await;
        self.requested.extend(addresses);
    }

    async fn count(&self, sql: &str) -> i64 {
        self.owner.query_one(sql, &[]).await.expect("a count").get(0)
    }

    async fn wait_for_handed_over(&self, count: usize) {
        eventually("mails are handed over", || async {
            let sql = "SELECT count(*) FROM crm.email_recipient WHERE state = 'handed_over'";
            (self.count(sql).await >= i64::try_from(count).unwrap_or(0)).then_some(())
        })
        .await;
    }

    /// Waits until every mail is finished. Leases of killed workers end at once instead of after a minute.
    async fn wait_until_finished(&self) {
        eventually("every mail is finished", || async {
            // Workers lock these rows in an order of their own: what they hold is left for the next look.
            let expire = "UPDATE onceward.deferred SET due_at = now() WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM onceward.deferred WHERE state = 'leased' AND NOT EXISTS (
                    SELECT FROM crm.email_recipient
                    WHERE state = 'handed_over' AND handed_over_at > now() - interval '5 s')
                FOR UPDATE SKIP LOCKED))";
            self.owner.batch_execute(expire).await.expect("leases can be ended");
            (self.count("SELECT count(*) FROM crm.email WHERE finished_at IS NULL").await == 0).then_some(())
        })
        .await;
    }

    /// Returns the state of every recipient by its address.
    async fn states(&self) -> HashMap<String, String> {
        let sql = "SELECT message.payload::jsonb -> 'to' ->> 0, recipient.state
            FROM crm.email_recipient recipient
            JOIN onceward.outbox_messages message ON message.event_type = 'crm.email.requested.v1'
                AND message.payload::jsonb ->> 'email_id' = recipient.email_id::text";
        let rows = self.owner.query(sql, &[]).await.expect("the recipients");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

#[tokio::test]
async fn no_recipient_gets_two_mails_and_each_is_accounted_for_while_processes_are_killed_at_seven_points() {
    let mut drill = MailDrill::start().await;

    // 1. Requested: the API is killed right after it answered; no worker runs.
    drill.request_mails("borrower").await;
    drill.api.stop_with("KILL").await;
    let (api, api_url) = MailDrill::start_process(&drill.url, &drill.scratch, drill.smtp.port(), "api").await;
    (drill.api, drill.api_url) = (api, api_url);

    // 2. Leased: workers wait for a lock before they can commit the handover.
    drill.request_mails("borrower").await;
    let blocker = drill._database.owner().await;
    blocker.batch_execute("BEGIN; LOCK TABLE crm.artifact IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
    let mut worker = drill.start_worker().await;
    eventually("messages are leased", || async {
        let sql = "SELECT count(*) FROM onceward.deferred WHERE state = 'leased'";
        (drill.count(sql).await > 0).then_some(())
    })
    .await;
    worker.stop_with("KILL").await;
    blocker.batch_execute("ROLLBACK").await.expect("the lock is released");

    // 3. Handed over, and not connected: the server accepts and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    drill.request_mails("borrower").await;
    let mut worker = drill.start_worker_at(silent.local_addr().expect("an address").port()).await;
    drill.wait_for_handed_over(1).await;
    worker.stop_with("KILL").await;
    drop(silent);

    // 4. In the middle of the conversation: RCPT is not answered.
    let mut worker = drill.start_worker().await;
    drill.wait_until_finished().await;
    drill.request_mails("hold-rcpt").await;
    drill.wait_for_handed_over(IN_FLIGHT).await;
    worker.stop_with("KILL").await;

    // 5. Between the final dot and its answer: the server has the mail and takes its time.
    let mut worker = drill.start_worker().await;
    drill.wait_until_finished().await;
    drill.request_mails("slow-600000").await;
    drill.wait_for_handed_over(IN_FLIGHT).await;
    worker.stop_with("KILL").await;

    // 6. Answered, and not settled: the audit chain is locked.
    let mut worker = drill.start_worker().await;
    drill.wait_until_finished().await;
    let before = drill.smtp.received().len();
    drill.request_mails("borrower").await;
    blocker.batch_execute("BEGIN; SELECT FROM audit.head FOR UPDATE").await.expect("a lock");
    eventually("the server has mails", || async { (drill.smtp.received().len() > before).then_some(()) }).await;
    worker.stop_with("KILL").await;
    blocker.batch_execute("ROLLBACK").await.expect("the lock is released");

    // 7. Settled: the worker is killed while it goes on with the next ones.
    let mut worker = drill.start_worker().await;
    drill.wait_until_finished().await;
    let sent = drill.count("SELECT count(*) FROM crm.email WHERE status = 'sent'").await;
    drill.request_mails("borrower").await;
    eventually("some are sent", || async {
        (drill.count("SELECT count(*) FROM crm.email WHERE status = 'sent'").await > sent + 10).then_some(())
    })
    .await;
    worker.stop_with("KILL").await;

    let _worker = drill.start_worker().await;
    drill.wait_until_finished().await;
    check(&drill).await;
}

async fn check(drill: &MailDrill) {
    let received: Vec<String> = drill.smtp.received().into_iter().flat_map(|mail| mail.rcpt_to).collect();
    let unique: HashSet<&String> = received.iter().collect();
    assert_eq!(unique.len(), received.len(), "nobody received two mails");
    let states = drill.states().await;
    assert_eq!(states.len(), drill.requested.len(), "every requested mail has its recipient");
    let (mut accepted, mut unknown) = (0, 0);
    for (address, state) in &states {
        match state.as_str() {
            "accepted" => {
                accepted += 1;
                assert!(unique.contains(address), "a mail that was recorded as sent arrived");
            }
            "unknown" => unknown += 1,
            other => panic!("a recipient is {other}"),
        }
    }
    let unaccounted = received.iter().filter(|address| !states.contains_key(*address)).count();
    assert_eq!(unaccounted, 0, "every mail that arrived was requested");
    assert_eq!(drill.count("SELECT count(*) FROM onceward.dead_letters").await, 0);
    assert!(unknown >= 2 * IN_FLIGHT, "the held mails are unknown: {unknown}");
    println!("{} requested, {accepted} sent, {unknown} unknown, {} arrived", states.len(), received.len());
}
