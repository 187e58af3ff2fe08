//! Laying the file and the environment over the defaults.

use super::{Config, ConfigError, DEFAULT, Section};
use std::path::Path;
use toml::{Table, Value};

/// Names that the specification gives to settings of ours.
const SPECIFIED: &[(&str, &str, &str)] = &[
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
    env: impl Fn(&str) -> Option<String>,
) -> Result<Config, ConfigError> {
    let mut table: Table = DEFAULT.parse().expect("the default file is valid TOML");
    for section in sections {
        table.insert(section.name.to_owned(), Value::Table(section.table()));
    }
    let mut problems = Vec::new();
    if let Some(path) = file {
        match read(path) {
            Ok(given) => lay_over(&mut table, given, &mut problems),
            Err(problem) => problems.push(problem),
        }
    }
    for (section, settings) in &mut table {
        let Value::Table(settings) = settings else { continue };
        for (name, value) in settings {
            let own = format!("ONCEWARD_{}_{}", section.to_uppercase(), name.to_uppercase());
            for variable in specified(sections, section, name).chain([own.as_str()]) {
                if let Some(text) = env(variable) {
                    match parse(&text, value) {
                        Ok(parsed) => *value = parsed,
                        Err(problem) => problems.push(format!("{variable} {problem}")),
                    }
                }
            }
        }
    }
    if !problems.is_empty() {
        return Err(ConfigError(problems));
    }
    let services: Table =
        sections.iter().filter_map(|section| Some((section.name.to_owned(), table.remove(section.name)?))).collect();
    let config: Result<Config, toml::de::Error> = Value::Table(table).try_into();
    config.map(|config| Config { services, ..config }).map_err(|error| ConfigError(vec![error.message().to_owned()]))
}

/// The names that the specification gives to a setting.
fn specified<'a>(sections: &'a [Section], section: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let ours = SPECIFIED.iter().filter(move |(_, s, n)| *s == section && *n == name).map(|(env, _, _)| *env);
    let of_services = sections.iter().filter(move |declared| declared.name == section);
    ours.chain(
        of_services
            .flat_map(move |declared| declared.specified.iter().filter(move |(_, n)| *n == name).map(|(env, _)| *env)),
    )
}

fn read(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.parse().map_err(|error: toml::de::Error| format!("{}: {}", path.display(), error.message()))
}

fn lay_over(table: &mut Table, given: Table, problems: &mut Vec<String>) {
    for (section, settings) in given {
        let (Some(Value::Table(known)), Value::Table(settings)) = (table.get_mut(&section), settings) else {
            problems.push(format!("there is no section [{section}]"));
            continue;
        };
        for (name, value) in settings {
            match known.get_mut(&name) {
                Some(default) if default.same_type(&value) => *default = value,
                Some(default) => problems.push(format!("{section}.{name} must be a {}", default.type_str())),
                None => problems.push(format!("there is no setting {section}.{name}")),
            }
        }
    }
}

/// Reads an environment variable as the type its default has.
fn parse(text: &str, default: &Value) -> Result<Value, String> {
    match default {
        Value::Integer(_) => text
            .parse::<i64>()
            .ok()
            .filter(|number| *number >= 0)
            .map(Value::Integer)
            .ok_or_else(|| format!("must be a whole number of 0 or more, not \"{text}\"")),
        Value::Boolean(_) => match text {
            "true" | "1" => Ok(Value::Boolean(true)),
            "false" | "0" => Ok(Value::Boolean(false)),
            _ => Err("must be true or false (1 or 0)".to_owned()),
        },
        _ => Ok(Value::String(text.to_owned())),
    }
}
