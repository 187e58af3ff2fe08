//! Settings that cannot work: all problems are reported at once, before anything starts.

use crate::support::{SECRET, Scratch, run};
use std::fs;

#[tokio::test]
async fn commands_without_a_database_say_how_to_configure_one() {
    for args in [&["serve"][..], &["migrate"], &["queues"], &["tenant", "list"]] {
        let refused = run(args, &[("ONCEWARD_AUTH_SECRET", SECRET)]).await;
        assert!(matches!(refused.status.code(), Some(1 | 2)), "{refused:?}");
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(stderr.contains("DATABASE_URL"), "{args:?}: {stderr}");
    }
}

#[tokio::test]
async fn serve_without_a_secret_says_how_to_configure_one() {
    let refused = run(&["serve"], &[("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")]).await;
    assert!(matches!(refused.status.code(), Some(1 | 2)), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("ONCEWARD_AUTH_SECRET"));
}

#[tokio::test]
async fn all_unparsable_environment_variables_are_reported_at_once() {
    let variables =
        [("ONCEWARD_DATABASE_POOL_SIZE", "many"), ("ONCEWARD_HTTP_MAX_BODY_BYTES", "-1"), ("ONCEWARD_BUS_POLL_MS", "")];
    let refused = run(&["serve"], &variables).await;
    assert_eq!(refused.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    for (name, _) in variables {
        assert!(stderr.contains(name), "{name} is not in: {stderr}");
    }
}

#[tokio::test]
async fn all_invalid_values_are_reported_at_once() {
    let variables = [
        ("ONCEWARD_DATABASE_POOL_SIZE", "1"),
        ("ONCEWARD_HTTP_LISTEN", "here"),
        ("ONCEWARD_AUTH_SECRET", "short"),
        ("BROKER_URL", "ftp://localhost"),
    ];
    let refused = run(&["serve"], &variables).await;
    assert_eq!(refused.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    for setting in ["database.pool_size", "http.listen", "auth.secret", "bus.url"] {
        assert!(stderr.contains(setting), "{setting} is not in: {stderr}");
    }
}

#[tokio::test]
async fn service_settings_out_of_range_are_reported_with_all_other_mistakes() {
    let variables = [
        ("ONCEWARD_DATABASE_POOL_SIZE", "1"),
        ("ONCEWARD_LENDING_POSTER_BATCH", "0"),
        ("ONCEWARD_LENDING_ETL_WINDOW_MINUTES", "0"),
        ("ONCEWARD_LENDING_ETL_SHARDS", "257"),
        ("ONCEWARD_DOCUMENTS_CONCURRENCY", "0"),
        ("ONCEWARD_SURVEYS_LIVE_EVERY_MS", "99"),
        ("ONCEWARD_SURVEYS_TRUSTED_PROXIES", "10.0.0.1"),
        ("ONCEWARD_WEBHOOKS_IN_FLIGHT_PER_ENDPOINT", "0"),
    ];
    let refused = run(&["serve"], &variables).await;
    assert_eq!(refused.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    for setting in [
        "database.pool_size",
        "lending.poster_batch must be at least 1",
        "lending.etl_window_minutes must be 1 to 10080",
        "lending.etl_shards must be 1 to 256",
        "documents.concurrency must be at least 1",
        "surveys.live_every_ms must be at least 100",
        "webhooks.in_flight_per_endpoint must be at least 1",
    ] {
        assert!(stderr.contains(setting), "{setting} is not in: {stderr}");
    }
    assert!(!stderr.contains("trusted_proxies"), "a valid setting is not reported: {stderr}");
}

#[tokio::test]
async fn a_file_with_unknown_sections_and_settings_is_rejected_with_each_named() {
    let scratch = Scratch::new();
    let file = scratch.join("onceward.toml");
    fs::write(&file, "[http]\nport = 80\nlisten = 80\n\n[htpt]\nlisten = \"\"\n").unwrap();
    let refused = run(&["queues", "--config", file.to_str().unwrap()], &[]).await;
    assert_eq!(refused.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    for name in ["http.port", "http.listen", "[htpt]"] {
        assert!(stderr.contains(name), "{name} is not in: {stderr}");
    }
}
