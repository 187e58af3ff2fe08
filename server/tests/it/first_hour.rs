//! A user's first hour: a command line that finds its database, a readable log, pages.

use crate::support::{SECRET, Scratch, UpServer, http, run, stdout_of};
use std::{fs, process::Command};

#[tokio::test]
async fn every_command_finds_the_database_of_the_data_folder() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    let data = scratch.join("data");
    let data = data.to_str().expect("a plain path");
    for args in [
        &["queues"][..],
        &["tenant", "list"],
        &["dlq", "list"],
        &["outbox", "status"],
        &["topology", "check"],
        &["audit", "verify"],
        &["migrate"],
        &["token", "issue", "--tenant", "demo"],
        &["database-url"],
    ] {
        let named = run(&[args, &["--data", data]].concat(), &[]).await;
        assert!(named.status.success(), "{args:?}: {}", String::from_utf8_lossy(&named.stderr));
        let by_variable = run(args, &[("ONCEWARD_DATA", data)]).await;
        assert!(by_variable.status.success(), "{args:?}: {}", String::from_utf8_lossy(&by_variable.stderr));
    }
    // These exit with a code other than 0 when they have nothing to show, so their output is checked.
    for (args, expected) in [
        (&["doctor"][..], "checks, "),
        (&["trace", "no-such-story"], "nothing was found for no-such-story"),
        (&["ledger", "check"], "ledger"),
        (&["adopt", "status"], "adopt"),
    ] {
        let named = run(&[args, &["--data", data]].concat(), &[]).await;
        let (printed, stderr) = (String::from_utf8_lossy(&named.stdout), String::from_utf8_lossy(&named.stderr));
        assert!(format!("{printed}{stderr}").contains(expected), "{args:?}: {printed}{stderr}");
        assert!(!stderr.contains("no database is configured"), "{args:?}: {stderr}");
    }
    let other = run(&["queues", "--data", data], &[("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")]).await;
    assert_eq!(other.status.code(), Some(1), "DATABASE_URL has precedence");
    assert!(up.process.stop_with("INT").await.success());
    let stopped = run(&["queues", "--data", data], &[]).await;
    let stderr = String::from_utf8_lossy(&stopped.stderr);
    assert!(
        stopped.status.code() == Some(1) && stderr.contains("--data") && stderr.contains("DATABASE_URL"),
        "{stderr}"
    );
}

#[tokio::test]
async fn the_url_of_the_database_in_use_is_printed_for_other_programs() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    let data = scratch.join("data");
    let data = data.to_str().expect("a plain path");
    let printed = stdout_of(&["database-url", "--data", data], &[]).await;
    let (client, connection) =
        tokio_postgres::connect(printed.trim(), tokio_postgres::NoTls).await.expect("the URL can be connected to");
    tokio::spawn(connection);
    let tenants = "SELECT count(*) FROM onceward.tenant WHERE id = 'demo'";
    assert_eq!(client.query_one(tenants, &[]).await.expect("our tables").get::<_, i64>(0), 1);
    let named = stdout_of(&["database-url", "--data", data], &[("DATABASE_URL", "postgres://x@127.0.0.1:1/x")]).await;
    assert_eq!(named, "postgres://x@127.0.0.1:1/x\n", "DATABASE_URL has precedence");
    drop(client);
    assert!(up.process.stop_with("INT").await.success());
    let stopped = run(&["database-url", "--data", data], &[]).await;
    let stderr = String::from_utf8_lossy(&stopped.stderr);
    assert!(stopped.status.code() == Some(1) && stopped.stdout.is_empty(), "{stopped:?}");
    assert!(stderr.contains("--data") && stderr.contains("DATABASE_URL"), "{stderr}");
}

#[tokio::test]
async fn the_log_line_of_a_request_contains_its_correlation_id() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[("ONCEWARD_TELEMETRY_LOG_FORMAT", "json")]).await;
    let response = http().get(format!("{}/nowhere", up.url)).send().await.expect("a response");
    let given = response.headers()["x-correlation-id"].to_str().expect("text").to_owned();
    let request = http().get(format!("{}/nowhere", up.url)).header("x-correlation-id", "from-the-caller");
    request.send().await.expect("a response");
    assert!(up.process.stop_with("INT").await.success());
    let log = fs::read_to_string(scratch.join("up.log")).expect("the log is there");
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let finished: Vec<_> = lines.filter(|line| line["message"] == "request finished").collect();
    for id in [given.as_str(), "from-the-caller"] {
        let has_id = |line: &&serde_json::Value| line["span"]["correlation_id"] == id;
        assert_eq!(finished.iter().filter(has_id).count(), 1, "{id}: {finished:#?}");
    }
}

#[tokio::test]
async fn the_banner_is_short_and_its_commands_can_be_pasted() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    assert_eq!(up.stdout.matches(&up.token).count(), 1, "{}", up.stdout);
    assert!(up.curl.contains("Bearer $TOKEN"), "{}", up.curl);
    assert!(up.stdout.lines().all(|line| line.starts_with("  export TOKEN=") || line.len() <= 140), "{}", up.stdout);
    let pasted = format!("export TOKEN={}\n{}", up.token, up.curl);
    let output = Command::new("sh").args(["-c", &pasted]).output().expect("sh can be run");
    assert!(output.stdout.starts_with(b"HTTP/1.1 202"), "{output:?}");
    assert!(up.process.stop_with("INT").await.success());
}

#[tokio::test]
async fn a_log_file_has_no_colours_no_probes_and_one_line_for_migrations() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    for path in ["/health/live", "/health/ready", "/metrics", "/nowhere"] {
        up.get(path).await;
    }
    assert!(up.process.stop_with("INT").await.success());
    let log = fs::read_to_string(scratch.join("up.log")).expect("the log is there");
    assert!(!log.contains('\u{1b}'), "{log}");
    assert_eq!(log.matches("the database was migrated").count(), 1, "{log}");
    assert!(!log.contains("0001_"), "{log}");
    let finished: Vec<&str> = log.lines().filter(|line| line.contains("request finished")).collect();
    assert!(finished.iter().any(|line| line.contains("unmatched")), "{log}");
    assert!(!finished.iter().any(|line| line.contains("/health/") || line.contains("/metrics")), "{finished:#?}");
}

#[tokio::test]
async fn all_misspelt_variables_are_reported_with_suggestions() {
    let variables = [
        ("ONCEWARD_AUTH_SECRET", SECRET),
        ("ONCEWARD_WEBHOOKS_ALLOW_HTTPS", "1"),
        ("ONCEWARD_HTTP_LISTN", "127.0.0.1:0"),
        ("ONCEWARD_NONSENSE", "1"),
        ("ONCEWARD_TEST_ANYTHING", "1"),
    ];
    let refused = run(&["serve"], &variables).await;
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("did you mean ONCEWARD_WEBHOOKS_ALLOW_HTTP?"), "{stderr}");
    assert!(stderr.contains("did you mean ONCEWARD_HTTP_LISTEN?") && stderr.contains("ONCEWARD_NONSENSE"), "{stderr}");
    assert!(!stderr.contains("ONCEWARD_TEST_ANYTHING"), "{stderr}");
}

#[tokio::test]
async fn trusted_proxies_of_surveys_are_configured_by_the_environment() {
    let good = run(&["topology", "print"], &[("ONCEWARD_SURVEYS_TRUSTED_PROXIES", "10.0.0.0/8, 192.168.1.1")]).await;
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    let bad = run(&["topology", "print"], &[("ONCEWARD_SURVEYS_TRUSTED_PROXIES", "nowhere")]).await;
    assert_eq!(bad.status.code(), Some(2), "{}", String::from_utf8_lossy(&bad.stderr));
}

#[tokio::test]
async fn programs_get_json_and_browsers_get_pages() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    let (status, body) = up.get("/").await;
    assert_eq!((status, &body["docs"], &body["services"][0]), (200, &"/docs".into(), &"orders".into()));
    let fetch_page = async |path: &str| {
        let request = http().get(format!("{}{path}", up.url)).header("accept", "text/html,*/*;q=0.8");
        let response = request.send().await.expect("a response");
        let policy = response.headers()["content-security-policy"].to_str().expect("a text").to_owned();
        (policy, response.text().await.expect("a page"))
    };
    for (path, expected) in [
        ("/", "Onceward is running"),
        ("/docs", "/api/orders"),
        ("/problems", "idempotency-key-reused"),
        ("/problems/idempotency-key-reused", "<strong>What to do:</strong>"),
    ] {
        let (policy, page) = fetch_page(path).await;
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains(expected), "{path}: {page}");
        assert!(
            policy.contains("default-src 'none'") && !page.contains("<script") && !page.contains("style="),
            "{path}"
        );
    }
    assert!(up.process.stop_with("INT").await.success());
}
