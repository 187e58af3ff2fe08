//! Stories with several correlation ids.
//!
//! Some services use their own correlation ids: a payment's are its key and then its id, as its contracts require, and
//! not that of the request. The service knows which belong together ([`onceward::Service::story_links`]).

use jiff::Timestamp;
use onceward::Platform;
use onceward_db::{Db, DbError, Scope};
use onceward_message_log::story::{SearchMethod, SearchedPartition, StoryRows, StorySearch, is_search_aborted};

/// SQLSTATEs of a missing schema, table and function.
const NOT_MIGRATED: [&str; 3] = ["3F000", "42P01", "42883"];
/// A request may contain a whole file; at most this many of its stories are followed.
const LINKED_MAX: usize = 100;

/// Returns the other correlation ids of the story that `search` is about, at most [`LINKED_MAX`] of them.
pub(super) async fn correlation_ids(
    db: &Db,
    platform: &Platform,
    scope: &Scope,
    search: &StorySearch,
    notes: &mut Vec<String>,
) -> Result<Vec<String>, DbError> {
    let mut known = vec![search.correlation.clone()];
    let mut queried = 0;
    // Linked ids may have further links: a command about a payment, the payment, the request that brought it.
    while let Some(correlation) = known.get(queried).cloned() {
        queried += 1;
        for sql in platform.story_links() {
            let rows = query_service(db, scope, search, sql, &correlation, notes).await?;
            for linked in rows {
                if known.len() <= LINKED_MAX && !known.contains(&linked) {
                    known.push(linked);
                }
            }
        }
    }
    known.remove(0);
    Ok(known)
}

/// Queries one service. One without its tables in this database has no links; one that is too slow adds a note.
async fn query_service(
    db: &Db,
    scope: &Scope,
    search: &StorySearch,
    sql: &'static str,
    correlation: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<String>, DbError> {
    let mut tx = db.begin(scope.clone()).await?;
    tx.queue_statements(&format!("SET LOCAL statement_timeout = {}", search.timeout.as_millis()));
    match tx.query(sql, &[&correlation, &i32::try_from(LINKED_MAX).unwrap_or(i32::MAX)]).await {
        Ok(rows) => {
            tx.rollback().await?;
            Ok(rows.iter().map(|row| row.get(0)).collect())
        }
        Err(error) if error.sql_state().is_some_and(|state| NOT_MIGRATED.contains(&state.code())) => Ok(Vec::new()),
        Err(error) if is_search_aborted(&error) => {
            notes.push(format!("the search for other correlation ids of this story did not finish: {error}"));
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// Returns when the story began, if any of its ids contains a time.
pub(super) fn earliest_start(linked: &[String]) -> Option<Timestamp> {
    linked.iter().filter_map(|id| created_at(id)).min()
}

/// Returns when an id was created; in an id like `payment:<UUID>` the last part contains the time.
fn created_at(id: &str) -> Option<Timestamp> {
    StorySearch::new(id.rsplit(':').next().unwrap_or(id)).since
}

/// Returns the search for a linked id. Its messages may be days older than those of the first id, so it begins when
/// the linked id was created, unless `since` was requested.
pub(super) fn search_for(first: &StorySearch, linked: &str) -> StorySearch {
    let since_was_requested = first.since != StorySearch::new(&*first.correlation).since;
    let own = created_at(linked).filter(|_| !since_was_requested);
    StorySearch { correlation: linked.to_owned(), since: own.or(first.since), ..first.clone() }
}

/// Adds the rows found under another correlation id.
pub(super) fn merge(found: &mut StoryRows, other: StoryRows) {
    found.log.extend(other.log);
    found.deferred.extend(other.deferred);
    found.dead.extend(other.dead);
    found.attempts.extend(other.attempts);
    found.deferred_by_id |= other.deferred_by_id;
    found.is_truncated |= other.is_truncated;
    other.partitions.into_iter().for_each(|part| merge_partition(&mut found.partitions, part));
}

/// Reports a partition once, with the least complete of its searches.
fn merge_partition(parts: &mut Vec<SearchedPartition>, other: SearchedPartition) {
    match parts.iter_mut().find(|part| part.epoch == other.epoch) {
        None => parts.push(other),
        Some(part) if incompleteness(&part.method) < incompleteness(&other.method) => part.method = other.method,
        Some(_) => {}
    }
}

fn incompleteness(how: &SearchMethod) -> u8 {
    match how {
        SearchMethod::Index | SearchMethod::Whole => 0,
        SearchMethod::Between(..) => 1,
        SearchMethod::Aborted(_) => 2,
    }
}

/// Returns a sentence about the other ids.
pub(super) fn note(linked: &[String]) -> Option<String> {
    let shown = linked.join(", ");
    match linked.len() {
        0 => None,
        LINKED_MAX.. => Some(format!(
            "this story also has the correlation ids {shown}; there may be more, because at most {LINKED_MAX} are followed"
        )),
        _ => Some(format!("this story also has the correlation ids {shown}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn part(epoch: i32, how: SearchMethod) -> SearchedPartition {
        SearchedPartition { epoch, opened_at: Timestamp::UNIX_EPOCH, closed_at: None, bytes: 0, method: how }
    }

    #[test]
    fn a_partition_is_reported_once_with_its_least_complete_search() {
        let gave_up = || SearchMethod::Aborted("too slow".into());
        let between = || SearchMethod::Between(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        let mut found =
            StoryRows { partitions: vec![part(1, SearchMethod::Index), part(2, between())], ..StoryRows::default() };
        let other = vec![part(1, gave_up()), part(2, SearchMethod::Whole), part(3, SearchMethod::Whole)];
        merge(&mut found, StoryRows { partitions: other, ..StoryRows::default() });
        assert_eq!(found.partitions, [part(1, gave_up()), part(2, between()), part(3, SearchMethod::Whole)]);
    }

    #[test]
    fn a_linked_id_is_searched_from_its_creation_on() {
        let uuid_of = |seconds| {
            let at = uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0);
            Uuid::new_v7(at).to_string()
        };
        let first = StorySearch::new(uuid_of(1_800_000_000));
        let older = uuid_of(1_700_000_000);
        let expected = StorySearch::new(&*older).since;
        assert!(expected.is_some() && expected < first.since);
        assert_eq!(search_for(&first, &format!("payment:{older}")).since, expected);
        assert_eq!(search_for(&first, "a key").since, first.since, "an id that contains no time");
        let requested = StorySearch { since: Some(Timestamp::UNIX_EPOCH), ..first };
        assert_eq!(
            search_for(&requested, &older).since,
            Some(Timestamp::UNIX_EPOCH),
            "--since applies to the whole story"
        );
    }
}
