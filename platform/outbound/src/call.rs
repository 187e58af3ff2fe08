//! One call: budget, breaker, bulkhead and timeout, from the outside in.

use crate::{
    CallError, OutboundError, RejectReason, Rejected,
    breaker_guard::BreakerGuard,
    destination_state::DestinationState,
    measure,
    registry::{OutboundInner, digest},
};
use onceward_resilience::{BulkheadPermit, Outcome};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a caller should wait for a budget that is empty.
const BUDGET_WAIT: Duration = Duration::from_secs(5);

/// A call that is being prepared.
pub struct OutboundCall {
    inner: Arc<OutboundInner>,
    state: Arc<DestinationState>,
    credential: String,
    tenant: String,
    is_retry: bool,
    deadline: Option<Instant>,
}

impl OutboundCall {
    pub(crate) fn new(inner: Arc<OutboundInner>, state: Arc<DestinationState>) -> Self {
        Self { inner, state, credential: String::new(), tenant: String::new(), is_retry: false, deadline: None }
    }

    /// Sets the credential that the call uses. Each has a breaker of its own; only its digest is remembered.
    pub fn credential(mut self, credential: &str) -> Self {
        self.credential = digest(&self.state.destination.name, credential);
        self
    }

    /// Sets the tenant for whom the call is made, for its share of the bulkhead.
    pub fn tenant(mut self, tenant: &str) -> Self {
        tenant.clone_into(&mut self.tenant);
        self
    }

    /// Sets whether the same call was made before and failed, which the retry budget limits. A message that was only
    /// snoozed has not been called.
    pub fn retry(mut self, is_retry: bool) -> Self {
        self.is_retry = is_retry;
        self
    }

    /// Sets the time after which the result is of no use.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Makes the call, unless it is rejected. `work` receives the time that it has, and is dropped after it.
    pub async fn run<T, F, Fut>(self, work: F) -> Result<T, OutboundError>
    where
        F: FnOnce(Duration) -> Fut,
        Fut: Future<Output = Result<T, CallError>>,
    {
        self.remaining()?;
        self.check_budget()?;
        let guard = BreakerGuard::request(self.inner.clone(), self.state.clone(), self.credential.clone()).await?;
        let permit = match self.enter_bulkhead().await {
            Ok(permit) => permit,
            Err(rejected) => {
                // Our own limit says nothing about the destination.
                guard.abandon().await;
                return Err(rejected.into());
            }
        };
        let time = match self.remaining() {
            Ok(time) => time,
            Err(error) => {
                guard.abandon().await;
                return Err(error);
            }
        };
        self.spend_budget();
        let started = Instant::now();
        let result = tokio::time::timeout(time, work(time))
            .await
            .unwrap_or_else(|_| Err(CallError::Failed(format!("no answer within {} ms", time.as_millis()))));
        let outcome = result.as_ref().map_or_else(outcome_of, |_| Outcome::Success);
        release(permit, outcome, started.elapsed());
        measure::called(&self.state.destination.name, outcome);
        let is_probe = guard.is_probe();
        guard.complete(outcome, started.elapsed()).await;
        if is_probe && matches!(result, Err(CallError::Failed(_))) {
            // Otherwise an outage would use up the attempts of the message that happens to be the probe.
            let pause = Duration::from_millis(self.state.destination.breaker.pause_ms);
            return Err(self.rejected(pause, RejectReason::ProbeFailed).into());
        }
        Ok(result?)
    }

    /// Returns how long the call may take.
    fn remaining(&self) -> Result<Duration, OutboundError> {
        let timeout = self.state.destination.timeout;
        let Some(deadline) = self.deadline else { return Ok(timeout) };
        match deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(OutboundError::DeadlineExceeded),
            left => Ok(left.min(timeout)),
        }
    }

    fn check_budget(&self) -> Result<(), Rejected> {
        let now_ms = self.inner.now_ms();
        let is_empty = || self.state.with_budget(&self.credential, now_ms, |budget| budget.balance(now_ms)) < 1.0;
        if self.is_retry && is_empty() {
            return Err(self.rejected(BUDGET_WAIT, RejectReason::BudgetEmpty));
        }
        Ok(())
    }

    /// Counts the call: only one that is made earns or costs a retry.
    fn spend_budget(&self) {
        let now_ms = self.inner.now_ms();
        self.state.with_budget(&self.credential, now_ms, |budget| match self.is_retry {
            true => drop(budget.withdraw(now_ms)),
            false => budget.deposit(now_ms),
        });
    }

    async fn enter_bulkhead(&self) -> Result<BulkheadPermit, Rejected> {
        let wait = Duration::from_millis(self.state.destination.bulkhead.wait_ms);
        let entered = tokio::time::timeout(wait, self.state.bulkhead.acquire(&self.tenant)).await;
        entered.ok().and_then(Result::ok).ok_or_else(|| self.rejected(wait, RejectReason::BulkheadFull))
    }

    fn rejected(&self, after: Duration, why: RejectReason) -> Rejected {
        measure::rejected(&self.state.destination.name, why);
        Rejected { after, why }
    }
}

/// Leaves the bulkhead. Its limit learns from results that say something about the destination.
fn release(permit: BulkheadPermit, outcome: Outcome, took: Duration) {
    match outcome {
        Outcome::Success => permit.complete(took, false),
        Outcome::Failure | Outcome::Throttled { .. } => permit.complete(took, true),
        Outcome::Ignored | Outcome::Unknown => drop(permit),
    }
}

fn outcome_of(error: &CallError) -> Outcome {
    match error {
        CallError::Failed(_) => Outcome::Failure,
        CallError::Throttled { retry_after, .. } => {
            let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            Outcome::Throttled { retry_after_ms: retry_after.map(ms) }
        }
        CallError::Refused(_) | CallError::Cancelled => Outcome::Ignored,
    }
}
