//! A story for people to read.

use super::{How, Letter, Part, Place, PlaceState, Publication, Published, Search, Story, Told};
use jiff::Timestamp;
use onceward_transport_postgres::story::Found;
use std::fmt::Write as _;

/// Deeper trees are not indented further.
const DEEPEST: usize = 20;

/// What one should know about the search: where nobody looked, and how to look there.
pub(super) fn notes(search: &Search, found: &Found) -> Vec<String> {
    let mut notes: Vec<String> =
        found.parts.iter().filter(|part| !matches!(part.how, How::Index | How::Whole)).map(how_searched).collect();
    if found.cut {
        notes.push(format!("only {} rows of each kind were read, so there may be more; raise --limit", search.limit));
    }
    if found.aside_by_id {
        notes.push(
            "too much is put aside to look through it; only messages that the log still holds were looked up".into(),
        );
    }
    match found.parts.first() {
        Some(oldest) => notes.push(format!("the log goes back to {}; what is older has left", oldest.opened_at)),
        None => notes.push("the log is empty".into()),
    }
    notes
}

/// How a partition was searched, and what to do to see more of it.
fn how_searched(part: &Part) -> String {
    let Part { epoch, bytes, .. } = part;
    let megabytes = bytes >> 20;
    match &part.how {
        How::Index => format!("partition {epoch}: searched by its index"),
        How::Whole => format!("partition {epoch} ({megabytes} MB): searched as a whole"),
        How::Between(from, to) => format!(
            "partition {epoch} ({megabytes} MB) has no index yet: searched from {from} to {to}; --within looks further, \
             --since from another time on"
        ),
        How::GaveUp(error) => format!(
            "partition {epoch} ({megabytes} MB) was not searched to its end: {error}; narrow it with --since, or give it \
             longer with --timeout"
        ),
    }
}

/// The whole story, one message after the other.
pub fn in_words(story: &Story) -> String {
    let mut text = String::new();
    for answer in &story.answers {
        let location = answer.location.as_ref().map(|location| format!(", {location}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "{}  HTTP {} to a command of tenant {}{location}; repetitions get the same answer until {}",
            answer.at, answer.status, answer.tenant, answer.expires_at
        );
    }
    for told in &story.messages {
        message(&mut text, told);
    }
    if story.messages.is_empty() && story.answers.is_empty() {
        let _ = writeln!(text, "nothing was found of {}", story.correlation_id);
    }
    for note in &story.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn message(text: &mut String, told: &Told) {
    let indent = "  ".repeat(told.depth.min(DEEPEST));
    let branch = if told.depth > 0 { "└ " } else { "" };
    let at = told.written_at.map_or_else(|| "(not in the log any more)".to_owned(), |at| at.to_string());
    let _ = writeln!(text, "{indent}{branch}{at}  {}  {}  tenant {}", told.event_type, told.event_id, told.tenant);
    let mut line = |words: String| {
        let _ = writeln!(text, "{indent}    {words}");
    };
    for publication in &told.publications {
        line(format!("{}: {}", publication.topic, published(publication)));
    }
    for place in &told.places {
        line(format!("queue {}: {}", place.queue, in_queue(place)));
    }
    for letter in &told.dead_letters {
        line(died(letter));
        for act in letter.acts.as_array().into_iter().flatten() {
            let word = |name: &str| act[name].as_str().unwrap_or_default().to_owned();
            let tag = act["tag"].as_str().map(|tag| format!(" as {tag}")).unwrap_or_default();
            line(format!("  {} {}{tag} by {}: {}", word("at"), word("act"), word("actor"), word("why")));
        }
    }
}

fn published(publication: &Publication) -> String {
    let error = publication.last_error.as_deref().unwrap_or("no reason given");
    match publication.state {
        Published::ByCommit => "published by its commit".into(),
        Published::ByRelay => match publication.at {
            Some(at) => format!("handed to the bus at {at}"),
            None => "handed to the bus; when is not known any more".into(),
        },
        Published::Waiting => "waits for a relay".into(),
        Published::Delayed => format!("published with a delay, due {}", due(publication.next_try_at)),
        Published::Refused => format!(
            "refused by the bus {} times, offered again {}: {error}",
            publication.attempts,
            due(publication.next_try_at)
        ),
        Published::Dead => format!("refused by the bus for good after {} attempts: {error}", publication.attempts),
        Published::NoPlace => "no queue took it, or it has waited out its delay".into(),
    }
}

fn in_queue(place: &Place) -> String {
    let landed = place.landed_at.map(|at| format!("landed at {at}, ")).unwrap_or_default();
    let state = match place.state {
        PlaceState::Handled => "handled".into(),
        PlaceState::Waiting => "waiting".into(),
        PlaceState::OnTheBus => "not landed yet".into(),
        PlaceState::Delayed => format!("delayed, due {}", due(place.due_at)),
        PlaceState::Retrying if place.attempts == 0 => format!("put back, due {}", due(place.due_at)),
        PlaceState::Retrying => format!("{}, again {}", failed(place), due(place.due_at)),
        PlaceState::NeedsNewerWorker => {
            format!("no running worker knows it, looked at again {}: {}", due(place.due_at), error(&place.last_error))
        }
        PlaceState::Behind => "behind another message of its key".into(),
        PlaceState::Leased => format!("a worker has it, until {}", due(place.due_at)),
        PlaceState::Dead => format!("dead, {}", failed(place)),
        PlaceState::Quarantined => format!("quarantined, {}", failed(place)),
    };
    landed + &state
}

fn failed(place: &Place) -> String {
    let since = place.first_failed_at.map(|at| format!(" since {at}")).unwrap_or_default();
    format!("failed {} times{since}: {}", place.attempts, error(&place.last_error))
}

fn died(letter: &Letter) -> String {
    let tag = letter.tag.as_ref().map(|tag| format!(" as {tag}")).unwrap_or_default();
    format!(
        "dead letter {} of {} at {}, {} after {} attempts, now {}{tag}",
        letter.id, letter.consumer, letter.dead_at, letter.reason, letter.attempts, letter.status
    )
}

fn due(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "when its predecessor is through".to_owned(), |at| at.to_string())
}

fn error(error: &Option<String>) -> &str {
    error.as_deref().unwrap_or("no reason given")
}
