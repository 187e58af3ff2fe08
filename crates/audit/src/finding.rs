//! What verifying a chain says.

use onceward_envelope::TenantId;
use serde::Serialize;
use std::fmt;

/// What differs at a broken link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// An entry is missing, or stands where it does not belong.
    Gap,
    /// The hash of the entry before it.
    Prev,
    /// Its own hash: its text, its number or its hash was changed.
    Hash,
    /// The document is unreadable, not canonical, or another tenant's.
    Document,
    /// A column does not repeat what the document says.
    Field,
    /// The head in the database names another end.
    Head,
    /// A head that was exported names another hash, or an entry that is not there.
    ExportedHead,
}

impl fmt::Display for What {
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
pub struct Broken {
    /// Whose chain.
    pub tenant_id: TenantId,
    /// At which entry; the entries before it are whole.
    pub seq: i64,
    /// What differs.
    pub what: What,
    /// How, in words, without what entries say.
    pub detail: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: broken at entry {} ({}): {}", self.tenant_id, self.seq, self.what, self.detail)
    }
}

/// What became of one chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    /// Whose chain.
    pub tenant_id: TenantId,
    /// How many entries are whole.
    pub entries: u64,
    /// The last of them.
    pub seq: i64,
    /// Its hash.
    pub hash: String,
    /// Where it breaks, if it does.
    pub broken: Option<Broken>,
}
