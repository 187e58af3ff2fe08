//! Heads: the ends of chains, exported to be stored out of reach of anyone who can write to the database.

use jiff::Timestamp;
use onceward_envelope::TenantId;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io::BufRead};

/// The end of a chain at a point in time. A chain that was rewritten completely is consistent in itself; only an
/// earlier head reveals the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainHead {
    /// The tenant of the chain.
    pub tenant_id: TenantId,
    /// The number of its last entry.
    pub seq: i64,
    /// The hash of that entry.
    #[serde(with = "hex")]
    pub hash: Vec<u8>,
    /// When that entry was written.
    pub at: Timestamp,
}

/// Exported heads by tenant; several of one tenant, taken at different times, are all checked.
#[derive(Clone, Debug, Default)]
pub struct ExportedHeads(BTreeMap<TenantId, Vec<ChainHead>>);

impl ExportedHeads {
    /// Reads JSON Lines as written by `onceward audit heads --json`.
    pub fn read(lines: impl BufRead) -> Result<Self, AuditFileError> {
        let mut heads = Self::default();
        for (number, line) in lines.lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let head: ChainHead = serde_json::from_str(&line).map_err(|error| AuditFileError::Line {
                number: number + 1,
                what: "head",
                error: error.to_string(),
            })?;
            heads.0.entry(head.tenant_id.clone()).or_default().push(head);
        }
        Ok(heads)
    }

    /// Returns the heads of `tenant`.
    pub fn of(&self, tenant: &TenantId) -> Vec<ChainHead> {
        self.0.get(tenant).cloned().unwrap_or_default()
    }

    /// Returns the tenants that have heads.
    pub fn tenants(&self) -> impl Iterator<Item = &TenantId> {
        self.0.keys()
    }
}

/// The reason why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum AuditFileError {
    /// Reading the file failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A line is invalid. The error omits its content.
    #[error(
        "line {number} is not a valid {what} of an audit chain ({error}); use a file that `onceward audit` wrote as JSON Lines"
    )]
    Line {
        /// The line's number, from 1.
        number: usize,
        /// The expected content of the line.
        what: &'static str,
        /// The parser's error.
        error: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_round_trip_through_json_lines() {
        let tenant_id = TenantId::new("acme").expect("a valid tenant");
        let head = |seq| ChainHead { tenant_id: tenant_id.clone(), seq, hash: vec![7; 32], at: Timestamp::UNIX_EPOCH };
        let lines: Vec<String> = [1, 9].map(|seq| serde_json::to_string(&head(seq)).expect("it can be written")).into();
        let heads = ExportedHeads::read(lines.join("\n\n").as_bytes()).expect("they can be read");
        assert_eq!(heads.of(&tenant_id), [head(1), head(9)]);
        assert_eq!(heads.tenants().collect::<Vec<_>>(), [&tenant_id]);
    }

    #[test]
    fn an_invalid_line_is_reported_by_its_number() {
        let error = ExportedHeads::read("\nacme 7 0707\n".as_bytes()).expect_err("no JSON").to_string();
        assert!(error.starts_with("line 2 is not a valid head"), "{error}");
        assert!(!error.contains("0707"), "{error}");
    }
}
