//! Validates a topology before anything is declared.

use std::collections::{BTreeMap, BTreeSet};

use super::{DeadLetter, ExchangeKind, Queue, Topology};
use crate::{
    pattern::{Word, covers, overlaps, words},
    topic::NAME_BYTES_MAX,
};

/// An error in a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyProblem {
    /// A name that a broker would reject.
    #[error("the {what} name {name:?} cannot be used: {rule}")]
    BadName {
        /// `exchange`, `queue`, `pattern` or `dead-letter key`.
        what: &'static str,
        /// The name.
        name: String,
        /// The rule that it violates.
        rule: &'static str,
    },
    /// Two declarations with the same name.
    #[error("the {what} {name:?} is declared more than once: keep one")]
    Duplicate {
        /// `exchange`, `queue` or `binding`.
        what: &'static str,
        /// The shared name.
        name: String,
    },
    /// A binding from an exchange that is not declared.
    #[error("queue {queue:?} is bound to the exchange {exchange:?}, which is not declared: declare it")]
    UnknownExchange {
        /// The exchange that is missing.
        exchange: String,
        /// The queue that is bound to it.
        queue: String,
    },
    /// A binding to a queue that is not declared.
    #[error("exchange {exchange:?} has a binding to the queue {queue:?}, which is not declared: declare it")]
    UnknownQueue {
        /// The exchange that has the binding.
        exchange: String,
        /// The queue that is missing.
        queue: String,
    },
    /// Dead letters go to an exchange that is not declared.
    #[error("queue {queue:?} dead-letters to the exchange {exchange:?}, which is not declared: declare it")]
    UnknownDeadLetterExchange {
        /// The queue that dead-letters.
        queue: String,
        /// The exchange that is missing.
        exchange: String,
    },
    /// Some dead letters would be lost.
    #[error(
        "dead letters of queue {queue:?} with the key {key:?} reach no queue behind the exchange {exchange:?}: bind one to it"
    )]
    DeadLetterLost {
        /// The queue that dead-letters.
        queue: String,
        /// The exchange for dead letters.
        exchange: String,
        /// The key or pattern without a binding.
        key: String,
    },
    /// A dead letter would return to the queue where it failed.
    #[error("dead letters go in a cycle: {}: send them to a queue that does not dead-letter", queues.join(" -> "))]
    DeadLetterCycle {
        /// The queues of the cycle; the first is also the last.
        queues: Vec<String>,
    },
    /// A number outside its range.
    #[error("queue {queue:?} has {setting} = {value}: use {min} to {max}")]
    OutOfRange {
        /// The queue.
        queue: String,
        /// The setting's name.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
}

use TopologyProblem as Problem;

impl Topology {
    /// Checks the topology. Returns all problems, so that they can be fixed together.
    pub fn validate(&self) -> Result<(), Vec<TopologyProblem>> {
        let mut problems = Vec::new();
        self.check_names(&mut problems);
        self.check_duplicates(&mut problems);
        self.check_bindings(&mut problems);
        for queue in &self.queues {
            check_ranges(queue, &mut problems);
            if let Some(dead_letter) = &queue.dead_letter {
                self.check_dead_letter(queue, dead_letter, &mut problems);
            }
        }
        self.check_cycles(&mut problems);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn check_names(&self, problems: &mut Vec<Problem>) {
        for exchange in &self.exchanges {
            check_name("exchange", &exchange.name, problems);
            if exchange.name.contains(':') {
                let rule = "it must not contain ':', which ends the exchange in a topic";
                problems.push(Problem::BadName { what: "exchange", name: exchange.name.clone(), rule });
            }
        }
        for queue in &self.queues {
            check_name("queue", &queue.name, problems);
            if let Some(key) = queue.dead_letter.as_ref().and_then(|d| d.routing_key.as_ref()) {
                check_key("dead-letter key", key, problems);
            }
        }
        for binding in &self.bindings {
            check_key("pattern", &binding.pattern, problems);
        }
    }

    fn check_duplicates(&self, problems: &mut Vec<Problem>) {
        let exchanges = self.exchanges.iter().map(|exchange| exchange.name.clone());
        let queues = self.queues.iter().map(|queue| queue.name.clone());
        let bindings = self.bindings.iter().map(|b| format!("{}:{} -> {}", b.exchange, b.pattern, b.queue));
        check_repeated("exchange", exchanges, problems);
        check_repeated("queue", queues, problems);
        check_repeated("binding", bindings, problems);
    }

    fn check_bindings(&self, problems: &mut Vec<Problem>) {
        for binding in &self.bindings {
            let (exchange, queue) = (binding.exchange.clone(), binding.queue.clone());
            if self.find_exchange(&exchange).is_none() {
                problems.push(Problem::UnknownExchange { exchange: exchange.clone(), queue: queue.clone() });
            }
            if self.find_queue(&queue).is_none() {
                problems.push(Problem::UnknownQueue { exchange, queue });
            }
        }
    }

    fn check_dead_letter(&self, queue: &Queue, to: &DeadLetter, problems: &mut Vec<Problem>) {
        let (queue_name, exchange) = (queue.name.clone(), to.exchange.clone());
        if self.find_exchange(&exchange).is_none() {
            problems.push(Problem::UnknownDeadLetterExchange { queue: queue_name, exchange });
            return;
        }
        let patterns: Vec<_> = self.bindings_of(&exchange).map(|(words, _, _)| words).collect();
        for (keys, key) in self.dead_letter_keys(queue, to) {
            if !patterns.iter().any(|pattern| covers(pattern, &keys)) {
                problems.push(Problem::DeadLetterLost {
                    queue: queue_name.clone(),
                    exchange: exchange.clone(),
                    key: key.to_owned(),
                });
            }
        }
    }

    /// Returns the keys that this queue's dead letters may have: the configured key, or the patterns of the queue's
    /// bindings.
    fn dead_letter_keys<'a>(&'a self, queue: &'a Queue, to: &'a DeadLetter) -> Vec<(Vec<Word<'a>>, &'a str)> {
        match &to.routing_key {
            Some(key) => vec![(words(ExchangeKind::Direct, key), key)],
            None => self
                .exchanges
                .iter()
                .flat_map(|exchange| self.bindings_of(&exchange.name))
                .filter(|(_, _, into)| *into == queue.name)
                .map(|(words, pattern, _)| (words, pattern))
                .collect(),
        }
    }

    /// Returns the pattern of each binding of an exchange, as words and as text, and its queue.
    fn bindings_of<'a>(&'a self, exchange: &'a str) -> impl Iterator<Item = (Vec<Word<'a>>, &'a str, &'a str)> {
        let kind = self.find_exchange(exchange).map(|exchange| exchange.kind);
        self.bindings.iter().filter(move |binding| binding.exchange == exchange).filter_map(move |binding| {
            Some((words(kind?, &binding.pattern), binding.pattern.as_str(), binding.queue.as_str()))
        })
    }

    /// Returns the queues that a dead letter of `queue` may reach.
    fn dead_letter_targets<'a>(&'a self, queue: &'a Queue) -> BTreeSet<&'a str> {
        let Some(to) = &queue.dead_letter else {
            return BTreeSet::new();
        };
        let keys = self.dead_letter_keys(queue, to);
        self.bindings_of(&to.exchange)
            .filter(|(pattern, _, _)| keys.iter().any(|(key, _)| overlaps(pattern, key)))
            .map(|(_, _, into)| into)
            .collect()
    }

    fn check_cycles(&self, problems: &mut Vec<Problem>) {
        let next: BTreeMap<&str, BTreeSet<&str>> =
            self.queues.iter().map(|queue| (queue.name.as_str(), self.dead_letter_targets(queue))).collect();
        let mut done = BTreeSet::new();
        for start in next.keys() {
            find_cycles(start, &next, &mut Vec::new(), &mut done, problems);
        }
    }
}

/// Searches for cycles from `queue` on. `path` is the way to it; `done` are the queues that were searched completely.
fn find_cycles<'a>(
    queue: &'a str,
    next: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
    problems: &mut Vec<Problem>,
) {
    if let Some(start) = path.iter().position(|visited| *visited == queue) {
        let queues = path[start..].iter().chain([&queue]).map(|name| (*name).to_owned()).collect();
        problems.push(Problem::DeadLetterCycle { queues });
        return;
    }
    if done.contains(queue) {
        return;
    }
    path.push(queue);
    for target in next.get(queue).into_iter().flatten() {
        find_cycles(target, next, path, done, problems);
    }
    path.pop();
    done.insert(queue);
}

fn check_name(what: &'static str, name: &str, problems: &mut Vec<Problem>) {
    let rule = if name.is_empty() || name.len() > NAME_BYTES_MAX {
        "use 1 to 255 bytes"
    } else if name.contains(char::is_control) {
        "it must not contain control characters"
    } else if name.starts_with("amq.") {
        "names that start with amq. are reserved by RabbitMQ"
    } else {
        return;
    };
    problems.push(Problem::BadName { what, name: name.to_owned(), rule });
}

/// Checks a pattern or a key. They may be empty, but are short strings in AMQP too.
fn check_key(what: &'static str, key: &str, problems: &mut Vec<Problem>) {
    if key.len() > NAME_BYTES_MAX || key.contains(char::is_control) {
        let rule = "use at most 255 bytes, without control characters";
        problems.push(Problem::BadName { what, name: key.to_owned(), rule });
    }
}

fn check_repeated(what: &'static str, names: impl Iterator<Item = String>, problems: &mut Vec<Problem>) {
    let mut count = BTreeMap::new();
    for name in names {
        *count.entry(name).or_insert(0) += 1;
    }
    let repeated = count.into_iter().filter(|(_, times)| *times > 1);
    problems.extend(repeated.map(|(name, _)| Problem::Duplicate { what, name }));
}

fn check_ranges(queue: &Queue, problems: &mut Vec<Problem>) {
    let settings = [
        ("shards", Some(u64::from(queue.shards)), 1, 64),
        ("max_priority", queue.max_priority.map(u64::from), 1, 9),
        ("delivery_limit", queue.delivery_limit.map(u64::from), 1, u64::from(u16::MAX)),
        // Stored in a signed 64-bit column.
        ("message_ttl_ms", queue.message_ttl_ms, 1, i64::MAX as u64),
    ];
    for (setting, value, min, max) in settings {
        if let Some(value) = value.filter(|value| !(min..=max).contains(value)) {
            problems.push(Problem::OutOfRange { queue: queue.name.clone(), setting, value, min, max });
        }
    }
}
