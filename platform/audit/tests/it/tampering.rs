//! Every kind of tampering with a chain is detected, and the first broken link is reported.

use crate::support::{
    assert_broken, assert_intact, audit_database, exported_heads, links, record_some, tamper, tenant, verified,
};
use onceward_audit::{BrokenLinkKind, ChainLink, ExportedHeads, GENESIS, link_hash};
use onceward_db::Db;
use onceward_testkit::TestDb;

/// Creates a chain of nine entries.
async fn nine() -> (TestDb, Db) {
    let (database, db) = audit_database().await;
    record_some(&db, "acme", 9).await;
    record_some(&db, "globex", 2).await;
    (database, db)
}

async fn check(sql: &str, seq: i64, what: BrokenLinkKind) {
    let (database, db) = nine().await;
    assert_intact(&db, "acme", 9).await;
    tamper(&database, sql).await;
    assert_broken(&db, &ExportedHeads::default(), seq, what).await;
    assert_intact(&db, "globex", 2).await;
}

/// Forges the entries from `from` on in the database and recomputes the hashes of `links`, with or without the head.
async fn rewrite(database: &TestDb, links: Vec<ChainLink>, from: i64, with_head: bool) {
    let (mut sql, mut prev) = (String::new(), GENESIS.to_vec());
    let last = links.len();
    for link in links {
        let document = if link.seq >= from { link.document.replace("active", "forged") } else { link.document };
        let hash = link_hash(&prev, link.seq, &document).to_vec();
        sql += &format!(
            "UPDATE audit.entry SET document = '{document}', prev_hash = '\\x{}', record_hash = '\\x{}' \
             WHERE tenant_id = 'acme' AND seq = {};",
            hex(&prev),
            hex(&hash),
            link.seq
        );
        prev = hash;
    }
    if with_head {
        sql += &format!("UPDATE audit.head SET hash = '\\x{}', seq = {last} WHERE tenant_id = 'acme';", hex(&prev));
    }
    tamper(database, &format!("{sql} SELECT 1")).await;
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_changed_column_is_detected() {
    for (column, value) in [
        ("event_type", "'loan_closed'"),
        ("actor", "'somebody'"),
        ("actor", "NULL"),
        ("object_type", "'borrower'"),
        ("object_id", "'loan-6'"),
        ("loan_id", "NULL"),
        ("correlation_id", "'another'"),
        ("occurred_at", "occurred_at - interval '1 day'"),
    ] {
        let sql = format!("UPDATE audit.entry SET {column} = {value} WHERE tenant_id = 'acme' AND seq = 5");
        check(&sql, 5, BrokenLinkKind::Field).await;
    }
}

#[tokio::test]
async fn a_changed_document_is_detected() {
    let sql =
        "UPDATE audit.entry SET document = replace(document, 'active', 'closed') WHERE tenant_id = 'acme' AND seq = 5";
    check(sql, 5, BrokenLinkKind::Hash).await;
}

#[tokio::test]
async fn a_changed_hash_is_detected() {
    let own = "UPDATE audit.entry SET record_hash = sha256('x') WHERE tenant_id = 'acme' AND seq = 5";
    check(own, 5, BrokenLinkKind::Hash).await;
    let before = "UPDATE audit.entry SET prev_hash = sha256('x') WHERE tenant_id = 'acme' AND seq = 5";
    check(before, 5, BrokenLinkKind::Prev).await;
}

#[tokio::test]
async fn a_deleted_row_is_detected() {
    check("DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq = 5", 5, BrokenLinkKind::Gap).await;
    check("DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq = 1", 1, BrokenLinkKind::Gap).await;
    check("DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq = 9", 9, BrokenLinkKind::Head).await;
    check("DELETE FROM audit.entry WHERE tenant_id = 'acme'", 1, BrokenLinkKind::Head).await;
}

#[tokio::test]
async fn a_deleted_row_is_detected_after_the_following_ones_were_renumbered() {
    let sql = "DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq = 5;
               UPDATE audit.entry SET seq = -seq WHERE tenant_id = 'acme' AND seq > 5;
               UPDATE audit.entry SET seq = -seq - 1 WHERE tenant_id = 'acme' AND seq < 0";
    let sql = format!("ALTER TABLE audit.entry DROP CONSTRAINT entry_seq_check; {sql}");
    check(&sql, 5, BrokenLinkKind::Prev).await;
}

const COPY: &str =
    "SELECT tenant_id, %SEQ%, occurred_at, event_type, actor, object_type, object_id, loan_id, correlation_id,
    document, record_hash, sha256(record_hash || int8send(%SEQ%) || convert_to(document, 'UTF8'))
    FROM audit.entry WHERE tenant_id = 'acme' AND seq = %FROM%";

#[tokio::test]
async fn an_inserted_row_is_detected() {
    let copy = |seq: &str, from: &str| COPY.replace("%SEQ%", seq).replace("%FROM%", from);
    // After the end it links correctly, but the head does not include it.
    check(&format!("INSERT INTO audit.entry {}", copy("10", "9")), 10, BrokenLinkKind::Head).await;
    check(&format!("INSERT INTO audit.entry {}", copy("12", "9")), 10, BrokenLinkKind::Gap).await;
    let before = "ALTER TABLE audit.entry DROP CONSTRAINT entry_seq_check";
    check(&format!("{before}; INSERT INTO audit.entry {}", copy("0", "9")), 1, BrokenLinkKind::Gap).await;
    // In the middle it links correctly to the entry before it, and the entry after it does not link to it.
    let room = "UPDATE audit.entry SET seq = -seq WHERE tenant_id = 'acme' AND seq > 5;
                UPDATE audit.entry SET seq = 1 - seq WHERE tenant_id = 'acme' AND seq < 0";
    check(&format!("{before}; {room}; INSERT INTO audit.entry {}", copy("6", "5")), 7, BrokenLinkKind::Prev).await;
}

#[tokio::test]
async fn swapped_rows_are_detected() {
    let sql = "ALTER TABLE audit.entry DROP CONSTRAINT entry_seq_check;
               UPDATE audit.entry SET seq = -seq WHERE tenant_id = 'acme' AND seq IN (4, 5);
               UPDATE audit.entry SET seq = 9 + seq WHERE tenant_id = 'acme' AND seq < 0";
    check(sql, 4, BrokenLinkKind::Prev).await;
    let hashes_in_place =
        "UPDATE audit.entry e SET document = o.document, event_type = o.event_type, object_id = o.object_id,
                   loan_id = o.loan_id, correlation_id = o.correlation_id, occurred_at = o.occurred_at
               FROM audit.entry o
               WHERE e.tenant_id = 'acme' AND o.tenant_id = 'acme' AND e.seq IN (4, 5) AND o.seq = 9 - e.seq";
    check(hashes_in_place, 4, BrokenLinkKind::Hash).await;
}

#[tokio::test]
async fn a_changed_or_deleted_head_is_detected() {
    check("UPDATE audit.head SET seq = 8 WHERE tenant_id = 'acme'", 9, BrokenLinkKind::Head).await;
    check("UPDATE audit.head SET hash = sha256('x') WHERE tenant_id = 'acme'", 9, BrokenLinkKind::Head).await;
    check("DELETE FROM audit.head WHERE tenant_id = 'acme'", 9, BrokenLinkKind::Head).await;
}

#[tokio::test]
async fn a_rewritten_tail_is_detected_by_the_head() {
    let (database, db) = nine().await;
    rewrite(&database, links(&db, "acme").await, 6, false).await;
    assert_broken(&db, &ExportedHeads::default(), 9, BrokenLinkKind::Head).await;
}

#[tokio::test]
async fn a_chain_rewritten_with_its_head_is_detected_only_by_an_exported_head() {
    for from in [1, 6] {
        let (database, db) = nine().await;
        let heads = exported_heads(&db).await;
        record_some(&db, "acme", 3).await;
        assert_eq!(verified(&db, "acme", &heads).await.broken, None);
        rewrite(&database, links(&db, "acme").await, from, true).await;
        assert_intact(&db, "acme", 12).await;
        assert_broken(&db, &heads, 9, BrokenLinkKind::ExportedHead).await;
        assert_eq!(verified(&db, "globex", &heads).await.broken, None);
    }
}

#[tokio::test]
async fn a_chain_truncated_or_deleted_with_its_head_is_detected_only_by_an_exported_head() {
    let (database, db) = nine().await;
    let heads = exported_heads(&db).await;
    let cut = "DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq > 6;
               UPDATE audit.head SET seq = 6, hash = (SELECT record_hash FROM audit.entry WHERE tenant_id = 'acme' AND seq = 6)
               WHERE tenant_id = 'acme'";
    tamper(&database, cut).await;
    assert_intact(&db, "acme", 6).await;
    assert_broken(&db, &heads, 7, BrokenLinkKind::ExportedHead).await;
    tamper(&database, "DELETE FROM audit.entry; DELETE FROM audit.head").await;
    assert_broken(&db, &heads, 1, BrokenLinkKind::ExportedHead).await;
    assert!(heads.tenants().any(|known| *known == tenant("acme")));
}
