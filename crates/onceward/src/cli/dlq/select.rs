//! Which letters, and who acts.

use crate::cli::duration;
use onceward_db::{Db, DbError};
use onceward_transport_postgres::triage::{self, Filter, Operator, Status};
use std::{collections::HashSet, time::Duration};

/// Arguments that choose letters.
#[derive(Debug, Default, clap::Args)]
pub struct Filters {
    /// Only those that died in this queue; `@outbox` is the way to an external bus
    #[arg(long)]
    queue: Option<String>,
    /// Only this tenant's
    #[arg(long)]
    tenant: Option<String>,
    /// Only this type: order.placed for all its versions, or order.placed.v1
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only those that died for this reason, such as attempts_exhausted or schema_violation
    #[arg(long)]
    reason: Option<String>,
    /// Only those that died longer ago than this: 30m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    older_than: Option<Duration>,
    /// Only those that died within this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    newer_than: Option<Duration>,
}

impl Filters {
    pub(super) fn of(self, status: Option<Status>) -> Filter {
        Filter {
            status,
            queue: self.queue,
            tenant: self.tenant,
            event_type: self.event_type,
            reason: self.reason,
            event_id: None,
            older_than: self.older_than,
            newer_than: self.newer_than,
        }
    }

    fn is_empty(&self) -> bool {
        let texts = [&self.queue, &self.tenant, &self.event_type, &self.reason];
        texts.into_iter().all(Option::is_none) && self.older_than.is_none() && self.newer_than.is_none()
    }
}

/// What has become of the letters that are looked for.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum StatusArg {
    /// Nobody has dealt with them
    Dead,
    /// Put back into their queues
    Requeued,
    /// Out of the way
    Quarantined,
    /// All of these
    All,
}

impl StatusArg {
    pub(super) fn status(self) -> Option<Status> {
        match self {
            Self::Dead => Some(Status::Dead),
            Self::Requeued => Some(Status::Requeued),
            Self::Quarantined => Some(Status::Quarantined),
            Self::All => None,
        }
    }
}

/// Arguments that choose letters to act on: by id, or all that match.
#[derive(Debug, clap::Args)]
pub struct Selection {
    /// The letters' ids, as `dlq list` shows them
    ids: Vec<i64>,
    /// Act on everything that matches the filters, and on every dead letter without any
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    #[command(flatten)]
    filters: Filters,
    /// With --all: at most this many, those published first
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

/// What was chosen.
pub(super) struct Selected {
    pub ids: Vec<i64>,
    /// They were named one by one.
    pub by_id: bool,
    /// The limit left some out, perhaps.
    pub cut: bool,
}

impl Selection {
    /// `Err`: the arguments do not fit together, and why.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match (self.ids.is_empty(), self.all) {
            (true, false) => Err("give the ids of dead letters, or --all with filters"),
            (false, _) if !self.filters.is_empty() => Err("give either ids or filters, not both"),
            _ => Ok(()),
        }
    }

    pub(super) async fn find(self, db: &Db) -> Result<Selected, DbError> {
        if self.all {
            let ids = triage::in_order(db, &self.filters.of(Some(Status::Dead)), self.limit).await?;
            let cut = ids.len() == self.limit as usize;
            return Ok(Selected { ids, by_id: false, cut });
        }
        let mut seen = HashSet::new();
        let ids = self.ids.into_iter().filter(|id| seen.insert(*id)).collect();
        Ok(Selected { ids, by_id: true, cut: false })
    }
}

/// Arguments that say who acts and why.
#[derive(Debug, clap::Args)]
pub struct OperatorArgs {
    /// Why; it is kept in the history for good
    #[arg(long, value_name = "TEXT", value_parser = said)]
    why: String,
    /// Who acts
    #[arg(long = "as", value_name = "NAME", env = "USER", value_parser = said)]
    name: String,
}

impl OperatorArgs {
    pub(super) fn operator(self) -> Operator {
        Operator { name: self.name, why: self.why }
    }
}

pub(in crate::cli) fn said(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it must not be empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}
