//! `onceward audit`: a trail is verified, exported, listed and tampered with.

use crate::{
    cli_fixture::CommandOutput,
    support::{Scratch, run},
};
use onceward::{
    Actor, Db, Scope, TenantId,
    audit::{self, Entry},
    db::migrate,
};
use onceward_testkit::TestDb;
use serde_json::json;
use std::fs;

/// A database with the audit trails of two tenants.
struct AuditFixture {
    database: TestDb,
    scratch: Scratch,
}

impl AuditFixture {
    async fn new() -> Self {
        let fixture = Self { database: TestDb::empty().await, scratch: Scratch::new() };
        migrate::migrate(&fixture.database.config(), &[audit::MIGRATIONS]).await.expect("the migrations apply");
        fixture.record("acme", "ada", 5).await;
        fixture.record("globex", "bob", 2).await;
        fixture
    }

    async fn record(&self, tenant: &str, actor: &str, count: u32) {
        let db = Db::connect(self.database.config()).expect("the settings are valid");
        let mut scope = Scope::for_tenant(TenantId::new(tenant).expect("a valid tenant"));
        scope.actor = Actor { user_id: Some(actor.into()), service: None };
        let mut tx = db.begin(scope).await.expect("a connection");
        for number in 1..=count {
            let entry = Entry::new("loan_created").object("loan", number).new_value(json!({ "amountMinor": "100" }));
            audit::record(&mut tx, entry).expect("a good entry");
        }
        tx.commit().await.expect("it commits");
    }

    async fn run(&self, args: &[&str]) -> CommandOutput {
        output_of(args, &[("DATABASE_URL", self.database.url().as_str())]).await
    }

    async fn tamper(&self, sql: &str) {
        let sql = format!(
            "ALTER TABLE audit.entry DISABLE TRIGGER ALL; {sql}; ALTER TABLE audit.entry ENABLE ALWAYS TRIGGER append_only"
        );
        self.database.owner().await.batch_execute(&sql).await.expect("the owner can do anything");
    }

    /// Writes the output of a command to a file.
    fn save(&self, name: &str, output: &CommandOutput) -> String {
        let path = self.scratch.join(name);
        fs::write(&path, &output.stdout).expect("the scratch folder is writable");
        path.to_str().expect("a plain path").to_owned()
    }
}

async fn output_of(args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    run(args, variables).await.into()
}

#[tokio::test]
async fn an_intact_trail_is_verified_with_its_heads_and_later_entries() {
    let fixture = AuditFixture::new().await;
    let words = fixture.run(&["audit", "verify"]).await;
    assert_eq!(words.code, 0, "{}", words.stderr);
    assert!(words.stdout.contains("acme: intact, 5 entries"), "{}", words.stdout);
    let heads = fixture.run(&["audit", "heads", "--json"]).await;
    assert_eq!(heads.json().iter().map(|head| &head["seq"]).collect::<Vec<_>>(), [5, 2]);
    let heads = fixture.save("heads.jsonl", &heads);
    fixture.record("acme", "ada", 3).await;
    let verified = fixture.run(&["audit", "verify", "--heads", &heads, "--json"]).await;
    let report = verified.json().remove(0);
    assert_eq!((verified.code, &report["whole"], &report["chains"][0]["entries"]), (0, &json!(true), &json!(8)));
    let table = fixture.run(&["audit", "heads"]).await.stdout;
    let acme = table.lines().find(|line| line.starts_with("acme")).expect("a line for each chain");
    assert_eq!(acme.split_whitespace().nth(1), Some("8"), "{table}");
}

#[tokio::test]
async fn the_first_broken_entry_is_named() {
    let fixture = AuditFixture::new().await;
    fixture.tamper("DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq = 3").await;
    let verified = fixture.run(&["audit", "verify", "--json"]).await;
    let report = verified.json().remove(0);
    assert_eq!((verified.code, &report["whole"]), (1, &json!(false)));
    let broken = &report["chains"][0]["broken"];
    assert_eq!((&broken["tenantId"], &broken["seq"], &broken["what"]), (&json!("acme"), &json!(3), &json!("gap")));
    let words = fixture.run(&["audit", "verify"]).await;
    assert!(words.stdout.contains("acme: broken at entry 3 (gap)"), "{}", words.stdout);
    assert!(words.stdout.contains("globex: intact"), "{}", words.stdout);
    assert_eq!(fixture.run(&["audit", "verify", "--tenant", "globex"]).await.code, 0);
}

#[tokio::test]
async fn verification_fails_if_a_trail_with_an_exported_head_is_missing() {
    let fixture = AuditFixture::new().await;
    let heads = fixture.save("heads.jsonl", &fixture.run(&["audit", "heads", "--json"]).await);
    let empty = TestDb::empty().await;
    migrate::migrate(&empty.config(), &[]).await.expect("a database without a trail");
    let url = empty.url();
    let variables = [("DATABASE_URL", url.as_str())];
    let nothing = output_of(&["audit", "verify"], &variables).await;
    assert_eq!(nothing.code, 3, "{}", nothing.stderr);
    let missed = output_of(&["audit", "verify", "--heads", &heads], &variables).await;
    assert!(missed.code == 1 && missed.stderr.contains("has no audit trail"), "{}", missed.stderr);
    migrate::migrate(&empty.config(), &[audit::MIGRATIONS]).await.expect("the migrations apply");
    let fresh = output_of(&["audit", "verify"], &variables).await;
    assert!(fresh.code == 0 && fresh.stderr.contains("nothing has been recorded"), "{}", fresh.stderr);
    assert_eq!(
        output_of(&["audit", "verify", "--tenant", "acme"], &variables).await.code,
        3,
        "a tenant that was named"
    );
    let missed = output_of(&["audit", "verify", "--heads", &heads], &variables).await;
    assert!(missed.code == 1 && missed.stdout.contains("acme: broken at entry 1 (exported-head)"), "{}", missed.stdout);
    for args in [&["audit", "heads"][..], &["audit", "list"], &["audit", "export", "--tenant", "acme"]] {
        assert_eq!(output_of(args, &variables).await.code, 3, "{args:?}");
    }
}

#[tokio::test]
async fn an_export_is_verified_without_a_database() {
    let fixture = AuditFixture::new().await;
    let heads = fixture.save("heads.jsonl", &fixture.run(&["audit", "heads", "--json"]).await);
    let export = fixture.run(&["audit", "export", "--tenant", "acme"]).await;
    assert_eq!((export.code, export.json().len()), (0, 5), "{}", export.stderr);
    let file = fixture.save("acme.jsonl", &export);
    let verify = ["audit", "verify", "--file", &file, "--tenant", "acme", "--heads", &heads];
    let whole = output_of(&verify, &[]).await;
    assert_eq!(whole.code, 0, "{}{}", whole.stdout, whole.stderr);
    fs::write(&file, export.stdout.replacen("loan_created", "loan_deleted", 3)).expect("it can be changed");
    let changed = output_of(&verify, &[]).await;
    assert!(changed.code == 1 && changed.stdout.contains("broken at entry 1 (hash)"), "{}", changed.stdout);
    let part = fixture.run(&["audit", "export", "--tenant", "acme", "--from", "2", "--to", "4"]).await;
    let part = fixture.save("part.jsonl", &part);
    let part = output_of(&["audit", "verify", "--file", &part], &[]).await;
    assert!(part.code == 0 && part.stdout.contains("acme: intact, 3 entries, the last is 4"), "{}", part.stdout);
    assert_eq!(fixture.run(&["audit", "export", "--tenant", "acme", "--from", "9"]).await.code, 3);
}

#[tokio::test]
async fn entries_are_listed_by_object_actor_action_and_time() {
    let fixture = AuditFixture::new().await;
    let count = async |args: &[&str]| {
        let listed = fixture.run(&[&["audit", "list", "--json"], args].concat()).await;
        (listed.code, listed.json().len())
    };
    assert_eq!(count(&[]).await, (0, 7));
    assert_eq!(count(&["--tenant", "acme", "--limit", "2"]).await, (0, 2));
    assert_eq!(count(&["--tenant", "acme", "--before", "3"]).await, (0, 2));
    assert_eq!(count(&["--object", "loan"]).await, (0, 7));
    assert_eq!(count(&["--object", "loan/2"]).await, (0, 2));
    assert_eq!(count(&["--actor", "bob", "--action", "loan_created", "--since", "1h"]).await, (0, 2));
    assert_eq!(count(&["--action", "loan_deleted"]).await, (3, 0));
    assert_eq!(count(&["--correlation-id", "none"]).await, (3, 0));
    let listed = fixture.run(&["audit", "list", "--object", "loan/5"]).await;
    assert!(listed.stdout.starts_with("when") && listed.stdout.contains("correlation id"), "{}", listed.stdout);
    assert!(listed.stdout.contains("acme/5  loan_created  loan/5  ada"), "{}", listed.stdout);
    assert!(!listed.stdout.contains("amountMinor"), "values are for --json");
}
