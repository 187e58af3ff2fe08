//! Advice for the operator about the server.

use crate::{connection::RedisConnection, pool::SharedState};
use onceward_broker::BrokerError;
use redis::RedisResult;
use std::collections::HashMap;

/// The first version with scripts that may run on a full server, which readers need to drain it.
const OLDEST_MAJOR: u32 = 7;

pub(crate) async fn advise(shared: &SharedState) -> Result<Vec<String>, BrokerError> {
    let mut connection = shared.connection().await?;
    let info: String = connection.command(&redis::cmd("INFO")).await.map_err(|error| shared.connection_error(error))?;
    let fsync = fsync_policy(&mut connection).await.map_err(|error| shared.connection_error(error))?;
    shared.put_back(connection);
    Ok(advice(&info, fsync.as_deref()))
}

/// Returns the `appendfsync` setting, or `None` on servers that hide their settings, as managed ones often do.
async fn fsync_policy(connection: &mut RedisConnection) -> RedisResult<Option<String>> {
    match connection.command::<HashMap<String, String>>(redis::cmd("CONFIG").arg("GET").arg("appendfsync")).await {
        Ok(mut settings) => Ok(settings.remove("appendfsync")),
        Err(error) if error.is_io_error() => Err(error),
        Err(_) => Ok(None),
    }
}

fn advice(info: &str, fsync: Option<&str>) -> Vec<String> {
    let facts: HashMap<&str, &str> = info.lines().filter_map(|line| line.trim().split_once(':')).collect();
    let fact = |name: &str| facts.get(name).copied().unwrap_or_default();
    let mut advice = Vec::new();
    let version = fact("redis_version");
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major < OLDEST_MAJOR) {
        advice.push(format!("Redis {version} lacks features that the bus needs: use {OLDEST_MAJOR}.0 or newer."));
    }
    if fact("cluster_enabled") == "1" {
        advice.push("Redis runs in cluster mode, which the bus does not support: set cluster-enabled no.".to_owned());
    }
    if fact("role") == "slave" {
        advice.push("This Redis is a replica and refuses messages: point the bus URL to the primary.".to_owned());
    }
    if fact("aof_enabled") == "0" {
        let what = "Redis writes no append-only file, so a crash loses every message since the last snapshot: set appendonly yes.";
        advice.push(what.to_owned());
    } else if fsync == Some("no") {
        let what = "Redis leaves flushing its append-only file to the operating system, so a power failure can lose half a minute \
                    of messages: set appendfsync always.";
        advice.push(what.to_owned());
    } else if fsync == Some("everysec") {
        let what = "Redis flushes its append-only file once a second and confirms messages before that, so a crash can lose up to \
                    two seconds of messages: set appendfsync always if none may be lost.";
        advice.push(what.to_owned());
    }
    match fact("maxmemory_policy") {
        policy if policy.starts_with("allkeys") => advice.push(format!(
            "When its memory is full, Redis deletes messages to free space (maxmemory-policy {policy}): set noeviction, and \
             messages wait in PostgreSQL instead."
        )),
        policy if policy.starts_with("volatile") => advice.push(format!(
            "When its memory is full, Redis deletes the readers' leases (maxmemory-policy {policy}), and queues change their \
             readers needlessly: set noeviction."
        )),
        _ => {}
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nrole:master\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n\
                        cluster_enabled:0\r\n";

    #[test]
    fn a_durable_server_needs_no_advice() {
        assert_eq!(advice(GOOD, Some("always")), Vec::<String>::new());
        assert_eq!(advice(GOOD, None), Vec::<String>::new());
    }

    #[test]
    fn each_setting_that_can_lose_messages_has_its_advice() {
        for (from, to, named) in [
            ("aof_enabled:1", "aof_enabled:0", "appendonly yes"),
            ("noeviction", "allkeys-lru", "maxmemory-policy allkeys-lru"),
            ("noeviction", "volatile-ttl", "maxmemory-policy volatile-ttl"),
            ("7.0.15", "6.2.7", "use 7.0 or newer"),
            ("role:master", "role:slave", "replica"),
            ("cluster_enabled:0", "cluster_enabled:1", "cluster-enabled no"),
        ] {
            let found = advice(&GOOD.replace(from, to), Some("always"));
            assert!(matches!(&found[..], [only] if only.contains(named)), "{to}: {found:?}");
        }
        for fsync in ["no", "everysec"] {
            assert!(advice(GOOD, Some(fsync))[0].contains("appendfsync always"), "{fsync}");
        }
    }
}
