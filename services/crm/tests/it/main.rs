//! Crm on a real database.

mod buses;
mod contact_flags;
mod contacts;
mod feedback;
mod loans;
mod mailbox;
mod outage;
mod provider_events;
mod providers;
mod redaction;
mod requests;
mod returned_mail;
mod senders;
mod sending;
mod support;
mod suppressions;
mod templates;
mod tenants;
mod timeline;
mod unknown_outcomes;
mod unsubscribe;
