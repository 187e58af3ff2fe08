//! Mails that were sent, and reports about them.

use super::{CrmFixture, settings};
use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use onceward_mail::return_path::{BounceTarget, ReturnPathKey, ReturnPathKeys};
use onceward_testkit::{HttpResponse, Scratch};
use serde_json::{Value, json};
use sha2::Sha256;
use uuid::Uuid;

pub const WEBHOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A mail that a provider has taken.
#[derive(Clone, Copy, Debug)]
pub struct SentMail {
    pub id: Uuid,
}

impl SentMail {
    /// Returns the token of links and tags of a recipient.
    pub fn token(&self, position: u16) -> String {
        let mut bytes = [self.id.as_bytes().as_slice(), &position.to_be_bytes()].concat();
        let signature = mac(&secret("onceward crm links"), &[&bytes]);
        bytes.extend(&signature[..16]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns the return path of a recipient.
    pub fn return_path(&self, recipient: u16) -> String {
        let current = ReturnPathKey::new(secret("onceward crm return paths"));
        let keys = ReturnPathKeys { current, previous: Vec::new() };
        keys.address(BounceTarget { email_id: self.id, recipient }, "bounces.onceward.example")
    }

    pub fn message_id(&self) -> String {
        format!("<{}@onceward.example>", self.id)
    }
}

fn secret(purpose: &str) -> [u8; 32] {
    settings(&Scratch::new()).secret_key.derive(purpose)
}

fn mac(secret: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC accepts keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// Returns the signature of an event.
pub fn sign_event(id: &str, timestamp: &str, body: &str) -> String {
    let secret = STANDARD.decode(WEBHOOK_SECRET.trim_start_matches("whsec_")).expect("a secret");
    let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body.as_bytes()];
    format!("v1,{}", STANDARD.encode(mac(&secret, &parts)))
}

impl CrmFixture {
    /// Stores a mail of this class that was sent to these addresses. Each address becomes that of a contact.
    pub async fn insert_mail(&self, tenant: &str, class: &str, addresses: &[&str]) -> SentMail {
        let mail = SentMail { id: Uuid::now_v7() };
        let insert = "INSERT INTO crm.email (tenant_id, email_id, event_id, correlation_id, template_id, template_version,
                mail_class, delivery, variables_hash, status, finished_at)
            VALUES ($1, $2, $2, 'story-of-the-mail', 'a-template', 1, $3, 'at_most_once', repeat('0', 64), 'sent', now())";
        self.owner.execute(insert, &[&tenant, &mail.id, &class]).await.expect("a mail");
        for (position, address) in (0_i16..).zip(addresses) {
            let hash = self.address_hash(tenant, address).await;
            let insert = "INSERT INTO crm.email_recipient
                    (tenant_id, email_id, position, field, address_hash, state, provider, provider_id)
                VALUES ($1, $2, $3, 'to', $4, 'accepted', 'resend', $5)";
            let provider_id = format!("provider-{}-{position}", mail.id);
            self.owner
                .execute(insert, &[&tenant, &mail.id, &position, &hash, &provider_id])
                .await
                .expect("a recipient");
        }
        let insert =
            "INSERT INTO crm.artifact (tenant_id, artifact_id, email_id, event_id, correlation_id, key_id, message_id,
                message_sha256, message_bytes, manifest_sha256, objects)
            VALUES ($1, $2, $2, $2, 'story-of-the-mail', $2, $3, repeat('0', 64), 1, repeat('0', 64), '[]')";
        self.owner.execute(insert, &[&tenant, &mail.id, &mail.message_id()]).await.expect("an artifact");
        mail
    }

    /// Returns the hash of an address, which belongs to a contact afterwards.
    pub async fn address_hash(&self, tenant: &str, address: &str) -> Vec<u8> {
        let find = "SELECT address_hash FROM crm.contact_address WHERE tenant_id = $1 AND address = $2";
        if let Some(row) = self.owner.query_opt(find, &[&tenant, &address]).await.expect("addresses can be read") {
            return row.get(0);
        }
        self.create_person(tenant, "Ada", address).await;
        self.query(find, &[&tenant, &address]).await
    }

    /// Sends an event of the provider about the first recipient of a mail, with our tag.
    pub async fn report(&self, mail: &SentMail, id: &str, kind: &str, at: Timestamp, bounce: Value) -> HttpResponse {
        let data = json!({ "email_id": "unknown", "tags": { "onceward_ref": mail.token(0) }, "bounce": bounce });
        self.send_event(id, &json!({ "type": kind, "created_at": at, "data": data })).await
    }

    /// Sends a signed event.
    pub async fn send_event(&self, id: &str, event: &Value) -> HttpResponse {
        let (body, timestamp) = (event.to_string(), Timestamp::now().as_second().to_string());
        let signature = sign_event(id, &timestamp, &body);
        self.send_signed_event([id, &timestamp, &signature], body).await
    }

    /// Sends an event with these headers.
    pub async fn send_signed_event(&self, [id, timestamp, signature]: [&str; 3], body: String) -> HttpResponse {
        let request = self.http.post(format!("{}/crm/providers/resend/events", self.url));
        let request = request.header("svix-id", id).header("svix-timestamp", timestamp);
        HttpResponse::to(request.header("svix-signature", signature).body(body)).await
    }

    /// Returns what came back about the first recipient.
    pub async fn feedback_of(&self, mail: &SentMail) -> Option<String> {
        self.query("SELECT feedback FROM crm.email_recipient WHERE email_id = $1 AND position = 0", &[&mail.id]).await
    }

    /// Counts the recorded reports about a mail.
    pub async fn count_reports(&self, mail: &SentMail) -> i64 {
        self.query("SELECT count(*) FROM crm.feedback WHERE email_id = $1", &[&mail.id]).await
    }

    /// Returns class, reason and end of the suppressions of an address.
    pub async fn suppressions(&self, tenant: &str, address: &str) -> Vec<(String, String, Option<Timestamp>)> {
        let listed = self.get(tenant, &format!("suppressions?address={address}")).await.with_status(200);
        let text = |entry: &Value, name: &str| entry[name].as_str().map(str::to_owned);
        let entries = listed["suppressions"].as_array().expect("a list").iter().map(|entry| {
            let until = text(entry, "until").map(|until| until.parse().expect("a time"));
            (text(entry, "mail_class").unwrap_or_default(), text(entry, "reason").unwrap_or_default(), until)
        });
        let mut entries: Vec<_> = entries.collect();
        entries.sort();
        entries
    }

    /// Returns the published messages of a type, as text.
    pub async fn published(&self, event_type: &str) -> Vec<Value> {
        let sql = "SELECT payload FROM onceward.outbox_messages WHERE event_type = $1 ORDER BY created_at, id";
        let rows = self.owner.query(sql, &[&event_type]).await.expect("the outbox can be read");
        rows.iter().map(|row| row.get(0)).collect()
    }
}
