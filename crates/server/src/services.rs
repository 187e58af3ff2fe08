//! Every service of the program, made from its settings.

use onceward::{Config, Section, Service, config::ConfigError};

/// The settings of the services.
pub const SECTIONS: &[Section] = &[onceward_lending::SECTION, onceward_documents::SECTION];

/// All of them.
pub fn services(config: &Config) -> Result<Vec<Service>, ConfigError> {
    Ok(vec![
        onceward_example_orders::service(),
        onceward_lending::service(config.section(&onceward_lending::SECTION)?),
        onceward_documents::service(config.section(&onceward_documents::SECTION)?),
    ])
}
