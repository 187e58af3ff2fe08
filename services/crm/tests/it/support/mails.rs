//! Requests for mails, and what became of them.

use super::CrmFixture;
use onceward_testkit::{HttpResponse, SmtpServer, eventually};
use reqwest::Method;
use serde_json::{Value, json};

pub const TENANT: &str = "acme";

/// Starts the API and the consumers with an SMTP server.
pub async fn start_with_smtp(server: &SmtpServer, change: impl FnOnce(&mut onceward_crm::Settings)) -> CrmFixture {
    let port = server.port();
    let mut fixture = CrmFixture::start_with(|settings| {
        settings.providers = "smtp".to_owned();
        settings.smtp_host = "127.0.0.1".to_owned();
        settings.smtp_port = port;
        settings.smtp_tls = "none".to_owned();
        settings.retry_ms = 20;
        settings.public_url = "https://mail.onceward.example".to_owned();
        change(settings);
    })
    .await;
    fixture.platform.run_consumers();
    fixture
}

impl CrmFixture {
    /// Requests a mail by the template to one address. Returns its id.
    pub async fn request_mail(&self, template: &str, to: &str) -> String {
        self.request_mail_with(mail(template, &[to])).await
    }

    /// Requests a mail. Returns its id.
    pub async fn request_mail_with(&self, body: Value) -> String {
        let accepted = self.post(TENANT, "emails", body).await.with_status(202);
        accepted["email_id"].as_str().expect("an id").to_owned()
    }

    /// Waits until the mail has this status, and returns it.
    pub async fn wait_for_status(&self, email: &str, status: &str) -> Value {
        eventually(&format!("the mail is {status}"), || async {
            let email = self.get(TENANT, &format!("emails/{email}")).await.with_status(200);
            (email["status"] == status).then_some(email)
        })
        .await
    }

    /// Returns the files of the provider `folder`.
    pub fn mails_in_folder(&self) -> Vec<String> {
        let Ok(files) = std::fs::read_dir(self.folder.join("mail")) else { return Vec::new() };
        let paths = files.map(|file| file.expect("a file").path());
        let eml = paths.filter(|path| path.extension().is_some_and(|extension| extension == "eml"));
        eml.map(|path| std::fs::read_to_string(path).expect("a mail")).collect()
    }

    /// Counts the messages of this type that the tenant published.
    pub async fn count_messages(&self, event_type: &str) -> i64 {
        let sql = "SELECT count(*) FROM onceward.outbox_messages WHERE tenant_id = $1 AND event_type = $2";
        self.query(sql, &[&TENANT, &event_type]).await
    }

    /// Returns the payload of the latest message of this type.
    pub async fn latest_message(&self, event_type: &str) -> Value {
        let sql = "SELECT payload::jsonb FROM onceward.outbox_messages WHERE tenant_id = $1 AND event_type = $2
            ORDER BY id DESC LIMIT 1";
        self.query(sql, &[&TENANT, &event_type]).await
    }

    /// Counts the open dead letters.
    pub async fn count_dead_letters(&self) -> i64 {
        self.query("SELECT count(*) FROM onceward.dead_letters", &[]).await
    }

    pub async fn metrics(&self) -> String {
        HttpResponse::to(self.http.request(Method::GET, format!("{}/metrics", self.url))).await.text
    }
}

/// Returns the request of a mail by a template of the fixture.
pub fn mail(template: &str, to: &[&str]) -> Value {
    json!({ "template_id": template, "to": to, "variables": { "contact": { "first_name": "Ada" } } })
}

impl CrmFixture {
    /// Publishes a sweep tick, as the schedule would.
    pub async fn publish_sweep_tick(&self) {
        let tenant = onceward::TenantId::new("platform").expect("a tenant");
        let scope = onceward::Scope { tenant: Some(tenant), ..onceward::Scope::platform("scheduler") };
        let mut tx = self.platform.db().begin(scope).await.expect("a transaction");
        let tick = json!({ "schedule": "crm-sweep", "scheduledFor": jiff::Timestamp::now() });
        let message = onceward::NewMessage::new("crm.sweep.v1", "notifications.topic:crm.sweep.v1", tick);
        onceward::outbox::send(&mut tx, message).await.expect("the tick is valid");
        tx.commit().await.expect("the commit succeeds");
    }
}
