//! All SQL of this service. Row-level security adds the tenant to every condition; queries that serve all tenants at
//! once are functions in `migrations/`.

mod claim;
mod delivery;
mod endpoint;
mod event;
mod maintenance;
mod record;
mod secret;

pub(crate) use claim::{ClaimRequest, ClaimedDelivery, MAX_VISITED, claim_deliveries};
pub(crate) use delivery::{
    DeliveryFilter, DeliveryPage, DeliverySummary, ReplayOutcome, deliveries_of_events, end_waits, find_delivery,
    list_deliveries, replay_deliveries, resend_delivery,
};
pub(crate) use endpoint::{
    Endpoint, EndpointSettings, count_endpoints, delete_endpoint, disable_endpoint, enable_endpoint, find_endpoint,
    has_endpoints, insert_endpoint, list_endpoints, lock_endpoint, update_endpoint,
};
pub(crate) use event::{NewWebhookEvent, fan_out, insert_event_for, wake_senders};
pub(crate) use maintenance::{count_by_state, delete_old_rows};
pub(crate) use record::{AttemptRecord, postpone_delivery, record_failure, record_success};
pub(crate) use secret::{insert_secret, list_secrets, lock_secrets_with_keys, replace_secret};

use onceward::RequiredTable;

/// The notification channel that wakes the senders.
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
    RequiredTable {
        table: "webhooks.event",
        columns: &["tenant_id", "event_id", "event_type", "body", "traceparent", "tracestate", "recorded_at"],
    },
    RequiredTable {
        table: "webhooks.delivery",
        columns: &["tenant_id", "delivery_id", "endpoint_id", "event_id", "state", "due_at", "leased_until", "lease"],
    },
    RequiredTable { table: "webhooks.attempt", columns: &["tenant_id", "delivery_id", "number", "status", "snippet"] },
];
