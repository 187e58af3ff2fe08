//! Streams and groups: creating missing ones, and reporting differences.

use crate::{connection::RedisConnection, names::QueueNames, pool::SharedState};
use onceward_broker::{BrokerError, TopologyDifference};
use redis::{RedisResult, Value};
use std::collections::HashMap;

/// The state of a queue's stream.
enum StreamState {
    Missing,
    /// A stream with these groups.
    Groups(Vec<String>),
    OtherType(String),
}

pub(crate) async fn declare(shared: &SharedState) -> Result<Vec<String>, BrokerError> {
    let mut connection = shared.connection().await?;
    let mut created = Vec::new();
    for queue in &shared.topology.queues {
        let names = QueueNames::new(&queue.name);
        let found = inspect(&mut connection, &names).await.map_err(|error| shared.connection_error(error))?;
        let what = match found {
            StreamState::Groups(groups) if groups.contains(&names.queue) => continue,
            StreamState::Groups(_) => format!("consumer group of queue {}", names.queue),
            StreamState::Missing => format!("queue {}", names.queue),
            StreamState::OtherType(kind) => {
                let what = format!("the key {} is a {kind} instead of a stream: rename or delete it", names.stream);
                return Err(BrokerError::Misconfigured(what));
            }
        };
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(&names.stream).arg(&names.queue).arg(0).arg("MKSTREAM");
        match connection.command::<()>(&create).await {
            Ok(()) => created.push(what),
            // Another process declares at the same time.
            Err(error) if error.code() == Some("BUSYGROUP") => {}
            Err(error) => return Err(shared.connection_error(error)),
        }
    }
    shared.put_back(connection);
    Ok(created)
}

pub(crate) async fn check(shared: &SharedState) -> Result<Vec<TopologyDifference>, BrokerError> {
    let mut connection = shared.connection().await?;
    let mut differences = Vec::new();
    for queue in &shared.topology.queues {
        let names = QueueNames::new(&queue.name);
        let found = inspect(&mut connection, &names).await.map_err(|error| shared.connection_error(error))?;
        let differs = |declared: String, found: String, advice: &str| TopologyDifference {
            what: format!("queue {}", names.queue),
            declared,
            found,
            advice: advice.to_owned(),
        };
        const DECLARE: &str = "run `onceward topology declare`";
        let stream = || format!("the stream {}", names.stream);
        match found {
            StreamState::Missing => differences.push(differs(stream(), "nothing".to_owned(), DECLARE)),
            StreamState::OtherType(kind) => {
                differences.push(differs(
                    stream(),
                    format!("a {kind}"),
                    "rename or delete the key, then run `onceward topology declare`",
                ));
            }
            StreamState::Groups(groups) => {
                if !groups.contains(&names.queue) {
                    differences.push(differs(
                        format!("the group {}", names.queue),
                        "no such group".to_owned(),
                        DECLARE,
                    ));
                }
                for other in groups.iter().filter(|group| **group != names.queue) {
                    differences.push(differs(
                        format!("the group {} and no other", names.queue),
                        format!("the group {other}"),
                        "it misses messages, because they are deleted once the queue's own group has accepted them; bind a \
                         separate queue for it, and delete the group",
                    ));
                }
            }
        }
    }
    shared.put_back(connection);
    Ok(differences)
}

async fn inspect(connection: &mut RedisConnection, names: &QueueNames) -> RedisResult<StreamState> {
    let kind: String = connection.command(redis::cmd("TYPE").arg(&names.stream)).await?;
    if kind != "stream" {
        return Ok(if kind == "none" { StreamState::Missing } else { StreamState::OtherType(kind) });
    }
    let groups: Vec<HashMap<String, Value>> =
        connection.command(redis::cmd("XINFO").arg("GROUPS").arg(&names.stream)).await?;
    let names = groups.into_iter().filter_map(|mut group| group.remove("name"));
    let names: Result<Vec<String>, _> = names.map(redis::from_redis_value).collect();
    Ok(StreamState::Groups(names?))
}
