//! Every service of the program, made from its settings.

use onceward::{Config, Section, Service, config::ConfigError};
use onceward_webhooks::Source;

/// The settings of the services.
pub const SECTIONS: &[Section] =
    &[onceward_lending::SECTION, onceward_documents::SECTION, onceward_surveys::SECTION, onceward_webhooks::SECTION];

/// All of them.
pub fn services(config: &Config) -> Result<Vec<Service>, ConfigError> {
    Ok(vec![
        onceward_example_orders::service(),
        onceward_lending::service(config.section(&onceward_lending::SECTION)?),
        onceward_documents::service(config.section(&onceward_documents::SECTION)?),
        surveys(config)?,
        webhooks(config)?,
    ])
}

/// Respondents' tokens are signed with a secret of their own, or with one made from the platform's.
fn surveys(config: &Config) -> Result<Service, ConfigError> {
    let settings: onceward_surveys::Settings = config.section(&onceward_surveys::SECTION)?;
    Ok(onceward_surveys::service(settings.or_derived_from(&config.auth.secret)))
}

/// Endpoints' secrets are encrypted with a key of their own, or with one made from the platform's.
fn webhooks(config: &Config) -> Result<Service, ConfigError> {
    let settings: onceward_webhooks::Settings = config.section(&onceward_webhooks::SECTION)?;
    Ok(onceward_webhooks::service(settings.or_derived_from(&config.auth.secret), webhook_sources()))
}

/// What tenants' own programs may be told.
fn webhook_sources() -> Vec<Source> {
    use onceward_surveys::topology::{ANSWERS, COLLECTORS, QUOTA, SESSIONS};
    let payments = Source::new("payments.events", "payment.#");
    [SESSIONS, ANSWERS, QUOTA, COLLECTORS].map(|topic| Source::new(topic, "#")).into_iter().chain([payments]).collect()
}
