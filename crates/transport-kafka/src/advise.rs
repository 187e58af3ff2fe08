//! What an operator should know about this Kafka.

use crate::{KafkaBroker, admin::Admin};
use onceward_topology::Topology;
use onceward_transport::BrokerError;
use std::collections::{BTreeMap, HashMap};

const WEEK_MS: i64 = 7 * 24 * 60 * 60 * 1000;
const WEEK_MINUTES: i64 = WEEK_MS / 60_000;

impl KafkaBroker {
    pub(crate) async fn advice(&self) -> Result<Vec<String>, BrokerError> {
        let topology = self.topology.clone();
        self.admin(move |admin| advise(admin, &topology)).await
    }
}

fn advise(admin: &Admin, topology: &Topology) -> Result<Vec<String>, BrokerError> {
    let mut advice = Vec::new();
    if admin.shows_its_password {
        advice.push("The password of the bus travels unencrypted: use tls=true in its URL.".to_owned());
    }
    if let Some(server) = admin.server()? {
        advice.extend(about_server(&admin.server_settings(server)?));
    }
    // The same sentence is said once, for all topics it is true of.
    let mut about_topics: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for exchange in &topology.exchanges {
        let Some(copies) = admin.partitions(&exchange.name)? else {
            continue;
        };
        let copies = copies.into_iter().min().unwrap_or(0);
        for sentence in about_topic(copies, &admin.topic_settings(&exchange.name)?) {
            about_topics.entry(sentence).or_default().push(&exchange.name);
        }
    }
    advice.extend(about_topics.iter().map(|(sentence, topics)| format!("{sentence} Topics: {}.", topics.join(", "))));
    Ok(advice)
}

fn about_server(settings: &HashMap<String, String>) -> Option<String> {
    let minutes = number(settings, "offsets.retention.minutes")?;
    (minutes < WEEK_MINUTES).then(|| {
        format!(
            "Kafka forgets after {minutes} minutes how far a queue was read that nobody reads (offsets.retention.minutes); \
             it is then read again from where it was declared: keep it a week at least."
        )
    })
}

fn about_topic(copies: usize, settings: &HashMap<String, String>) -> Vec<&'static str> {
    let mut advice = Vec::new();
    if copies < 2 {
        advice.push(
            "There is one copy of each message, and it is lost with its server: use three servers, and replication=3 in \
             the bus URL before topics are declared.",
        );
    }
    if copies >= 3 && number(settings, "min.insync.replicas").is_some_and(|least| least < 2) {
        advice.push(
            "A message counts as kept when one server has it: set min.insync.replicas to 2, so that losing a server loses \
             nothing.",
        );
    }
    if settings.get("unclean.leader.election.enable").is_some_and(|value| value == "true") {
        advice.push(
            "A server that missed messages may become the leader, and they are lost: set unclean.leader.election.enable to \
             false.",
        );
    }
    let short = |setting, week| number(settings, setting).is_some_and(|limit| (0..week).contains(&limit));
    if short("retention.ms", WEEK_MS) {
        advice.push(
            "Messages are deleted in less than a week, read or not: set retention.ms to what an outage of all readers may \
             last.",
        );
    }
    if short("retention.bytes", i64::MAX) {
        advice.push(
            "Messages are deleted when there are many, read or not: set retention.bytes to -1 and go by retention.ms alone.",
        );
    }
    advice
}

fn number(settings: &HashMap<String, String>, name: &str) -> Option<i64> {
    settings.get(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(entries: &[(&str, &str)]) -> HashMap<String, String> {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn safe_settings_need_no_advice() {
        let safe = settings(&[
            ("min.insync.replicas", "2"),
            ("unclean.leader.election.enable", "false"),
            ("retention.ms", "604800000"),
            ("retention.bytes", "-1"),
        ]);
        assert_eq!(about_topic(3, &safe), [""; 0]);
        assert_eq!(about_topic(3, &settings(&[("retention.ms", "-1")])), [""; 0]);
        assert_eq!(about_server(&settings(&[("offsets.retention.minutes", "10080")])), None);
    }

    #[test]
    fn each_danger_has_a_sentence() {
        let dangers = [
            (1, ("min.insync.replicas", "1"), "replication=3"),
            (3, ("min.insync.replicas", "1"), "min.insync.replicas to 2"),
            (3, ("unclean.leader.election.enable", "true"), "to false"),
            (3, ("retention.ms", "604799999"), "retention.ms"),
            (3, ("retention.bytes", "1000"), "retention.bytes"),
        ];
        for (copies, setting, what_to_do) in dangers {
            let advice = about_topic(copies, &settings(&[setting]));
            assert!(matches!(advice[..], [sentence] if sentence.contains(what_to_do)), "{setting:?}: {advice:?}");
        }
        assert!(about_server(&settings(&[("offsets.retention.minutes", "60")])).is_some());
    }
}
