//! No line that a command prints is wider than the terminal.

use crate::cli_fixture::{CliFixture, QUEUE};
use onceward_testkit::eventually;
use std::process::Stdio;
use tokio::process::Command;

const COLUMNS: usize = 80;

/// Runs a command in a terminal of [`COLUMNS`] columns; returns what it printed there on both streams.
async fn run_in_terminal(url: &str, args: &[&str]) -> String {
    let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
    let line = format!("stty cols {COLUMNS} rows 24; {} {}", env!("CARGO_BIN_EXE_onceward"), quoted.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    script.env("DATABASE_URL", url).env("USER", "olga").env("SHELL", "/bin/sh").current_dir(std::env::temp_dir());
    let output = script.stdin(Stdio::null()).output().await.expect("the program `script` of util-linux is installed");
    String::from_utf8(output.stdout).expect("the program prints UTF-8").replace('\r', "")
}

#[tokio::test]
async fn no_command_prints_a_line_wider_than_the_terminal() {
    let cli = CliFixture::new().await;
    let letter = cli.insert_dead_letter("acme", "cup").await;
    let other = cli.insert_dead_letter("a-tenant-with-a-long-name", "pot").await;
    for statement in [
        "UPDATE onceward.dead_letters SET last_error = repeat('a long error ', 30), first_error = repeat('x', 300)",
        "UPDATE onceward.dead_letters SET attempt_log = jsonb_build_array(jsonb_build_object(
            'attempt', 1, 'at', '2026-11-17T05:33:00Z', 'error', repeat('no luck ', 40)))",
        "DELETE FROM onceward.binding",
        "UPDATE onceward.queue SET shards = 3 WHERE name = 'orders.reserve.v1'",
        "INSERT INTO onceward.deferred (lane_id, queue_id, seq, state, due_at, blocks, tenant_id, created_at, message)
         SELECT onceward.lane_of(q.id, 'acme', 0::smallint, 0::smallint), q.id, 1, 'unknown', now() + interval '1 hour',
                false, 'acme', now() - interval '2 hours', '{\"event_type\": \"order.placd\", \"version\": 1}'
         FROM onceward.queue q WHERE q.name = 'orders.reserve.v1'",
    ] {
        cli.count(&format!("WITH done AS ({statement} RETURNING 1) SELECT count(*) FROM done")).await;
    }
    let (letter, other) = (letter.to_string(), other.to_string());
    let why = "a reason that is long enough to need more than one line of a terminal that is eighty columns wide";
    assert_eq!(cli.run(&["dlq", "quarantine", &other, "--tag", "poison", "--why", why]).await.code, 0);
    eventually("the act is recorded", || async {
        (cli.count("SELECT count(*) FROM onceward.dead_letter_act").await > 0).then_some(())
    })
    .await;
    for (args, expected) in [
        (&["doctor"][..], "critical"),
        (&["queues"], "no running worker knows order.placd.v1"),
        (&["dlq", "list", "--queue", QUEUE], "a long error"),
        // The message itself is printed unchanged, so that it can be copied.
        (&["dlq", "show", &letter], "no luck"),
        (&["dlq", "show", &other], "eighty"),
        (&["dlq", "history"], "eighty columns wide"),
        (&["dlq", "requeue", &letter, "--dry-run", "--why", why], "would requeue"),
        (&["dlq", "requeue", &other, "--why", why], "was not requeued"),
        (&["audit", "verify"], "with the hash"),
        (&["audit", "list"], "dead_letter_qu"),
        (&["topology", "check"], "declared"),
        (&["topology", "print"], "orders.reserve.v1"),
        (&["outbox", "status"], "bus"),
        (&["slo", "list"], "consumer-lag"),
    ] {
        let shown = run_in_terminal(cli.url(), args).await;
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert!(words.join(" ").contains(expected), "{args:?} without {expected:?}:\n{shown}");
        let wide: Vec<&str> = shown.lines().filter(|line| line.chars().count() > COLUMNS).collect();
        assert!(wide.is_empty(), "{args:?} printed lines of more than {COLUMNS} columns: {wide:#?}");
    }
}
