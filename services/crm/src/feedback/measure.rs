//! The metrics of feedback.

use metrics::{counter, describe_counter};

/// Recorded reports, by source and kind.
const RECORDED: &str = "crm_email_feedback_total";
/// Reports that changed nothing, by source and reason.
const IGNORED: &str = "crm_email_feedback_ignored_total";
/// Complaints that found the rate of their class at 0.1 % or more, by class.
const COMPLAINT_WARNINGS: &str = "crm_email_complaint_warnings_total";
/// Stops of a class of mail because of complaints, by class.
const CLASS_STOPS: &str = "crm_email_class_stops_total";
/// Recipients who unsubscribed, by class.
const UNSUBSCRIBED: &str = "crm_email_unsubscribed_total";

pub(crate) fn describe() {
    describe_counter!(RECORDED, "Recorded reports about mails, by source and kind");
    describe_counter!(IGNORED, "Reports that were not recorded, by source and reason");
    describe_counter!(COMPLAINT_WARNINGS, "Complaints while 0.1 % or more of the recipients of a class complained");
    describe_counter!(CLASS_STOPS, "Stops of a class of mail for a tenant because 0.3 % of the recipients complained");
    describe_counter!(UNSUBSCRIBED, "Recipients who unsubscribed from a class of mail");
}

pub(super) fn recorded(source: &'static str, kind: &'static str) {
    counter!(RECORDED, "source" => source, "kind" => kind).increment(1);
}

pub(super) fn ignored(source: &'static str, reason: &'static str) {
    counter!(IGNORED, "source" => source, "reason" => reason).increment(1);
}

pub(super) fn complaint_warning(class: &'static str) {
    counter!(COMPLAINT_WARNINGS, "class" => class).increment(1);
}

pub(super) fn class_stopped(class: &'static str) {
    counter!(CLASS_STOPS, "class" => class).increment(1);
}

pub(super) fn unsubscribed(class: &'static str) {
    counter!(UNSUBSCRIBED, "class" => class).increment(1);
}
