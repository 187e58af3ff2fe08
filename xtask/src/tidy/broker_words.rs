//! A broker's words stay in its transport: everybody else speaks of topics, queues and deliveries.

use super::Finding;
use super::source::Source;

const WORDS: &[&str] = &["basic_publish", "exchange_declare", "XADD", "XREADGROUP", "rdkafka", "lapin"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &source.files {
        let code = file.path.ends_with(".rs") || file.path.ends_with("/Cargo.toml");
        let transport = file.path.starts_with("crates/transport-");
        // This very file names the words.
        if !code || transport || file.path.starts_with("xtask/") {
            continue;
        }
        for (number, line) in file.lines() {
            let found = WORDS.iter().filter(|word| line.contains(**word));
            findings.extend(found.map(|word| {
                Finding::new(
                    &file.path,
                    number,
                    format!("`{word}` belongs to one broker: say it in its transport-* crate"),
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
    fn a_brokers_word_is_fine_in_its_transport_only() {
        let text = "lapin = \"4\"\n";
        let files = [("crates/transport-rabbitmq/Cargo.toml", text), ("crates/messaging/Cargo.toml", text)];
        let found = check(&Source::of(&files));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "crates/messaging/Cargo.toml");
    }
}
