//! The consumers of payment messages, one per file.

mod on_allocate;
mod on_payment_event;
mod on_post;
mod on_process;
mod on_raw;
mod on_received;
mod on_validated;

use super::events::{
    PaymentFailed, PaymentMoved, PaymentPosted, PaymentRefunded, PaymentReposted, PaymentReturned, PaymentRevalidated,
    SuspenseAllocated, SuspenseRefunded,
};
use crate::loans::store::ScheduleCache;
use crate::{Settings, topology::queues};
use on_payment_event::OnPaymentEvent;
use onceward::{Consumer, Service};
use std::sync::Arc;

pub(crate) fn consumers(service: Service, settings: &Arc<Settings>) -> Service {
    let schedules = Arc::new(ScheduleCache::new());
    let intake = Consumer::transactional("take-payments-in", queues::PAYMENT_INTAKE)
        .on_batch(on_raw::OnRawPayment { settings: settings.clone() });
    let direct = Consumer::transactional("process-payments", queues::PAYMENT_PROCESS).on(on_process::OnProcessPayment);
    let validator = Consumer::transactional("validate-payments", queues::PAYMENT_RECEIVED)
        .on_batch(on_received::OnPaymentReceived { settings: settings.clone() });
    let poster = Consumer::transactional("post-payments", queues::PAYMENT_VALIDATED)
        .prefetch(settings.poster_batch)
        .concurrency(settings.posters())
        .on_batch(on_validated::OnPaymentValidated { schedules: schedules.clone() });
    let requests = Consumer::transactional("repost-payments", queues::PAYMENT_POST)
        .prefetch(settings.poster_batch)
        .on(on_post::OnPostPayment { schedules: schedules.clone(), settings: settings.clone() });
    let allocations = Consumer::transactional("allocate-suspense", queues::PAYMENT_ALLOCATE)
        .on(on_allocate::OnAllocateSuspense { schedules });
    let audit = Consumer::transactional("audit-payments", queues::PAYMENT_AUDIT)
        .on_batch(OnPaymentEvent::<PaymentPosted>::new())
        .on_batch(OnPaymentEvent::<PaymentFailed>::new())
        .on_batch(OnPaymentEvent::<PaymentReturned>::new())
        .on_batch(OnPaymentEvent::<PaymentReposted>::new())
        .on_batch(OnPaymentEvent::<SuspenseAllocated>::new())
        .on_batch(OnPaymentEvent::<SuspenseRefunded>::new())
        .on_batch(OnPaymentEvent::<PaymentRevalidated>::new())
        .on_batch(OnPaymentEvent::<PaymentMoved>::new())
        .on_batch(OnPaymentEvent::<PaymentRefunded>::new());
    [intake, direct, validator, poster, requests, allocations, audit].into_iter().fold(service, Service::consumer)
}
