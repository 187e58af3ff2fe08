//! Finds what the database still holds for one correlation id: messages in the log, deferred, and dead.
//!
//! A closed partition is searched by its index. The open one has no index, because every publish would pay for it: it
//! is read in full while it is small, and between two times when it is not (`docs/decisions/0011`).

mod rows;

pub use rows::{AttemptRow, DeadLetterRow, DeferredRow, LogRow, StoryMessageRow};

use jiff::{SignedDuration, Timestamp};
use onceward_db::{Db, DbError, Row, Scope, ToSql, Tx};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

// In `migrations/0021_story.sql`:
const STORY_DEFERRED: &str = "SELECT * FROM onceward.story_deferred($1, $2, $3)";
const STORY_DEAD: &str = "SELECT * FROM onceward.story_dead($1, $2)";
const STORY_ATTEMPTS: &str = "SELECT id, queue, attempt, at, error FROM onceward.story_attempts($1)";
const STORY_PARTS: &str = "SELECT * FROM onceward.story_parts()";
// In `migrations/0020_cancel.sql`:
const SEQ_RANGE: &str = "SELECT after_seq, upto_seq FROM onceward.seq_range($1, $2)";
// In `migrations/0021_story.sql`:
const STORY_LOG: &str = "SELECT * FROM onceward.story_log($1, $2, $3, $4, $5, $6)";

/// The maximum difference between the clocks of publishers and of the database.
const CLOCK_SKEW_MAX: SignedDuration = SignedDuration::from_mins(5);
/// How much longer than the server's timeout we wait for its response.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(5);

/// The search criteria and limits.
#[derive(Clone, Debug)]
pub struct StorySearch {
    /// The correlation id.
    pub correlation: String,
    /// The earliest time the story can have begun; `None` if unknown.
    pub since: Option<Timestamp>,
    /// How long after its beginning a story is followed where no index exists.
    pub within: SignedDuration,
    /// The consumer of each queue, as (queue, consumer).
    pub readers: Vec<(String, String)>,
    /// The maximum number of rows of each kind.
    pub limit: usize,
    /// A partition up to this size is read in full.
    pub whole_bytes: i64,
    /// How long the search of one partition may take.
    pub timeout: Duration,
}

impl StorySearch {
    /// Creates a search with the documented values. If the id is a version 7 UUID, the beginning of the story is taken
    /// from it.
    pub fn new(correlation: impl Into<String>) -> Self {
        let correlation = correlation.into();
        Self {
            since: uuid_created_at(&correlation).and_then(|created| created.checked_sub(CLOCK_SKEW_MAX).ok()),
            correlation,
            within: SignedDuration::from_hours(1),
            readers: Vec::new(),
            limit: 1_000,
            whole_bytes: 256 << 20,
            timeout: Duration::from_secs(30),
        }
    }

    fn window(&self) -> Option<(Timestamp, Timestamp)> {
        let since = self.since?;
        let until = since.checked_add(CLOCK_SKEW_MAX + self.within).unwrap_or(Timestamp::MAX);
        Some((since, until))
    }
}

/// Returns when a version 7 UUID was created.
pub fn uuid_created_at(id: &str) -> Option<Timestamp> {
    let id = Uuid::parse_str(id).ok().filter(|id| id.get_version_num() == 7)?;
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanoseconds).ok()?).ok()
}

/// The search result, including which parts were not searched.
#[derive(Clone, Debug, Default)]
pub struct StoryRows {
    /// Rows of the log, in the order in which they were written.
    pub log: Vec<LogRow>,
    /// Deferred messages.
    pub deferred: Vec<DeferredRow>,
    /// The deferred messages could only be looked up by the ids in the log.
    pub deferred_by_id: bool,
    /// Dead letters.
    pub dead: Vec<DeadLetterRow>,
    /// Failed attempts, oldest first.
    pub attempts: Vec<AttemptRow>,
    /// How each partition was searched.
    pub partitions: Vec<SearchedPartition>,
    /// A limit was reached, so more may exist.
    pub is_truncated: bool,
}

/// A partition of the log, and how it was searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchedPartition {
    /// Its number.
    pub epoch: i32,
    /// When it was opened for messages.
    pub opened_at: Timestamp,
    /// When it was closed; `None` if it is still open.
    pub closed_at: Option<Timestamp>,
    /// Its size.
    pub bytes: i64,
    /// How it was searched.
    pub method: SearchMethod,
}

/// How a partition was searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchMethod {
    /// By its index, and therefore completely.
    Index,
    /// Row by row, and therefore completely.
    Whole,
    /// Only what was written between two times.
    Between(Timestamp, Timestamp),
    /// Not to the end, for this reason.
    Aborted(String),
}

/// Searches for a story in `scope`: one tenant's part of it, or all of it. Calls `progress` before searching each
/// partition.
pub async fn find(
    db: &Db,
    scope: &Scope,
    search: &StorySearch,
    progress: impl Fn(&SearchedPartition),
) -> Result<StoryRows, DbError> {
    let mut found = StoryRows::default();
    let limit = i32::try_from(search.limit).unwrap_or(i32::MAX);
    for mut partition in partitions(db, scope, search).await? {
        progress(&partition);
        match log(db, scope, search, &partition, limit).await {
            Ok(rows) => {
                found.is_truncated |= rows.len() >= search.limit;
                found.log.extend(rows);
            }
            Err(error) if is_search_aborted(&error) => partition.method = SearchMethod::Aborted(error.to_string()),
            Err(error) => return Err(error),
        }
        found.partitions.push(partition);
    }
    let correlation = Some(search.correlation.as_str());
    let deferred = rows(db, scope, search, STORY_DEFERRED, &[&correlation, &Vec::<Uuid>::new(), &limit]).await;
    let deferred = match deferred {
        Err(error) if is_search_aborted(&error) => {
            found.deferred_by_id = true;
            let ids: Vec<Uuid> = found.log.iter().map(|row| row.message.id).collect();
            rows(db, scope, search, STORY_DEFERRED, &[&None::<&str>, &ids, &limit]).await?
        }
        deferred => deferred?,
    };
    found.deferred = deferred.iter().map(DeferredRow::read).collect();
    let dead = rows(db, scope, search, STORY_DEAD, &[&correlation, &limit]).await?;
    found.dead = dead.iter().map(DeadLetterRow::read).collect();
    let mut ids: Vec<Uuid> = found.log.iter().map(|row| row.message.id).collect();
    ids.extend(found.deferred.iter().map(|row| row.message.id));
    ids.sort_unstable();
    ids.dedup();
    let attempts = rows(db, scope, search, STORY_ATTEMPTS, &[&ids]).await?;
    found.attempts = attempts.iter().map(AttemptRow::read).collect();
    found.is_truncated |= found.deferred.len() >= search.limit || found.dead.len() >= search.limit;
    Ok(found)
}

/// Returns the partitions, each with the way in which it is to be searched.
async fn partitions(db: &Db, scope: &Scope, search: &StorySearch) -> Result<Vec<SearchedPartition>, DbError> {
    let rows = rows(db, scope, search, STORY_PARTS, &[]).await?;
    let partitions = rows.iter().map(|row| {
        let (indexed, bytes): (bool, i64) = (row.get("indexed"), row.get("bytes"));
        let method = match search.window() {
            _ if indexed => SearchMethod::Index,
            Some((from, to)) if bytes > search.whole_bytes => SearchMethod::Between(from, to),
            _ => SearchMethod::Whole,
        };
        SearchedPartition {
            epoch: row.get("epoch"),
            opened_at: row.get("opened_at"),
            closed_at: row.get("closed_at"),
            bytes,
            method,
        }
    });
    Ok(partitions.collect())
}

async fn log(
    db: &Db,
    scope: &Scope,
    search: &StorySearch,
    partition: &SearchedPartition,
    limit: i32,
) -> Result<Vec<LogRow>, DbError> {
    let (mut after, mut upto): (Option<i64>, Option<i64>) = (None, None);
    if let SearchMethod::Between(from, to) = partition.method {
        let range = rows(db, scope, search, SEQ_RANGE, &[&from, &to]).await?;
        (after, upto) = (Some(range[0].get(0)), Some(range[0].get(1)));
    }
    let readers: Map<String, Value> =
        search.readers.iter().map(|(queue, consumer)| (queue.clone(), consumer.as_str().into())).collect();
    let params: [&(dyn ToSql + Sync); 6] =
        [&partition.epoch, &search.correlation, &after, &upto, &Value::from(readers), &limit];
    Ok(rows(db, scope, search, STORY_LOG, &params).await?.iter().map(LogRow::read).collect())
}

/// Runs one statement in a transaction of its own, with a timeout on both sides.
async fn rows(
    db: &Db,
    scope: &Scope,
    search: &StorySearch,
    sql: &'static str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, DbError> {
    let query = async {
        let mut tx: Tx = db.begin(scope.clone()).await?;
        tx.queue_statements(&format!("SET LOCAL statement_timeout = {}", search.timeout.as_millis()));
        let rows = tx.query(sql, params).await?;
        tx.rollback().await?;
        Ok(rows)
    };
    let timed_out =
        || DbError::Unavailable(format!("no response within {} s", (search.timeout + NETWORK_TIMEOUT).as_secs()));
    tokio::time::timeout(search.timeout + NETWORK_TIMEOUT, query).await.unwrap_or_else(|_| Err(timed_out()))
}

/// Returns whether the search took too long, or the partition was dropped meanwhile; the remaining results are still
/// valid.
pub fn is_search_aborted(error: &DbError) -> bool {
    error.sql_state().is_some_and(|state| [SqlState::QUERY_CANCELED, SqlState::UNDEFINED_TABLE].contains(state))
}
