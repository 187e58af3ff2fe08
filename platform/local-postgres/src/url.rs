//! Connection URLs in the form that tokio-postgres, sqlx, libpq and psql all accept.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::SUPERUSER;

/// Returns a URL whose host is the socket's folder, percent-encoded.
pub(crate) fn socket(socket_dir: &Path, port: u16, database: &str) -> String {
    let host = encode(socket_dir.as_os_str().as_bytes());
    format!("postgres://{SUPERUSER}@{host}:{port}/{}", encode(database.as_bytes()))
}

/// Returns a URL for the loopback port.
pub(crate) fn loopback(password: &str, port: u16, database: &str) -> String {
    format!("postgres://{SUPERUSER}:{}@127.0.0.1:{port}/{}", encode(password.as_bytes()), encode(database.as_bytes()))
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_folder_is_an_encoded_host() {
        assert_eq!(socket(Path::new("/tmp/a b"), 5432, "app"), "postgres://onceward@%2Ftmp%2Fa%20b:5432/app");
    }

    #[test]
    fn the_loopback_url_carries_the_password() {
        assert_eq!(loopback("p@ss", 6000, "app"), "postgres://onceward:p%40ss@127.0.0.1:6000/app");
    }
}
