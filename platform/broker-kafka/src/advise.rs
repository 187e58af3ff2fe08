//! Advice for the operator about this cluster.

use crate::{KafkaBroker, admin::KafkaAdmin};
use onceward_broker::BrokerError;
use onceward_topology::Topology;
use std::collections::{BTreeMap, HashMap};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const WEEK_MS: i64 = 7 * DAY_MS;
const WEEK_MINUTES: i64 = WEEK_MS / 60_000;

impl KafkaBroker {
    pub(crate) async fn advice(&self) -> Result<Vec<String>, BrokerError> {
        let topology = self.topology.clone();
        let inbox_ms = i64::try_from(self.config.inbox_retention.as_millis()).unwrap_or(i64::MAX);
        self.admin(move |admin| advise(admin, &topology, inbox_ms)).await
    }
}

fn advise(admin: &KafkaAdmin, topology: &Topology, inbox_ms: i64) -> Result<Vec<String>, BrokerError> {
    let mut advice = Vec::new();
    if admin.sends_plaintext_password {
        advice.push("The password of the bus is sent unencrypted: use tls=true in its URL.".to_owned());
    }
    if let Some(server) = admin.any_server()? {
        advice.extend(server_advice(&admin.server_settings(server)?));
    }
    // Each sentence appears once, with all topics that it applies to.
    let mut topics_by_sentence: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for exchange in &topology.exchanges {
        let Some(replicas) = admin.partitions(&exchange.name)? else {
            continue;
        };
        let replicas = replicas.into_iter().min().unwrap_or(0);
        let settings = admin.topic_settings(&exchange.name)?;
        let sentences = topic_advice(replicas, &settings).into_iter().map(str::to_owned);
        for sentence in sentences.chain(inbox_advice(&settings, inbox_ms)) {
            topics_by_sentence.entry(sentence).or_default().push(&exchange.name);
        }
    }
    advice.extend(
        topics_by_sentence.iter().map(|(sentence, topics)| format!("{sentence} Topics: {}.", topics.join(", "))),
    );
    Ok(advice)
}

fn server_advice(settings: &HashMap<String, String>) -> Option<String> {
    let minutes = number(settings, "offsets.retention.minutes")?;
    (minutes < WEEK_MINUTES).then(|| {
        format!(
            "Kafka deletes the offsets of unused groups after {minutes} minutes (offsets.retention.minutes). Readers then \
             continue from the positions in the database, but other tools show the queue as unread: set it to a week or \
             more."
        )
    })
}

/// Warns if Kafka keeps messages for longer than the inbox remembers them.
fn inbox_advice(settings: &HashMap<String, String>, inbox_ms: i64) -> Option<String> {
    let kept_ms = number(settings, "retention.ms")?;
    let kept = match kept_ms {
        ..0 => "for ever".to_owned(),
        kept_ms if kept_ms <= inbox_ms => return None,
        kept_ms => format!("for {} days", kept_ms / DAY_MS),
    };
    Some(format!(
        "Kafka keeps messages {kept} (retention.ms), but the inbox remembers them for {} days (retention.inbox_days). If a queue \
         is deliberately read again, older messages are handled twice: raise retention.inbox_days, or lower retention.ms.",
        inbox_ms / DAY_MS
    ))
}

fn topic_advice(replicas: usize, settings: &HashMap<String, String>) -> Vec<&'static str> {
    let mut advice = Vec::new();
    if replicas < 2 {
        advice.push(
            "There is only one replica of each message, which is lost with its server: use three servers, and set \
             replication=3 in the bus URL before topics are declared.",
        );
    }
    if replicas >= 3 && number(settings, "min.insync.replicas").is_some_and(|least| least < 2) {
        advice.push(
            "A message is confirmed when one server has it: set min.insync.replicas to 2, so that losing a server loses \
             no messages.",
        );
    }
    if settings.get("unclean.leader.election.enable").is_some_and(|value| value == "true") {
        advice.push(
            "A replica that lacks messages may become the leader, and they are lost: set unclean.leader.election.enable to \
             false.",
        );
    }
    let short = |setting, week| number(settings, setting).is_some_and(|limit| (0..week).contains(&limit));
    if short("retention.ms", WEEK_MS) {
        advice.push(
            "Messages are deleted in less than a week, read or not: set retention.ms to more than the longest outage of all \
             readers.",
        );
    }
    if short("retention.bytes", i64::MAX) {
        advice.push(
            "Messages are deleted when a partition reaches a size, read or not: set retention.bytes to -1 and rely on \
             retention.ms alone.",
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
        assert_eq!(topic_advice(3, &safe), [""; 0]);
        assert_eq!(topic_advice(3, &settings(&[("retention.ms", "-1")])), [""; 0]);
        assert_eq!(server_advice(&settings(&[("offsets.retention.minutes", "10080")])), None);
    }

    #[test]
    fn kafkas_retention_is_compared_with_that_of_the_inbox() {
        let of =
            |retention_ms: i64| inbox_advice(&settings(&[("retention.ms", &retention_ms.to_string())]), 14 * DAY_MS);
        assert_eq!(of(14 * DAY_MS), None);
        assert!(of(15 * DAY_MS).is_some_and(|said| said.contains("for 15 days") && said.contains("14 days")));
        assert!(of(-1).is_some_and(|said| said.contains("for ever")));
        assert_eq!(inbox_advice(&settings(&[]), 0), None);
    }

    #[test]
    fn each_unsafe_setting_has_its_advice() {
        let dangers = [
            (1, ("min.insync.replicas", "1"), "replication=3"),
            (3, ("min.insync.replicas", "1"), "min.insync.replicas to 2"),
            (3, ("unclean.leader.election.enable", "true"), "to false"),
            (3, ("retention.ms", "604799999"), "retention.ms"),
            (3, ("retention.bytes", "1000"), "retention.bytes"),
        ];
        for (replicas, setting, what_to_do) in dangers {
            let advice = topic_advice(replicas, &settings(&[setting]));
            assert!(matches!(advice[..], [sentence] if sentence.contains(what_to_do)), "{setting:?}: {advice:?}");
        }
        assert!(server_advice(&settings(&[("offsets.retention.minutes", "60")])).is_some());
    }
}
