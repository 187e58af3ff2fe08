//! Heads: where chains end, exported to be kept where nobody who can write the database can reach them.

use jiff::Timestamp;
use onceward_envelope::TenantId;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io::BufRead};

/// The end of a chain at a time. A chain that was rewritten as a whole is whole by itself; only a head from before tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// Whose chain.
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
pub struct Heads(BTreeMap<TenantId, Vec<Head>>);

impl Heads {
    /// Reads JSON Lines, as `onceward audit heads --json` writes them.
    pub fn read(lines: impl BufRead) -> Result<Self, FileError> {
        let mut heads = Self::default();
        for (number, line) in lines.lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let head: Head = serde_json::from_str(&line).map_err(|error| FileError::Line {
                number: number + 1,
                what: "head",
                error: error.to_string(),
            })?;
            heads.0.entry(head.tenant_id.clone()).or_default().push(head);
        }
        Ok(heads)
    }

    /// Those of `tenant`.
    pub fn of(&self, tenant: &TenantId) -> Vec<Head> {
        self.0.get(tenant).cloned().unwrap_or_default()
    }

    /// The tenants that there are heads of.
    pub fn tenants(&self) -> impl Iterator<Item = &TenantId> {
        self.0.keys()
    }
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file itself.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A line of it. The line's content is left out.
    #[error(
        "line {number} is no {what} of an audit chain ({error}); give a file that `onceward audit` wrote as JSON Lines"
    )]
    Line {
        /// From 1.
        number: usize,
        /// What was expected.
        what: &'static str,
        /// What the reader says.
        error: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_read_back_as_they_were_written() {
        let tenant_id = TenantId::new("acme").expect("a valid tenant");
        let head = |seq| Head { tenant_id: tenant_id.clone(), seq, hash: vec![7; 32], at: Timestamp::UNIX_EPOCH };
        let lines: Vec<String> = [1, 9].map(|seq| serde_json::to_string(&head(seq)).expect("it can be written")).into();
        let heads = Heads::read(lines.join("\n\n").as_bytes()).expect("they can be read");
        assert_eq!(heads.of(&tenant_id), [head(1), head(9)]);
        assert_eq!(heads.tenants().collect::<Vec<_>>(), [&tenant_id]);
    }

    #[test]
    fn a_line_that_is_no_head_is_named() {
        let error = Heads::read("\nacme 7 0707\n".as_bytes()).expect_err("no JSON").to_string();
        assert!(error.starts_with("line 2 is no head"), "{error}");
        assert!(!error.contains("0707"), "{error}");
    }
}
