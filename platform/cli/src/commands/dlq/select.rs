//! Arguments that select dead letters.

use crate::commands::duration;
use onceward_db::{Db, DbError};
use onceward_message_log::triage::{self, DeadLetterFilter, DeadLetterStatus};
use std::{collections::HashSet, time::Duration};

/// Filters for dead letters.
#[derive(Debug, Default, clap::Args)]
pub struct DeadLetterFilters {
    /// Only dead letters of this queue; `@outbox` is the outbox to an external bus
    #[arg(long)]
    queue: Option<String>,
    /// Only dead letters of this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Only this event type: order.placed for all versions, or order.placed.v1
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only dead letters with this reason, such as attempts_exhausted or schema_violation
    #[arg(long)]
    reason: Option<String>,
    /// Only messages that died longer ago than this: 30m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    older_than: Option<Duration>,
    /// Only messages that died within this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    newer_than: Option<Duration>,
}

impl DeadLetterFilters {
    pub(super) fn with_status(self, status: Option<DeadLetterStatus>) -> DeadLetterFilter {
        DeadLetterFilter {
            status,
            queue: self.queue,
            tenant: self.tenant,
            event_type: self.event_type,
            reason: self.reason,
            event_id: None,
            holds_key: None,
            older_than: self.older_than,
            newer_than: self.newer_than,
        }
    }

    fn is_empty(&self) -> bool {
        let texts = [&self.queue, &self.tenant, &self.event_type, &self.reason];
        texts.into_iter().all(Option::is_none) && self.older_than.is_none() && self.newer_than.is_none()
    }
}

/// The status of the requested dead letters.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum StatusArg {
    /// Open: neither requeued nor quarantined
    Dead,
    /// Requeued
    Requeued,
    /// Quarantined
    Quarantined,
    /// Any status
    All,
}

impl StatusArg {
    pub(super) fn status(self) -> Option<DeadLetterStatus> {
        match self {
            Self::Dead => Some(DeadLetterStatus::Dead),
            Self::Requeued => Some(DeadLetterStatus::Requeued),
            Self::Quarantined => Some(DeadLetterStatus::Quarantined),
            Self::All => None,
        }
    }
}

/// Arguments that select dead letters to act on: by id, or all that match the filters.
#[derive(Debug, clap::Args)]
pub struct LetterSelection {
    /// The ids of the dead letters, as `dlq list` shows them
    ids: Vec<i64>,
    /// Act on every dead letter that matches the filters; without filters, on every dead letter
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    #[command(flatten)]
    filters: DeadLetterFilters,
    /// With --all: the maximum number of dead letters to act on, oldest messages first
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

/// The dead letters that were selected.
pub(super) struct SelectedLetters {
    pub ids: Vec<i64>,
    /// Whether they were given by id.
    pub by_id: bool,
    /// Whether the limit may have excluded some.
    pub is_truncated: bool,
}

impl LetterSelection {
    /// Fails with the reason if the arguments do not fit together.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match (self.ids.is_empty(), self.all) {
            (true, false) => Err("name the ids of dead letters, or use --all with filters"),
            (false, _) if !self.filters.is_empty() => Err("use either ids or filters, not both"),
            _ => Ok(()),
        }
    }

    /// Finds the selected dead letters; with `--all` those that are open.
    pub(super) async fn find(self, db: &Db) -> Result<SelectedLetters, DbError> {
        let open = DeadLetterFilter { status: Some(DeadLetterStatus::Dead), ..DeadLetterFilter::default() };
        self.find_among(db, open).await
    }

    /// Finds the selected dead letters; with `--all` those that hold their keys, whether quarantined or not.
    pub(super) async fn find_holding(self, db: &Db) -> Result<SelectedLetters, DbError> {
        self.find_among(db, DeadLetterFilter { holds_key: Some(true), ..DeadLetterFilter::default() }).await
    }

    async fn find_among(self, db: &Db, all: DeadLetterFilter) -> Result<SelectedLetters, DbError> {
        if self.all {
            let filter = DeadLetterFilter { holds_key: all.holds_key, ..self.filters.with_status(all.status) };
            let ids = triage::in_order(db, &filter, self.limit).await?;
            let is_truncated = ids.len() == self.limit as usize;
            return Ok(SelectedLetters { ids, by_id: false, is_truncated });
        }
        let mut seen = HashSet::new();
        let ids = self.ids.into_iter().filter(|id| seen.insert(*id)).collect();
        Ok(SelectedLetters { ids, by_id: true, is_truncated: false })
    }
}
