//! Verifying chains: in the database, page by page, and in an export, line by line.

use crate::{
    Broken, FileError, Heads, Link, Verified, What,
    chain::Walk,
    read::{End, page},
};
use onceward_db::{Db, DbError, Scope};
use onceward_envelope::TenantId;
use std::{collections::BTreeMap, io::BufRead};

/// Entries held in memory at once; each may be as large as a document.
const PAGE: u32 = 250;

/// Walks the chain of `tenant` from its beginning to where it ends now, past the exported `heads` of it. Every page is
/// a transaction of its own, so that a long walk holds no old snapshot. `progress` is told how many entries were whole.
pub async fn verify(
    db: &Db,
    tenant: &TenantId,
    heads: &Heads,
    mut progress: impl FnMut(u64),
) -> Result<Verified, DbError> {
    let end = End::read(db, tenant).await?;
    let mut walk = Walk::new(tenant.clone(), heads.of(tenant));
    // Numbers below the first are looked at, too: whoever forges rows can drop a constraint.
    let mut after = i64::MIN;
    let broken = loop {
        let tx = db.begin(Scope::tenant(tenant.clone())).await?;
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

/// The walk went to the last entry; the head must be there, too.
fn check_end(walk: &Walk, end: &End) -> Result<(), Broken> {
    let broken = |seq, detail: String| Err(walk.broken(seq, What::Head, detail));
    let last = walk.seq();
    match &end.head {
        None if last == 0 => Ok(()),
        None => broken(last, "the chain has entries and no head".into()),
        Some(head) if head.seq > last => {
            broken(last + 1, format!("the head names entry {}, but the chain ends with entry {last}", head.seq))
        }
        Some(head) if head.seq < last => {
            broken(head.seq + 1, format!("it lies behind the head, which names entry {}", head.seq))
        }
        Some(head) if head.hash != walk.hash() => broken(
            last,
            format!("the head has the hash {}, the entry {}", hex::encode(&head.hash), hex::encode(walk.hash())),
        ),
        Some(_) => Ok(()),
    }
}

/// Walks every chain of an export (JSON Lines of [`Link`]), or `only` one, without a database. A chain that begins in the
/// middle is taken from there on: what came before is not in the file, and neither are heads from before it.
pub fn verify_file(
    lines: impl BufRead,
    only: Option<&TenantId>,
    heads: &Heads,
    mut progress: impl FnMut(u64),
) -> Result<Vec<Verified>, FileError> {
    let mut walks: BTreeMap<TenantId, (Walk, Option<Broken>)> = BTreeMap::new();
    for tenant in heads.tenants().filter(|tenant| only.is_none_or(|only| only == *tenant)) {
        walks.insert(tenant.clone(), (Walk::new(tenant.clone(), heads.of(tenant)), None));
    }
    for (index, line) in lines.lines().enumerate() {
        let (number, line) = (index + 1, line?);
        let link: Link = serde_json::from_str(&line).map_err(|error| FileError::Line {
            number,
            what: "entry",
            error: error.to_string(),
        })?;
        if only.is_some_and(|only| *only != link.tenant_id) {
            continue;
        }
        let begins = walks.get(&link.tenant_id).is_none_or(|(walk, _)| walk.entries() == 0);
        let (walk, broken) = walks
            .entry(link.tenant_id.clone())
            .or_insert_with(|| (Walk::new(link.tenant_id.clone(), Vec::new()), None));
        if begins && broken.is_none() && link.seq > 1 {
            let known = heads.of(&link.tenant_id);
            *walk = Walk::after(link.tenant_id.clone(), link.seq - 1, link.prev_hash.clone(), known);
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

fn verified(tenant_id: TenantId, walk: &Walk, broken: Option<Broken>) -> Verified {
    Verified { tenant_id, entries: walk.entries(), seq: walk.seq(), hash: hex::encode(walk.hash()), broken }
}
