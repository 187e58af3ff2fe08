//! Which entries are recorded, and which are rejected.

use crate::support::{assert_intact, audit_database, entry, links, load_chain, record_some, scope};
use jiff::Timestamp;
use onceward_audit::{AuditError, Entry, ExportedHeads, GENESIS, link_hash, list, record, verify};
use onceward_db::Scope;
use onceward_envelope::{Actor, CorrelationId, fingerprint_hex};
use serde_json::{Value, json};

#[tokio::test]
async fn an_entry_contains_actor_object_action_and_time() {
    let (_database, db) = audit_database().await;
    let mut scope = scope("acme");
    scope.actor = Actor { user_id: Some("ada".into()), service: Some("lending".into()) };
    scope.correlation_id = CorrelationId::new("story-7").expect("a valid id");
    let mut tx = db.begin(scope).await.expect("a connection");
    let at: Timestamp = "2024-02-29T23:59:59.123456789Z".parse().expect("a time");
    record(&mut tx, entry(7).payload(json!({ "why": "ünïcode" })).payload_hash("abc").occurred_at(at)).expect("good");
    tx.commit().await.expect("it commits");

    let found = load_chain(&db, "acme").await;
    let [entry] = &found[..] else { panic!("one entry: {found:?}") };
    assert_eq!(
        entry.link.document,
        concat!(
            r#"{"actor":{"service":"lending","userId":"ada"},"correlationId":"story-7","eventType":"loan_changed","#,
            r#""loanId":"loan-7","newValue":{"principalMinor":"9007199254740993","status":"active"},"#,
            r#""objectId":"loan-7","objectType":"loan","occurredAt":"2024-02-29T23:59:59.123456Z","#,
            r#""oldValue":{"principalMinor":"100","status":"created"},"payload":{"why":"ünïcode"},"#,
            r#""payloadHash":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","tenantId":"acme","v":1}"#
        )
    );
    assert_eq!(entry.document()["payloadHash"], fingerprint_hex("abc"));
    assert_eq!((entry.actor.as_deref(), entry.correlation_id.as_str()), (Some("ada"), "story-7"));
    assert_eq!((entry.object_type.as_deref(), entry.object_id.as_deref()), (Some("loan"), Some("loan-7")));
    assert_eq!(entry.occurred_at.as_microsecond(), at.as_microsecond());
    assert_eq!((entry.link.seq, &entry.link.prev_hash[..]), (1, &GENESIS[..]));
    assert_intact(&db, "acme", 1).await;
}

#[tokio::test]
async fn links_are_numbered_without_gaps_and_each_contains_the_previous_hash() {
    let (_database, db) = audit_database().await;
    record_some(&db, "acme", 7).await;
    let mut prev = GENESIS.to_vec();
    for (index, link) in links(&db, "acme").await.iter().enumerate() {
        assert_eq!((link.seq, &link.prev_hash), (index as i64 + 1, &prev));
        prev = link_hash(&prev, link.seq, &link.document).to_vec();
        assert_eq!(link.record_hash, prev);
    }
    assert_intact(&db, "acme", 7).await;
}

#[tokio::test]
async fn a_transaction_or_savepoint_that_is_rolled_back_leaves_nothing_and_no_gap() {
    let (_database, db) = audit_database().await;
    record_some(&db, "acme", 1).await;
    let mut tx = db.begin(scope("acme")).await.expect("a connection");
    record(&mut tx, entry(10)).expect("good");
    tx.rollback().await.expect("undone");
    let mut tx = db.begin(scope("acme")).await.expect("a connection");
    record(&mut tx, entry(11)).expect("good");
    drop(tx);
    let mut tx = db.begin(scope("acme")).await.expect("a connection");
    record(&mut tx, entry(2)).expect("good");
    let point = tx.savepoint();
    record(&mut tx, entry(12)).expect("good");
    tx.query("SELECT 1", &[]).await.expect("the savepoint is sent");
    tx.rollback_to(point).await.expect("undone");
    tx.release(point);
    record(&mut tx, entry(3)).expect("good");
    tx.commit().await.expect("it commits");
    let objects: Vec<_> = load_chain(&db, "acme").await.into_iter().filter_map(|entry| entry.object_id).collect();
    assert_eq!(objects, ["loan-1", "loan-2", "loan-3"]);
    assert_intact(&db, "acme", 3).await;
}

#[tokio::test]
async fn a_commit_that_fails_records_nothing() {
    let (database, db) = audit_database().await;
    database
        .owner()
        .await
        .batch_execute("ALTER TABLE audit.entry ADD CHECK (event_type <> 'refused')")
        .await
        .expect("ok");
    let mut tx = db.begin(scope("acme")).await.expect("a connection");
    record(&mut tx, entry(1)).expect("good");
    record(&mut tx, Entry::new("refused")).expect("good");
    tx.commit().await.expect_err("the second is refused");
    assert_eq!(load_chain(&db, "acme").await, []);
    assert!(onceward_audit::chains(&db).await.expect("the chains").is_empty());
}

#[tokio::test]
async fn invalid_entries_are_refused_immediately_with_a_reason() {
    let (_database, db) = audit_database().await;
    let mut tx = db.begin(scope("acme")).await.expect("a connection");
    let mut refused = |entry: Entry| record(&mut tx, entry).expect_err("it is refused");
    let number = refused(entry(1).new_value(json!({ "a": [{ "amountMinor": 9_007_199_254_740_993_i64 }] })));
    assert!(matches!(number, AuditError::Number(_)));
    let said = number.to_string();
    assert!(said.contains("/newValue/a/0/amountMinor") && said.contains("as a string"), "{said}");
    assert!(!said.contains("9007199254740993"), "{said}");
    assert!(matches!(refused(entry(1).old(json!("a\0b"))), AuditError::Nul));
    assert!(matches!(refused(Entry::new("")), AuditError::Length { what: "the event type", .. }));
    assert!(matches!(refused(entry(1).object("loan", "x".repeat(256))), AuditError::Length { .. }));
    assert!(matches!(refused(entry(1).payload(json!("x".repeat(1 << 20)))), AuditError::TooLarge { .. }));
    let big = json!("x".repeat(1_000_000));
    let many = (0..100).map(|_| record(&mut tx, entry(1).payload(big.clone()))).find_map(Result::err);
    assert!(matches!(many, Some(AuditError::TooMany { .. })), "{many:?}");
    let mut platform = db.begin(Scope::platform("probe")).await.expect("a connection");
    assert!(matches!(record(&mut platform, entry(1)), Err(AuditError::NoTenant)));
}

#[tokio::test]
async fn values_that_are_difficult_to_canonicalise_are_read_back_unchanged() {
    let (_database, db) = audit_database().await;
    let text = r#"{"numbers": [-0.0, 1E30, 333333333.33333329, 4.50, 2e-3, 1e-27, 9007199254740992, 5e-324, 0.1],
                   "\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7}"#;
    let value: Value = serde_json::from_str(text).expect("JSON");
    let mut tx = db.begin(scope("acme")).await.expect("a connection");
    record(&mut tx, Entry::new("measured").payload(value)).expect("good");
    for number in 0..2_000_u32 {
        let odd = f64::from(number).sqrt() * 10_f64.powi(i32::try_from(number % 34).expect("small") - 30);
        record(&mut tx, Entry::new("measured").payload(json!(odd))).expect("good");
    }
    tx.commit().await.expect("it commits");
    let document = &links(&db, "acme").await[0].document;
    assert!(
        document.contains(r#"[0,1e+30,333333333.3333333,4.5,0.002,1e-27,9007199254740992,5e-324,0.1]"#),
        "{document}"
    );
    let order = ["\\r", "1", "numbers", "\u{80}", "ö", "€", "😀", "\u{fb33}"];
    let places: Vec<_> = order.iter().map(|key| document.find(&format!("\"{key}\":")).expect("the key")).collect();
    assert!(places.is_sorted(), "{document}");
    assert_intact(&db, "acme", 2_001).await;
}

#[tokio::test]
async fn entries_are_found_by_object_loan_type_actor_request_and_time() {
    let (_database, db) = audit_database().await;
    let mut ada = scope("acme");
    ada.actor = Actor { user_id: Some("ada".into()), service: None };
    ada.correlation_id = CorrelationId::new("story-1").expect("a valid id");
    let long_ago: Timestamp = "2001-01-01T00:00:00Z".parse().expect("a time");
    let mut tx = db.begin(ada).await.expect("a connection");
    record(&mut tx, entry(1).occurred_at(long_ago)).expect("good");
    tx.commit().await.expect("it commits");
    record_some(&db, "acme", 4).await;

    let tx = db.begin(scope("acme")).await.expect("a connection");
    let seqs = async |change: fn(&mut onceward_audit::EntryFilter), before, limit| {
        let mut filter = onceward_audit::EntryFilter::default();
        change(&mut filter);
        let found = list(&tx, &filter, before, limit).await.expect("it can be read");
        found.iter().map(|entry| entry.link.seq).collect::<Vec<_>>()
    };
    assert_eq!(seqs(|_| {}, None, 3).await, [5, 4, 3]);
    assert_eq!(seqs(|_| {}, Some(3), 3).await, [2, 1]);
    assert_eq!(seqs(|f| f.object_id = Some("loan-1".into()), None, 9).await, [2, 1]);
    assert_eq!(seqs(|f| f.object_type = Some("borrower".into()), None, 9).await, [0; 0]);
    assert_eq!(seqs(|f| f.loan_id = Some("loan-4".into()), None, 9).await, [5]);
    assert_eq!(seqs(|f| f.event_type = Some("loan_changed".into()), None, 9).await, [5, 4, 3, 2, 1]);
    assert_eq!(seqs(|f| f.actor = Some("ada".into()), None, 9).await, [1]);
    assert_eq!(seqs(|f| f.correlation_id = Some("story-1".into()), None, 9).await, [1]);
    assert_eq!(seqs(|f| f.since = "2020-01-01T00:00:00Z".parse().ok(), None, 9).await, [5, 4, 3, 2]);
}

#[tokio::test]
async fn a_long_chain_is_verified_in_pages_with_progress() {
    let (_database, db) = audit_database().await;
    let mut tx = db.begin(scope("acme")).await.expect("a connection");
    (0..600).for_each(|number| record(&mut tx, entry(number)).expect("good"));
    tx.commit().await.expect("it commits");
    let mut progress = Vec::new();
    let verified =
        verify(&db, &crate::support::tenant("acme"), &ExportedHeads::default(), |entries| progress.push(entries)).await;
    assert_eq!(verified.expect("it can be read").entries, 600);
    assert_eq!(progress, [250, 500, 600]);
}
