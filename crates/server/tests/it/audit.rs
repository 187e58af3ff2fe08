//! `onceward audit`: a trail verified, exported, listed and spoilt.

use crate::support::{Scratch, run};
use onceward::{
    Actor, Db, Scope, TenantId,
    audit::{self, Entry},
    db::migrate,
};
use onceward_testkit::TestDb;
use serde_json::{Value, json};
use std::fs;

/// A database with the trails of two tenants.
struct Trails {
    database: TestDb,
    scratch: Scratch,
}

struct Ended {
    code: i32,
    printed: String,
    said: String,
}

impl Ended {
    fn json(&self) -> Vec<Value> {
        self.printed.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
    }
}

impl Trails {
    async fn new() -> Self {
        let trails = Self { database: TestDb::empty().await, scratch: Scratch::new() };
        migrate::migrate(&trails.database.config(), &[audit::MIGRATIONS]).await.expect("the migrations apply");
        trails.record("acme", "ada", 5).await;
        trails.record("globex", "bob", 2).await;
        trails
    }

    async fn record(&self, tenant: &str, actor: &str, count: u32) {
        let db = Db::connect(self.database.config()).expect("the settings are valid");
        let mut scope = Scope::tenant(TenantId::new(tenant).expect("a valid tenant"));
        scope.actor = Actor { user_id: Some(actor.into()), service: None };
        let mut tx = db.begin(scope).await.expect("a connection");
        for number in 1..=count {
            let entry = Entry::new("loan_created").object("loan", number).new_value(json!({ "amountMinor": "100" }));
            audit::record(&mut tx, entry).expect("a good entry");
        }
        tx.commit().await.expect("it commits");
    }

    async fn run(&self, args: &[&str]) -> Ended {
        ended(args, &[("DATABASE_URL", self.database.url().as_str())]).await
    }

    async fn tamper(&self, sql: &str) {
        let sql = format!(
            "ALTER TABLE audit.entry DISABLE TRIGGER ALL; {sql}; ALTER TABLE audit.entry ENABLE ALWAYS TRIGGER append_only"
        );
        self.database.owner().await.batch_execute(&sql).await.expect("the owner can do anything");
    }

    /// A file with what a command printed.
    fn keep(&self, name: &str, ended: &Ended) -> String {
        let path = self.scratch.join(name);
        fs::write(&path, &ended.printed).expect("the scratch folder is writable");
        path.to_str().expect("a plain path").to_owned()
    }
}

async fn ended(args: &[&str], variables: &[(&str, &str)]) -> Ended {
    let output = run(args, variables).await;
    Ended {
        code: output.status.code().expect("it ends by itself"),
        printed: String::from_utf8(output.stdout).expect("UTF-8"),
        said: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

#[tokio::test]
async fn a_whole_trail_is_whole_with_its_heads_and_more_entries() {
    let trails = Trails::new().await;
    let words = trails.run(&["audit", "verify"]).await;
    assert_eq!(words.code, 0, "{}", words.said);
    assert!(words.printed.contains("acme: whole, 5 entries"), "{}", words.printed);
    let heads = trails.run(&["audit", "heads", "--json"]).await;
    assert_eq!(heads.json().iter().map(|head| &head["seq"]).collect::<Vec<_>>(), [5, 2]);
    let heads = trails.keep("heads.jsonl", &heads);
    trails.record("acme", "ada", 3).await;
    let verified = trails.run(&["audit", "verify", "--heads", &heads, "--json"]).await;
    let report = verified.json().remove(0);
    assert_eq!((verified.code, &report["whole"], &report["chains"][0]["entries"]), (0, &json!(true), &json!(8)));
    assert!(trails.run(&["audit", "heads"]).await.printed.starts_with("acme  8  "));
}

#[tokio::test]
async fn the_first_broken_link_is_named() {
    let trails = Trails::new().await;
    trails.tamper("DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq = 3").await;
    let verified = trails.run(&["audit", "verify", "--json"]).await;
    let report = verified.json().remove(0);
    assert_eq!((verified.code, &report["whole"]), (1, &json!(false)));
    let broken = &report["chains"][0]["broken"];
    assert_eq!((&broken["tenantId"], &broken["seq"], &broken["what"]), (&json!("acme"), &json!(3), &json!("gap")));
    let words = trails.run(&["audit", "verify"]).await;
    assert!(words.printed.contains("acme: broken at entry 3 (gap)"), "{}", words.printed);
    assert!(words.printed.contains("globex: whole"), "{}", words.printed);
    assert_eq!(trails.run(&["audit", "verify", "--tenant", "globex"]).await.code, 0);
}

#[tokio::test]
async fn heads_of_a_trail_that_is_gone_are_missed() {
    let trails = Trails::new().await;
    let heads = trails.keep("heads.jsonl", &trails.run(&["audit", "heads", "--json"]).await);
    let empty = TestDb::empty().await;
    migrate::migrate(&empty.config(), &[]).await.expect("a database without a trail");
    let url = empty.url();
    let variables = [("DATABASE_URL", url.as_str())];
    let nothing = ended(&["audit", "verify"], &variables).await;
    assert_eq!(nothing.code, 3, "{}", nothing.said);
    let missed = ended(&["audit", "verify", "--heads", &heads], &variables).await;
    assert!(missed.code == 1 && missed.said.contains("keeps no audit trail"), "{}", missed.said);
    migrate::migrate(&empty.config(), &[audit::MIGRATIONS]).await.expect("the migrations apply");
    let missed = ended(&["audit", "verify", "--heads", &heads], &variables).await;
    assert!(
        missed.code == 1 && missed.printed.contains("acme: broken at entry 1 (exported-head)"),
        "{}",
        missed.printed
    );
    for args in [&["audit", "heads"][..], &["audit", "list"], &["audit", "export", "--tenant", "acme"]] {
        assert_eq!(ended(args, &variables).await.code, 3, "{args:?}");
    }
}

#[tokio::test]
async fn an_export_is_verified_without_a_database() {
    let trails = Trails::new().await;
    let heads = trails.keep("heads.jsonl", &trails.run(&["audit", "heads", "--json"]).await);
    let export = trails.run(&["audit", "export", "--tenant", "acme"]).await;
    assert_eq!((export.code, export.json().len()), (0, 5), "{}", export.said);
    let file = trails.keep("acme.jsonl", &export);
    let verify = ["audit", "verify", "--file", &file, "--tenant", "acme", "--heads", &heads];
    let whole = ended(&verify, &[]).await;
    assert_eq!(whole.code, 0, "{}{}", whole.printed, whole.said);
    fs::write(&file, export.printed.replacen("loan_created", "loan_deleted", 3)).expect("it can be changed");
    let spoilt = ended(&verify, &[]).await;
    assert!(spoilt.code == 1 && spoilt.printed.contains("broken at entry 1 (hash)"), "{}", spoilt.printed);
    let part = trails.run(&["audit", "export", "--tenant", "acme", "--from", "2", "--to", "4"]).await;
    let part = trails.keep("part.jsonl", &part);
    let part = ended(&["audit", "verify", "--file", &part], &[]).await;
    assert!(part.code == 0 && part.printed.contains("acme: whole, 3 entries, the last is 4"), "{}", part.printed);
    assert_eq!(trails.run(&["audit", "export", "--tenant", "acme", "--from", "9"]).await.code, 3);
}

#[tokio::test]
async fn entries_are_listed_by_what_they_are_about() {
    let trails = Trails::new().await;
    let count = async |args: &[&str]| {
        let listed = trails.run(&[&["audit", "list", "--json"], args].concat()).await;
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
    let listed = trails.run(&["audit", "list", "--object", "loan/5"]).await;
    assert!(listed.printed.contains("acme/5  loan_created  loan/5  by ada"), "{}", listed.printed);
    assert!(!listed.printed.contains("amountMinor"), "values are for --json");
}
