//! The length of a queue's stream. Entries are deleted when they are accepted, so all that remain are waiting.

use crate::{
    names::{self, QueueNames},
    pool::SharedState,
};
use jiff::Timestamp;
use onceward_broker::{Backlog, BrokerError, wire::PUBLISHED_AT};
use redis::Value;

/// An entry: its id, and its fields as alternating names and values.
type RawEntry = (String, Vec<Vec<u8>>);

pub(crate) async fn backlog(shared: &SharedState, queue: &str) -> Result<Backlog, BrokerError> {
    let names = QueueNames::declared(&shared.topology, queue)?;
    let mut connection = shared.connection().await?;
    let waiting: u64 = connection
        .command(redis::cmd("XLEN").arg(&names.stream))
        .await
        .map_err(|error| shared.connection_error(error))?;
    if waiting == 0 {
        let exists: bool = connection
            .command(redis::cmd("EXISTS").arg(&names.stream))
            .await
            .map_err(|error| shared.connection_error(error))?;
        shared.put_back(connection);
        return if exists { Ok(Backlog { waiting: Some(0), oldest_at: None }) } else { Err(names::missing(queue)) };
    }
    let mut first = redis::cmd("XRANGE");
    first.arg(&names.stream).arg("-").arg("+").arg("COUNT").arg(1);
    let entries: Vec<Value> = connection.command(&first).await.map_err(|error| shared.connection_error(error))?;
    shared.put_back(connection);
    let entry = entries.into_iter().next().and_then(|entry| redis::from_redis_value::<RawEntry>(entry).ok());
    Ok(Backlog { waiting: Some(waiting), oldest_at: entry.as_ref().and_then(published_at) })
}

/// Returns when an entry was published, from its header or else its id, which starts with the server's milliseconds.
fn published_at((id, fields): &RawEntry) -> Option<Timestamp> {
    let published = fields.chunks_exact(2).find(|field| field[0] == PUBLISHED_AT.as_bytes()).map(|field| &field[1]);
    let published = published.and_then(|time| std::str::from_utf8(time).ok()?.parse::<Timestamp>().ok());
    published.or_else(|| Timestamp::from_millisecond(id.split('-').next()?.parse().ok()?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fields: &[&str]) -> RawEntry {
        ("1600000000123-0".to_owned(), fields.iter().map(|field| field.as_bytes().to_vec()).collect())
    }

    #[test]
    fn the_age_comes_from_the_header_or_else_from_the_id() {
        let age = |fields: &[&str]| published_at(&entry(fields)).map(|time| time.to_string());
        assert_eq!(age(&["body", "{}", "x-published-at", "2026-11-05T10:00:00Z"]).unwrap(), "2026-11-05T10:00:00Z");
        assert_eq!(age(&["body", "x-published-at"]).unwrap(), "2020-09-13T12:26:40.123Z");
        assert_eq!(age(&["x-published-at", "yesterday"]).unwrap(), "2020-09-13T12:26:40.123Z");
    }
}
