//! The respondents' API.

use crate::support::*;
use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respondent_answers_page_by_page_and_completes() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (collector, link) = author.collector(survey, json!({})).await;
    let ada = author.respondent(&link).await;
    assert_eq!((&ada.start_response["status"], &ada.start_response["page"]["id"]), (&json!("active"), &json!("who")));
    assert!(ada.start_response["page"].get("routes").is_none(), "routes are not shown");

    let refused = ada.answer("who", 1, json!({"age": 30.5, "sex": "y", "name": "Ada"})).await;
    assert_eq!((refused.status, refused.wrong_fields()), (422, vec!["/answers/age", "/answers/name", "/answers/sex"]));
    assert_eq!(ada.answer("why", 1, json!({})).await.problem(409), "page-not-due");
    assert_eq!(ada.complete().await.problem(409), "page-not-due");

    let next = ada.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    assert_eq!((&next["next"], &next["page"]["id"]), (&json!("page"), &json!("what")));
    ada.answer("what", 1, json!({"drink": ["tea"]})).await.with_status(200);
    let seen = ada.view().await.with_status(200);
    assert_eq!(seen["page"]["id"], "why");
    assert_eq!(seen["answers"], json!({"who": {"age": 30, "sex": "f"}, "what": {"drink": ["tea"]}}));
    assert_eq!(seen["progress"], json!({"pages_done": 2, "pages_left_at_most": 1, "percent": 66}));
    let next = ada.answer("why", 1, json!({})).await.with_status(200);
    assert_eq!(next["next"], "complete");
    for _ in 0..2 {
        assert_eq!(ada.complete().await.with_status(200), json!({"status": "completed"}));
    }
    assert_eq!(ada.answer("why", 2, json!({})).await.problem(409), "session-ended");
    assert_eq!(ada.leave().await.problem(409), "session-ended");

    for (event, times) in [("session.started.v1", 1), ("answer.upserted.v1", 3), ("session.completed.v1", 1)] {
        assert_eq!(server.published_count(event).await, times, "{event}");
    }
    let sql = "SELECT headers, payload, topic, ordering_key FROM onceward.outbox_messages WHERE event_type = 'session.completed.v1'";
    let row = server.owner.query_one(sql, &[]).await.unwrap();
    let (headers, payload): (Value, Value) = (row.get(0), row.get(1));
    assert!(headers.to_string().contains(&survey.to_string()), "the envelope names the survey: {headers}");
    assert_eq!(row.get::<_, &str>(2), "runtime.sessions:tenant.acme.session.completed");
    assert_eq!(row.get::<_, &str>(3), ada.session.to_string());
    assert_eq!((&payload["collector_id"], &payload["pages"]), (&json!(collector), &json!(3)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_screen_out_respondents_and_skip_pages() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let child = author.respondent(&link).await;
    let out = child.answer("who", 1, json!({"age": 12, "sex": "m"})).await.with_status(200);
    assert_eq!(out, json!({"status": "terminated", "reason": "screened_out"}));
    assert_eq!(
        child.answer("who", 1, json!({"age": 12, "sex": "m"})).await.with_status(200),
        out,
        "a repeated request gets the same response"
    );
    assert_eq!(child.answer("who", 2, json!({"age": 21, "sex": "m"})).await.problem(409), "session-ended");

    let dry = author.respondent(&link).await;
    dry.answer("who", 1, json!({"age": 40, "sex": "m"})).await.with_status(200);
    assert_eq!(dry.answer("what", 1, json!({"drink": []})).await.with_status(200)["next"], "complete");
    dry.complete().await.with_status(200);
    server.wait_for_published("session.terminated.v1", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_submit_is_accepted_once() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let ada = author.respondent(&link).await;
    let answers = json!({"age": 30, "sex": "f"});
    let all = join_all((0..8).map(|_| ada.answer("who", 1, answers.clone()))).await;
    let first = all[0].clone().with_status(200);
    assert!(all.iter().all(|one| one.status == 200 && one.body == first), "{all:?}");
    assert_eq!(server.published_count("answer.upserted.v1").await, 1);
    assert_eq!(
        ada.answer("who", 1, json!({"sex": "f", "age": 30})).await.with_status(200),
        first,
        "the order of fields does not matter"
    );
    assert_eq!(ada.answer("who", 1, json!({"age": 31, "sex": "f"})).await.problem(409), "attempt-conflict");
    ada.answer("what", 1, json!({"drink": ["tea"]})).await.with_status(200);
    ada.answer("who", 2, json!({"age": 31, "sex": "f"})).await.with_status(200);
    assert_eq!(ada.answer("who", 1, answers).await.problem(409), "attempt-conflict", "a later attempt was accepted");
    assert_eq!(ada.view().await.with_status(200)["answers"]["who"]["age"], 31);
    assert_eq!(server.published_count("answer.upserted.v1").await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_with_the_same_key_returns_the_same_session() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let all = join_all((0..8).map(|_| RespondentClient::start(&server, &link, "once"))).await;
    assert!(all.iter().all(|one| one.session == all[0].session));
    all[0].answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    let again = RespondentClient::start(&server, &link, "once").await;
    assert_eq!(again.start_response["page"]["id"], "what", "the session continues where it was");
    assert_ne!(RespondentClient::start(&server, &link, "twice").await.session, again.session);
    assert_eq!(server.published_count("session.started.v1").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_and_an_invite_admit_no_more_than_they_allow() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (_, capped) = author.collector(survey, json!({"cap": 5})).await;
    let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    let all = join_all(keys.iter().map(|key| RespondentClient::try_start(&server, &capped, key))).await;
    assert_eq!(all.iter().filter(|one| one.status == 201).count(), 5);
    assert!(all.into_iter().filter(|one| one.status != 201).all(|one| one.problem(409) == "collector-not-open"));

    let (collector, none) = author.collector(survey, json!({"kind": "invite"})).await;
    assert_eq!(none, "", "a collector of invites has no link");
    let invites = author.invites(collector, 3).await;
    let all = join_all(keys.iter().map(|key| RespondentClient::try_start(&server, &invites[0], key))).await;
    let first = all.iter().position(|one| one.status == 201).expect("one of them starts the session");
    let all: Vec<RespondentClient<'_>> = all.iter().map(|one| RespondentClient::resume(&server, &one.body)).collect();
    assert!(all.iter().all(|one| one.session == all[0].session), "an invite always leads to its one session");
    assert_eq!(server.published_count("invite.consumed.v1").await, 1);
    all[0].leave().await.with_status(200);
    assert_eq!(RespondentClient::try_start(&server, &invites[0], "late").await.problem(409), "invite-used");
    let same = RespondentClient::try_start(&server, &invites[0], &keys[first]);
    assert_eq!(same.await.with_status(200)["status"], "terminated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_grants_access_only_to_what_it_names() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let (ada, eve) = (author.respondent(&link).await, author.respondent(&link).await);
    for token in ["", "x.y", &link, &eve.token, &server.platform.token("acme")] {
        let request = server.http.get(ada.path("")).bearer_auth(token);
        assert_eq!(HttpResponse::to(request).await.problem(401), "unauthorized");
    }
    assert_eq!(RespondentClient::try_start(&server, &ada.token, "k").await.problem(401), "unauthorized");
    let without = server.http.post(format!("{}/runtime/start", server.url)).bearer_auth(&link);
    assert_eq!(HttpResponse::to(without).await.problem(400), "idempotency-key-missing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_cannot_use_up_the_rate_of_others() {
    let settings = onceward_surveys::Settings { rate_per_s: 1, rate_burst: 5, ..settings() };
    let server = TestServer::start_with(settings, None).await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let (_, other) = author.collector(survey, json!({})).await;
    let keys: Vec<String> = (0..50).map(|number| format!("key-{number}")).collect();
    let all = join_all(keys.iter().map(|key| RespondentClient::try_start(&server, &link, key))).await;
    let refused = all.into_iter().find(|one| one.status == 429).expect("a request is refused");
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(refused.problem(429), "too-many-requests");
    author.respondent(&other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_trusted_proxy_every_client_has_its_own_rate() {
    for (proxies, refused) in [(json!(["127.0.0.1"]), false), (json!(["10.0.0.0/8"]), true)] {
        let trusted_proxies = serde_json::from_value(proxies).expect("proxies");
        let settings = onceward_surveys::Settings { rate_per_s: 1, rate_burst: 1, trusted_proxies, ..settings() };
        let server = TestServer::start_with(settings, None).await;
        let author = server.author("acme");
        let survey = author.survey(&definition()).await;
        let (_, link) = author.collector(survey, json!({})).await;
        let all = join_all((0..20).map(|number| {
            let request = server.http.post(format!("{}/runtime/start", server.url)).bearer_auth(&link);
            let request = request.header("idempotency-key", format!("key-{number:0>24}"));
            HttpResponse::to(request.header("x-forwarded-for", format!("203.0.113.{number}")))
        }))
        .await;
        assert_eq!(all.iter().any(|one| one.status == 429), refused, "{all:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_with_equal_ids_do_not_affect_each_other() {
    let server = TestServer::start().await;
    let (acme, globex) = (server.author("acme"), server.author("globex"));
    let survey = acme.survey(&definition()).await;
    acme.quotas(survey, &json!({"buckets": [{"name": "all", "target": 5}]})).await;
    let (_, link) = acme.collector(survey, json!({})).await;
    let ada = acme.respondent(&link).await;
    // Copies everything to the other tenant, with the same ids.
    for table in ["survey", "definition", "collector", "session", "quota_bucket"] {
        let columns = "SELECT string_agg(quote_ident(attname), ',' ORDER BY attnum) FROM pg_attribute
            WHERE attrelid = $1::text::regclass AND attnum > 1 AND NOT attisdropped";
        let columns: String = server.query_value(columns, &[&format!("surveys.{table}")]).await;
        let copy = format!(
            "INSERT INTO surveys.{table} (tenant_id, {columns}) SELECT 'globex', {columns} FROM surveys.{table}"
        );
        server.owner.execute(&copy, &[]).await.expect("ids are unique per tenant");
    }
    ada.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    ada.leave().await.with_status(200);
    assert_eq!(acme.bucket_counts(survey, "all").await, (0, 0, 5));
    assert_eq!(globex.bucket_counts(survey, "all").await, (1, 0, 5), "the other tenant's place is still held");
    let status: String = server.query_value("SELECT status FROM surveys.session WHERE tenant_id = 'globex'", &[]).await;
    assert_eq!(status, "active");
    let answers: i64 = server.query_value("SELECT count(*) FROM surveys.answer WHERE tenant_id = 'globex'", &[]).await;
    assert_eq!(answers, 0);
    server.make_idle("globex", 100_000_000).await;
    server.publish_expiry_tick("acme").await;
    server.publish_expiry_tick("globex").await;
    server.wait_for_published("session.terminated.v1", 2).await;
    let published: i64 = server.query_value("SELECT count(*) FROM onceward.outbox_messages WHERE event_type = 'session.terminated.v1' AND tenant_id = 'globex'", &[]).await;
    assert_eq!(published, 1);
    server.assert_places_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trace_context_of_a_request_is_stored_with_its_messages() {
    let (trace, state) = ("4bf92f3577b34da6a3ce929d0e0e4736", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7");
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let start = server.http.post(format!("{}/runtime/start", server.url)).bearer_auth(&link);
    let start = start.header("idempotency-key", Uuid::new_v4().to_string());
    let start = start.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01")).header("tracestate", state);
    HttpResponse::to(start).await.with_status(201);
    let headers: Value = server
        .query_value("SELECT headers FROM onceward.outbox_messages WHERE event_type = 'session.started.v1'", &[])
        .await;
    assert!(
        headers["traceparent"].as_str().is_some_and(|parent| parent.starts_with(&format!("00-{trace}-"))),
        "{headers}"
    );
    assert_eq!(headers["tracestate"], state);
}
