//! Endpoints as the outbound registry sees them: one destination, in which every endpoint has a breaker and a retry budget of
//! its own.

use crate::{Settings, client::AttemptResult};
use onceward::{BreakerSettings, BulkheadSettings, CallError, Destination};
use std::time::Duration;
use uuid::Uuid;

/// The name of the destination.
pub(crate) const NAME: &str = "webhooks";

/// How much longer than the client's own timeout a call may take, so that the client explains what happened.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(2);
/// How much longer than a call the limit of a probe is.
const PROBE_MARGIN: Duration = Duration::from_secs(10);

/// Declares the destination. The requests of one instance are bounded here, those of one endpoint by the claim, over all
/// instances.
pub(crate) fn destination(settings: &Settings) -> Destination {
    let timeout = settings.timeout() + TIMEOUT_MARGIN;
    let probe_limit_ms = u64::try_from((timeout + PROBE_MARGIN).as_millis()).unwrap_or(u64::MAX);
    let defaults = BreakerSettings::default();
    let breaker = BreakerSettings {
        pause_ms: settings.breaker_pause_ms,
        max_pause_ms: settings.breaker_max_pause_ms,
        probe_limit_ms: probe_limit_ms.max(defaults.probe_limit_ms),
        ..defaults
    };
    let bulkhead = BulkheadSettings { limit: settings.in_flight.max(1), ..BulkheadSettings::default() };
    Destination::new(NAME).breaker(breaker).bulkhead(bulkhead).timeout(timeout).credentials_are_systems()
}

/// Returns the name under which the breaker of an endpoint is kept; only its digest is stored. It contains the URL, so that
/// an endpoint with a new address begins anew.
pub(crate) fn credential(endpoint_id: Uuid, url: &str) -> String {
    format!("{endpoint_id} {url}")
}

/// Returns what a result says about the endpoint: no response and 5xx count against it, a refusal does not.
pub(crate) fn verdict(result: &AttemptResult, retry_after_max: Duration) -> Result<(), CallError> {
    let Some(error) = result.error.clone() else { return Ok(()) };
    let retry_after = result.retry_after.map(|after| after.min(retry_after_max));
    match result.status {
        _ if !result.is_sent => Err(CallError::Refused(error)),
        Some(429) => Err(CallError::Throttled { retry_after, error }),
        Some(503) if retry_after.is_some() => Err(CallError::Throttled { retry_after, error }),
        Some(500..) | None => Err(CallError::Failed(error)),
        Some(_) => Err(CallError::Refused(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, retry_after_s: Option<u64>) -> AttemptResult {
        let retry_after = retry_after_s.map(Duration::from_secs);
        AttemptResult { status: Some(status), retry_after, ..AttemptResult::without_response("it failed".to_owned()) }
    }

    #[test]
    fn the_default_destination_is_valid() {
        assert_eq!(destination(&Settings::default()).validate(), [""; 0]);
        let slow = Settings { timeout_ms: 600_000, ..Settings::default() };
        assert_eq!(destination(&slow).validate(), [""; 0]);
    }

    #[test]
    fn failures_count_against_an_endpoint_and_refusals_do_not() {
        let max = Duration::from_secs(60);
        assert_eq!(verdict(&AttemptResult { error: None, ..response(204, None) }, max), Ok(()));
        for failed in [response(500, None), response(503, None), AttemptResult::without_response("timeout".to_owned())]
        {
            assert!(matches!(verdict(&failed, max), Err(CallError::Failed(_))), "{failed:?}");
        }
        for refused in [response(302, None), response(404, Some(9)), AttemptResult::not_sent("private".to_owned())] {
            assert!(matches!(verdict(&refused, max), Err(CallError::Refused(_))), "{refused:?}");
        }
        for (throttled, pause) in [(response(429, None), None), (response(503, Some(3_600)), Some(max))] {
            let is_pause = |error| matches!(error, CallError::Throttled { retry_after, .. } if retry_after == pause);
            assert!(verdict(&throttled, max).is_err_and(is_pause), "{throttled:?}");
        }
    }
}
