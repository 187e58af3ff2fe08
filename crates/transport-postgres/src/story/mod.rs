//! What the database still knows of one correlation id: messages in the log, put aside, and dead.
//!
//! A partition that has closed is searched by its index. The open one has none, because every publish would pay for it:
//! it is read as a whole while it is small, and between two times when it is not (`docs/decisions/0011`).

mod rows;

pub use rows::{AsideRow, DeadRow, LogRow, Message};

use crate::store;
use jiff::{SignedDuration, Timestamp};
use onceward_db::{Db, DbError, Row, Scope, ToSql, Tx};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

/// Clocks of publishers and of the database may differ by so much.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(5);
/// How much longer than the server we wait for its answer.
const NETWORK: Duration = Duration::from_secs(5);

/// What to look for, and how hard.
#[derive(Clone, Debug)]
pub struct Search {
    /// The correlation id.
    pub correlation: String,
    /// The story began then or later; `None`: nobody knows.
    pub since: Option<Timestamp>,
    /// How long after its beginning a story is followed where there is no index.
    pub within: SignedDuration,
    /// Who reads each queue, by its name.
    pub readers: Vec<(String, String)>,
    /// Rows of each kind, at most.
    pub limit: usize,
    /// A partition up to this size is read as a whole.
    pub whole_bytes: i64,
    /// How long the search of one partition may take.
    pub timeout: Duration,
}

impl Search {
    /// A search with the documented values. An id that is a version 7 UUID tells when the story began.
    pub fn new(correlation: impl Into<String>) -> Self {
        let correlation = correlation.into();
        Self {
            since: made_at(&correlation).and_then(|made| made.checked_sub(CLOCKS_DIFFER).ok()),
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
        let until = since.checked_add(CLOCKS_DIFFER + self.within).unwrap_or(Timestamp::MAX);
        Some((since, until))
    }
}

/// When a version 7 UUID was made.
pub fn made_at(id: &str) -> Option<Timestamp> {
    let id = Uuid::parse_str(id).ok().filter(|id| id.get_version_num() == 7)?;
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanoseconds).ok()?).ok()
}

/// What was found, and where nobody looked.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Rows of the log, in the order in which they were written.
    pub log: Vec<LogRow>,
    /// Messages put aside.
    pub aside: Vec<AsideRow>,
    /// Those put aside could only be looked up by the ids in the log.
    pub aside_by_id: bool,
    /// Dead letters.
    pub dead: Vec<DeadRow>,
    /// How each partition was searched.
    pub parts: Vec<Part>,
    /// A limit was reached, so there may be more.
    pub cut: bool,
}

/// A partition of the log, and how it was searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number.
    pub epoch: i32,
    /// It takes messages since then.
    pub opened_at: Timestamp,
    /// And until then; `None`: it still does.
    pub closed_at: Option<Timestamp>,
    /// How large it is.
    pub bytes: i64,
    /// How it was searched.
    pub how: How,
}

/// How a partition was searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// By its index, so completely.
    Index,
    /// Row by row, so completely.
    Whole,
    /// What was written between two times.
    Between(Timestamp, Timestamp),
    /// Not to the end, and why.
    GaveUp(String),
}

/// Looks for a story in `scope`: one tenant's part of it, or all. `progress` hears what takes its time.
pub async fn find(db: &Db, scope: &Scope, search: &Search, progress: impl Fn(&Part)) -> Result<Found, DbError> {
    let mut found = Found::default();
    let limit = i32::try_from(search.limit).unwrap_or(i32::MAX);
    for mut part in parts(db, scope, search).await? {
        progress(&part);
        match log(db, scope, search, &part, limit).await {
            Ok(rows) => {
                found.cut |= rows.len() >= search.limit;
                found.log.extend(rows);
            }
            Err(error) if gave_up(&error) => part.how = How::GaveUp(error.to_string()),
            Err(error) => return Err(error),
        }
        found.parts.push(part);
    }
    let correlation = Some(search.correlation.as_str());
    let aside = rows(db, scope, search, store::STORY_DEFERRED, &[&correlation, &Vec::<Uuid>::new(), &limit]).await;
    let aside = match aside {
        Err(error) if gave_up(&error) => {
            found.aside_by_id = true;
            let ids: Vec<Uuid> = found.log.iter().map(|row| row.message.id).collect();
            rows(db, scope, search, store::STORY_DEFERRED, &[&None::<&str>, &ids, &limit]).await?
        }
        aside => aside?,
    };
    found.aside = aside.iter().map(AsideRow::read).collect();
    let dead = rows(db, scope, search, store::STORY_DEAD, &[&correlation, &limit]).await?;
    found.dead = dead.iter().map(DeadRow::read).collect();
    found.cut |= found.aside.len() >= search.limit || found.dead.len() >= search.limit;
    Ok(found)
}

/// The partitions, each with the way in which it is to be searched.
async fn parts(db: &Db, scope: &Scope, search: &Search) -> Result<Vec<Part>, DbError> {
    let rows = rows(db, scope, search, store::STORY_PARTS, &[]).await?;
    let parts = rows.iter().map(|row| {
        let (indexed, bytes): (bool, i64) = (row.get("indexed"), row.get("bytes"));
        let how = match search.window() {
            _ if indexed => How::Index,
            Some((from, to)) if bytes > search.whole_bytes => How::Between(from, to),
            _ => How::Whole,
        };
        Part { epoch: row.get("epoch"), opened_at: row.get("opened_at"), closed_at: row.get("closed_at"), bytes, how }
    });
    Ok(parts.collect())
}

async fn log(db: &Db, scope: &Scope, search: &Search, part: &Part, limit: i32) -> Result<Vec<LogRow>, DbError> {
    let (mut after, mut upto): (Option<i64>, Option<i64>) = (None, None);
    if let How::Between(from, to) = part.how {
        let range = rows(db, scope, search, store::SEQ_RANGE, &[&from, &to]).await?;
        (after, upto) = (Some(range[0].get(0)), Some(range[0].get(1)));
    }
    let readers: Map<String, Value> =
        search.readers.iter().map(|(queue, consumer)| (queue.clone(), consumer.as_str().into())).collect();
    let params: [&(dyn ToSql + Sync); 6] =
        [&part.epoch, &search.correlation, &after, &upto, &Value::from(readers), &limit];
    Ok(rows(db, scope, search, store::STORY_LOG, &params).await?.iter().map(LogRow::read).collect())
}

/// One statement, in a transaction of its own that neither side waits for longer than it may.
async fn rows(
    db: &Db,
    scope: &Scope,
    search: &Search,
    sql: &'static str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, DbError> {
    let asked = async {
        let mut tx: Tx = db.begin(scope.clone()).await?;
        tx.queue_statements(&format!("SET LOCAL statement_timeout = {}", search.timeout.as_millis()));
        let rows = tx.query(sql, params).await?;
        tx.rollback().await?;
        Ok(rows)
    };
    let lost = || DbError::Unavailable(format!("no answer within {} s", (search.timeout + NETWORK).as_secs()));
    tokio::time::timeout(search.timeout + NETWORK, asked).await.unwrap_or_else(|_| Err(lost()))
}

/// It took too long, or the partition was dropped meanwhile: the rest can still be told.
pub fn gave_up(error: &DbError) -> bool {
    error.sql_state().is_some_and(|state| [SqlState::QUERY_CANCELED, SqlState::UNDEFINED_TABLE].contains(state))
}
