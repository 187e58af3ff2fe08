//! The authors' HTTP routes: parse, command, response.

mod collectors;
mod quotas;
mod surveys;

use crate::runtime::SurveyContext;
use onceward::prelude::*;
use std::sync::Arc;

/// The maximum number of items in a list response.
const LIST_MAX: i64 = 500;

pub(crate) fn routes() -> Routes<Arc<SurveyContext>> {
    quotas(collectors(surveys(Routes::new())))
}

fn surveys(routes: Routes<Arc<SurveyContext>>) -> Routes<Arc<SurveyContext>> {
    routes
        .post("/api/surveys", write(), surveys::create)
        .summary("Create a survey, with a first draft if the request contains one.")
        .request("survey.new.v1")
        .responds(201, "survey.v1")
        .get("/api/surveys", read(), surveys::list)
        .summary("List surveys, newest first. Page with `?limit=` and `?after=`.")
        .responds(200, "survey.list.v1")
        .get("/api/surveys/{id}", read(), surveys::show)
        .summary(
            "Show a survey with one version of its definition: that of `?version=`, the published one, or the draft.",
        )
        .responds(200, "survey.v1")
        .put("/api/surveys/{id}/definition", write(), surveys::save)
        .summary("Save the draft of a survey.")
        .request("survey.draft.v1")
        .responds(200, "survey.v1")
        .post("/api/surveys/{id}/publish", write(), surveys::publish)
        .summary("Check the draft as a whole, and publish it if it is valid.")
        .responds(200, "survey.v1")
        .post("/api/surveys/{id}/pause", write(), |path, command| surveys::set_paused(path, command, true))
        .summary("Pause a survey: nobody can start a session, and started sessions continue.")
        .responds(200, "survey.v1")
        .post("/api/surveys/{id}/resume", write(), |path, command| surveys::set_paused(path, command, false))
        .summary("Resume a paused survey.")
        .responds(200, "survey.v1")
}

fn collectors(routes: Routes<Arc<SurveyContext>>) -> Routes<Arc<SurveyContext>> {
    routes
        .post("/api/surveys/{id}/collectors", write(), collectors::create)
        .summary("Create a collector. It is paused until it is opened.")
        .request("collector.new.v1")
        .responds(201, "collector.v1")
        .get("/api/surveys/{id}/collectors", read(), collectors::list)
        .summary("List a survey's collectors, with the tokens of links.")
        .responds(200, "collector.list.v1")
        .post("/api/collectors/{id}/open", write(), |path, command| collectors::set_status(path, command, "open"))
        .summary("Open a collector, so that respondents can start sessions.")
        .responds(200, "collector.v1")
        .post("/api/collectors/{id}/pause", write(), |path, command| collectors::set_status(path, command, "paused"))
        .summary("Pause a collector: nobody can start a session until it is opened again.")
        .responds(200, "collector.v1")
        .post("/api/collectors/{id}/close", write(), |path, command| collectors::set_status(path, command, "closed"))
        .summary("Close a collector. It cannot be opened again.")
        .responds(200, "collector.v1")
        .post("/api/collectors/{id}/invites", write(), collectors::create_invites)
        .summary("Create invites that are valid for one session each: `count` of them, or one for each of `refs`.")
        .request("invite.new.v1")
        .responds(201, "invite.list.v1")
}

fn quotas(routes: Routes<Arc<SurveyContext>>) -> Routes<Arc<SurveyContext>> {
    routes
        .post("/api/surveys/{id}/quotas", write(), quotas::create)
        .summary("Add buckets, single ones or the cells of grids, to those in force.")
        .request("quota.new.v1")
        .responds(201, "quota.list.v1")
        .get("/api/surveys/{id}/quotas", read(), quotas::list)
        .summary("List a survey's buckets with their counts.")
        .responds(200, "quota.list.v1")
        .patch("/api/surveys/{id}/quotas/{bucket_id}", write(), quotas::change)
        .summary("Change a bucket's target. A target below the filled count closes the bucket.")
        .request("quota.change.v1")
        .responds(200, "quota.bucket.v1")
        .delete("/api/surveys/{id}/quotas/{bucket_id}", write(), quotas::retire)
        .summary("Retire a bucket. Its counts are kept.")
        .responds(200, "quota.bucket.v1")
}

fn read() -> Access {
    Access::role("surveys:read")
}

fn write() -> Access {
    Access::role("surveys:write")
}
