//! The workspace's own commands: `cargo xtask up | test | tidy | standalone | install | services`.
//!
//! Depends only on std, `onceward-local-postgres` and `onceward-local-brokers`, so that the first `cargo xtask` of a
//! fresh clone starts working within seconds. Reading order: `services/` (private servers), `install/` (packages),
//! `test.rs`, `up.rs`, `tidy/` (our own checks).

mod error;
mod group_guard;
mod install;
mod services;
mod standalone;
mod test;
mod tidy;
mod up;
mod workspace;

use std::process::ExitCode;

use error::XtaskError;
use workspace::Workspace;

const HELP: &str = "\
The workspace's own commands.

cargo xtask up [--release] [ARGS...]
    Installs a C compiler, OpenSSL's headers and PostgreSQL's server programs if they are missing (from Debian's packages;
    on other systems it prints what to install), builds `onceward` and runs `onceward up ARGS...`. Ctrl-C stops it. If
    DATABASE_URL is set, PostgreSQL's programs are not needed.
      --release   build with optimisations: slower to build, for measuring
      --          passes everything after it to `onceward up`, such as `-- --help`

cargo xtask test [--no-services] [ARGS...]
    Starts the private servers and runs `cargo test --workspace ARGS...`. Servers that it started are stopped again. The
    exit code is that of the tests.
      --no-services   start nothing: only tests that need no server will pass
    ONCEWARD_TEST_DATABASE_URL=postgres://..., ONCEWARD_TEST_RABBITMQ_URL, ONCEWARD_TEST_REDIS_URL and
    ONCEWARD_TEST_KAFKA_URL use that server instead of a private one. ONCEWARD_WITHOUT=rabbitmq,redis,kafka leaves
    those out, and the last line of the run names them. A server that cannot be installed and is not left out fails the
    run.

cargo xtask tidy
    Checks what the compiler does not: dependency direction, file length, names and words, where SQL and brokers' terms
    are allowed, that paths, problem codes and settings are documented, and more. Every finding is `file:line: what to
    do`.

cargo xtask install
    Installs what building and testing need and the machine lacks, from Debian's packages (as root, or with a sudo that
    needs no password) and Maven Central (Kafka's jars); this includes Chromium, promtool and PgBouncer for the tests.
    Starts nothing. On other systems it prints what to install.

cargo xtask standalone
    Checks examples/standalone, a service outside the workspace; fails if it compiles the client of a broker.

cargo xtask services up | down | status [--json]
    Private servers under target/services: PostgreSQL (as an unprivileged account when run by root), RabbitMQ, Redis and
    Kafka, on a private socket and on free loopback ports. Servers that already run on the machine are left alone. `up`
    installs what is missing and leaves the servers running, `down` stops them, `status` shows their URLs with passwords.
      --json   print the state as JSON, as it is in target/services/state.json

Exit codes: 0 success, 1 failure, 2 invalid command line.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(code) => code,
        Err(XtaskError::Usage(what)) => {
            eprintln!("error: {what}\n\n`cargo xtask --help` lists the commands.");
            ExitCode::from(2)
        }
        Err(XtaskError::Failed(what)) => {
            eprintln!("error: {what}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<ExitCode, XtaskError> {
    let Some((command, rest)) = args.split_first() else {
        return Err(XtaskError::Usage("a command is missing".to_owned()));
    };
    // Arguments after `--` belong to another program, including --help.
    let ours = rest.iter().take_while(|arg| *arg != "--");
    let asks_help = |arg: &String| arg == "--help" || arg == "-h";
    if asks_help(command) || command == "help" || ours.into_iter().any(asks_help) {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let workspace = Workspace::find()?;
    match command.as_str() {
        "up" => up::run(&workspace, rest),
        "test" => test::run(&workspace, rest),
        "tidy" => tidy::run(&workspace, rest),
        "install" => install::run(&workspace, rest),
        "standalone" => standalone::run(&workspace, rest),
        "services" => services::run(&workspace, rest),
        other => Err(XtaskError::Usage(format!("there is no command `{other}`"))),
    }
}
