//! Runs chromedriver as a child process on a port that it chooses.

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

const START_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_LINES_BEFORE_PORT: usize = 20;
/// Kills the driver when our end of its standard input closes, which also happens if this process is killed. The
/// browser exits when its driver is gone; it writes to its profile until then, so the profile is removed afterwards.
const GUARDED_DRIVER: &str = "chromedriver --port=0 & driver=$!; read _; kill -9 $driver; sleep 2; rm -rf \"$0\"";

static DRIVERS_STARTED: AtomicU32 = AtomicU32::new(0);

/// The running driver. Dropping it ends the driver and the browser.
pub(crate) struct Driver {
    pub(crate) url: String,
    pub(crate) profile: PathBuf,
    // Kept open: the driver would be killed by SIGPIPE at its next line of output.
    _output: Lines<BufReader<ChildStdout>>,
    _input: ChildStdin,
    _guard: Child,
}

impl Driver {
    pub(crate) async fn start() -> Self {
        let number = DRIVERS_STARTED.fetch_add(1, Ordering::Relaxed);
        let profile = std::env::temp_dir().join(format!("ow-browser-{}-{number}", std::process::id()));
        let mut command = Command::new("sh");
        command
            .args(["-c", GUARDED_DRIVER])
            .arg(&profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut guard = command.spawn().expect("sh can be run");
        let input = guard.stdin.take().expect("its input is a pipe");
        let mut output = BufReader::new(guard.stdout.take().expect("its output is a pipe")).lines();
        let port = tokio::time::timeout(START_TIMEOUT, read_port(&mut output)).await.ok().flatten();
        let port = port.expect("chromedriver starts (install it with `cargo xtask install`)");
        Self { url: format!("http://127.0.0.1:{port}"), profile, _output: output, _input: input, _guard: guard }
    }
}

/// Reads the port from the line "ChromeDriver was started successfully on port N.".
async fn read_port(output: &mut Lines<BufReader<ChildStdout>>) -> Option<u16> {
    for _ in 0..MAX_LINES_BEFORE_PORT {
        let line = output.next_line().await.ok()??;
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            return port.trim_end_matches('.').parse().ok();
        }
    }
    None
}
