//! Every service of the program, created from its settings.

use onceward::{Config, Section, Service, config::ConfigError};
use onceward_webhooks::EventSource;

/// The settings of the services.
pub const SECTIONS: &[Section] = &[
    onceward_lending::SECTION,
    onceward_documents::SECTION,
    onceward_surveys::SECTION,
    onceward_webhooks::SECTION,
    onceward_crm::SECTION,
];

/// Creates all services. Fails if the settings of a section are invalid.
pub fn services(config: &Config) -> Result<Vec<Service>, ConfigError> {
    Ok(vec![
        onceward_example_orders::service(),
        onceward_lending::service(config.section(&onceward_lending::SECTION)?),
        onceward_documents::service(config.section(&onceward_documents::SECTION)?),
        surveys(config)?,
        webhooks(config)?,
        crm(config)?,
    ])
}

/// Respondents' tokens are signed with a secret of their own, or with one derived from the platform's.
fn surveys(config: &Config) -> Result<Service, ConfigError> {
    let settings: onceward_surveys::Settings = config.section(&onceward_surveys::SECTION)?;
    Ok(onceward_surveys::service(settings.or_derived_from(&config.auth.secret)))
}

/// Endpoints' secrets are encrypted with a key of their own, or with one derived from the platform's.
fn webhooks(config: &Config) -> Result<Service, ConfigError> {
    let settings: onceward_webhooks::Settings = config.section(&onceward_webhooks::SECTION)?;
    Ok(onceward_webhooks::service(settings.or_derived_from(&config.auth.secret), webhook_sources()))
}

/// Artifacts, links and return paths are protected by a key of their own, or by one derived from the platform's.
fn crm(config: &Config) -> Result<Service, ConfigError> {
    let settings: onceward_crm::Settings = config.section(&onceward_crm::SECTION)?;
    Ok(onceward_crm::service(settings.or_derived_from(&config.auth.secret)))
}

/// Returns the events that tenants can subscribe to with webhooks.
pub fn webhook_sources() -> Vec<EventSource> {
    use onceward_crm::topology::NOTIFICATIONS;
    use onceward_lending::topology::exchanges::PAYMENT_EVENTS;
    use onceward_surveys::topology::{ANSWERS, COLLECTORS, QUOTA, SESSIONS};
    vec![
        EventSource::new(SESSIONS, "#").types(&[
            "session.started.v1",
            "session.completed.v1",
            "session.terminated.v1",
            "session.erased.v1",
        ]),
        EventSource::new(ANSWERS, "#").types(&["answer.upserted.v1"]),
        EventSource::new(QUOTA, "#").types(&[
            "quota.reserved.v1",
            "quota.released.v1",
            "quota.finalized.v1",
            "quota.bucket_closed.v1",
        ]),
        EventSource::new(COLLECTORS, "#").types(&[
            "collector.opened.v1",
            "collector.paused.v1",
            "collector.closed.v1",
            "invite.consumed.v1",
        ]),
        EventSource::new(PAYMENT_EVENTS, "payment.#").types(&[
            "payment.posted.v1",
            "payment.failed.v1",
            "payment.returned.v1",
            "payment.reposted.v1",
            "payment.revalidated.v1",
            "payment.moved.v1",
            "payment.refunded.v1",
            "payment.allocated.v1",
            "payment.suspense_refunded.v1",
        ]),
        EventSource::new(NOTIFICATIONS, "crm.email.*.v1").types(&[
            "crm.email.sent.v1",
            "crm.email.failed.v1",
            "crm.email.suppressed.v1",
        ]),
    ]
}
