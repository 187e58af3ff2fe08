//! All SQL of this service. Row-level security adds the tenant to every condition; what serves all tenants at once is a function
//! in `migrations/0002_functions.sql`.

mod claim;
mod delivery;
mod endpoint;
mod event;
mod figures;
mod record;
mod secret;

pub(crate) use claim::{Claim, Claimed, claim};
pub(crate) use delivery::{Filter, Page, Replayed, find_delivery, list_deliveries, replay, resend};
pub(crate) use endpoint::{
    Change, Endpoint, change_endpoint, count_endpoints, delete_endpoint, disable_endpoint, enable_endpoint,
    find_endpoint, has_endpoints, insert_endpoint, list_endpoints, lock_endpoint,
};
pub(crate) use event::{NewEvent, add_delivery, fan_out, wake};
pub(crate) use figures::{figures, sweep};
pub(crate) use record::{Attempt, record_failure, record_success};
pub(crate) use secret::{add_secret, reseal, secrets_under, show_secrets};

use onceward::RequiredTable;

/// Wakes whoever sends.
pub(crate) const CHANNEL: &str = "onceward_webhooks";

pub(crate) const REQUIRED: &[RequiredTable] = &[
    RequiredTable {
        table: "webhooks.endpoint",
        columns: &[
            "tenant_id",
            "endpoint_id",
            "url",
            "event_types",
            "paused",
            "failing_since",
            "disabled_at",
            "deleted_at",
        ],
    },
    RequiredTable {
        table: "webhooks.secret",
        columns: &["tenant_id", "endpoint_id", "number", "key_id", "secret", "expires_at"],
    },
    RequiredTable { table: "webhooks.event", columns: &["tenant_id", "event_id", "event_type", "body", "recorded_at"] },
    RequiredTable {
        table: "webhooks.delivery",
        columns: &["tenant_id", "delivery_id", "endpoint_id", "event_id", "state", "due_at", "leased_until", "lease"],
    },
    RequiredTable { table: "webhooks.attempt", columns: &["tenant_id", "delivery_id", "number", "status", "snippet"] },
];
