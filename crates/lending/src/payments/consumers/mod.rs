//! Who reads which queue: one subscription a file.

mod on_allocate;
mod on_event;
mod on_post;
mod on_process;
mod on_raw;
mod on_received;
mod on_validated;

use super::{
    commands::place::Schedules,
    events::{PaymentFailed, PaymentPosted, PaymentReposted, PaymentReturned, SuspenseAllocated},
};
use crate::Settings;
use on_event::OnFact;
use onceward::{Consumer, Service};
use std::sync::Arc;

pub(crate) fn consumers(service: Service, settings: &Arc<Settings>) -> Service {
    let schedules = Arc::new(Schedules::default());
    let poster = Consumer::transactional("post-payments", "q.payments.validated")
        .prefetch(settings.poster_batch)
        .concurrency(settings.poster_concurrency)
        .on_batch(on_validated::OnValidated { schedules: schedules.clone() });
    let validator = Consumer::transactional("validate-payments", "q.payments.received")
        .on_batch(on_received::OnReceived { settings: settings.clone() });
    let reposter = Consumer::transactional("repost-payments", "q.payments.post")
        .prefetch(settings.poster_batch)
        .on(on_post::OnPost { schedules: schedules.clone() });
    let audit = Consumer::transactional("audit-payments", "q.payments.events.audit")
        .on_batch(OnFact::<PaymentPosted>::new())
        .on_batch(OnFact::<PaymentFailed>::new())
        .on_batch(OnFact::<PaymentReturned>::new())
        .on_batch(OnFact::<PaymentReposted>::new())
        .on_batch(OnFact::<SuspenseAllocated>::new());
    service
        .consumer(Consumer::transactional("take-payments-in", "q.payments.intake").on_batch(on_raw::OnRaw))
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
