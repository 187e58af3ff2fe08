//! The authors' HTTP surface: parse, command, response.

mod collectors;
mod quotas;
mod surveys;

use crate::runtime::Desk;
use onceward::prelude::*;
use std::sync::Arc;

/// The most of a list in one answer.
const LIST_MAX: i64 = 500;

pub(crate) fn routes(routes: Routes, desk: &Arc<Desk>) -> Routes {
    quotas(collectors(surveys(routes), desk))
}

fn surveys(routes: Routes) -> Routes {
    routes
        .post("/api/surveys", write(), surveys::create)
        .summary("Make a survey, with a first draft if one is given")
        .request("survey.new.v1")
        .responds(201, "survey.v1")
        .get("/api/surveys", read(), surveys::list)
        .summary("List surveys, the latest first; by ?limit= and ?after=")
        .responds(200, "survey.list.v1")
        .get("/api/surveys/{id}", read(), surveys::show)
        .summary("Show a survey with a version of its definition: ?version=, the published one, or the draft")
        .responds(200, "survey.v1")
        .put("/api/surveys/{id}/definition", write(), surveys::save)
        .summary("Write the draft of a survey")
        .request("survey.draft.v1")
        .responds(200, "survey.v1")
        .post("/api/surveys/{id}/publish", write(), surveys::publish)
        .summary("Look at the draft as a whole, and publish it if nothing is wrong")
        .responds(200, "survey.v1")
        .post("/api/surveys/{id}/pause", write(), |path, command| surveys::set_paused(path, command, true))
        .summary("Let nobody new in; sessions that have begun go on")
        .responds(200, "survey.v1")
        .post("/api/surveys/{id}/resume", write(), |path, command| surveys::set_paused(path, command, false))
        .summary("Let respondents in again")
        .responds(200, "survey.v1")
}

fn collectors(routes: Routes, desk: &Arc<Desk>) -> Routes {
    let [for_create, for_list, for_invite] = [(); 3].map(|()| desk.clone());
    routes
        .post("/api/surveys/{id}/collectors", write(), move |path, command| {
            collectors::create(path, command, for_create.clone())
        })
        .summary("Make a collector; it is paused until it is opened")
        .request("collector.new.v1")
        .responds(201, "collector.v1")
        .get("/api/surveys/{id}/collectors", read(), move |path, reader| {
            collectors::list(path, reader, for_list.clone())
        })
        .summary("List a survey's collectors, each link with its token")
        .responds(200, "collector.list.v1")
        .post("/api/collectors/{id}/open", write(), |path, command| collectors::change(path, command, "open"))
        .summary("Let respondents in by this collector")
        .responds(200, "collector.v1")
        .post("/api/collectors/{id}/pause", write(), |path, command| collectors::change(path, command, "paused"))
        .summary("Let nobody new in by this collector for now")
        .responds(200, "collector.v1")
        .post("/api/collectors/{id}/close", write(), |path, command| collectors::change(path, command, "closed"))
        .summary("Let nobody new in by this collector any more")
        .responds(200, "collector.v1")
        .post("/api/collectors/{id}/invites", write(), move |path, command| {
            collectors::invite(path, command, for_invite.clone())
        })
        .summary("Make invites that are good for one session each: a `count`, or one for each of `refs`")
        .request("invite.new.v1")
        .responds(201, "invite.list.v1")
}

fn quotas(routes: Routes) -> Routes {
    routes
        .post("/api/surveys/{id}/quotas", write(), quotas::create)
        .summary("Put buckets into force, on their own or as the cells of grids, beside those that are")
        .request("quota.new.v1")
        .responds(201, "quota.list.v1")
        .get("/api/surveys/{id}/quotas", read(), quotas::list)
        .summary("Show how full a survey's buckets are")
        .responds(200, "quota.list.v1")
        .patch("/api/surveys/{id}/quotas/{bucket_id}", write(), quotas::change)
        .summary("Change a bucket's target; one below what is filled closes it")
        .request("quota.change.v1")
        .responds(200, "quota.bucket.v1")
        .delete("/api/surveys/{id}/quotas/{bucket_id}", write(), quotas::retire)
        .summary("Take a bucket out of force; its counts stay")
        .responds(200, "quota.bucket.v1")
}

fn read() -> Access {
    Access::role("surveys:read")
}

fn write() -> Access {
    Access::role("surveys:write")
}
