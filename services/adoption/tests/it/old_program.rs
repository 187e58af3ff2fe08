//! The old program's statements keep working unchanged.

use crate::support::{LegacyFixture, old_program, without_pauses};
use onceward_adoption::{AdoptionOptions, run};
use onceward_testkit::eventually;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use tokio_postgres::Client;

/// The old program's statements. They can be repeated any number of times, in this order.
const STATEMENTS: &[&str] = &[
    "INSERT INTO borrowers (name, email) VALUES ('Ada', NULL)",
    "INSERT INTO borrowers (name) VALUES ('Grace') RETURNING id",
    "INSERT INTO borrowers VALUES (DEFAULT, 'Edsger', NULL)",
    "INSERT INTO borrowers (id, name) VALUES (nextval('borrowers_id_seq'), 'Barbara')",
    "INSERT INTO borrowers (name, email) VALUES ('Alan', 'alan@example.org') ON CONFLICT (email) DO UPDATE SET name = excluded.name",
    "UPDATE borrowers SET email = NULL WHERE name = 'Ada'",
    "SELECT id, name, email FROM borrowers WHERE name = 'Ada' ORDER BY id LIMIT 1 FOR UPDATE",
    "SELECT count(*) FROM borrowers b",
    "INSERT INTO loans (borrower_id, amount, rate, term) VALUES ((SELECT max(id) FROM borrowers), 1000.10, 7.5, 12) RETURNING id",
    "INSERT INTO loans VALUES (DEFAULT, (SELECT min(id) FROM borrowers), 99.99, 7.5, 6, 'active', now())",
    "UPDATE loans SET amount = amount + 0.25 WHERE id = (SELECT max(id) FROM loans)",
    "UPDATE loans SET status = 'late' WHERE id = (SELECT min(id) FROM loans)",
    "SELECT b.name, l.amount, l.rate FROM borrowers b JOIN loans l ON l.borrower_id = b.id WHERE l.status = 'active'",
    "INSERT INTO payments (loan_id, amount, reference) SELECT max(id), 10.5, 'wire' FROM loans",
    "UPDATE payments SET amount = 11 WHERE id = (SELECT max(id) FROM payments)",
    "SELECT l.id, l.amount - coalesce(sum(p.amount), 0) FROM loans l LEFT JOIN payments p ON p.loan_id = l.id GROUP BY l.id, l.amount",
    "DELETE FROM payments WHERE id = (SELECT min(id) FROM payments) AND reference = 'none'",
    "DELETE FROM borrowers WHERE name = 'Edsger' AND NOT EXISTS (SELECT FROM loans WHERE borrower_id = borrowers.id)",
    "INSERT INTO outbox (topic, payload) VALUES ('loan.touched', '{\"by\": \"old program\"}')",
    "SELECT id, topic, payload FROM outbox WHERE published_at IS NULL ORDER BY id LIMIT 10",
];

async fn run_statements(client: &Client) {
    for statement in STATEMENTS {
        client.query(*statement, &[]).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}

#[tokio::test]
async fn old_statements_work_before_during_and_after_the_adoption() {
    let legacy = LegacyFixture::new().await;
    let (old, prepared) =
        (old_program(legacy.platform.database()).await, old_program(legacy.platform.database()).await);
    for _ in 0..40 {
        run_statements(&old).await;
    }
    let mut statements = Vec::new();
    for statement in STATEMENTS {
        statements.push(prepared.prepare(statement).await.expect("it can be prepared"));
    }
    let (over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let working = async {
        while !over.load(Ordering::Relaxed) {
            run_statements(&old).await;
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    };
    let adopting = async {
        let options = AdoptionOptions { batch: 20, pause: Duration::from_millis(5), ..AdoptionOptions::default() };
        legacy.try_run(&options).await.expect("the adoption succeeds");
        // At least one more round after the adoption.
        let so_far = rounds.load(Ordering::Relaxed);
        eventually("the old program continues", || async {
            (rounds.load(Ordering::Relaxed) > so_far + 1).then_some(())
        })
        .await;
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(working, adopting);
    run_statements(&old).await;
    // Statements that were prepared before `borrowers` became a view.
    for statement in &statements {
        prepared.query(statement, &[]).await.expect("a prepared statement still works");
    }
    let verified = onceward_adoption::verify(&legacy.platform.database().config()).await.expect("it can be compared");
    assert_eq!(verified.differences, []);
    assert_eq!(legacy.query_value::<i64>("SELECT count(*) FROM loans WHERE amount_minor IS NULL", &[]).await, 0);
    assert_eq!(legacy.query_value::<i64>("SELECT count(*) FROM outbox WHERE published_at IS NULL", &[]).await, 0);
}

#[tokio::test]
async fn the_old_programs_role_keeps_its_rights() {
    let legacy = LegacyFixture::new().await;
    let user = format!("old_{}", uuid::Uuid::now_v7().simple());
    legacy
        .execute(&format!(
            "CREATE ROLE {user}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {user};
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {user}"
        ))
        .await;
    let old = old_program(legacy.platform.database()).await;
    old.batch_execute(&format!("SET ROLE {user}")).await.expect("a role");
    run_statements(&old).await;
    legacy.run().await;
    run_statements(&old).await;
    drop(old);
    legacy.execute(&format!("DROP OWNED BY {user}; DROP ROLE {user}")).await;
}

#[tokio::test]
async fn a_schema_change_does_not_block_the_old_program_behind_a_long_transaction() {
    let legacy = LegacyFixture::new().await;
    run_statements(&legacy.client).await;
    let mut holding = old_program(legacy.platform.database()).await;
    let tx = holding.transaction().await.expect("a transaction");
    tx.query("SELECT * FROM borrowers", &[]).await.expect("it reads, and holds its lock");
    let config = legacy.platform.database().config();
    let adopting =
        tokio::spawn(async move { run(&config, &crate::support::mapping(), &without_pauses(), |_| {}).await });
    let waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'borrowers'::regclass AND NOT granted";
    eventually("the change waits for its lock", || async {
        (legacy.query_value::<i64>(waiting, &[]).await > 0).then_some(())
    })
    .await;
    // The change fails at its lock timeout, so these statements proceed.
    for _ in 0..3 {
        run_statements(&legacy.client).await;
    }
    tx.commit().await.expect("it ends");
    adopting.await.expect("no panic").expect("the adoption succeeds");
}
