//! Temporary folders, optional servers, and waiting with a timeout.

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onceward_local_brokers::LocalBroker;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A folder below the temp folder that is removed after the test.
pub struct TempFolder(PathBuf);

impl TempFolder {
    pub fn new() -> TempFolder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ow-lb-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("the temp folder is writable");
        TempFolder(folder)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The programs; `None`, with a message on the terminal, only if `ONCEWARD_WITHOUT=redis,…` excludes them.
pub fn programs<B: LocalBroker>() -> Option<B> {
    let without = env::var("ONCEWARD_WITHOUT").unwrap_or_default();
    if without.split(',').any(|name| name.trim().eq_ignore_ascii_case(B::NAME)) {
        // Not `eprintln!`: the test harness would capture it.
        let _ = writeln!(
            io::stderr(),
            "\n*** {} LEFT OUT, as ONCEWARD_WITHOUT asks: nothing of it was tested ***",
            B::NAME
        );
        return None;
    }
    Some(B::find().unwrap_or_else(|error| panic!("{error}\nor set ONCEWARD_WITHOUT to do without it")))
}

/// Polls until the condition holds.
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !so() {
        assert!(Instant::now() < deadline, "{what}: not within {TIMEOUT:?}");
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// A connection to a server that accepts them.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a socket has a timeout");
    stream
}

/// Reads exactly `count` bytes.
pub fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).expect("the server answers");
    bytes
}

/// The password in a URL.
pub fn password(url: &str) -> String {
    let (_, rest) = url.split_once("://").expect("a scheme");
    let (_, rest) = rest.split_once(':').expect("a password");
    rest.split_once('@').expect("a host").0.to_owned()
}

/// Whether any process has its working directory in this folder.
pub fn has_process_in(folder: &Path) -> bool {
    let processes = fs::read_dir("/proc").expect("this test needs /proc");
    processes
        .flatten()
        .any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
}
