//! From rows to messages.

use super::{Letter, Place, PlaceState, Publication, Published, Told, tree};
use onceward_topology::{QueueKind, Topic, Topology};
use onceward_transport_postgres::{
    routes::OUTBOX,
    story::{AsideRow, DeadRow, Found, LogRow, Message},
};
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

/// The messages of a story, each before those it caused.
pub(super) fn messages(mut found: Found, topology: &Topology) -> Vec<Told> {
    found.log.sort_by_key(|row| row.seq);
    let mut draft = Draft::default();
    for row in &found.log {
        draft.add_log(row);
    }
    for row in &found.aside {
        draft.add_aside(row);
    }
    for row in found.dead {
        draft.add_dead(row);
    }
    draft.add_those_on_the_bus(topology);
    tree::in_order(draft.messages)
}

#[derive(Default)]
struct Draft {
    messages: Vec<Told>,
    by_id: HashMap<Uuid, usize>,
    relayed: HashSet<Uuid>,
}

impl Draft {
    fn told(&mut self, message: &Message) -> &mut Told {
        let next = self.messages.len();
        let index = *self.by_id.entry(message.id).or_insert(next);
        if index == next {
            self.messages.push(Told {
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
                places: Vec::new(),
                dead_letters: Vec::new(),
            });
        }
        &mut self.messages[index]
    }

    fn add_log(&mut self, row: &LogRow) {
        let in_outbox = row.queue.as_deref() == Some(OUTBOX);
        if in_outbox {
            self.relayed.insert(row.message.id);
        }
        let told = self.told(&row.message);
        if row.copy == 0 {
            told.written_at = told.written_at.or(Some(row.written_at));
            told.aggregate = told.aggregate.take().or_else(|| row.aggregate.clone());
            let (state, at) = match &row.queue {
                None => (Published::NoPlace, None),
                Some(_) if !in_outbox => (Published::ByCommit, Some(row.written_at)),
                Some(_) if row.read => (Published::ByRelay, row.relayed_at),
                Some(_) => (Published::Waiting, None),
            };
            told.publications.push(Publication::new(&row.message.topic, state, at));
        }
        if let Some(queue) = row.queue.as_ref().filter(|_| !in_outbox) {
            let state = if row.read { PlaceState::Handled } else { PlaceState::Waiting };
            let landed_at = row.landed_at.filter(|_| row.copy > 0);
            told.places.push(Place { landed_at, ..Place::new(queue, state) });
        }
    }

    fn add_aside(&mut self, row: &AsideRow) {
        let told = self.told(&row.message);
        told.written_at = told.written_at.or(Some(row.written_at));
        if row.queue == OUTBOX {
            let publication = told.publication(&row.message.topic);
            publication.state = match row.state.as_str() {
                "delayed" => Published::Delayed,
                "retry" => Published::Refused,
                _ => Published::Waiting,
            };
            publication.at = None;
            publication.attempts = row.attempts;
            publication.next_try_at = row.due_at;
            publication.last_error.clone_from(&row.last_error);
            return;
        }
        let place = told.place(&row.queue);
        place.state = match row.state.as_str() {
            "delayed" => PlaceState::Delayed,
            "waiting" => PlaceState::NeedsNewerWorker,
            "parked" => PlaceState::Behind,
            "leased" => PlaceState::Leased,
            _ => PlaceState::Retrying,
        };
        place.due_at = row.due_at;
        place.attempts = row.attempts;
        place.first_error.clone_from(&row.first_error);
        place.last_error.clone_from(&row.last_error);
        place.first_failed_at = row.first_failed_at;
    }

    fn add_dead(&mut self, row: DeadRow) {
        let told = self.told(&row.message);
        let state = match row.status.as_str() {
            "dead" => Some(PlaceState::Dead),
            "quarantined" => Some(PlaceState::Quarantined),
            _ => None,
        };
        if let Some(state) = state {
            if row.queue == OUTBOX {
                let publication = told.publication(&row.message.topic);
                (publication.state, publication.at) = (Published::Dead, None);
                publication.attempts = row.attempts;
                publication.last_error.clone_from(&row.last_error);
            } else {
                let place = told.place(&row.queue);
                place.state = state;
                place.attempts = row.attempts;
                place.first_error.clone_from(&row.first_error);
                place.last_error.clone_from(&row.last_error);
                place.first_failed_at = row.first_failed_at;
            }
        }
        told.dead_letters.push(Letter {
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
            acts: row.acts,
        });
    }

    /// What a relay published and no queue has got yet is on its way, or was lost by the bus: here they are named.
    fn add_those_on_the_bus(&mut self, topology: &Topology) {
        let work = |queue: &str| topology.find_queue(queue).is_some_and(|queue| queue.kind == QueueKind::Work);
        for told in self.messages.iter_mut().filter(|told| self.relayed.contains(&told.event_id)) {
            let published = told.publications.first().is_some_and(|first| first.state == Published::ByRelay);
            let Some(topic) = told.topic.parse::<Topic>().ok().filter(|_| published) else { continue };
            let expected = topology.route(&topic.exchange, &topic.routing_key).unwrap_or_default();
            for queue in expected.into_iter().filter(|queue| work(queue)) {
                if !told.places.iter().any(|place| place.queue == queue) {
                    told.places.push(Place::new(queue, PlaceState::OnTheBus));
                }
            }
        }
    }
}

impl Told {
    /// The way to this topic; a row put aside for its delay had none in the log.
    fn publication(&mut self, topic: &str) -> &mut Publication {
        let index = self.publications.iter().position(|known| known.topic == topic).unwrap_or_else(|| {
            self.publications.push(Publication::new(topic, Published::Waiting, None));
            self.publications.len() - 1
        });
        &mut self.publications[index]
    }

    /// The place in this queue. What is put aside there is not without a place any more.
    fn place(&mut self, queue: &str) -> &mut Place {
        self.publications.retain(|known| known.state != Published::NoPlace);
        let index = self.places.iter().position(|known| known.queue == queue).unwrap_or_else(|| {
            self.places.push(Place::new(queue, PlaceState::Waiting));
            self.places.len() - 1
        });
        &mut self.places[index]
    }
}

impl Publication {
    fn new(topic: &str, state: Published, at: Option<jiff::Timestamp>) -> Self {
        Self { topic: topic.to_owned(), state, at, attempts: 0, next_try_at: None, last_error: None }
    }
}

impl Place {
    fn new(queue: &str, state: PlaceState) -> Self {
        Self {
            queue: queue.to_owned(),
            state,
            landed_at: None,
            due_at: None,
            attempts: 0,
            first_error: None,
            last_error: None,
            first_failed_at: None,
        }
    }
}
