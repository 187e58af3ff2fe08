//! Renders a story for people.

use super::{
    DeliveryState, FailedAttempt, Publication, PublicationState, QueueDelivery, SearchMethod, SearchedPartition, Story,
    StoryDeadLetter, StoryMessage, StorySearch,
};
use jiff::Timestamp;
use onceward_message_log::story::StoryRows;
use std::fmt::Write as _;

/// Deeper trees are not indented further.
const MAX_INDENT_DEPTH: usize = 20;

/// Returns remarks about the search: what was not searched, and how to search it.
pub(super) fn notes(search: &StorySearch, found: &StoryRows) -> Vec<String> {
    let mut notes: Vec<String> = found
        .partitions
        .iter()
        .filter(|part| !matches!(part.method, SearchMethod::Index | SearchMethod::Whole))
        .map(partition_note)
        .collect();
    if found.is_truncated {
        notes.push(format!("only {} rows of each kind were read and there may be more; raise --limit", search.limit));
    }
    if found.deferred_by_id {
        notes.push(
            "there are too many deferred messages to search them all; only those still in the log were looked up"
                .into(),
        );
    }
    match found.partitions.first() {
        Some(oldest) => {
            notes.push(format!("the log goes back to {}; older messages have been removed", oldest.opened_at))
        }
        None => notes.push("the log is empty".into()),
    }
    notes
}

/// Returns how a partition was searched, and how to search more of it.
fn partition_note(part: &SearchedPartition) -> String {
    let SearchedPartition { epoch, bytes, .. } = part;
    let megabytes = bytes >> 20;
    match &part.method {
        SearchMethod::Index => format!("partition {epoch}: searched by its index"),
        SearchMethod::Whole => format!("partition {epoch} ({megabytes} MB): searched completely"),
        SearchMethod::Between(from, to) => format!(
            "partition {epoch} ({megabytes} MB) has no index yet: searched from {from} to {to}; change the range with \
             --within and --since"
        ),
        SearchMethod::Aborted(error) => format!(
            "partition {epoch} ({megabytes} MB) was not searched completely: {error}; narrow the search with --since, or \
             allow more time with --timeout"
        ),
    }
}

/// Renders the whole story as text, one message after the other.
pub fn render(story: &Story) -> String {
    let mut text = String::new();
    for response in &story.responses {
        let location = response.location.as_ref().map(|location| format!(", {location}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "{}  HTTP {} to a command of tenant {}{location}; a repeated command gets the same response until {}",
            response.at, response.status, response.tenant, response.expires_at
        );
    }
    for message in &story.messages {
        write_message(&mut text, message);
    }
    if story.messages.is_empty() && story.responses.is_empty() {
        let _ = writeln!(text, "nothing was found for {}", story.correlation_id);
    }
    for note in &story.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn write_message(text: &mut String, message: &StoryMessage) {
    let indent = "  ".repeat(message.depth.min(MAX_INDENT_DEPTH));
    let branch = if message.depth > 0 { "└ " } else { "" };
    let at = message.written_at.map_or_else(|| "(no longer in the log)".to_owned(), |at| at.to_string());
    let _ =
        writeln!(text, "{indent}{branch}{at}  {}  {}  tenant {}", message.event_type, message.event_id, message.tenant);
    let mut line = |content: String| {
        let _ = writeln!(text, "{indent}    {content}");
    };
    for publication in &message.publications {
        line(format!("{}: {}", publication.topic, publication_state(publication)));
        publication.failed_attempts.iter().for_each(|failed| line(attempt(failed)));
    }
    for delivery in &message.deliveries {
        line(format!("queue {}: {}", delivery.queue, delivery_state(delivery)));
        delivery.failed_attempts.iter().for_each(|failed| line(attempt(failed)));
    }
    for contribution in &message.contributions {
        contribution.lines.iter().for_each(|content| line(content.clone()));
    }
    for letter in &message.dead_letters {
        line(dead_letter(letter));
        let shown = message
            .deliveries
            .iter()
            .any(|delivery| delivery.queue == letter.queue && !delivery.failed_attempts.is_empty());
        for failed in letter.failed_attempts.as_array().into_iter().flatten().filter(|_| !shown) {
            let field = |name: &str| failed[name].as_str().unwrap_or_default().escape_debug().to_string();
            line(format!("  attempt {} failed at {}: {}", failed["attempt"], field("at"), field("error")));
        }
        for act in letter.acts.as_array().into_iter().flatten() {
            let field = |name: &str| act[name].as_str().unwrap_or_default().to_owned();
            let tag = act["tag"].as_str().map(|tag| format!(" as {tag}")).unwrap_or_default();
            line(format!("  {} {}{tag} by {}: {}", field("at"), field("act"), field("actor"), field("why")));
        }
    }
}

fn attempt(failed: &FailedAttempt) -> String {
    format!("  attempt {} failed at {}: {}", failed.attempt, failed.at, failed.error.escape_debug())
}

fn publication_state(publication: &Publication) -> String {
    let error = publication.last_error.as_deref().unwrap_or("no reason given");
    match publication.state {
        PublicationState::ByCommit => "published by its commit".into(),
        PublicationState::ByRelay => match publication.at {
            Some(at) => format!("published to the bus at {at}"),
            None => "published to the bus; the time is no longer known".into(),
        },
        PublicationState::Waiting => "waiting for a relay".into(),
        PublicationState::Delayed => format!("published with a delay, due {}", due(publication.next_try_at)),
        PublicationState::Refused => format!(
            "refused by the bus {} times, next attempt {}: {error}",
            publication.attempts,
            due(publication.next_try_at)
        ),
        PublicationState::Dead => format!("given up after the bus refused it {} times: {error}", publication.attempts),
        PublicationState::NoQueue => "no queue received it, or its delay has passed".into(),
    }
}

fn delivery_state(delivery: &QueueDelivery) -> String {
    let landed = delivery.landed_at.map(|at| format!("landed at {at}, ")).unwrap_or_default();
    let state = match delivery.state {
        DeliveryState::Handled => "handled".into(),
        DeliveryState::Waiting => "waiting".into(),
        DeliveryState::OnTheBus => "not landed yet".into(),
        DeliveryState::Delayed => format!("delayed, due {}", due(delivery.due_at)),
        DeliveryState::Retrying if delivery.attempts == 0 => {
            format!("returned to the queue, due {}", due(delivery.due_at))
        }
        DeliveryState::Retrying => format!("{}, next attempt {}", failed(delivery), due(delivery.due_at)),
        DeliveryState::NeedsNewerWorker => {
            format!(
                "no running worker knows its type or version, next check {}: {}",
                due(delivery.due_at),
                error(&delivery.last_error)
            )
        }
        DeliveryState::Snoozed => {
            format!("snoozed by its handler until {}: {}", due(delivery.due_at), error(&delivery.last_error))
        }
        DeliveryState::Behind => "waiting behind another message of its key".into(),
        DeliveryState::Leased => format!("leased by a worker until {}", due(delivery.due_at)),
        DeliveryState::Dead => format!("dead, {}", failed(delivery)),
        DeliveryState::Quarantined => format!("quarantined, {}", failed(delivery)),
    };
    landed + &state
}

fn failed(delivery: &QueueDelivery) -> String {
    let since = delivery.first_failed_at.map(|at| format!(" since {at}")).unwrap_or_default();
    format!("failed {} times{since}: {}", delivery.attempts, error(&delivery.last_error))
}

fn dead_letter(letter: &StoryDeadLetter) -> String {
    let tag = letter.tag.as_ref().map(|tag| format!(" as {tag}")).unwrap_or_default();
    let holds = match letter.followers {
        None => String::new(),
        Some(1) => ", holds its key: 1 message waits behind it".to_owned(),
        Some(count) => format!(", holds its key: {count} messages wait behind it"),
    };
    format!(
        "dead letter {} of {} at {}, {} after {} attempts, now {}{tag}{holds}",
        letter.id, letter.consumer, letter.dead_at, letter.reason, letter.attempts, letter.status
    )
}

fn due(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "after the message before it".to_owned(), |at| at.to_string())
}

fn error(error: &Option<String>) -> &str {
    error.as_deref().unwrap_or("no reason given")
}
