//! Folders that go away, servers that may be left out, and patience with a limit.

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onceward_local_brokers::Broker;

const PATIENCE: Duration = Duration::from_secs(60);

/// A folder below the temp folder that goes away with the test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ow-lb-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("the temp folder is writable");
        Scratch(folder)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The programs; `None`, with a word on the terminal, only if `ONCEWARD_WITHOUT=redis,…` asks to do without them.
pub fn programs<B: Broker>() -> Option<B> {
    let without = env::var("ONCEWARD_WITHOUT").unwrap_or_default();
    if without.split(',').any(|name| name.trim().eq_ignore_ascii_case(B::NAME)) {
        // Not by a macro: the harness would swallow it.
        let _ = writeln!(
            io::stderr(),
            "\n*** {} LEFT OUT, as ONCEWARD_WITHOUT asks: nothing of it was tested ***",
            B::NAME
        );
        return None;
    }
    Some(B::find().unwrap_or_else(|error| panic!("{error}\nor set ONCEWARD_WITHOUT to do without it")))
}

/// Asks again and again until it is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// A connection to a server that accepts them.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket has a timeout");
    stream
}

/// Exactly so many bytes.
pub fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).expect("the server answers");
    bytes
}

/// What is between `:` and `@` of a URL.
pub fn password(url: &str) -> String {
    let (_, rest) = url.split_once("://").expect("a scheme");
    let (_, rest) = rest.split_once(':').expect("a password");
    rest.split_once('@').expect("a host").0.to_owned()
}

/// Whether any process has this path in its command line or works below it.
pub fn someone_works_in(folder: &Path) -> bool {
    let processes = fs::read_dir("/proc").expect("this test needs /proc");
    processes
        .flatten()
        .any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
}
