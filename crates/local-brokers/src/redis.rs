//! Redis.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::broker::{Broker, Place, Recipe};
use crate::files::write_private;
use crate::{Error, Server, probe, programs};

/// A private Redis that keeps what it has confirmed and never evicts.
pub type Redis = Server<RedisPrograms>;

/// Where `redis-server` is.
#[derive(Debug, Clone)]
pub struct RedisPrograms {
    server: PathBuf,
}

impl Broker for RedisPrograms {
    const NAME: &'static str = "Redis";

    fn find() -> Result<RedisPrograms, Error> {
        let server = programs::find("redis-server", &[]).ok_or_else(|| Error::Missing {
            name: Self::NAME,
            what: "there is no `redis-server` in PATH".to_owned(),
            install: "Install Debian's package redis-server, or `brew install redis`",
        })?;
        Ok(RedisPrograms { server })
    }
}

impl Recipe for RedisPrograms {
    const PORTS: usize = 1;

    fn prepare(&self, place: &Place) -> Result<(), Error> {
        let data = place.path("data");
        fs::create_dir_all(&data).map_err(Error::io("create", &data))?;
        write_private(&place.path("redis.conf"), &configuration(place))
    }

    fn command(&self, place: &Place) -> Command {
        let mut command = programs::command(&self.server, place, &[]);
        command.arg("redis.conf");
        command
    }

    fn answers(place: &Place) -> bool {
        let question = format!("AUTH {}\r\nPING\r\n", place.password);
        // While it reads its data it answers -LOADING.
        probe::ask(place.port(), question.as_bytes()).is_ok_and(|answer: [u8; 12]| &answer == b"+OK\r\n+PONG\r\n")
    }

    fn url(place: &Place) -> String {
        format!("redis://:{}@127.0.0.1:{}/", place.password, place.port())
    }
}

/// `appendfsync always`: with `everysec`, a write is confirmed before it is handed to the system whenever an earlier sync
/// still runs, so that even a killed process loses what it had confirmed.
fn configuration(place: &Place) -> String {
    format!(
        "bind 127.0.0.1\nport {}\nrequirepass {}\ndaemonize no\ndir data\nappendonly yes\nappendfsync always\nsave \"\"\n\
         maxmemory-policy noeviction\nalways-show-logo no\n",
        place.port(),
        place.password
    )
}
