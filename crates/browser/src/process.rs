//! The browser's driver as a process of our own, on a port of its own choice.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

const STARTS_WITHIN: Duration = Duration::from_secs(30);
const LINES_BEFORE_THE_PORT: usize = 20;
/// Ends the driver when our end of its input is closed: also when this process is killed and can do nothing about it. The
/// browser sees that its driver is gone, and until then it writes to its profile.
const GUARDED: &str = "chromedriver --port=0 & driver=$!; read _; kill -9 $driver; sleep 2; rm -rf \"$0\"";

static STARTED: AtomicU32 = AtomicU32::new(0);

/// The driver; it dies with this value, and the browser with it.
pub(crate) struct Driver {
    pub(crate) url: String,
    pub(crate) profile: PathBuf,
    // A driver that nobody listens to would die of its next line.
    _output: Lines<BufReader<ChildStdout>>,
    _input: ChildStdin,
    _guard: Child,
}

impl Driver {
    pub(crate) async fn start() -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let profile = std::env::temp_dir().join(format!("ow-browser-{}-{number}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", GUARDED]).arg(&profile).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut guard = command.spawn().expect("sh can be run");
        let input = guard.stdin.take().expect("its input is a pipe");
        let mut output = BufReader::new(guard.stdout.take().expect("its output is a pipe")).lines();
        let port = tokio::time::timeout(STARTS_WITHIN, port(&mut output)).await.ok().flatten();
        let port = port.expect("chromedriver starts: `cargo xtask install` installs it");
        Self { url: format!("http://127.0.0.1:{port}"), profile, _output: output, _input: input, _guard: guard }
    }
}

/// It says "ChromeDriver was started successfully on port N." once it listens.
async fn port(output: &mut Lines<BufReader<ChildStdout>>) -> Option<u16> {
    for _ in 0..LINES_BEFORE_THE_PORT {
        let line = output.next_line().await.ok()??;
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            return port.trim_end_matches('.').parse().ok();
        }
    }
    None
}
