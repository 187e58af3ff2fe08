//! Merges the file and the environment over the defaults.

use super::{Config, ConfigError, DEFAULT, Section, unknown_variables};
use std::path::Path;
use toml::{Table, Value};

/// Environment variables of platform settings whose names are fixed for compatibility with existing deployments.
const ENV_ALIASES: &[(&str, &str, &str)] = &[
    ("DATABASE_URL", "database", "url"),
    ("BROKER_URL", "bus", "url"),
    ("BROKER_URL_FILE", "bus", "url_file"),
    ("OUTBOX_DISPATCH_INTERVAL_MS", "bus", "poll_ms"),
    ("OUTBOX_DISPATCH_BATCH", "bus", "relay_batch"),
    ("RABBIT_PREFETCH", "bus", "prefetch"),
];

pub(super) fn merge(
    file: Option<&Path>,
    sections: &[Section],
    defaults: fn(&Section) -> Table,
    names: &[String],
    env: impl Fn(&str) -> Option<String>,
) -> Result<Config, ConfigError> {
    let mut table: Table = DEFAULT.parse().expect("the default file is valid TOML");
    for section in sections {
        table.insert(section.name.to_owned(), Value::Table(defaults(section)));
    }
    let (mut problems, mut known) = (Vec::new(), Vec::new());
    if let Some(path) = file {
        match read(path) {
            Ok(given) => apply_file(&mut table, given, &mut problems),
            Err(problem) => problems.push(problem),
        }
    }
    for (section, settings) in &mut table {
        let Value::Table(settings) = settings else { continue };
        for (name, value) in settings {
            let own = format!("ONCEWARD_{}_{}", section.to_uppercase(), name.to_uppercase());
            known.push(own.clone());
            for variable in env_aliases(sections, section, name).chain([own.as_str()]) {
                if let Some(text) = env(variable) {
                    match parse(&text, value) {
                        Ok(parsed) => *value = parsed,
                        Err(problem) => problems.push(format!("{variable} {problem}")),
                    }
                }
            }
        }
    }
    problems.extend(unknown_variables::problems(names, &known));
    if !problems.is_empty() {
        return Err(ConfigError(problems));
    }
    let services: Table =
        sections.iter().filter_map(|section| Some((section.name.to_owned(), table.remove(section.name)?))).collect();
    let config: Result<Config, toml::de::Error> = Value::Table(table).try_into();
    config.map(|config| Config { services, ..config }).map_err(|error| ConfigError(vec![error.message().to_owned()]))
}

/// Returns the additional environment variable names of a setting.
fn env_aliases<'a>(sections: &'a [Section], section: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let ours = ENV_ALIASES.iter().filter(move |(_, s, n)| *s == section && *n == name).map(|(env, _, _)| *env);
    let of_services = sections.iter().filter(move |declared| declared.name == section);
    ours.chain(
        of_services.flat_map(move |declared| {
            declared.env_aliases.iter().filter(move |(_, n)| *n == name).map(|(env, _)| *env)
        }),
    )
}

fn read(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.parse().map_err(|error: toml::de::Error| format!("{}: {}", path.display(), error.message()))
}

fn apply_file(table: &mut Table, given: Table, problems: &mut Vec<String>) {
    for (section, settings) in given {
        let (Some(Value::Table(known)), Value::Table(settings)) = (table.get_mut(&section), settings) else {
            problems.push(format!("there is no section [{section}]; see the default file for the sections"));
            continue;
        };
        for (name, value) in settings {
            match known.get_mut(&name) {
                Some(default) if default.same_type(&value) => *default = value,
                Some(default) => problems.push(format!("{section}.{name} must be a {}", default.type_str())),
                None => problems
                    .push(format!("there is no setting {section}.{name}; see the default file for the settings")),
            }
        }
    }
}

/// Parses an environment variable as the type of the setting's default.
fn parse(text: &str, default: &Value) -> Result<Value, String> {
    match default {
        Value::Integer(_) => text
            .parse::<i64>()
            .ok()
            .filter(|number| *number >= 0)
            .map(Value::Integer)
            .ok_or_else(|| format!("must be a whole number, 0 or more, not \"{text}\"")),
        Value::Boolean(_) => match text {
            "true" | "1" => Ok(Value::Boolean(true)),
            "false" | "0" => Ok(Value::Boolean(false)),
            _ => Err("must be true or false (1 or 0)".to_owned()),
        },
        Value::Array(_) => {
            let parts = text.split([',', ' ', '\t', '\n']).filter(|part| !part.is_empty());
            Ok(Value::Array(parts.map(|part| Value::String(part.to_owned())).collect()))
        }
        _ => Ok(Value::String(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[test]
    fn a_list_is_read_from_the_environment() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Settings {
            trusted_proxies: Vec<String>,
        }
        let section = Section {
            name: "surveys",
            defaults: "trusted_proxies = []",
            env_aliases: &[],
            demo: &[],
            check: |_, _| Vec::new(),
        };
        let load = |text: &'static str| {
            let env = |name: &str| (name == "ONCEWARD_SURVEYS_TRUSTED_PROXIES").then(|| text.to_owned());
            Config::load_with(None, &[section], env).unwrap().section::<Settings>(&section).unwrap().trusted_proxies
        };
        assert_eq!(load("10.0.0.0/8, 192.168.0.1 ::1"), ["10.0.0.0/8", "192.168.0.1", "::1"]);
        assert!(load(" ").is_empty());
    }
}
