//! The chain itself: how links are made and how they are checked. No I/O; the crate's own page has the byte layout.

use crate::{Broken, Head, What, entry::VERSION};
use onceward_envelope::{TenantId, canonical, fingerprint};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What stands before the first entry of every chain.
pub const GENESIS: [u8; 32] = [0; 32];

/// The hash of entry `seq`, whose predecessor has the hash `prev`.
pub fn link_hash(prev: &[u8], seq: i64, document: &str) -> [u8; 32] {
    fingerprint([prev, &seq.to_be_bytes(), document.as_bytes()].concat())
}

/// An entry as it stands in its chain; one line of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Link {
    /// Whose chain.
    pub tenant_id: TenantId,
    /// Its place, from 1.
    pub seq: i64,
    /// The hash of the entry before.
    #[serde(with = "hex")]
    pub prev_hash: Vec<u8>,
    /// Its own hash.
    #[serde(with = "hex")]
    pub record_hash: Vec<u8>,
    /// What it says: canonical JSON.
    pub document: String,
}

/// A walk along one chain, link by link.
pub(crate) struct Walk {
    tenant: TenantId,
    /// The last link that was found whole.
    seq: i64,
    hash: Vec<u8>,
    entries: u64,
    /// Exported heads that lie ahead, the nearest last.
    heads: Vec<Head>,
}

impl Walk {
    /// From the beginning.
    pub(crate) fn new(tenant: TenantId, heads: Vec<Head>) -> Self {
        Self::after(tenant, 0, GENESIS.to_vec(), heads)
    }

    /// From behind the entry `seq`, of which only the hash is known.
    pub(crate) fn after(tenant: TenantId, seq: i64, hash: Vec<u8>, mut heads: Vec<Head>) -> Self {
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

    /// Goes on to `link`; gives its document.
    pub(crate) fn step(&mut self, link: &Link) -> Result<Value, Broken> {
        self.check_heads()?;
        let expected = self.seq + 1;
        if link.seq != expected {
            let missing = format!("entry {expected} is missing: the next that is there is {}", link.seq);
            return Err(self.broken(expected, What::Gap, missing));
        }
        if link.prev_hash != self.hash {
            let other = format!("it names {} as the hash of the entry before", hex::encode(&link.prev_hash));
            return Err(self.broken(expected, What::Prev, format!("{other}, which is {}", hex::encode(&self.hash))));
        }
        let hash = link_hash(&self.hash, link.seq, &link.document);
        if link.record_hash != hash {
            let other = format!("its hash is stored as {}", hex::encode(&link.record_hash));
            return Err(self.broken(expected, What::Hash, format!("{other} and comes out as {}", hex::encode(hash))));
        }
        let document = self.read(link)?;
        (self.seq, self.hash) = (link.seq, hash.to_vec());
        self.entries += 1;
        Ok(document)
    }

    /// Nothing comes after the last step.
    pub(crate) fn end(&mut self) -> Result<(), Broken> {
        self.check_heads()?;
        match self.heads.last() {
            None => Ok(()),
            Some(head) => {
                let short = format!("it ends with entry {}, but an exported head names entry {}", self.seq, head.seq);
                Err(self.broken(self.seq + 1, What::ExportedHead, short))
            }
        }
    }

    pub(crate) fn broken(&self, seq: i64, what: What, detail: String) -> Broken {
        Broken { tenant_id: self.tenant.clone(), seq, what, detail }
    }

    fn check_heads(&mut self) -> Result<(), Broken> {
        while let Some(head) = self.heads.pop_if(|head| head.seq <= self.seq) {
            if head.hash != self.hash {
                let other = format!(
                    "the head exported at {} has the hash {}, the chain now has {}",
                    head.at,
                    hex::encode(&head.hash),
                    hex::encode(&self.hash)
                );
                return Err(self.broken(head.seq, What::ExportedHead, other));
            }
        }
        Ok(())
    }

    /// A document that nobody could read in two ways.
    fn read(&self, link: &Link) -> Result<Value, Broken> {
        let wrong = |detail: &str| self.broken(link.seq, What::Document, detail.to_owned());
        let document: Value = serde_json::from_str(&link.document).map_err(|_| wrong("it is not JSON"))?;
        if document["v"] != VERSION {
            return Err(wrong("its layout is unknown to this program: use a newer one"));
        }
        if document["tenantId"] != self.tenant.as_str() {
            return Err(wrong("it speaks of another tenant"));
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

    fn chain(count: i64) -> Vec<Link> {
        let mut links: Vec<Link> = Vec::new();
        for seq in 1..=count {
            let prev = links.last().map_or(GENESIS.to_vec(), |link| link.record_hash.clone());
            let document = format!(r#"{{"eventType":"e{seq}","tenantId":"acme","v":1}}"#);
            let record_hash = link_hash(&prev, seq, &document).to_vec();
            links.push(Link { tenant_id: tenant(), seq, prev_hash: prev, record_hash, document });
        }
        links
    }

    fn walk(links: &[Link], heads: Vec<Head>) -> Result<u64, (i64, What)> {
        let mut walk = Walk::new(tenant(), heads);
        let walked = links.iter().try_for_each(|link| walk.step(link).map(drop)).and_then(|()| walk.end());
        walked.map(|()| walk.entries()).map_err(|broken| (broken.seq, broken.what))
    }

    fn head(seq: i64, hash: &[u8]) -> Head {
        Head { tenant_id: tenant(), seq, hash: hash.to_vec(), at: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn the_hash_of_a_link_is_the_one_that_the_layout_says() {
        // printf '%064d%016x' 0 1 | xxd -r -p; printf '{}'  →  sha256sum
        let hash = hex::encode(link_hash(&GENESIS, 1, "{}"));
        assert_eq!(hash, "1bad765d926feacace97a8ddcd329a1f4254c208affc1ba86b3c7d59e8fba83e");
    }

    #[test]
    fn a_whole_chain_is_whole_with_the_heads_it_once_had() {
        let links = chain(4);
        let heads = vec![head(4, &links[3].record_hash), head(2, &links[1].record_hash), head(0, &GENESIS)];
        assert_eq!(walk(&links, heads), Ok(4));
        assert_eq!(walk(&[], vec![]), Ok(0));
    }

    #[test]
    fn a_head_that_the_chain_does_not_pass_is_found_where_it_should_have_been() {
        let links = chain(4);
        assert_eq!(walk(&links, vec![head(2, &[7; 32])]), Err((2, What::ExportedHead)));
        assert_eq!(walk(&links, vec![head(4, &[7; 32])]), Err((4, What::ExportedHead)));
        assert_eq!(walk(&links, vec![head(6, &[7; 32])]), Err((5, What::ExportedHead)));
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
            let link = Link { tenant_id: tenant(), seq: 1, prev_hash, record_hash, document: document.to_owned() };
            assert_eq!(walk(&[link], vec![]), Err((1, What::Document)), "{document}");
        }
    }
}
