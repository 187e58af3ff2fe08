//! Settings of a service: a section of its own beside the platform's.

use super::{Config, ConfigError};
use serde::de::DeserializeOwned;
use toml::Table;

/// A service's section, declared by the service. A commented default file *is* the default, as the platform's is.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name in the settings file; `ONCEWARD_<NAME>_<SETTING>` overrides a setting.
    pub name: &'static str,
    /// TOML with every setting and its default.
    pub defaults: &'static str,
    /// Other names of environment variables, given by the specification: (variable, setting).
    pub specified: &'static [(&'static str, &'static str)],
}

impl Section {
    /// The defaults as the service's own type.
    ///
    /// # Panics
    /// When the default file does not fit the type, which is a mistake in the service.
    pub fn default<T: DeserializeOwned>(&self) -> T {
        let table = self.table();
        table.try_into().unwrap_or_else(|error| panic!("the default settings of {}: {error}", self.name))
    }

    pub(super) fn table(&self) -> Table {
        self.defaults.parse().unwrap_or_else(|error| panic!("the default settings of {}: {error}", self.name))
    }
}

impl Config {
    /// The settings of a service, as its own type.
    pub fn section<T: DeserializeOwned>(&self, section: &Section) -> Result<T, ConfigError> {
        let table = self.services.get(section.name).and_then(|value| value.as_table()).cloned();
        let table = table.unwrap_or_else(|| section.table());
        table.try_into().map_err(|error: toml::de::Error| {
            ConfigError(vec![format!("section [{}]: {}", section.name, error.message())])
        })
    }
}
