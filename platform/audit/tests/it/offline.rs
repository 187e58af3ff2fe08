//! Exports, verified without a database.

use crate::support::{audit_database, exported_heads, links, record_some, tenant};
use onceward_audit::{BrokenLinkKind, ChainLink, ChainVerification, ExportedHeads, verify_file};

fn lines(links: &[ChainLink]) -> String {
    links.iter().map(|link| serde_json::to_string(link).expect("it can be written") + "\n").collect()
}

fn check(links: &[ChainLink], heads: &ExportedHeads) -> Vec<ChainVerification> {
    verify_file(lines(links).as_bytes(), None, heads, |_| {}).expect("it can be read")
}

fn first_broken(links: &[ChainLink], heads: &ExportedHeads) -> Option<(i64, BrokenLinkKind)> {
    check(links, heads).into_iter().find_map(|chain| chain.broken).map(|broken| (broken.seq, broken.what))
}

async fn exported() -> (Vec<ChainLink>, ExportedHeads) {
    let (_database, db) = audit_database().await;
    record_some(&db, "acme", 5).await;
    record_some(&db, "globex", 2).await;
    (links(&db, "acme").await, exported_heads(&db).await)
}

#[tokio::test]
async fn an_intact_export_is_verified_with_and_without_heads() {
    let (_database, db) = audit_database().await;
    record_some(&db, "acme", 5).await;
    record_some(&db, "globex", 2).await;
    let both = [links(&db, "globex").await, links(&db, "acme").await].concat();
    for heads in [ExportedHeads::default(), exported_heads(&db).await] {
        let chains = check(&both, &heads);
        assert_eq!(chains.iter().map(|chain| chain.entries).collect::<Vec<_>>(), [5, 2]);
        assert!(chains.iter().all(|chain| chain.broken.is_none()), "{chains:?}");
    }
}

#[tokio::test]
async fn one_tenant_of_an_export_can_be_verified_alone() {
    let (acme, heads) = exported().await;
    let only = tenant("acme");
    let chains = verify_file(lines(&acme).as_bytes(), Some(&only), &heads, |_| {}).expect("it can be read");
    assert_eq!(chains.len(), 1);
    assert_eq!(chains[0].broken, None);
    // Without the selection, the chain of globex is missing from the file.
    assert_eq!(first_broken(&acme, &heads), Some((1, BrokenLinkKind::ExportedHead)));
}

#[tokio::test]
async fn a_partial_export_is_verified_from_its_first_entry() {
    let (acme, _) = exported().await;
    assert_eq!(first_broken(&acme[2..], &ExportedHeads::default()), None);
    let mut forged = acme[2..].to_vec();
    forged[0].prev_hash = vec![7; 32];
    assert_eq!(first_broken(&forged, &ExportedHeads::default()), Some((3, BrokenLinkKind::Hash)));
}

#[tokio::test]
async fn tampering_with_an_export_is_detected() {
    let (acme, heads) = exported().await;
    let changed = |change: &dyn Fn(&mut Vec<ChainLink>)| {
        let mut links = acme.clone();
        change(&mut links);
        first_broken(&links, &ExportedHeads::default())
    };
    assert_eq!(changed(&|links| links[2].document.push(' ')), Some((3, BrokenLinkKind::Hash)));
    assert_eq!(changed(&|links| drop(links.remove(2))), Some((3, BrokenLinkKind::Gap)));
    assert_eq!(changed(&|links| links.swap(2, 3)), Some((3, BrokenLinkKind::Gap)));
    assert_eq!(changed(&|links| links.insert(3, links[2].clone())), Some((4, BrokenLinkKind::Gap)));
    assert_eq!(changed(&|links| links.truncate(4)), None, "an end that is missing shows by a head only");
    assert_eq!(first_broken(&acme[..4], &heads), Some((5, BrokenLinkKind::ExportedHead)));
}

#[test]
fn a_file_that_is_no_export_is_refused_with_the_line() {
    let error =
        verify_file("{}\n".as_bytes(), None, &ExportedHeads::default(), |_| {}).expect_err("no entry").to_string();
    assert!(error.starts_with("line 1 is not a valid entry"), "{error}");
}
