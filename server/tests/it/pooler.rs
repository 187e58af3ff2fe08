//! A real PgBouncer in transaction mode between the program and its database.

use crate::support::{Process, SECRET, Scratch, migrated_database, run, try_get};
use onceward_testkit::{Pooler, TestDb, eventually, free_port};
use serde_json::Value;

#[tokio::test]
async fn serve_refuses_to_start_behind_a_transaction_pooler_and_doctor_reports_it() {
    let database = migrated_database().await;
    let pooler = Pooler::start(&database.url());
    let url = pooler.url();
    let variables = [("DATABASE_URL", url.as_str()), ("ONCEWARD_AUTH_SECRET", SECRET)];
    wait_for_pooler(&url).await;
    let refused = run(&["serve", "--role", "api", "--listen", "127.0.0.1:0"], &variables).await;
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("a pooler") && stderr.contains("pool_mode = session"), "{stderr}");

    let report = run(&["doctor", "--json", "--timeout", "40s"], &variables).await;
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("a list");
    let pooler = findings.iter().find(|finding| finding["check"] == "pooler").expect("a finding");
    assert_eq!(pooler["severity"], "critical", "{pooler:#}");
    assert!(pooler["what"].as_str().is_some_and(|what| what.contains("changes our session")), "{pooler:#}");
}

#[tokio::test]
async fn nothing_is_migrated_through_a_pooler() {
    let (scratch, database) = (Scratch::new(), TestDb::empty().await);
    let pooler = Pooler::start(&database.url());
    let (url, data) = (pooler.url(), scratch.join("data"));
    let data = data.to_str().expect("a plain path");
    let variables = [("DATABASE_URL", url.as_str()), ("ONCEWARD_AUTH_SECRET", SECRET), ("ONCEWARD_DATA", data)];
    wait_for_pooler(&url).await;
    for args in
        [&["up", "--listen", "127.0.0.1:0"][..], &["serve", "--migrate", "--role", "api", "--listen", "127.0.0.1:0"]]
    {
        let refused = run(args, &variables).await;
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("a pooler") && stderr.contains("pool_mode = session"), "{args:?}: {stderr}");
        let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'onceward%'";
        let created: i64 = database.owner().await.query_one(schemas, &[]).await.expect("a count").get(0);
        assert_eq!(created, 0, "{args:?} changed the database before it refused");
    }
}

#[tokio::test]
async fn readiness_fails_when_the_pooler_appears_after_the_start() {
    let (scratch, database) = (Scratch::new(), migrated_database().await);
    let (port, listen) = (free_port(), format!("127.0.0.1:{}", free_port()));
    let name = database.url().rsplit('/').next().expect("a name").to_owned();
    let url = format!("postgres://onceward@127.0.0.1:{port}/{name}");
    let variables = [("DATABASE_URL", url.as_str()), ("ONCEWARD_AUTH_SECRET", SECRET)];
    let args = ["serve", "--role", "api", "--listen", &listen];
    let _process = Process::start(&args, &variables, &scratch.join("serve.log"));
    let health = format!("http://{listen}/health/ready");
    let (code, _) = eventually("it serves without its database", || try_get(&health, None)).await;
    assert_eq!(code, 503);
    let _pooler = Pooler::start_at(&database.url(), port);
    let detail = eventually("readiness names the pooler", || async {
        // One check may miss a pooler that happened to keep two clients apart; the next one finds it.
        let (_, report) = try_get(&health, None).await.filter(|(code, _)| *code == 503)?;
        let check = report["checks"].as_array()?.iter().find(|check| check["name"] == "sessions")?.clone();
        check["detail"].as_str().filter(|detail| detail.contains("pooler")).map(str::to_owned)
    });
    assert!(detail.await.contains("pool_mode = session"));
}

async fn wait_for_pooler(url: &str) {
    eventually("the pooler responds", || async {
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.ok().map(drop)
    })
    .await;
}
