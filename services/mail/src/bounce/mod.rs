//! Returned mail: bounces, complaints and auto-replies, whether an address still exists, and what follows from it.
//!
//! Reading order: `report.rs` (what a returned mail is), `bytes.rs` (its structure), `status_fields.rs` (fields for
//! programs), `notification.rs` (JSON), `notice.rs` and `phrases.rs` (text for people), `codes.rs`, `classify.rs` (what
//! a failure means), `soft_bounces.rs` and `rank.rs` (what follows).

mod bytes;
mod classify;
mod codes;
mod notice;
mod notification;
mod phrases;
mod rank;
mod report;
mod soft_bounces;
mod status_fields;

pub use classify::{BounceClassifier, BounceRuleError, BounceVerdict};
pub use rank::DeliveryRank;
pub use report::{RecipientAction, ReportedRecipient, ReturnedMail, ReturnedMailKind};
pub use soft_bounces::{SoftBounce, SoftBounceRule};
