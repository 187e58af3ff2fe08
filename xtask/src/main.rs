//! The workspace's own commands: `cargo xtask up | test | tidy | install | services`.
//!
//! Depends on nothing but std, `onceward-local-postgres` and `onceward-local-brokers`, so that the first `cargo xtask` of
//! a fresh clone starts working within seconds. Reading order: `services/` (private servers), `install/` (packages),
//! `test.rs`, `up.rs`, `tidy/` (our own checks).

mod failure;
mod install;
mod services;
mod test;
mod tidy;
mod up;
mod workspace;

use std::process::ExitCode;

use failure::Failure;
use workspace::Workspace;

const HELP: &str = "\
The workspace's own commands.

cargo xtask up [--release] [ARGS...]
    Gets a C compiler, OpenSSL's headers and PostgreSQL's server programs if the machine has none (Debian's packages;
    elsewhere it says what to install), builds `onceward` and runs `onceward up ARGS...`. Ctrl-C stops it. With
    DATABASE_URL set PostgreSQL's programs are not needed.
      --release   build with optimisations: slower to build, for measuring
      --          everything after it goes to `onceward up`, such as `-- --help`

cargo xtask test [--no-services] [ARGS...]
    Starts the private servers and runs `cargo test --workspace ARGS...`. Servers that it started are stopped again. The
    exit code is that of the tests.
      --no-services   start nothing: only tests that need no server will pass
    ONCEWARD_TEST_DATABASE_URL=postgres://..., ONCEWARD_TEST_RABBITMQ_URL, ONCEWARD_TEST_REDIS_URL and
    ONCEWARD_TEST_KAFKA_URL use that server instead of a private one. ONCEWARD_WITHOUT=rabbitmq,redis,kafka does without
    those. Without Kafka, its tests run against an in-process stand-in, and the last line says so.

cargo xtask tidy
    Checks what a compiler does not: dependency direction, file length, where SQL and broker words may stand, that
    paths, problem codes and settings are documented, and more. Every finding is `file:line: what to do`.

cargo xtask install
    Installs what building and testing need and what is missing, by Debian's packages (as root, or with a sudo that asks
    no password) and Kafka's jars from Maven Central: also Chromium and promtool, which tests run. Starts nothing.
    Elsewhere it says what to install.

cargo xtask services up | down | status [--json]
    Private servers under target/services: PostgreSQL (as an unprivileged account when run by root), RabbitMQ, Redis and
    Kafka, on a private socket and on free loopback ports. Servers that already run on the machine are left alone. `up`
    installs what is missing and leaves the servers running, `down` stops them, `status` shows their URLs, passwords
    included.
      --json   print the state as JSON, as it is in target/services/state.json

Exit codes: 0 well, 1 something failed, 2 the command line was not understood.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(code) => code,
        Err(Failure::Usage(what)) => {
            eprintln!("error: {what}\n\n`cargo xtask --help` lists the commands.");
            ExitCode::from(2)
        }
        Err(Failure::Failed(what)) => {
            eprintln!("error: {what}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let Some((command, rest)) = args.split_first() else {
        return Err(Failure::Usage("a command is missing".to_owned()));
    };
    // What follows `--` belongs to another program, its --help too.
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
        "services" => services::run(&workspace, rest),
        other => Err(Failure::Usage(format!("there is no command `{other}`"))),
    }
}
