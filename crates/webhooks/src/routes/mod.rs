//! The HTTP surface: parse, command, response.

mod deliveries;
mod endpoints;

use crate::{Settings, problems::PROBLEMS, vault::Vault};
use onceward::{Access, Routes};
use std::sync::Arc;

const ENDPOINTS: &str = "/api/webhooks/endpoints";
const ENDPOINT: &str = "/api/webhooks/endpoints/{id}";

/// What commands need beside the database.
struct Desk {
    settings: Arc<Settings>,
    vault: Vault,
}

pub(crate) fn routes(settings: &Arc<Settings>) -> Routes {
    let desk = Desk { settings: settings.clone(), vault: Vault::new(settings) };
    sending(managing(Routes::new().problems(PROBLEMS), &Arc::new(desk)))
}

fn managing(routes: Routes, desk: &Arc<Desk>) -> Routes {
    let (for_new, for_change, for_rotation) = (desk.clone(), desk.clone(), desk.clone());
    routes
        .post(ENDPOINTS, write(), move |command| endpoints::create(command, for_new.clone()))
        .summary("Add an endpoint. Its secret is told once, in this answer")
        .request("webhook.endpoint.new.v1")
        .responds(201, "webhook.endpoint.created.v1")
        .get(ENDPOINTS, read(), endpoints::list)
        .summary("List the endpoints")
        .responds(200, "webhook.endpoint.list.v1")
        .get(ENDPOINT, read(), endpoints::show)
        .summary("Show an endpoint, with the numbers of its secrets")
        .responds(200, "webhook.endpoint.v1")
        .patch(ENDPOINT, write(), move |id, command| endpoints::change(id, command, for_change.clone()))
        .summary("Change an endpoint, pause or resume it. What is left out stays")
        .request("webhook.endpoint.change.v1")
        .responds(200, "webhook.endpoint.v1")
        .delete(ENDPOINT, write(), endpoints::remove)
        .summary("Take an endpoint away, with its deliveries")
        .responds_empty(200)
        .post("/api/webhooks/endpoints/{id}/rotate-secret", write(), move |id, command| {
            endpoints::rotate(id, command, for_rotation.clone())
        })
        .summary("Make a new secret, told once. Messages are signed with the old one, too, for overlap_s")
        .request("webhook.secret.rotate.v1")
        .responds(200, "webhook.secret.v1")
        .post("/api/webhooks/endpoints/{id}/enable", write(), endpoints::enable)
        .summary("Enable an endpoint that was disabled because it failed")
        .responds(200, "webhook.endpoint.v1")
}

fn sending(routes: Routes) -> Routes {
    routes
        .post("/api/webhooks/endpoints/{id}/test", write(), deliveries::test)
        .summary("Send a webhook.test.v1 now, whatever the endpoint's filters")
        .responds(202, "webhook.sending.v1")
        .post("/api/webhooks/endpoints/{id}/replay", write(), deliveries::replay)
        .summary("Send the events of a time range again, with the ids that they had")
        .request("webhook.replay.v1")
        .responds(202, "webhook.replayed.v1")
        .get("/api/webhooks/endpoints/{id}/deliveries", read(), deliveries::list)
        .summary(
            "List deliveries with their attempts, the latest first; by ?state=, ?from=, ?to=, ?limit= and ?cursor=",
        )
        .responds(200, "webhook.delivery.list.v1")
        .get("/api/webhooks/deliveries/{id}", read(), deliveries::show)
        .summary("Show a delivery with its attempts and its body")
        .responds(200, "webhook.delivery.v1")
        .post("/api/webhooks/deliveries/{id}/resend", write(), deliveries::resend)
        .summary("Send a delivery again, with the id that it had")
        .responds(202, "webhook.sending.v1")
}

fn read() -> Access {
    Access::role("webhooks:read")
}

fn write() -> Access {
    Access::role("webhooks:write")
}
