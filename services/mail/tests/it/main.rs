//! Tests of the mail crate.

mod addresses;
mod attachments;
mod bounces;
mod dkim;
mod messages;
mod smtp_scripted;
mod smtp_server;
mod support;
mod template_properties;
mod template_versions;
mod templates;
