//! The platform's own statements.

pub(crate) const BUS: &str = "SELECT bus FROM onceward.log_state";
/// The last report of each relay. A killed relay cannot report that it is gone, so it is left out when it has not
/// reported for long. A relay that has not reported for 30 seconds is gone. Only the database's clock decides: it also
/// wrote the time.
pub(crate) const RELAYS: &str =
    "SELECT relay, bus, up, since, last_error, seen_at > clock_timestamp() - interval '30 seconds'
    FROM onceward.relay_state
    WHERE seen_at > clock_timestamp() - interval '10 minutes'
    ORDER BY relay";
