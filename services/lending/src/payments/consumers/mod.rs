//! The consumers of payment messages. One file per queue: the message, its queue, and what happens to it.

pub(crate) mod on_allocate;
pub(crate) mod on_payment_event;
pub(crate) mod on_post;
pub(crate) mod on_process;
pub(crate) mod on_raw;
pub(crate) mod on_received;
pub(crate) mod on_validated;

use crate::Settings;
use crate::loans::store::ScheduleCache;
use onceward::Service;
use std::sync::Arc;

pub(crate) fn consumers(service: Service, settings: &Arc<Settings>) -> Service {
    let schedules = Arc::new(ScheduleCache::new());
    let consumers = [
        on_raw::consumer(settings),
        on_process::consumer(),
        on_received::consumer(settings),
        on_validated::consumer(settings, &schedules),
        on_post::consumer(settings, &schedules),
        on_allocate::consumer(&schedules),
        on_payment_event::consumer(),
    ];
    consumers.into_iter().fold(service, Service::consumer)
}
