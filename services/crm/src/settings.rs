//! The service's settings. Each is explained in `config/default.toml`, which also contains the defaults.

use onceward::{
    Section, config,
    secrets::{KeyText, KeyTexts},
};
use serde::Deserialize;

/// The section `[crm]`.
pub const SECTION: Section = Section {
    name: "crm",
    defaults: include_str!("../config/default.toml"),
    env_aliases: &[],
    demo: &[("mailbox_page", true)],
    check: config::problems_of::<Settings>,
};

/// The sender of demonstrations, whose mail does not leave the machine.
const DEMO_SENDER: &str = "demo@onceward.example";

/// The settings of the section.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Settings {
    pub secret_key: KeyText,
    pub secret_keys_before: KeyTexts,
    pub objects: String,
    pub providers: String,
    pub folder: String,
    pub mailbox_page: bool,
    pub smtp_host: String,
    pub smtp_port: u16,
    pub smtp_tls: String,
    pub smtp_user: String,
    pub smtp_password: String,
    pub smtp_extra_roots: String,
    pub smtp_connections: usize,
    pub smtp_final_timeout_ms: u64,
    pub resend_url: String,
    pub resend_key: String,
    pub resend_webhook_secret: String,
    pub sender_address: String,
    pub sender_name: String,
    pub return_path_domain: String,
    pub public_url: String,
    pub max_recipients: usize,
    pub max_attachments: usize,
    pub max_message_bytes: usize,
    pub attachment_inline_bytes: usize,
    pub attachment_types: String,
    pub concurrency: usize,
    pub attempts: u32,
    pub retry_ms: u64,
    pub rate_per_provider: u32,
    pub rate_per_domain: u32,
    pub expire_after_h: u32,
    pub sweep_after_minutes: u32,
    pub sweep_cron: String,
    pub lmtp_listen: String,
    pub bounce_maildir: String,
}

impl Settings {
    /// Derives the keys from the platform's own secret if none is set. A demonstration has a sender even if none is set.
    pub fn or_derived_from(mut self, platform_secret: &str) -> Self {
        if self.secret_key.is_empty() {
            self.secret_key = KeyText::borrowed(platform_secret);
        }
        if self.mailbox_page && self.sender_address.is_empty() {
            self.sender_address = DEMO_SENDER.to_owned();
        }
        self
    }
}

impl std::fmt::Debug for Settings {
    /// Shows no secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("providers", &self.providers).finish_non_exhaustive()
    }
}

impl config::ServiceSettings for Settings {
    fn problems(&self) -> Vec<String> {
        let known = |name: &str| matches!(name, "folder" | "smtp" | "resend");
        let names: Vec<&str> = self.providers.split_whitespace().collect();
        let uses = |name: &str| names.contains(&name);
        config::violations(&[
            (
                !names.is_empty() && names.iter().copied().all(known),
                "crm.providers must name at least one of folder, smtp and resend",
            ),
            (!uses("smtp") || !self.smtp_host.is_empty(), "crm.smtp_host must be set for the provider smtp"),
            (
                matches!(self.smtp_tls.as_str(), "starttls" | "implicit" | "none"),
                "crm.smtp_tls must be starttls, implicit or none",
            ),
            (!uses("resend") || !self.resend_key.is_empty(), "crm.resend_key must be set for the provider resend"),
            ((1..=100).contains(&self.max_recipients), "crm.max_recipients must be from 1 to 100"),
            (self.concurrency >= 1, "crm.concurrency must be at least 1"),
            (self.smtp_connections >= 1, "crm.smtp_connections must be at least 1"),
            (self.attempts >= 1, "crm.attempts must be at least 1"),
            (self.retry_ms >= 1, "crm.retry_ms must be at least 1"),
            (
                self.max_message_bytes >= self.attachment_inline_bytes,
                "crm.attachment_inline_bytes must not exceed crm.max_message_bytes",
            ),
            (
                self.public_url.starts_with("https://") || self.public_url.starts_with("http://"),
                "crm.public_url must begin with https:// or http://",
            ),
        ])
    }
}

impl Default for Settings {
    fn default() -> Self {
        SECTION.default()
    }
}
