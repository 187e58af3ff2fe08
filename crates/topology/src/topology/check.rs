//! What can be wrong with a topology, found before anything is declared.

use std::collections::{BTreeMap, BTreeSet};

use super::{DeadLetter, ExchangeKind, Queue, Topology};
use crate::{
    pattern::{Word, covers, overlaps, words},
    topic::NAME_BYTES_MAX,
};

/// One fault of a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyProblem {
    /// A name that a bus would refuse.
    #[error("the {what} name {name:?} cannot be used: {rule}")]
    BadName {
        /// `exchange`, `queue`, `pattern` or `dead-letter key`.
        what: &'static str,
        /// The name.
        name: String,
        /// What a name must be.
        rule: &'static str,
    },
    /// Two of a kind with the same name.
    #[error("the {what} {name:?} is declared more than once: keep one")]
    Duplicate {
        /// `exchange`, `queue` or `binding`.
        what: &'static str,
        /// The name they share.
        name: String,
    },
    /// A binding from nowhere.
    #[error("queue {queue:?} is bound to the exchange {exchange:?}, which is not declared: declare it")]
    UnknownExchange {
        /// The exchange that is missing.
        exchange: String,
        /// The queue that is bound to it.
        queue: String,
    },
    /// A binding to nowhere.
    #[error("exchange {exchange:?} has a binding to the queue {queue:?}, which is not declared: declare it")]
    UnknownQueue {
        /// The exchange that has the binding.
        exchange: String,
        /// The queue that is missing.
        queue: String,
    },
    /// Dead letters go to an exchange that is not there.
    #[error("queue {queue:?} dead-letters to the exchange {exchange:?}, which is not declared: declare it")]
    UnknownDeadLetterExchange {
        /// The queue that gives up messages.
        queue: String,
        /// The exchange that is missing.
        exchange: String,
    },
    /// Some dead letters would be lost.
    #[error(
        "dead letters of queue {queue:?} with the key {key:?} reach no queue behind the exchange {exchange:?}: bind one to it"
    )]
    DeadLetterLost {
        /// The queue that gives up messages.
        queue: String,
        /// The exchange they are sent to.
        exchange: String,
        /// The key or pattern that finds no binding.
        key: String,
    },
    /// A dead letter would come back to where it failed.
    #[error("dead letters go in a circle: {}: send them to a queue that does not dead-letter", queues.join(" -> "))]
    DeadLetterCycle {
        /// The queues of the circle; the first is also the last.
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
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
}

use TopologyProblem as Problem;

impl Topology {
    /// Finds every fault, so that they can be mended at once.
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
                let rule = "a ':' would end it in a topic";
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
        repeated("exchange", exchanges, problems);
        repeated("queue", queues, problems);
        repeated("binding", bindings, problems);
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
        let onward: Vec<_> = self.bindings_of(&exchange).map(|(words, _, _)| words).collect();
        for (keys, key) in self.dead_letter_keys(queue, to) {
            if !onward.iter().any(|pattern| covers(pattern, &keys)) {
                problems.push(Problem::DeadLetterLost {
                    queue: queue_name.clone(),
                    exchange: exchange.clone(),
                    key: key.to_owned(),
                });
            }
        }
    }

    /// The keys that this queue's dead letters may have: the one it sets, or all that its bindings let in.
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

    /// What each binding of an exchange lets through, as words and as written, and into which queue.
    fn bindings_of<'a>(&'a self, exchange: &'a str) -> impl Iterator<Item = (Vec<Word<'a>>, &'a str, &'a str)> {
        let kind = self.find_exchange(exchange).map(|exchange| exchange.kind);
        self.bindings.iter().filter(move |binding| binding.exchange == exchange).filter_map(move |binding| {
            Some((words(kind?, &binding.pattern), binding.pattern.as_str(), binding.queue.as_str()))
        })
    }

    /// The queues that a dead letter of `queue` may get into.
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
            follow(start, &next, &mut Vec::new(), &mut done, problems);
        }
    }
}

/// Walks on from `queue`; `trail` is the way here, `done` the queues whose onward ways are all known.
fn follow<'a>(
    queue: &'a str,
    next: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    trail: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
    problems: &mut Vec<Problem>,
) {
    if let Some(start) = trail.iter().position(|seen| *seen == queue) {
        let queues = trail[start..].iter().chain([&queue]).map(|name| (*name).to_owned()).collect();
        problems.push(Problem::DeadLetterCycle { queues });
        return;
    }
    if done.contains(queue) {
        return;
    }
    trail.push(queue);
    for onward in next.get(queue).into_iter().flatten() {
        follow(onward, next, trail, done, problems);
    }
    trail.pop();
    done.insert(queue);
}

fn check_name(what: &'static str, name: &str, problems: &mut Vec<Problem>) {
    let rule = if name.is_empty() || name.len() > NAME_BYTES_MAX {
        "use 1 to 255 bytes"
    } else if name.contains(char::is_control) {
        "it holds a control character"
    } else if name.starts_with("amq.") {
        "names that begin with amq. belong to RabbitMQ"
    } else {
        return;
    };
    problems.push(Problem::BadName { what, name: name.to_owned(), rule });
}

/// Patterns and keys may be empty, but travel as short strings too.
fn check_key(what: &'static str, key: &str, problems: &mut Vec<Problem>) {
    if key.len() > NAME_BYTES_MAX || key.contains(char::is_control) {
        let rule = "use at most 255 bytes, without control characters";
        problems.push(Problem::BadName { what, name: key.to_owned(), rule });
    }
}

fn repeated(what: &'static str, names: impl Iterator<Item = String>, problems: &mut Vec<Problem>) {
    let mut count = BTreeMap::new();
    for name in names {
        *count.entry(name).or_insert(0) += 1;
    }
    let twice = count.into_iter().filter(|(_, times)| *times > 1);
    problems.extend(twice.map(|(name, _)| Problem::Duplicate { what, name }));
}

fn check_ranges(queue: &Queue, problems: &mut Vec<Problem>) {
    let settings = [
        ("shards", Some(u64::from(queue.shards)), 1, 64),
        ("max_priority", queue.max_priority.map(u64::from), 1, 9),
        ("delivery_limit", queue.delivery_limit.map(u64::from), 1, u64::from(u16::MAX)),
        // A signed 64-bit column holds it.
        ("message_ttl_ms", queue.message_ttl_ms, 1, i64::MAX as u64),
    ];
    for (setting, value, min, max) in settings {
        if let Some(value) = value.filter(|value| !(min..=max).contains(value)) {
            problems.push(Problem::OutOfRange { queue: queue.name.clone(), setting, value, min, max });
        }
    }
}
