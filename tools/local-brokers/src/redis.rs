//! Redis.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::broker::{LocalBroker, ServerInstance, ServerSpec};
use crate::files::write_private;
use crate::{LocalBrokerError, Server, probe, programs};

/// A private Redis that never loses confirmed writes and never evicts.
pub type Redis = Server<RedisPrograms>;

/// Where `redis-server` is.
#[derive(Debug, Clone)]
pub struct RedisPrograms {
    server: PathBuf,
}

impl LocalBroker for RedisPrograms {
    const NAME: &'static str = "Redis";

    fn find() -> Result<RedisPrograms, LocalBrokerError> {
        let server = programs::find("redis-server", &[]).ok_or_else(|| LocalBrokerError::Missing {
            name: Self::NAME,
            what: "there is no `redis-server` in PATH".to_owned(),
            install: "Install Debian's package redis-server, or `brew install redis`",
        })?;
        Ok(RedisPrograms { server })
    }
}

impl ServerSpec for RedisPrograms {
    const PORTS: usize = 1;

    fn prepare(&self, instance: &ServerInstance) -> Result<(), LocalBrokerError> {
        let data = instance.path("data");
        fs::create_dir_all(&data).map_err(LocalBrokerError::io("create", &data))?;
        write_private(&instance.path("redis.conf"), &configuration(instance))
    }

    fn command(&self, instance: &ServerInstance) -> Command {
        let mut command = programs::command(&self.server, instance, &[]);
        command.arg("redis.conf");
        command
    }

    fn is_ready(instance: &ServerInstance) -> bool {
        let request = format!("AUTH {}\r\nPING\r\n", instance.password);
        // While it loads its data it replies -LOADING.
        probe::request(instance.port(), request.as_bytes())
            .is_ok_and(|response: [u8; 12]| &response == b"+OK\r\n+PONG\r\n")
    }

    fn url(instance: &ServerInstance) -> String {
        format!("redis://:{}@127.0.0.1:{}/", instance.password, instance.port())
    }
}

/// `appendfsync always`: with `everysec`, a write is confirmed before it is passed to the operating system while an earlier
/// sync is running, so even a killed process would lose confirmed writes.
fn configuration(instance: &ServerInstance) -> String {
    format!(
        "bind 127.0.0.1\nport {}\nrequirepass {}\ndaemonize no\ndir data\nappendonly yes\nappendfsync always\nsave \"\"\n\
         maxmemory-policy noeviction\nalways-show-logo no\n",
        instance.port(),
        instance.password
    )
}
