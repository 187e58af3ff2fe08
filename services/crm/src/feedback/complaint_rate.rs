//! The share of recipients who complain, per tenant and class. Mailbox providers block senders above 0.3 %, so the class stops
//! before that becomes everybody's problem.

use super::{measure, store};
use crate::{
    CrmError,
    changes::{self, Change},
};
use onceward::Tx;
use onceward_mail::class::MailClass;
use serde_json::json;

/// Fewer complaints prove nothing: two in a hundred mails are chance.
const COMPLAINTS_MIN: i64 = 5;
/// From one complaint in this many mails on, operators are warned: 0.1 %.
const WARN_ONE_IN: i64 = 1_000;
/// From this many complaints in [`WARN_ONE_IN`] mails on, the class stops: 0.3 %.
const STOP_PER_THOUSAND: i64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComplaintLevel {
    Acceptable,
    Warn,
    Stop,
}

/// Decides by the complaints and the sent mails of the same time.
fn level(complaints: i64, sent: i64) -> ComplaintLevel {
    let per_thousand = complaints.saturating_mul(WARN_ONE_IN);
    match complaints {
        _ if complaints < COMPLAINTS_MIN => ComplaintLevel::Acceptable,
        _ if per_thousand >= sent.saturating_mul(STOP_PER_THOUSAND) => ComplaintLevel::Stop,
        _ if per_thousand >= sent => ComplaintLevel::Warn,
        _ => ComplaintLevel::Acceptable,
    }
}

/// Checks the rate of a class after a complaint, and stops the class if it is too high. Mail that must arrive never stops.
pub(super) async fn check(tx: &mut Tx, class: MailClass) -> Result<(), CrmError> {
    if class.ignores_unsubscribe() {
        return Ok(());
    }
    let name = class.as_str();
    let complaints = store::count_complaints(tx, name).await?;
    if complaints < COMPLAINTS_MIN {
        return Ok(());
    }
    // Beyond this number the rate is acceptable, however much larger the number is.
    let limit = complaints.saturating_mul(WARN_ONE_IN).saturating_add(1);
    let sent = store::count_sent(tx, name, limit).await?;
    match level(complaints, sent) {
        ComplaintLevel::Acceptable => {}
        ComplaintLevel::Warn => tx.after_commit(move || measure::complaint_warning(name)),
        ComplaintLevel::Stop => stop(tx, name, complaints, sent).await?,
    }
    Ok(())
}

async fn stop(tx: &mut Tx, class: &'static str, complaints: i64, sent: i64) -> Result<(), CrmError> {
    let reason = format!("{complaints} of {sent} recipients complained within 7 days, which is 0.3 % or more");
    if !store::insert_class_stop(tx, class, &reason).await? {
        return Ok(());
    }
    let detail = json!({ "mail_class": class, "complaints": complaints, "sent": sent });
    let change = Change::new("CRM.CLASS.STOPPED", "mail_class", class).new_value(json!({ "reason": reason }));
    changes::record(tx, change.detail(detail)).await?;
    tx.after_commit(move || measure::class_stopped(class));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_warned_at_one_in_a_thousand_and_stops_at_three() {
        for (complaints, sent, expected) in [
            (4, 4, ComplaintLevel::Acceptable),
            (5, 10, ComplaintLevel::Stop),
            (5, 1_666, ComplaintLevel::Stop),
            (5, 1_667, ComplaintLevel::Warn),
            (5, 5_000, ComplaintLevel::Warn),
            (5, 5_001, ComplaintLevel::Acceptable),
        ] {
            assert_eq!(level(complaints, sent), expected, "{complaints} of {sent}");
        }
    }
}
