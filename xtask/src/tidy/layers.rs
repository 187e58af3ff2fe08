//! Dependencies point down only. Development dependencies are free: tests may look from above.

use super::Finding;
use super::source::{Source, TextFile};

/// From the bottom to the top. A package may depend on packages of lower layers; `transport-` stands for all brokers.
const LAYERS: &[&[&str]] = &[
    &[
        "onceward-envelope",
        "onceward-topology",
        "onceward-resilience",
        "onceward-money",
        "onceward-local-brokers",
        "onceward-local-postgres",
    ],
    &["onceward-db", "onceward-trace"],
    &["onceward-transport", "onceward-ledger", "onceward-audit"],
    &["onceward-transport-*"],
    &["onceward-messaging"],
    &["onceward-web"],
    &["onceward"],
    &["onceward-lending", "onceward-documents", "onceward-webhooks", "onceward-adoption", "onceward-surveys"],
    &["onceward-bench", "onceward-browser", "onceward-testkit", "onceward-example-*"],
    &["onceward-server", "onceward-transport-conformance", "xtask"],
];

/// Packages that may use less than their layer would allow.
const NARROW: &[(&str, &[&str])] = &[
    ("onceward-web", &["onceward-db", "onceward-envelope", "onceward-messaging", "onceward-trace"]),
    ("xtask", &["onceward-local-brokers", "onceward-local-postgres"]),
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    source.manifests().flat_map(check_manifest).collect()
}

fn check_manifest(file: &TextFile) -> Vec<Finding> {
    let Some(package) = package_name(file) else {
        return vec![Finding::new(&file.path, 1, "give it a `[package]` with a `name`")];
    };
    let Some(own) = layer(package) else {
        let what = format!("`{package}` has no layer: add it to LAYERS in xtask/src/tidy/layers.rs");
        return vec![Finding::new(&file.path, 1, what)];
    };
    let narrow = NARROW.iter().find(|(name, _)| *name == package).map(|(_, allowed)| *allowed);
    let mut findings = Vec::new();
    for (line, dependency) in dependencies(file) {
        let Some(theirs) = layer(dependency) else {
            continue;
        };
        if narrow.is_some_and(|allowed| !allowed.contains(&dependency)) {
            let what =
                format!("`{package}` may only use {}, not `{dependency}`", narrow.unwrap_or_default().join(" and "));
            findings.push(Finding::new(&file.path, line, what));
        } else if theirs >= own {
            let what = format!("`{dependency}` (layer {theirs}) is not below `{package}` (layer {own}): turn it round");
            findings.push(Finding::new(&file.path, line, what));
        }
    }
    findings
}

/// A package's own line counts before one that stands for many.
fn layer(package: &str) -> Option<usize> {
    let stands_for = |pattern: &&str| pattern.strip_suffix('*').is_some_and(|prefix| package.starts_with(prefix));
    let own = LAYERS.iter().position(|layer| layer.contains(&package));
    own.or_else(|| LAYERS.iter().position(|layer| layer.iter().any(stands_for)))
}

fn package_name(file: &TextFile) -> Option<&str> {
    entries(file).find_map(|(section, _, line)| {
        let (key, value) = line.split_once('=')?;
        (section == "package" && key.trim() == "name").then(|| value.trim().trim_matches('"'))
    })
}

/// Names under `[dependencies]` and `[build-dependencies]`, for any target, with their lines.
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

/// Lines that are neither empty, comment nor header, each with its section.
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
        let source = Source::of(&[("crates/x/Cargo.toml", manifest)]);
        check(&source).into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let found = findings("[package]\nname = \"onceward-db\"\n[dependencies]\nonceward-web.workspace = true\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 4);
        assert!(found[0].1.contains("turn it round"), "{found:?}");
    }

    #[test]
    fn arrows_that_point_down_and_development_dependencies_are_fine() {
        let found = findings(
            "[package]\nname = \"onceward-messaging\"\n[dependencies]\nonceward-transport-postgres = { path = \"..\" }\n\
             [dev-dependencies]\nonceward-testkit.workspace = true\n[dev-dependencies.onceward-server]\npath = \"..\"\n",
        );
        assert_eq!(found, []);
    }

    #[test]
    fn web_may_not_use_a_transport_though_it_is_below() {
        let found =
            findings("[package]\nname = \"onceward-web\"\n[dependencies.onceward-transport]\nworkspace = true\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].1.contains("may only use"), "{found:?}");
    }

    #[test]
    fn a_package_without_a_layer_is_found() {
        assert!(findings("[package]\nname = \"onceward-new\"\n")[0].1.contains("has no layer"));
    }
}
