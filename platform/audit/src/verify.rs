//! Verifying chains: in the database, page by page, and in an export, line by line.

use crate::{
    AuditFileError, BrokenLink, BrokenLinkKind, ChainLink, ChainVerification, ExportedHeads,
    chain::ChainWalk,
    read::{ChainEnd, page},
};
use onceward_db::{Db, DbError, Scope};
use onceward_envelope::TenantId;
use std::{collections::BTreeMap, io::BufRead};

/// The number of entries held in memory at once; each may be as large as a document.
const PAGE: u32 = 250;

/// Verifies the chain of `tenant` from its beginning to its current end, and against its exported `heads`. Every page
/// is a separate transaction, so that a long walk holds no old snapshot. Calls `progress` with the number of intact
/// entries.
pub async fn verify(
    db: &Db,
    tenant: &TenantId,
    heads: &ExportedHeads,
    mut progress: impl FnMut(u64),
) -> Result<ChainVerification, DbError> {
    let end = ChainEnd::read(db, tenant).await?;
    let mut walk = ChainWalk::new(tenant.clone(), heads.of(tenant));
    // Numbers below 1 are checked, too: an attacker who forges rows can also drop a constraint.
    let mut after = i64::MIN;
    let broken = loop {
        let tx = db.begin(Scope::for_tenant(tenant.clone())).await?;
        let entries = page(&tx, after, end.last, PAGE).await?;
        tx.rollback().await?;
        let Some(last) = entries.last() else {
            break walk.end().and_then(|()| check_end(&walk, &end)).err();
        };
        after = last.link.seq;
        let walked = entries
            .iter()
            .try_for_each(|entry| walk.step(&entry.link).and_then(|document| entry.check_columns(&document)));
        if let Err(broken) = walked {
            break Some(broken);
        }
        progress(walk.entries());
    };
    Ok(verified(tenant.clone(), &walk, broken))
}

/// Fails unless the head in the database matches the last entry of the walk.
fn check_end(walk: &ChainWalk, end: &ChainEnd) -> Result<(), BrokenLink> {
    let broken = |seq, detail: String| Err(walk.broken(seq, BrokenLinkKind::Head, detail));
    let last = walk.seq();
    match &end.head {
        None if last == 0 => Ok(()),
        None => broken(last, "the chain has entries and no head".into()),
        Some(head) if head.seq > last => {
            broken(last + 1, format!("the head names entry {}, but the chain ends with entry {last}", head.seq))
        }
        Some(head) if head.seq < last => {
            broken(head.seq + 1, format!("it is beyond the head, which names entry {}", head.seq))
        }
        Some(head) if head.hash != walk.hash() => broken(
            last,
            format!("the head has the hash {}, the entry {}", hex::encode(&head.hash), hex::encode(walk.hash())),
        ),
        Some(_) => Ok(()),
    }
}

/// Verifies every chain of an export (JSON Lines of [`ChainLink`]), or `only` one, without a database. A chain that starts
/// in the middle is verified from there on: the earlier entries are not in the file, and heads from before it are
/// ignored.
pub fn verify_file(
    lines: impl BufRead,
    only: Option<&TenantId>,
    heads: &ExportedHeads,
    mut progress: impl FnMut(u64),
) -> Result<Vec<ChainVerification>, AuditFileError> {
    let mut walks: BTreeMap<TenantId, (ChainWalk, Option<BrokenLink>)> = BTreeMap::new();
    for tenant in heads.tenants().filter(|tenant| only.is_none_or(|only| only == *tenant)) {
        walks.insert(tenant.clone(), (ChainWalk::new(tenant.clone(), heads.of(tenant)), None));
    }
    for (index, line) in lines.lines().enumerate() {
        let (number, line) = (index + 1, line?);
        let link: ChainLink = serde_json::from_str(&line).map_err(|error| AuditFileError::Line {
            number,
            what: "entry",
            error: error.to_string(),
        })?;
        if only.is_some_and(|only| *only != link.tenant_id) {
            continue;
        }
        let is_first = walks.get(&link.tenant_id).is_none_or(|(walk, _)| walk.entries() == 0);
        let (walk, broken) = walks
            .entry(link.tenant_id.clone())
            .or_insert_with(|| (ChainWalk::new(link.tenant_id.clone(), Vec::new()), None));
        if is_first && broken.is_none() && link.seq > 1 {
            let known = heads.of(&link.tenant_id);
            *walk = ChainWalk::after(link.tenant_id.clone(), link.seq - 1, link.prev_hash.clone(), known);
        }
        if broken.is_none() {
            *broken = walk.step(&link).err();
        }
        progress(number as u64);
    }
    let ended = walks.into_iter().map(|(tenant, (mut walk, broken))| {
        let broken = broken.or_else(|| walk.end().err());
        verified(tenant, &walk, broken)
    });
    Ok(ended.collect())
}

fn verified(tenant_id: TenantId, walk: &ChainWalk, broken: Option<BrokenLink>) -> ChainVerification {
    ChainVerification { tenant_id, entries: walk.entries(), seq: walk.seq(), hash: hex::encode(walk.hash()), broken }
}
