//! Streams and groups: making what is missing, and finding what differs.

use crate::{
    link::Link,
    names::{self, QueueNames},
    pool::Shared,
};
use onceward_transport::{BrokerError, Difference};
use redis::{RedisResult, Value};
use std::collections::HashMap;

/// What a queue's key holds.
enum Found {
    Nothing,
    /// A stream with these groups.
    Groups(Vec<String>),
    Other(String),
}

pub(crate) async fn declare(shared: &Shared) -> Result<Vec<String>, BrokerError> {
    let mut link = shared.link().await?;
    let mut made = Vec::new();
    for queue in &shared.topology.queues {
        let names = QueueNames::new(&queue.name);
        let found = look(&mut link, &names).await.map_err(|error| shared.lost(error))?;
        let what = match found {
            Found::Groups(groups) if groups.contains(&names.queue) => continue,
            Found::Groups(_) => format!("the readers' group of queue {}", names.queue),
            Found::Nothing => format!("queue {}", names.queue),
            Found::Other(kind) => {
                let what = format!("the key {} holds a {kind} instead of a stream: rename or delete it", names.stream);
                return Err(BrokerError::Misconfigured(what));
            }
        };
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(&names.stream).arg(&names.queue).arg(0).arg("MKSTREAM");
        match link.ask::<()>(&create).await {
            Ok(()) => made.push(what),
            // Somebody else declares at the same time.
            Err(error) if error.code() == Some("BUSYGROUP") => {}
            Err(error) => return Err(shared.lost(error)),
        }
    }
    shared.keep(link);
    Ok(made)
}

pub(crate) async fn check(shared: &Shared) -> Result<Vec<Difference>, BrokerError> {
    let mut link = shared.link().await?;
    let mut differences = Vec::new();
    for queue in &shared.topology.queues {
        let names = QueueNames::new(&queue.name);
        let found = look(&mut link, &names).await.map_err(|error| shared.lost(error))?;
        let differs = |declared: String, found: String, advice: &str| Difference {
            what: format!("queue {}", names.queue),
            declared,
            found,
            advice: advice.to_owned(),
        };
        const DECLARE: &str = "run `onceward topology declare`";
        let stream = || format!("the stream {}", names.stream);
        match found {
            Found::Nothing => differences.push(differs(stream(), "nothing".to_owned(), DECLARE)),
            Found::Other(kind) => {
                differences.push(differs(stream(), format!("a {kind}"), "rename or delete the key, then declare"));
            }
            Found::Groups(groups) => {
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
                        "it misses messages, which are deleted once the queue's own readers have them; bind a queue of \
                         its own for it, and remove the group",
                    ));
                }
            }
        }
    }
    shared.keep(link);
    Ok(differences)
}

/// Entries are deleted when they are accepted, so those that are left still wait.
pub(crate) async fn waiting(shared: &Shared, queue: &str) -> Result<Option<u64>, BrokerError> {
    let names = QueueNames::declared(&shared.topology, queue)?;
    let mut link = shared.link().await?;
    let waiting: u64 = link.ask(redis::cmd("XLEN").arg(&names.stream)).await.map_err(|error| shared.lost(error))?;
    let exists =
        waiting > 0 || link.ask(redis::cmd("EXISTS").arg(&names.stream)).await.map_err(|error| shared.lost(error))?;
    shared.keep(link);
    if exists { Ok(Some(waiting)) } else { Err(names::missing(queue)) }
}

async fn look(link: &mut Link, names: &QueueNames) -> RedisResult<Found> {
    let kind: String = link.ask(redis::cmd("TYPE").arg(&names.stream)).await?;
    if kind != "stream" {
        return Ok(if kind == "none" { Found::Nothing } else { Found::Other(kind) });
    }
    let groups: Vec<HashMap<String, Value>> = link.ask(redis::cmd("XINFO").arg("GROUPS").arg(&names.stream)).await?;
    let names = groups.into_iter().filter_map(|mut group| group.remove("name"));
    let names: Result<Vec<String>, _> = names.map(redis::from_redis_value).collect();
    Ok(Found::Groups(names?))
}
