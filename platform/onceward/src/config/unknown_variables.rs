//! Reports environment variables with our prefix that name no setting, because they are most likely misspelt.

use crate::closest_match;
use std::collections::BTreeSet;

const PREFIX: &str = "ONCEWARD_";
/// Variables read outside the settings: by the command line, the search for server programs, benchmarks and tests.
const OTHERS: &[&str] = &[
    "ONCEWARD_CONFIG",
    "ONCEWARD_DATA",
    "ONCEWARD_PG_BIN",
    "ONCEWARD_KAFKA_HOME",
    "ONCEWARD_WITHOUT",
    "ONCEWARD_SEED",
    "ONCEWARD_REPLAY",
    "ONCEWARD_KILLS",
    "ONCEWARD_OUTAGE_S",
    "ONCEWARD_OVERFILL_S",
    "ONCEWARD_PLUG_S",
];
const OTHER_PREFIXES: &[&str] = &["ONCEWARD_TEST_", "ONCEWARD_BENCH_", "ONCEWARD_MODEL_"];

/// Returns a sentence for each of `names` that has our prefix and is not in `known`.
pub(super) fn problems(names: &[String], known: &[String]) -> Vec<String> {
    let hosts: BTreeSet<&str> = names.iter().filter_map(|name| name.strip_suffix("_SERVICE_HOST")).collect();
    let prefixed = names.iter().map(String::as_str).filter(|name| name.starts_with(PREFIX));
    let unknown = prefixed.filter(|name| {
        !known.iter().any(|known| known == name)
            && !OTHERS.contains(name)
            && !OTHER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            && !set_by_kubernetes(name, &hosts)
    });
    let mut sentences: Vec<String> = unknown.map(|name| sentence(name, known)).collect();
    sentences.sort();
    sentences
}

fn sentence(name: &str, known: &[String]) -> String {
    let candidates = known.iter().map(String::as_str).chain(OTHERS.iter().take(2).copied());
    match closest_match(name, candidates) {
        Some(meant) => format!("{name} is not a setting; did you mean {meant}?"),
        None => format!("{name} is not a setting; unset it, or see the default file for the settings"),
    }
}

/// Whether Kubernetes set this variable. It sets some for every service that exists when a container starts, and one of
/// these may be called onceward.
fn set_by_kubernetes(name: &str, hosts: &BTreeSet<&str>) -> bool {
    hosts.iter().any(|host| {
        name.strip_prefix(host)
            .is_some_and(|rest| rest.starts_with("_SERVICE_") || rest == "_PORT" || rest.starts_with("_PORT_"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, config::Section};

    fn check(names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        problems(&names, &["ONCEWARD_HTTP_LISTEN".to_owned(), "ONCEWARD_WEBHOOKS_ALLOW_HTTP".to_owned()])
    }

    #[test]
    fn all_misspelt_variables_are_reported_with_a_suggestion() {
        let found = check(&["ONCEWARD_WEBHOOKS_ALLOW_HTTPS", "ONCEWARD_NONSENSE", "ONCEWARD_HTTP_LISTEN", "PATH"]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("ONCEWARD_NONSENSE is not a setting; unset it"), "{found:?}");
        assert!(found[1].ends_with("did you mean ONCEWARD_WEBHOOKS_ALLOW_HTTP?"), "{found:?}");
    }

    #[test]
    fn variables_of_tests_tools_and_kubernetes_are_ignored() {
        let others = ["ONCEWARD_DATA", "ONCEWARD_TEST_DATABASE_URL", "ONCEWARD_PG_BIN"];
        assert!(check(&others).is_empty());
        let injected = ["ONCEWARD_SERVICE_HOST", "ONCEWARD_SERVICE_PORT_HTTP", "ONCEWARD_PORT", "ONCEWARD_PORT_80_TCP"];
        assert!(check(&injected).is_empty());
        assert_eq!(check(&injected[1..]).len(), 3, "without a service of that name they are unknown");
    }

    #[test]
    fn misspelt_variables_are_reported_together_with_other_problems() {
        let names = ["ONCEWARD_HTTP_LISTN", "ONCEWARD_BUS_POLL_MS"].map(str::to_owned);
        let env = |name: &str| (name == "ONCEWARD_BUS_POLL_MS").then(|| "often".to_owned());
        let problems = Config::load_from(None, &[], Section::table, &names, env).unwrap_err().0;
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[1].contains("did you mean ONCEWARD_HTTP_LISTEN?"), "{problems:?}");
    }
}
