//! What comes back about a mail: deliveries, delays, bounces and complaints, and what follows for the address.
//!
//! ```text
//! resend (signed webhook) ─┐
//! lmtp, maildir ─▶ intake ─┴▶ apply ─▶ state of the recipient, suppression, events, audit entry: one commit
//!                             └▶ complaint_rate ─▶ stop of a class of mail
//! ```
//!
//! Reports come late, twice and in any order. [`apply`] records each once, and derives the state from the set of recorded
//! reports, never from the last one. Reading order: `report`, `standing` (the rules, without I/O), `apply`, `suppress`,
//! `complaint_rate`, `mail_lookup` (to whom a report belongs), `intake`, `resend`, `suppressions` (the API), `store`.

mod apply;
mod complaint_rate;
pub mod events;
mod intake;
mod mail_lookup;
mod maildir;
mod measure;
mod report;
mod resend;
mod standing;
pub(crate) mod store;
mod suppress;
mod suppressions;

pub(crate) use apply::{AppliedFeedback, apply};
pub(crate) use intake::{IncomingReport, IntakeResult, ReportReader, intake};
pub(crate) use mail_lookup::{is_report_address, tenant_of_email};
pub(crate) use report::{Feedback, FeedbackKind, JoinedBy};
pub(crate) use suppress::{resubscribe, unsubscribe};

use crate::{lmtp, state::CrmState};
use onceward::{Routes, Service};
use std::sync::Arc;

/// The JSON Schemas of events, requests and answers.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/crm.email.delivered.v1.json"),
    include_str!("../../schemas/crm.email.bounced.v1.json"),
    include_str!("../../schemas/crm.email.complained.v1.json"),
    include_str!("../../schemas/crm.provider.event.answer.v1.json"),
    include_str!("../../schemas/crm.suppression.v1.json"),
    include_str!("../../schemas/crm.suppression.list.v1.json"),
    include_str!("../../schemas/crm.suppression.new.v1.json"),
    include_str!("../../schemas/crm.suppression.remove.v1.json"),
    include_str!("../../schemas/crm.suppression.removed.v1.json"),
    include_str!("../../schemas/crm.class-stop.list.v1.json"),
    include_str!("../../schemas/crm.class-stop.lift.v1.json"),
];

pub(crate) fn routes() -> Routes<Arc<CrmState>> {
    suppressions::routes().merge(resend::routes())
}

/// Adds the tasks that accept returned mail, and the metrics.
pub(crate) fn tasks(service: Service, state: &Arc<CrmState>) -> Service {
    let (for_lmtp, for_maildir) = (state.clone(), state.clone());
    service
        .task("crm-lmtp", move |context| lmtp::listen(context, for_lmtp.clone()))
        .task("crm-bounce-maildir", move |context| maildir::read_maildir(context, for_maildir.clone()))
        .metrics(measure::describe)
}
