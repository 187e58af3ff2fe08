//! What several tests use.

mod scripted_server;
mod tls;
pub mod zip;

pub use scripted_server::{Act, ScriptedServer};
pub use tls::{TestCertificate, certificate_for};

use onceward_mail::{
    address::{EmailAddress, Mailbox},
    message::MailMessage,
};
use uuid::Uuid;

pub fn address(text: &str) -> EmailAddress {
    EmailAddress::parse(text).expect("a valid address")
}

pub fn mailbox(name: &str, text: &str) -> Mailbox {
    Mailbox::new(Some(name), address(text)).expect("a valid name")
}

/// Returns a small message with every time and id fixed.
pub fn message() -> MailMessage {
    MailMessage {
        message_id: Uuid::from_u128(0x0192_3456_789a_7bcd_8ef0_1234_5678_9abc),
        date: "2026-11-18T10:20:30Z".parse().expect("a time"),
        from: mailbox("Lending Team", "team@loans.example.com"),
        reply_to: None,
        to: vec![mailbox("Ann", "ann@example.org")],
        cc: Vec::new(),
        subject: "Your payment".to_owned(),
        text: "Hello,\nthank you.\n".to_owned(),
        html: None,
        attachments: Vec::new(),
        list_unsubscribe: None,
        is_auto_submitted: false,
        headers: Vec::new(),
    }
}
