//! Permission from a breaker: from the one that all processes share, or from the process's own.

use crate::{RejectReason, Rejected, destination_state::DestinationState, measure, registry::OutboundInner, store};
use onceward_db::DbError;
use onceward_resilience::{BreakerChange, Outcome, ProbeClaim, SharedPermission, Ticket, TicketKind};
use std::{sync::Arc, time::Duration};

/// The longest time for which a call waits for the shared breaker. Beyond it the process decides for itself.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// The permission for one call. If it is dropped without a result, the result is unknown.
pub(crate) struct BreakerGuard {
    inner: Arc<OutboundInner>,
    state: Arc<DestinationState>,
    credential: String,
    permit: Option<CallPermit>,
}

enum CallPermit {
    Own(Ticket),
    Shared(ProbeClaim),
}

impl BreakerGuard {
    /// Asks the shared breaker first, and the process's own if that leaves the decision to it.
    pub(crate) async fn request(
        inner: Arc<OutboundInner>,
        state: Arc<DestinationState>,
        credential: String,
    ) -> Result<Self, Rejected> {
        let mut guard = Self { inner, state, credential, permit: None };
        guard.permit = Some(guard.ask().await?);
        Ok(guard)
    }

    async fn ask(&self) -> Result<CallPermit, Rejected> {
        let (settings, now_ms) = (self.state.destination.breaker, self.inner.now_ms());
        let shared = self.inner.shared(&self.state.destination.name, &self.credential);
        let permission = shared
            .as_ref()
            .map_or(SharedPermission::Own, |(breaker, database_ms)| breaker.permission(&settings, *database_ms));
        self.state.with_breaker(&self.credential, now_ms, |own| {
            // All processes stopped, and may call again: carefully, whatever this process thought before.
            if permission == SharedPermission::Own && own.saw_open {
                own.breaker.close();
            }
            own.saw_open = permission != SharedPermission::Own;
        });
        let is_isolated = shared.is_some_and(|(breaker, _)| breaker.is_isolated());
        match permission {
            SharedPermission::Own => self.ask_own(),
            SharedPermission::Reject { retry_after_ms } => {
                let why = if is_isolated { RejectReason::Isolated } else { RejectReason::BreakerOpen };
                Err(self.rejected(retry_after_ms, why))
            }
            SharedPermission::ClaimProbe => {
                let process = self.inner.process.clone();
                let claimed = self.apply(move |breaker, _, now_ms| {
                    let claim = breaker.claim_probe(&process, &settings, now_ms);
                    (claim, breaker.permission(&settings, now_ms))
                });
                match claimed.await {
                    Some((Some(claim), _)) => Ok(CallPermit::Shared(claim)),
                    Some((None, SharedPermission::Reject { retry_after_ms })) => {
                        Err(self.rejected(retry_after_ms, RejectReason::BreakerOpen))
                    }
                    // It was closed a moment ago, or the database is away.
                    Some(_) | None => self.ask_own(),
                }
            }
        }
    }

    fn ask_own(&self) -> Result<CallPermit, Rejected> {
        let now_ms = self.inner.now_ms();
        let asked = self.state.with_breaker(&self.credential, now_ms, |own| own.breaker.try_acquire(now_ms));
        asked
            .map(CallPermit::Own)
            .map_err(|rejection| self.rejected(rejection.retry_after_ms, RejectReason::BreakerOpen))
    }

    fn rejected(&self, retry_after_ms: u64, why: RejectReason) -> Rejected {
        measure::rejected(&self.state.destination.name, why);
        Rejected { after: Duration::from_millis(retry_after_ms), why }
    }

    /// Returns whether the call is the probe of an open breaker.
    pub(crate) fn is_probe(&self) -> bool {
        match &self.permit {
            Some(CallPermit::Own(ticket)) => ticket.kind() == TicketKind::Probe,
            Some(CallPermit::Shared(_)) => true,
            None => false,
        }
    }

    /// Reports that the call was not made.
    pub(crate) async fn abandon(self) {
        self.complete(Outcome::Ignored, Duration::ZERO).await;
    }

    /// Reports the result of the call, to all processes if it concerns them. `took` is the time from its beginning.
    pub(crate) async fn complete(mut self, outcome: Outcome, took: Duration) {
        let settings = self.state.destination.breaker;
        match self.permit.take() {
            Some(CallPermit::Own(ticket)) => {
                let change = self.complete_own(ticket, outcome);
                self.share(change).await;
            }
            Some(CallPermit::Shared(claim)) => {
                let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                let outcome = settings.outcome_of_probe(outcome, took_ms);
                self.apply(move |breaker, _, now_ms| {
                    breaker.probe_done(claim, outcome, &settings, now_ms, rand::random())
                })
                .await;
            }
            None => {}
        }
    }

    fn complete_own(&self, ticket: Ticket, outcome: Outcome) -> Option<BreakerChange> {
        let now_ms = self.inner.now_ms();
        self.state
            .with_breaker(&self.credential, now_ms, |own| own.breaker.complete(ticket, outcome, now_ms, rand::random()))
    }

    /// Votes if the process's own breaker opened, and withdraws the vote if it closed.
    async fn share(&self, change: Option<BreakerChange>) {
        let (settings, process) = (self.state.destination.breaker, self.inner.process.clone());
        let destination = &self.state.destination.name;
        match change {
            Some(BreakerChange::Opened { pause_ms } | BreakerChange::ProbeFailed { pause_ms }) => {
                tracing::warn!(destination, pause_ms, "the breaker is open; calls wait");
                // It is valid until the next probe of this process has failed or succeeded.
                let valid_ms = pause_ms.saturating_add(settings.probe_limit_ms);
                let opened = self.apply(move |breaker, live, now_ms| {
                    breaker.vote(&process, valid_ms, live, &settings, now_ms, rand::random())
                });
                if opened.await == Some(true) {
                    tracing::warn!(destination, "the breaker is open for all processes");
                }
            }
            Some(BreakerChange::Closed) => {
                tracing::info!(destination, "the breaker is closed");
                self.apply(move |breaker, _, _| breaker.withdraw_vote(&process)).await;
            }
            None => {}
        }
    }

    /// Applies a rule to the shared breaker and remembers its new state. `None` if the database is away.
    async fn apply<T>(&self, rule: impl FnOnce(&mut onceward_resilience::SharedBreaker, usize, u64) -> T) -> Option<T> {
        let db = self.inner.db.as_ref()?;
        let work = async {
            let (result, row) = store::apply(db, &self.state.destination.name, &self.credential, rule).await?;
            self.inner.observe_one(row);
            Ok::<T, DbError>(result)
        };
        match tokio::time::timeout(STORE_TIMEOUT, work).await {
            Ok(Ok(result)) => Some(result),
            Ok(Err(error)) => {
                tracing::debug!(%error, "sharing a breaker failed; this process decides for itself");
                None
            }
            Err(_) => None,
        }
    }
}

impl Drop for BreakerGuard {
    fn drop(&mut self) {
        if let Some(CallPermit::Own(ticket)) = self.permit.take() {
            self.complete_own(ticket, Outcome::Unknown);
        }
    }
}
