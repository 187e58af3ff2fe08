//! A broker's terms stay in its crate: all other code refers to topics, queues and deliveries.

use super::Finding;
use super::source::SourceTree;

const WORDS: &[&str] = &["basic_publish", "exchange_declare", "XADD", "XREADGROUP", "rdkafka", "lapin"];

pub(super) fn check(source: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &source.files {
        let code = file.path.ends_with(".rs") || file.path.ends_with("/Cargo.toml");
        let adapter = file.path.starts_with("platform/broker-");
        // This file itself contains the words.
        if !code || adapter || file.path.starts_with("tools/xtask/") {
            continue;
        }
        for (number, line) in file.lines() {
            let found = WORDS.iter().filter(|word| line.contains(**word));
            findings.extend(found.map(|word| {
                Finding::new(
                    &file.path,
                    number,
                    format!("`{word}` belongs to one broker: use it only in its broker-* crate"),
                )
            }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brokers_word_is_allowed_in_its_own_crate_only() {
        let text = "lapin = \"4\"\n";
        let files = [("platform/broker-rabbitmq/Cargo.toml", text), ("platform/messaging/Cargo.toml", text)];
        let found = check(&SourceTree::of(&files));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "platform/messaging/Cargo.toml");
    }
}
