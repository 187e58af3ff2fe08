//! Builds messages from rows.

use super::{
    DeliveryState, FailedAttempt, Publication, PublicationState, QueueDelivery, StoryDeadLetter, StoryMessage, tree,
};
use onceward_message_log::{
    routes::OUTBOX,
    story::{AttemptRow, DeadLetterRow, DeferredRow, LogRow, StoryMessageRow, StoryRows},
};
use onceward_topology::{QueueKind, Topic, Topology};
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

/// Returns the messages of a story, each before those it caused.
pub(super) fn messages(mut found: StoryRows, topology: &Topology) -> Vec<StoryMessage> {
    found.log.sort_by_key(|row| row.seq);
    let mut builder = StoryBuilder::default();
    for row in &found.log {
        builder.add_log(row);
    }
    for row in &found.deferred {
        builder.add_deferred(row);
    }
    for row in found.dead {
        builder.add_dead(row);
    }
    for row in found.attempts {
        builder.add_attempt(row);
    }
    builder.add_deliveries_on_the_bus(topology);
    tree::sort_by_cause(builder.messages)
}

/// Collects what the rows of a story say about each message.
#[derive(Default)]
struct StoryBuilder {
    messages: Vec<StoryMessage>,
    by_id: HashMap<Uuid, usize>,
    relayed: HashSet<Uuid>,
}

impl StoryBuilder {
    /// Returns the message, adding it if it is new.
    fn entry(&mut self, message: &StoryMessageRow) -> &mut StoryMessage {
        let next = self.messages.len();
        let index = *self.by_id.entry(message.id).or_insert(next);
        if index == next {
            self.messages.push(StoryMessage {
                depth: 0,
                event_id: message.id,
                event_type: message.event_type.clone(),
                topic: message.topic.clone(),
                tenant: message.tenant.clone(),
                causation_id: message.causation_id.clone(),
                ordering_key: message.ordering_key.clone(),
                aggregate: None,
                occurred_at: message.occurred_at,
                written_at: None,
                publications: Vec::new(),
                deliveries: Vec::new(),
                dead_letters: Vec::new(),
                contributions: Vec::new(),
            });
        }
        &mut self.messages[index]
    }

    fn add_log(&mut self, row: &LogRow) {
        let in_outbox = row.queue.as_deref() == Some(OUTBOX);
        if in_outbox {
            self.relayed.insert(row.message.id);
        }
        let message = self.entry(&row.message);
        if row.copy == 0 {
            message.written_at = message.written_at.or(Some(row.written_at));
            message.aggregate = message.aggregate.take().or_else(|| row.aggregate.clone());
            let (state, at) = match &row.queue {
                None => (PublicationState::NoQueue, None),
                Some(_) if !in_outbox => (PublicationState::ByCommit, Some(row.written_at)),
                Some(_) if row.read => (PublicationState::ByRelay, row.relayed_at),
                Some(_) => (PublicationState::Waiting, None),
            };
            message.publications.push(Publication::new(&row.message.topic, state, at));
        }
        if let Some(queue) = row.queue.as_ref().filter(|_| !in_outbox) {
            let state = if row.read { DeliveryState::Handled } else { DeliveryState::Waiting };
            let landed_at = row.landed_at.filter(|_| row.copy > 0);
            message.deliveries.push(QueueDelivery { landed_at, ..QueueDelivery::new(queue, state) });
        }
    }

    fn add_deferred(&mut self, row: &DeferredRow) {
        let message = self.entry(&row.message);
        message.written_at = message.written_at.or(Some(row.written_at));
        if row.queue == OUTBOX {
            let publication = message.publication(&row.message.topic);
            publication.state = match row.state.as_str() {
                "delayed" => PublicationState::Delayed,
                "retry" => PublicationState::Refused,
                _ => PublicationState::Waiting,
            };
            publication.at = None;
            publication.attempts = row.attempts;
            publication.next_try_at = row.due_at;
            publication.last_error.clone_from(&row.last_error);
            return;
        }
        let delivery = message.delivery(&row.queue);
        delivery.state = match row.state.as_str() {
            "delayed" => DeliveryState::Delayed,
            "unknown" => DeliveryState::NeedsNewerWorker,
            "waiting" => DeliveryState::Snoozed,
            "parked" => DeliveryState::Behind,
            "leased" => DeliveryState::Leased,
            _ => DeliveryState::Retrying,
        };
        delivery.due_at = row.due_at;
        delivery.attempts = row.attempts;
        delivery.first_error.clone_from(&row.first_error);
        delivery.last_error.clone_from(&row.last_error);
        delivery.first_failed_at = row.first_failed_at;
    }

    fn add_attempt(&mut self, row: AttemptRow) {
        let Some(message) = self.by_id.get(&row.id).map(|index| &mut self.messages[*index]) else { return };
        let failed = FailedAttempt { attempt: row.attempt, at: row.at, error: row.error };
        if row.queue == OUTBOX {
            message
                .publications
                .iter_mut()
                .take(1)
                .for_each(|publication| publication.failed_attempts.push(failed.clone()));
        } else if let Some(delivery) = message.deliveries.iter_mut().find(|delivery| delivery.queue == row.queue) {
            delivery.failed_attempts.push(failed);
        }
    }

    fn add_dead(&mut self, row: DeadLetterRow) {
        let message = self.entry(&row.message);
        let state = match row.status.as_str() {
            "dead" => Some(DeliveryState::Dead),
            "quarantined" => Some(DeliveryState::Quarantined),
            _ => None,
        };
        if let Some(state) = state {
            if row.queue == OUTBOX {
                let publication = message.publication(&row.message.topic);
                (publication.state, publication.at) = (PublicationState::Dead, None);
                publication.attempts = row.attempts;
                publication.last_error.clone_from(&row.last_error);
            } else {
                let delivery = message.delivery(&row.queue);
                delivery.state = state;
                delivery.attempts = row.attempts;
                delivery.first_error.clone_from(&row.first_error);
                delivery.last_error.clone_from(&row.last_error);
                delivery.first_failed_at = row.first_failed_at;
            }
        }
        message.dead_letters.push(StoryDeadLetter {
            id: row.letter,
            queue: row.queue,
            consumer: row.consumer,
            status: row.status,
            tag: row.tag,
            reason: row.reason,
            attempts: row.attempts,
            first_error: row.first_error,
            last_error: row.last_error,
            first_failed_at: row.first_failed_at,
            dead_at: row.dead_at,
            failed_attempts: row.attempt_log,
            acts: row.acts,
            followers: row.followers,
        });
    }

    /// Adds the queues that a message should have reached: a relay published it, and it is still on its way or was lost
    /// by the bus.
    fn add_deliveries_on_the_bus(&mut self, topology: &Topology) {
        let work = |queue: &str| topology.find_queue(queue).is_some_and(|queue| queue.kind == QueueKind::Work);
        for message in self.messages.iter_mut().filter(|message| self.relayed.contains(&message.event_id)) {
            let published = message.publications.first().is_some_and(|first| first.state == PublicationState::ByRelay);
            let Some(topic) = message.topic.parse::<Topic>().ok().filter(|_| published) else { continue };
            let expected = topology.route(&topic.exchange, &topic.routing_key).unwrap_or_default();
            for queue in expected.into_iter().filter(|queue| work(queue)) {
                if !message.deliveries.iter().any(|delivery| delivery.queue == queue) {
                    message.deliveries.push(QueueDelivery::new(queue, DeliveryState::OnTheBus));
                }
            }
        }
    }
}

impl StoryMessage {
    /// Returns the publication to this topic; a row deferred for its delay had none in the log.
    fn publication(&mut self, topic: &str) -> &mut Publication {
        let index = self.publications.iter().position(|known| known.topic == topic).unwrap_or_else(|| {
            self.publications.push(Publication::new(topic, PublicationState::Waiting, None));
            self.publications.len() - 1
        });
        &mut self.publications[index]
    }

    /// Returns the delivery to this queue, creating it if needed. The message then has no `NoQueue` publication.
    fn delivery(&mut self, queue: &str) -> &mut QueueDelivery {
        self.publications.retain(|known| known.state != PublicationState::NoQueue);
        let index = self.deliveries.iter().position(|known| known.queue == queue).unwrap_or_else(|| {
            self.deliveries.push(QueueDelivery::new(queue, DeliveryState::Waiting));
            self.deliveries.len() - 1
        });
        &mut self.deliveries[index]
    }
}

impl Publication {
    fn new(topic: &str, state: PublicationState, at: Option<jiff::Timestamp>) -> Self {
        Self {
            topic: topic.to_owned(),
            state,
            at,
            attempts: 0,
            next_try_at: None,
            last_error: None,
            failed_attempts: Vec::new(),
        }
    }
}

impl QueueDelivery {
    fn new(queue: &str, state: DeliveryState) -> Self {
        Self {
            queue: queue.to_owned(),
            state,
            landed_at: None,
            due_at: None,
            attempts: 0,
            first_error: None,
            last_error: None,
            first_failed_at: None,
            failed_attempts: Vec::new(),
        }
    }
}
