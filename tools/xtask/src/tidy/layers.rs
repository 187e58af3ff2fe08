//! Dependencies point down only. Development dependencies are exempt: tests may use higher layers.

use super::Finding;
use super::source::{SourceTree, TextFile};

/// The layers from bottom to top. A package may depend on packages of lower layers; `onceward-broker-*` matches all
/// brokers.
const LAYERS: &[&[&str]] = &[
    &[
        "onceward-envelope",
        "onceward-topology",
        "onceward-resilience",
        "onceward-supervisor",
        "onceward-money",
        "onceward-mail",
        "onceward-local-brokers",
        "onceward-local-postgres",
    ],
    &["onceward-db"],
    &["onceward-broker", "onceward-ledger", "onceward-audit", "onceward-outbound"],
    &["onceward-broker-*", "onceward-message-log", "onceward-rollout"],
    &["onceward-messaging"],
    &["onceward-web"],
    &["onceward"],
    &["onceward-cli"],
    &[
        "onceward-lending",
        "onceward-documents",
        "onceward-webhooks",
        "onceward-adoption",
        "onceward-surveys",
        "onceward-crm",
    ],
    &["onceward-bench", "onceward-browser", "onceward-testkit", "onceward-example-*", "signups"],
    &["onceward-server", "onceward-conformance", "xtask"],
];

/// Packages with fewer allowed dependencies than their layer permits.
const NARROW: &[(&str, &[&str])] = &[
    ("onceward-web", &["onceward-db", "onceward-envelope", "onceward-messaging", "onceward-supervisor"]),
    ("xtask", &["onceward-local-brokers", "onceward-local-postgres"]),
];

/// Packages for tests, each with the packages that may depend on it other than for their own tests.
const TEST_ONLY: &[(&str, &[&str])] =
    &[("onceward-testkit", &["onceward-conformance"]), ("onceward-conformance", &[]), ("onceward-browser", &[])];

/// Packages that have no dependencies outside this list, so that `cargo xtask` compiles in seconds.
const STD_ONLY: &[&str] = &["xtask", "onceward-local-brokers", "onceward-local-postgres"];

/// Packages that do no I/O, and the dependencies that would do it.
const WITHOUT_IO: &[&str] = &["onceward-envelope", "onceward-topology", "onceward-money"];
const DOES_IO: &[&str] = &["tokio", "tokio-postgres", "reqwest", "axum", "hyper"];

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    source.manifests().flat_map(check_manifest).collect()
}

/// Returns the layer of the package with this manifest, from the bottom.
pub(super) fn layer_of(manifest: &TextFile) -> Option<usize> {
    layer(package_name(manifest)?)
}

fn check_manifest(file: &TextFile) -> Vec<Finding> {
    let Some(package) = package_name(file) else {
        return vec![Finding::new(&file.path, 1, "add `[package]` with a `name`")];
    };
    let Some(own) = layer(package) else {
        let what = format!("`{package}` has no layer: add it to LAYERS in tools/xtask/src/tidy/layers.rs");
        return vec![Finding::new(&file.path, 1, what)];
    };
    let narrow = NARROW.iter().find(|(name, _)| *name == package).map(|(_, allowed)| *allowed);
    let mut findings = Vec::new();
    for (line, dependency) in dependencies(file) {
        findings.extend(promise_broken_by(package, dependency).map(|what| Finding::new(&file.path, line, what)));
        let Some(theirs) = layer(dependency) else {
            continue;
        };
        if narrow.is_some_and(|allowed| !allowed.contains(&dependency)) {
            let what =
                format!("`{package}` may only use {}, not `{dependency}`", narrow.unwrap_or_default().join(" and "));
            findings.push(Finding::new(&file.path, line, what));
        } else if theirs >= own {
            let what = format!(
                "`{dependency}` (layer {theirs}) is not below `{package}` (layer {own}): reverse the dependency"
            );
            findings.push(Finding::new(&file.path, line, what));
        }
    }
    findings
}

/// Returns which promise of ARCHITECTURE.md the dependency breaks, if any.
fn promise_broken_by(package: &str, dependency: &str) -> Option<String> {
    let test_only = TEST_ONLY.iter().find(|(name, _)| *name == dependency);
    if test_only.is_some_and(|(_, users)| !users.contains(&package)) {
        return Some(format!("`{dependency}` is for tests: move it to `[dev-dependencies]`"));
    }
    if STD_ONLY.contains(&package) && !STD_ONLY.contains(&dependency) {
        return Some(format!("`{package}` uses only std: do without `{dependency}`"));
    }
    let does_io = WITHOUT_IO.contains(&package) && DOES_IO.contains(&dependency);
    does_io.then(|| format!("`{package}` does no I/O: do without `{dependency}`"))
}

/// Returns a package's layer. An exact name takes precedence over a pattern.
fn layer(package: &str) -> Option<usize> {
    let matches = |pattern: &&str| pattern.strip_suffix('*').is_some_and(|prefix| package.starts_with(prefix));
    let own = LAYERS.iter().position(|layer| layer.contains(&package));
    own.or_else(|| LAYERS.iter().position(|layer| layer.iter().any(matches)))
}

fn package_name(file: &TextFile) -> Option<&str> {
    entries(file).find_map(|(section, _, line)| {
        let (key, value) = line.split_once('=')?;
        (section == "package" && key.trim() == "name").then(|| value.trim().trim_matches('"'))
    })
}

/// Returns the names under `[dependencies]` and `[build-dependencies]`, for any target, with their lines.
fn dependencies(file: &TextFile) -> impl Iterator<Item = (usize, &str)> {
    let wanted = |section: &str| section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
    let keys = entries(file).filter(move |(section, _, _)| wanted(section)).filter_map(|(_, number, line)| {
        let key = line.split(['=', '.']).next()?.trim();
        Some((number, key))
    });
    // `[dependencies.name]`
    let tables = file.lines().filter_map(|(number, line)| {
        let (_, name) = line.trim().strip_prefix('[')?.strip_suffix(']')?.split_once("dependencies.")?;
        (!line.contains("dev-dependencies") && !line.contains("workspace")).then_some((number, name))
    });
    keys.chain(tables)
}

/// Returns the lines that are neither empty, comment nor header, each with its section.
fn entries(file: &TextFile) -> impl Iterator<Item = (&str, usize, &str)> {
    let mut section = "";
    file.lines().filter_map(move |(number, line)| {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = header.trim_matches(['[', ']']);
            return None;
        }
        (!line.is_empty() && !line.starts_with('#')).then_some((section, number, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(manifest: &str) -> Vec<(usize, String)> {
        let source = SourceTree::of(&[("platform/x/Cargo.toml", manifest)]);
        check(&source).into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn a_dependency_on_a_higher_layer_is_found() {
        let found = findings("[package]\nname = \"onceward-db\"\n[dependencies]\nonceward-web.workspace = true\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 4);
        assert!(found[0].1.contains("reverse the dependency"), "{found:?}");
    }

    #[test]
    fn dependencies_on_lower_layers_and_development_dependencies_are_allowed() {
        let found = findings(
            "[package]\nname = \"onceward-messaging\"\n[dependencies]\nonceward-message-log = { path = \"..\" }\n\
             [dev-dependencies]\nonceward-testkit.workspace = true\n[dev-dependencies.onceward-server]\npath = \"..\"\n",
        );
        assert_eq!(found, []);
    }

    #[test]
    fn web_must_not_use_a_broker_although_it_is_a_lower_layer() {
        let found = findings("[package]\nname = \"onceward-web\"\n[dependencies.onceward-broker]\nworkspace = true\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].1.contains("may only use"), "{found:?}");
    }

    #[test]
    fn promises_about_dependencies_are_checked() {
        let depends = |package: &str, dependency: &str| {
            findings(&format!("[package]\nname = \"{package}\"\n[dependencies]\n{dependency}.workspace = true\n"))
        };
        assert!(depends("onceward-server", "onceward-testkit")[0].1.contains("is for tests"));
        assert_eq!(depends("onceward-conformance", "onceward-testkit"), []);
        assert!(depends("onceward-local-postgres", "anyhow")[0].1.contains("uses only std"));
        assert!(depends("onceward-envelope", "tokio")[0].1.contains("does no I/O"));
    }

    #[test]
    fn a_package_without_a_layer_is_found() {
        assert!(findings("[package]\nname = \"onceward-new\"\n")[0].1.contains("has no layer"));
    }
}
