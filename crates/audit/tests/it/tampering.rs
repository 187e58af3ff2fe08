//! Every way to spoil a chain is found, and the first broken link is named.

use crate::support::{
    assert_broken, assert_whole, exported_heads, links, record_some, tamper, tenant, trail, verified,
};
use onceward_audit::{GENESIS, Heads, Link, What, link_hash};
use onceward_db::Db;
use onceward_testkit::TestDb;

/// A chain of nine.
async fn nine() -> (TestDb, Db) {
    let (database, db) = trail().await;
    record_some(&db, "acme", 9).await;
    record_some(&db, "globex", 2).await;
    (database, db)
}

async fn check(sql: &str, seq: i64, what: What) {
    let (database, db) = nine().await;
    assert_whole(&db, "acme", 9).await;
    tamper(&database, sql).await;
    assert_broken(&db, &Heads::default(), seq, what).await;
    assert_whole(&db, "globex", 2).await;
}

/// `links` from entry `from` on, computed anew after `change`, in the database; with the head or without.
async fn rewrite(database: &TestDb, links: Vec<Link>, from: i64, with_head: bool) {
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
async fn a_changed_column() {
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
        check(&sql, 5, What::Field).await;
    }
}

#[tokio::test]
async fn a_changed_document() {
    let sql =
        "UPDATE audit.entry SET document = replace(document, 'active', 'closed') WHERE tenant_id = 'acme' AND seq = 5";
    check(sql, 5, What::Hash).await;
}

#[tokio::test]
async fn a_changed_hash() {
    let own = "UPDATE audit.entry SET record_hash = sha256('x') WHERE tenant_id = 'acme' AND seq = 5";
    check(own, 5, What::Hash).await;
    let before = "UPDATE audit.entry SET prev_hash = sha256('x') WHERE tenant_id = 'acme' AND seq = 5";
    check(before, 5, What::Prev).await;
}

#[tokio::test]
async fn a_deleted_row() {
    check("DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq = 5", 5, What::Gap).await;
    check("DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq = 1", 1, What::Gap).await;
    check("DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq = 9", 9, What::Head).await;
    check("DELETE FROM audit.entry WHERE tenant_id = 'acme'", 1, What::Head).await;
}

#[tokio::test]
async fn a_deleted_row_with_those_behind_it_moved_up() {
    let sql = "DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq = 5;
               UPDATE audit.entry SET seq = -seq WHERE tenant_id = 'acme' AND seq > 5;
               UPDATE audit.entry SET seq = -seq - 1 WHERE tenant_id = 'acme' AND seq < 0";
    let sql = format!("ALTER TABLE audit.entry DROP CONSTRAINT entry_seq_check; {sql}");
    check(&sql, 5, What::Prev).await;
}

const COPY: &str =
    "SELECT tenant_id, %SEQ%, occurred_at, event_type, actor, object_type, object_id, loan_id, correlation_id,
    document, record_hash, sha256(record_hash || int8send(%SEQ%) || convert_to(document, 'UTF8'))
    FROM audit.entry WHERE tenant_id = 'acme' AND seq = %FROM%";

#[tokio::test]
async fn an_inserted_row() {
    let copy = |seq: &str, from: &str| COPY.replace("%SEQ%", seq).replace("%FROM%", from);
    // Behind the end it links well, but the head does not know it.
    check(&format!("INSERT INTO audit.entry {}", copy("10", "9")), 10, What::Head).await;
    check(&format!("INSERT INTO audit.entry {}", copy("12", "9")), 10, What::Gap).await;
    let before = "ALTER TABLE audit.entry DROP CONSTRAINT entry_seq_check";
    check(&format!("{before}; INSERT INTO audit.entry {}", copy("0", "9")), 1, What::Gap).await;
    // In the middle it links well to what is before it, and what is behind it does not link to it.
    let room = "UPDATE audit.entry SET seq = -seq WHERE tenant_id = 'acme' AND seq > 5;
                UPDATE audit.entry SET seq = 1 - seq WHERE tenant_id = 'acme' AND seq < 0";
    check(&format!("{before}; {room}; INSERT INTO audit.entry {}", copy("6", "5")), 7, What::Prev).await;
}

#[tokio::test]
async fn swapped_rows() {
    let sql = "ALTER TABLE audit.entry DROP CONSTRAINT entry_seq_check;
               UPDATE audit.entry SET seq = -seq WHERE tenant_id = 'acme' AND seq IN (4, 5);
               UPDATE audit.entry SET seq = 9 + seq WHERE tenant_id = 'acme' AND seq < 0";
    check(sql, 4, What::Prev).await;
    let hashes_in_place =
        "UPDATE audit.entry e SET document = o.document, event_type = o.event_type, object_id = o.object_id,
                   loan_id = o.loan_id, correlation_id = o.correlation_id, occurred_at = o.occurred_at
               FROM audit.entry o
               WHERE e.tenant_id = 'acme' AND o.tenant_id = 'acme' AND e.seq IN (4, 5) AND o.seq = 9 - e.seq";
    check(hashes_in_place, 4, What::Hash).await;
}

#[tokio::test]
async fn a_head_that_was_moved_or_taken_away() {
    check("UPDATE audit.head SET seq = 8 WHERE tenant_id = 'acme'", 9, What::Head).await;
    check("UPDATE audit.head SET hash = sha256('x') WHERE tenant_id = 'acme'", 9, What::Head).await;
    check("DELETE FROM audit.head WHERE tenant_id = 'acme'", 9, What::Head).await;
}

#[tokio::test]
async fn a_rewritten_tail_is_found_by_the_head() {
    let (database, db) = nine().await;
    rewrite(&database, links(&db, "acme").await, 6, false).await;
    assert_broken(&db, &Heads::default(), 9, What::Head).await;
}

#[tokio::test]
async fn a_chain_rewritten_with_its_head_is_found_by_an_exported_head_alone() {
    for from in [1, 6] {
        let (database, db) = nine().await;
        let heads = exported_heads(&db).await;
        record_some(&db, "acme", 3).await;
        assert_eq!(verified(&db, "acme", &heads).await.broken, None);
        rewrite(&database, links(&db, "acme").await, from, true).await;
        assert_whole(&db, "acme", 12).await;
        assert_broken(&db, &heads, 9, What::ExportedHead).await;
        assert_eq!(verified(&db, "globex", &heads).await.broken, None);
    }
}

#[tokio::test]
async fn a_chain_cut_short_or_gone_with_its_head_is_found_by_an_exported_head_alone() {
    let (database, db) = nine().await;
    let heads = exported_heads(&db).await;
    let cut = "DELETE FROM audit.entry WHERE tenant_id = 'acme' AND seq > 6;
               UPDATE audit.head SET seq = 6, hash = (SELECT record_hash FROM audit.entry WHERE tenant_id = 'acme' AND seq = 6)
               WHERE tenant_id = 'acme'";
    tamper(&database, cut).await;
    assert_whole(&db, "acme", 6).await;
    assert_broken(&db, &heads, 7, What::ExportedHead).await;
    tamper(&database, "DELETE FROM audit.entry; DELETE FROM audit.head").await;
    assert_broken(&db, &heads, 1, What::ExportedHead).await;
    assert!(heads.tenants().any(|known| *known == tenant("acme")));
}
