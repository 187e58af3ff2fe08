//! Mail without a database: addresses, message bytes, DKIM, templates, SMTP, attachments and bounces.
//!
//! The service `crm` decides who may be written to and records what happened; this crate knows what a mail is. Reading
//! order: [`address`], [`attachment`], [`template`], [`message`], [`dkim`], [`outcome`], [`smtp`],
//! [`return_path`], [`bounce`].

pub mod address;
pub mod attachment;
pub mod bounce;
pub mod class;
pub mod dkim;
pub mod message;
pub mod outcome;
pub mod return_path;
pub mod smtp;
pub mod template;
