//! Who reads which queue: one subscription a file.

mod on_allocate;
mod on_event;
mod on_post;
mod on_process;
mod on_raw;
mod on_received;
mod on_validated;

use super::commands::place::Schedules;
use crate::Settings;
use onceward::{Consumer, Service};
use std::sync::Arc;

pub(crate) fn consumers(service: Service, settings: &Arc<Settings>) -> Service {
    let schedules = Arc::new(Schedules::default());
    let poster = Consumer::transactional("post-payments", "q.payments.validated")
        .prefetch(settings.poster_batch)
        .concurrency(settings.poster_concurrency)
        .on(on_validated::OnValidated { schedules: schedules.clone() });
    let validator = Consumer::transactional("validate-payments", "q.payments.received")
        .on(on_received::OnReceived { settings: settings.clone() });
    let reposter = Consumer::transactional("repost-payments", "q.payments.post")
        .prefetch(settings.poster_batch)
        .on(on_post::OnPost { schedules: schedules.clone() });
    let audit = Consumer::transactional("audit-payments", "q.payments.events.audit")
        .on(on_event::OnPosted)
        .on(on_event::OnFailed)
        .on(on_event::OnReturned)
        .on(on_event::OnReposted)
        .on(on_event::OnAllocated);
    service
        .consumer(Consumer::transactional("take-payments-in", "q.payments.intake").on(on_raw::OnRaw))
        .consumer(Consumer::transactional("process-payments", "payment.process.v1").on(on_process::OnProcess))
        .consumer(validator)
        .consumer(poster)
        .consumer(reposter)
        .consumer(
            Consumer::transactional("allocate-suspense", "payment.allocate.v1")
                .on(on_allocate::OnAllocate { schedules }),
        )
        .consumer(audit)
}
