//! Every service of the program, made from its settings.

use onceward::{Config, Section, Service, config::ConfigError};
use onceward_webhooks::Source;

/// The settings of the services.
pub const SECTIONS: &[Section] = &[onceward_lending::SECTION, onceward_documents::SECTION, onceward_webhooks::SECTION];

/// All of them.
pub fn services(config: &Config) -> Result<Vec<Service>, ConfigError> {
    Ok(vec![
        onceward_example_orders::service(),
        onceward_lending::service(config.section(&onceward_lending::SECTION)?),
        onceward_documents::service(config.section(&onceward_documents::SECTION)?),
        onceward_webhooks::service(config.section(&onceward_webhooks::SECTION)?, webhook_sources()),
    ])
}

/// What tenants' own programs may be told.
fn webhook_sources() -> Vec<Source> {
    vec![Source::new("payments.events", "payment.#")]
}
