//! Settings that cannot work: everything wrong is said at once, before anything starts.

use crate::support::{SECRET, Scratch, run};
use std::fs;

#[tokio::test]
async fn serve_without_a_database_says_how_to_name_one() {
    for args in [&["serve"][..], &["migrate"], &["queues"], &["tenant", "list"]] {
        let refused = run(args, &[("ONCEWARD_AUTH_SECRET", SECRET)]).await;
        assert!(matches!(refused.status.code(), Some(1 | 2)), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("DATABASE_URL"), "{args:?}: {said}");
    }
}

#[tokio::test]
async fn serve_without_a_secret_says_how_to_give_one() {
    let refused = run(&["serve"], &[("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")]).await;
    assert!(matches!(refused.status.code(), Some(1 | 2)), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("ONCEWARD_AUTH_SECRET"));
}

#[tokio::test]
async fn everything_wrong_in_the_environment_is_said_at_once() {
    let variables =
        [("ONCEWARD_DATABASE_POOL_SIZE", "many"), ("ONCEWARD_HTTP_MAX_BODY_BYTES", "-1"), ("ONCEWARD_BUS_POLL_MS", "")];
    let refused = run(&["serve"], &variables).await;
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    for (name, _) in variables {
        assert!(said.contains(name), "{name} is not in: {said}");
    }
}

#[tokio::test]
async fn everything_wrong_in_the_values_is_said_at_once() {
    let variables = [
        ("ONCEWARD_DATABASE_POOL_SIZE", "1"),
        ("ONCEWARD_HTTP_LISTEN", "here"),
        ("ONCEWARD_AUTH_SECRET", "short"),
        ("BROKER_URL", "ftp://localhost"),
    ];
    let refused = run(&["serve"], &variables).await;
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    for setting in ["database.pool_size", "http.listen", "auth.secret", "bus.url"] {
        assert!(said.contains(setting), "{setting} is not in: {said}");
    }
}

#[tokio::test]
async fn a_file_with_unknown_sections_and_settings_is_refused_with_each_named() {
    let scratch = Scratch::new();
    let file = scratch.join("onceward.toml");
    fs::write(&file, "[http]\nport = 80\nlisten = 80\n\n[htpt]\nlisten = \"\"\n").unwrap();
    let refused = run(&["queues", "--config", file.to_str().unwrap()], &[]).await;
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    for name in ["http.port", "http.listen", "[htpt]"] {
        assert!(said.contains(name), "{name} is not in: {said}");
    }
}
