//! What an operator should know about the server.

use crate::{link::Link, pool::Shared};
use onceward_transport::BrokerError;
use redis::RedisResult;
use std::collections::HashMap;

/// Scripts that may run on a full server, which readers need to empty it, came with this one.
const OLDEST_MAJOR: u32 = 7;

pub(crate) async fn advise(shared: &Shared) -> Result<Vec<String>, BrokerError> {
    let mut link = shared.link().await?;
    let info: String = link.ask(&redis::cmd("INFO")).await.map_err(|error| shared.lost(error))?;
    let fsync = fsync_policy(&mut link).await.map_err(|error| shared.lost(error))?;
    shared.keep(link);
    Ok(advice(&info, fsync.as_deref()))
}

/// Managed servers often hide their settings; that is no failure.
async fn fsync_policy(link: &mut Link) -> RedisResult<Option<String>> {
    match link.ask::<HashMap<String, String>>(redis::cmd("CONFIG").arg("GET").arg("appendfsync")).await {
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
        advice.push(format!("Redis {version} lacks what the bus needs: use {OLDEST_MAJOR}.0 or newer."));
    }
    if fact("cluster_enabled") == "1" {
        advice.push("Redis runs in cluster mode, which the bus cannot use: set cluster-enabled no.".to_owned());
    }
    if fact("role") == "slave" {
        advice.push("This Redis is a replica and refuses messages: let the bus URL lead to the primary.".to_owned());
    }
    if fact("aof_enabled") == "0" {
        let what = "Redis keeps no append-only file, so a crash loses every message since its last snapshot: set appendonly yes.";
        advice.push(what.to_owned());
    } else if fsync == Some("no") {
        let what = "Redis leaves it to the system when its append-only file reaches the disk, so a power failure can lose half a \
                    minute of messages: set appendfsync always.";
        advice.push(what.to_owned());
    } else if fsync == Some("everysec") {
        let what = "Redis writes its append-only file to the disk once a second and confirms messages before, so a crash can lose \
                    a second or two of them: set appendfsync always if none may be lost.";
        advice.push(what.to_owned());
    }
    match fact("maxmemory_policy") {
        policy if policy.starts_with("allkeys") => advice.push(format!(
            "When its memory is full, Redis deletes messages to make room (maxmemory-policy {policy}): set noeviction, and \
             messages wait in PostgreSQL instead."
        )),
        policy if policy.starts_with("volatile") => advice.push(format!(
            "When its memory is full, Redis deletes the readers' leases (maxmemory-policy {policy}), and queues change hands \
             for nothing: set noeviction."
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
    fn a_server_that_loses_nothing_needs_no_advice() {
        assert_eq!(advice(GOOD, Some("always")), Vec::<String>::new());
        assert_eq!(advice(GOOD, None), Vec::<String>::new());
    }

    #[test]
    fn each_setting_that_can_lose_messages_is_named() {
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
