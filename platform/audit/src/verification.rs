//! The results of verifying a chain.

use onceward_envelope::TenantId;
use serde::Serialize;
use std::fmt;

/// The kind of inconsistency at a broken link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrokenLinkKind {
    /// An entry is missing or in the wrong place.
    Gap,
    /// The hash of the preceding entry does not match.
    Prev,
    /// Its own hash does not match: its text, its number or its hash was changed.
    Hash,
    /// The document is unreadable, not canonical, or another tenant's.
    Document,
    /// A column differs from the document.
    Field,
    /// The head in the database does not match the end of the chain.
    Head,
    /// An exported head has another hash, or its entry is missing.
    ExportedHead,
}

impl fmt::Display for BrokenLinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gap => "gap",
            Self::Prev => "prev",
            Self::Hash => "hash",
            Self::Document => "document",
            Self::Field => "field",
            Self::Head => "head",
            Self::ExportedHead => "exported-head",
        })
    }
}

/// The first broken link of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokenLink {
    /// The tenant of the chain.
    pub tenant_id: TenantId,
    /// The number of the broken entry; the entries before it are intact.
    pub seq: i64,
    /// The kind of inconsistency.
    pub what: BrokenLinkKind,
    /// A description that does not quote the content of entries.
    pub detail: String,
}

impl fmt::Display for BrokenLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: broken at entry {} ({}): {}", self.tenant_id, self.seq, self.what, self.detail)
    }
}

/// The result of verifying one chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainVerification {
    /// The tenant of the chain.
    pub tenant_id: TenantId,
    /// The number of intact entries.
    pub entries: u64,
    /// The number of the last intact entry.
    pub seq: i64,
    /// The hash of that entry.
    pub hash: String,
    /// The first broken link, if any.
    pub broken: Option<BrokenLink>,
}
