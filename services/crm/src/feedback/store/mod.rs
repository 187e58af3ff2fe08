//! The SQL of feedback. Row-level security restricts every statement to the tenant, except the two lookups.

mod address;
mod class_stop;
mod lookup;
mod recorded;
mod suppression;

pub(super) use address::{address_reports, clear_bounces, lock_address};
pub(super) use class_stop::{count_complaints, count_sent, insert_class_stop, lift_class_stop, list_class_stops};
pub(super) use lookup::{email_tenant, message_id_recipients, provider_recipient};
pub(crate) use recorded::{MailRecipient, find_recipient};
pub(super) use recorded::{insert_feedback, lock_recipient, recipient_reports, set_recipient_feedback};
pub(crate) use suppression::{Suppression, contact_address, suppressions_of};
pub(super) use suppression::{
    SuppressionPosition, contact_of_address, delete_suppression, list_suppressions, put_suppression,
};
