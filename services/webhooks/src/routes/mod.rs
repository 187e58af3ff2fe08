//! The HTTP API: parses requests, runs commands and renders responses.

mod deliveries;
mod endpoints;

use crate::{
    Settings,
    event_types::{EVENT_TYPES_PATH, EventTypes},
    problems::PROBLEMS,
    vault::Vault,
};
use onceward::{Access, Routes};
use std::sync::Arc;

const ENDPOINTS: &str = "/api/webhooks/endpoints";
const ENDPOINT: &str = "/api/webhooks/endpoints/{id}";

/// What handlers need in addition to the database.
struct WebhookContext {
    settings: Arc<Settings>,
    vault: Vault,
    event_types: EventTypes,
}

pub(crate) fn routes(settings: &Arc<Settings>, event_types: &EventTypes) -> Routes {
    let vault = Vault::new(settings);
    let context = WebhookContext { settings: settings.clone(), vault, event_types: event_types.clone() };
    delivery_routes(endpoint_routes(Routes::new().problems(PROBLEMS))).with_state(Arc::new(context))
}

fn endpoint_routes(routes: Routes<Arc<WebhookContext>>) -> Routes<Arc<WebhookContext>> {
    routes
        .post(ENDPOINTS, write(), endpoints::create)
        .summary("Create an endpoint. Its secret is shown once, in this response")
        .request("webhook.endpoint.new.v1")
        .responds(201, "webhook.endpoint.created.v1")
        .get(ENDPOINTS, read(), endpoints::list)
        .summary("List the endpoints")
        .responds(200, "webhook.endpoint.list.v1")
        .get(ENDPOINT, read(), endpoints::show)
        .summary("Show an endpoint, with the numbers of its secrets")
        .responds(200, "webhook.endpoint.v1")
        .patch(ENDPOINT, write(), endpoints::change)
        .summary("Change, pause or resume an endpoint. Omitted fields stay as they are")
        .request("webhook.endpoint.change.v1")
        .responds(200, "webhook.endpoint.v1")
        .delete(ENDPOINT, write(), endpoints::remove)
        .summary("Delete an endpoint and its deliveries")
        .responds(200, "webhook.endpoint.removed.v1")
        .post("/api/webhooks/endpoints/{id}/rotate-secret", write(), endpoints::rotate_secret)
        .summary("Create a new secret, which is shown once. For overlap_s seconds, messages are signed with the previous one, too")
        .request("webhook.secret.rotate.v1")
        .responds(200, "webhook.secret.v1")
        .post("/api/webhooks/endpoints/{id}/enable", write(), endpoints::enable)
        .summary("Enable an endpoint that was disabled because it failed")
        .responds(200, "webhook.endpoint.v1")
        .get(EVENT_TYPES_PATH, read(), endpoints::event_types)
        .summary("List the event types that endpoints may subscribe to")
        .responds(200, "webhook.event_types.v1")
}

fn delivery_routes(routes: Routes<Arc<WebhookContext>>) -> Routes<Arc<WebhookContext>> {
    routes
        .post("/api/webhooks/endpoints/{id}/test", write(), deliveries::test)
        .summary("Send a webhook.test.v1 message now, regardless of the endpoint's filters")
        .responds(202, "webhook.sending.v1")
        .post("/api/webhooks/endpoints/{id}/replay", write(), deliveries::replay)
        .summary("Send the events of a time range again, with their original ids")
        .request("webhook.replay.v1")
        .responds(202, "webhook.replayed.v1")
        .get("/api/webhooks/endpoints/{id}/deliveries", read(), deliveries::list)
        .summary(
            "List deliveries with their attempts, latest first. Filter with ?state=, ?from= and ?to=; page with ?limit= and ?cursor=",
        )
        .responds(200, "webhook.delivery.list.v1")
        .get("/api/webhooks/deliveries/{id}", read(), deliveries::show)
        .summary("Show a delivery with its attempts and its body")
        .responds(200, "webhook.delivery.v1")
        .post("/api/webhooks/deliveries/{id}/resend", write(), deliveries::resend)
        .summary("Send a delivery again, with its original id")
        .responds(202, "webhook.sending.v1")
}

fn read() -> Access {
    Access::role("webhooks:read")
}

fn write() -> Access {
    Access::role("webhooks:write")
}
