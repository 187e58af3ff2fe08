//! Settings of a service: its own section beside the platform's.

use super::{Config, ConfigError};
use serde::de::DeserializeOwned;
use toml::Table;

/// The section of a service, which the service declares. Its commented default file *is* the default, like the platform's.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name in the settings file; `ONCEWARD_<NAME>_<SETTING>` overrides a setting.
    pub name: &'static str,
    /// TOML with every setting and its default.
    pub defaults: &'static str,
    /// Additional environment variables, for compatibility with existing deployments: (variable, setting).
    pub env_aliases: &'static [(&'static str, &'static str)],
    /// Settings that `onceward up` changes for demonstrations, unless the file or the environment sets them: (setting, value).
    /// Every other command uses the default.
    pub demo: &'static [(&'static str, bool)],
    /// Returns the problems with the section's values: [`problems_of`] the service's own type.
    pub check: fn(&Config, &Section) -> Vec<String>,
}

/// The settings of a service, which know the valid ranges of their values.
pub trait ServiceSettings: DeserializeOwned {
    /// Returns one sentence for each invalid value: the setting with its section, and what it must be.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Returns the problems with a section's values: they do not fit the type `T`, or are out of its ranges.
pub fn problems_of<T: ServiceSettings>(config: &Config, section: &Section) -> Vec<String> {
    match config.section::<T>(section) {
        Ok(settings) => settings.problems(),
        Err(ConfigError(problems)) => problems,
    }
}

/// Returns the sentences of those `rules` that are false: `(holds, sentence)`.
pub fn violations(rules: &[(bool, &str)]) -> Vec<String> {
    rules.iter().filter(|(holds, _)| !holds).map(|(_, rule)| (*rule).to_owned()).collect()
}

impl Section {
    /// Returns the defaults as the service's own type.
    ///
    /// # Panics
    /// Panics if the default file does not fit the type, which is a mistake in the service.
    pub fn default<T: DeserializeOwned>(&self) -> T {
        let table = self.table();
        table.try_into().unwrap_or_else(|error| panic!("the default settings of {} are invalid: {error}", self.name))
    }

    pub(super) fn table(&self) -> Table {
        self.defaults
            .parse()
            .unwrap_or_else(|error| panic!("the default settings of {} are invalid: {error}", self.name))
    }

    /// Returns the defaults with the demonstration switches applied.
    pub(super) fn demo_table(&self) -> Table {
        let mut table = self.table();
        for (setting, value) in self.demo {
            table.insert((*setting).to_owned(), (*value).into());
        }
        table
    }
}

impl Config {
    /// Returns the switches of `sections` that have the values of the demonstration.
    pub(super) fn demo_switches(&self, sections: &[Section]) -> Vec<String> {
        let switches = sections.iter().flat_map(|section| section.demo.iter().map(move |switch| (section, switch)));
        let set = switches.filter(|(section, (name, value))| {
            let found = self.services.get(section.name).and_then(|settings| settings.get(*name)?.as_bool());
            found == Some(*value)
        });
        set.map(|(section, (name, value))| format!("{}.{name} = {value}", section.name)).collect()
    }

    /// Returns the settings of a service as its own type. Fails if they do not fit it.
    pub fn section<T: DeserializeOwned>(&self, section: &Section) -> Result<T, ConfigError> {
        let table = self.services.get(section.name).and_then(|value| value.as_table()).cloned();
        let table = table.unwrap_or_else(|| section.table());
        table.try_into().map_err(|error: toml::de::Error| {
            ConfigError(vec![format!("section [{}]: {}", section.name, error.message())])
        })
    }
}
