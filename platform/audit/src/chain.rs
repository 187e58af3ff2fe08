//! The chain itself: how links are computed and checked. No I/O; the crate's documentation describes the byte layout.

use crate::{BrokenLink, BrokenLinkKind, ChainHead, entry::VERSION};
use onceward_envelope::{TenantId, canonical, fingerprint};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The hash before the first entry of every chain.
pub const GENESIS: [u8; 32] = [0; 32];

/// Returns the hash of entry `seq`, whose predecessor has the hash `prev`.
pub fn link_hash(prev: &[u8], seq: i64, document: &str) -> [u8; 32] {
    fingerprint([prev, &seq.to_be_bytes(), document.as_bytes()].concat())
}

/// An entry with its position in the chain; one line of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChainLink {
    /// The tenant of the chain.
    pub tenant_id: TenantId,
    /// The position in the chain, from 1.
    pub seq: i64,
    /// The hash of the preceding entry.
    #[serde(with = "hex")]
    pub prev_hash: Vec<u8>,
    /// Its own hash.
    #[serde(with = "hex")]
    pub record_hash: Vec<u8>,
    /// The content: canonical JSON.
    pub document: String,
}

/// The verification of one chain, link by link.
pub(crate) struct ChainWalk {
    tenant: TenantId,
    /// The last link that was found intact.
    seq: i64,
    hash: Vec<u8>,
    entries: u64,
    /// Exported heads that were not reached yet, the nearest last.
    heads: Vec<ChainHead>,
}

impl ChainWalk {
    /// Starts at the beginning of the chain.
    pub(crate) fn new(tenant: TenantId, heads: Vec<ChainHead>) -> Self {
        Self::after(tenant, 0, GENESIS.to_vec(), heads)
    }

    /// Starts after the entry `seq`, of which only the hash is known.
    pub(crate) fn after(tenant: TenantId, seq: i64, hash: Vec<u8>, mut heads: Vec<ChainHead>) -> Self {
        heads.retain(|head| head.seq >= seq);
        heads.sort_by_key(|head| std::cmp::Reverse(head.seq));
        Self { tenant, seq, hash, entries: 0, heads }
    }

    pub(crate) fn seq(&self) -> i64 {
        self.seq
    }

    pub(crate) fn hash(&self) -> &[u8] {
        &self.hash
    }

    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Checks the next link and returns its document. Fails if the chain is broken there.
    pub(crate) fn step(&mut self, link: &ChainLink) -> Result<Value, BrokenLink> {
        self.check_heads()?;
        let expected = self.seq + 1;
        if link.seq != expected {
            let missing = format!("entry {expected} is missing: the next existing entry is {}", link.seq);
            return Err(self.broken(expected, BrokenLinkKind::Gap, missing));
        }
        if link.prev_hash != self.hash {
            let other = format!("it stores {} as the hash of the entry before", hex::encode(&link.prev_hash));
            return Err(self.broken(
                expected,
                BrokenLinkKind::Prev,
                format!("{other}, which is {}", hex::encode(&self.hash)),
            ));
        }
        let hash = link_hash(&self.hash, link.seq, &link.document);
        if link.record_hash != hash {
            let other = format!("its stored hash is {}", hex::encode(&link.record_hash));
            return Err(self.broken(
                expected,
                BrokenLinkKind::Hash,
                format!("{other}, but its content has the hash {}", hex::encode(hash)),
            ));
        }
        let document = self.read(link)?;
        (self.seq, self.hash) = (link.seq, hash.to_vec());
        self.entries += 1;
        Ok(document)
    }

    /// Ends the walk: fails if an exported head was not matched.
    pub(crate) fn end(&mut self) -> Result<(), BrokenLink> {
        self.check_heads()?;
        match self.heads.last() {
            None => Ok(()),
            Some(head) => {
                let short = format!("it ends with entry {}, but an exported head names entry {}", self.seq, head.seq);
                Err(self.broken(self.seq + 1, BrokenLinkKind::ExportedHead, short))
            }
        }
    }

    pub(crate) fn broken(&self, seq: i64, what: BrokenLinkKind, detail: String) -> BrokenLink {
        BrokenLink { tenant_id: self.tenant.clone(), seq, what, detail }
    }

    fn check_heads(&mut self) -> Result<(), BrokenLink> {
        while let Some(head) = self.heads.pop_if(|head| head.seq <= self.seq) {
            if head.hash != self.hash {
                let other = format!(
                    "the head exported at {} has the hash {}, the chain now has {}",
                    head.at,
                    hex::encode(&head.hash),
                    hex::encode(&self.hash)
                );
                return Err(self.broken(head.seq, BrokenLinkKind::ExportedHead, other));
            }
        }
        Ok(())
    }

    /// Parses a link's document, which must have exactly one interpretation.
    fn read(&self, link: &ChainLink) -> Result<Value, BrokenLink> {
        let wrong = |detail: &str| self.broken(link.seq, BrokenLinkKind::Document, detail.to_owned());
        let document: Value = serde_json::from_str(&link.document).map_err(|_| wrong("it is not JSON"))?;
        if document["v"] != VERSION {
            return Err(wrong("its layout is unknown to this program: use a newer one"));
        }
        if document["tenantId"] != self.tenant.as_str() {
            return Err(wrong("it belongs to another tenant"));
        }
        match canonical::to_string(&document) {
            Ok(text) if text == link.document => Ok(document),
            _ => Err(wrong("it is not in the canonical form of RFC 8785")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn tenant() -> TenantId {
        TenantId::new("acme").expect("a valid tenant")
    }

    fn chain(count: i64) -> Vec<ChainLink> {
        let mut links: Vec<ChainLink> = Vec::new();
        for seq in 1..=count {
            let prev = links.last().map_or(GENESIS.to_vec(), |link| link.record_hash.clone());
            let document = format!(r#"{{"eventType":"e{seq}","tenantId":"acme","v":1}}"#);
            let record_hash = link_hash(&prev, seq, &document).to_vec();
            links.push(ChainLink { tenant_id: tenant(), seq, prev_hash: prev, record_hash, document });
        }
        links
    }

    fn walk(links: &[ChainLink], heads: Vec<ChainHead>) -> Result<u64, (i64, BrokenLinkKind)> {
        let mut walk = ChainWalk::new(tenant(), heads);
        let walked = links.iter().try_for_each(|link| walk.step(link).map(drop)).and_then(|()| walk.end());
        walked.map(|()| walk.entries()).map_err(|broken| (broken.seq, broken.what))
    }

    fn head(seq: i64, hash: &[u8]) -> ChainHead {
        ChainHead { tenant_id: tenant(), seq, hash: hash.to_vec(), at: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn the_hash_of_a_link_follows_the_documented_layout() {
        // printf '%064d%016x' 0 1 | xxd -r -p; printf '{}'  →  sha256sum
        let hash = hex::encode(link_hash(&GENESIS, 1, "{}"));
        assert_eq!(hash, "1bad765d926feacace97a8ddcd329a1f4254c208affc1ba86b3c7d59e8fba83e");
    }

    #[test]
    fn an_intact_chain_matches_its_exported_heads() {
        let links = chain(4);
        let heads = vec![head(4, &links[3].record_hash), head(2, &links[1].record_hash), head(0, &GENESIS)];
        assert_eq!(walk(&links, heads), Ok(4));
        assert_eq!(walk(&[], vec![]), Ok(0));
    }

    #[test]
    fn an_exported_head_that_the_chain_does_not_match_is_reported_at_its_entry() {
        let links = chain(4);
        assert_eq!(walk(&links, vec![head(2, &[7; 32])]), Err((2, BrokenLinkKind::ExportedHead)));
        assert_eq!(walk(&links, vec![head(4, &[7; 32])]), Err((4, BrokenLinkKind::ExportedHead)));
        assert_eq!(walk(&links, vec![head(6, &[7; 32])]), Err((5, BrokenLinkKind::ExportedHead)));
    }

    #[test]
    fn a_document_must_be_canonical_and_of_this_tenant() {
        for document in [
            "no json",
            r#"{"v":1,"tenantId":"acme"}"#,
            r#"{"tenantId":"acme","v":1.0}"#,
            r#"{"tenantId":"acme","tenantId":"acme","v":1}"#,
            r#"{"tenantId":"other","v":1}"#,
            r#"{"tenantId":"acme","v":2}"#,
        ] {
            let record_hash = link_hash(&GENESIS, 1, document).to_vec();
            let prev_hash = GENESIS.to_vec();
            let link = ChainLink { tenant_id: tenant(), seq: 1, prev_hash, record_hash, document: document.to_owned() };
            assert_eq!(walk(&[link], vec![]), Err((1, BrokenLinkKind::Document)), "{document}");
        }
    }
}
