//! A cache of the schedules in force, which every posting reads.

use crate::loans::{self, Loan};
use crate::model::RepaymentSchedule;
use onceward::{DbError, TenantId, Tx};
use quick_cache::sync::Cache;
use std::sync::Arc;
use uuid::Uuid;

/// The most schedules that the consumers of a process cache. Schedules are small; the number of loans is large.
const CAPACITY: usize = 4_096;

/// Caches schedules by tenant, loan and number. The schedule of a number never changes: a modification creates the next
/// number.
pub(crate) struct ScheduleCache(Cache<(TenantId, Uuid, i32), Arc<RepaymentSchedule>>);

impl ScheduleCache {
    /// Creates the cache of a process.
    pub(crate) fn new() -> Self {
        Self::with_capacity(CAPACITY)
    }

    /// Creates a cache for work on this many loans.
    pub(crate) fn with_capacity(loans: usize) -> Self {
        Self(Cache::new(loans))
    }

    /// Returns the schedule in force of `loan`, which must be locked.
    pub(crate) async fn schedule_of(&self, tx: &Tx, loan: &Loan) -> Result<Arc<RepaymentSchedule>, DbError> {
        let key = (tx.tenant()?.clone(), loan.loan_id, loan.schedule_no);
        if let Some(schedule) = self.0.get(&key) {
            return Ok(schedule);
        }
        let schedule = Arc::new(loans::store::find_schedule(tx, loan.loan_id, loan.schedule_no).await?);
        self.0.insert(key, schedule.clone());
        Ok(schedule)
    }
}
