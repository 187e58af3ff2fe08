//! The authors' API.

use crate::support::*;
use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survey_is_created_published_paused_and_published_again() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let path = format!("/api/surveys/{survey}");
    let shown = author.get(&path).await.with_status(200);
    assert_eq!((&shown["status"], &shown["version"]), (&json!("published"), &json!(1)));
    assert_eq!(shown["definition"], definition());
    assert_eq!(author.post_empty(&format!("{path}/publish")).await.problem(409), "survey-refuses", "there is no draft");

    let (_, link) = author.collector(survey, json!({})).await;
    author.post_empty(&format!("{path}/pause")).await.with_status(200);
    assert_eq!(RespondentClient::try_start(&server, &link, "a").await.problem(409), "collector-not-open");
    author.post_empty(&format!("{path}/resume")).await.with_status(200);
    let before = author.respondent(&link).await;

    let draft = json!({ "definition": short_definition() });
    author.send(Method::PUT, &format!("{path}/definition"), Some(&draft)).await.with_status(200);
    assert_eq!(author.respondent(&link).await.start_response["page"]["id"], "who", "a draft is not in force");
    author.post_empty(&format!("{path}/publish")).await.with_status(200);
    assert_eq!(author.respondent(&link).await.start_response["page"]["id"], "only");
    assert_eq!(before.view().await.with_status(200)["page"]["id"], "who", "a session keeps its version");

    let listed = author.get("/api/surveys").await.with_status(200);
    assert_eq!(listed["surveys"][0]["published_version"], 2);
    for (action, times) in
        [("survey_created", 1_i64), ("survey_published", 2), ("survey_paused", 1), ("collector_open", 1)]
    {
        let sql = "SELECT count(*) FROM audit.entry WHERE tenant_id = 'acme' AND event_type = $1";
        assert_eq!(server.query_value::<i64>(sql, &[&action]).await, times, "{action}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_of_a_definition_is_reported_with_its_location() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let wrong = json!({"pages": [
        {"id": "a", "questions": [{"id": "q", "text": "?", "type": "text", "pattern": "("}],
         "routes": [{"when": {"equals": {"question": "later", "value": 1}}, "then": {"page": "nowhere"}},
                    {"then": {"page": "c"}}]},
        {"id": "b", "questions": []},
        {"id": "c", "questions": [{"id": "later", "text": "?", "type": "scale", "min": 1, "max": 5}],
         "routes": [{"when": {"answered": {"question": "unknown"}}, "then": {"page": "a"}}]},
    ]});
    let body = json!({"title": "Wrong", "definition": wrong});
    let survey = author.post("/api/surveys", &body).await.with_status(201)["survey_id"].clone();
    let survey: Uuid = serde_json::from_value(survey).unwrap();
    let refused = author.post_empty(&format!("/api/surveys/{survey}/publish")).await;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.wrong_fields(),
        [
            "/pages/0/questions/0/pattern",
            "/pages/0/routes",
            "/pages/0/routes/0/then",
            "/pages/1",
            "/pages/2/routes",
            "/pages/2/routes/0/when/answered",
        ],
        "{}",
        refused.body
    );
    let malformed = json!({"title": "x", "definition": {"pages": [{"id": "a", "questions": [{"id": "q", "text": "?", "type": "single"}]}]}});
    let refused = author.post("/api/surveys", &malformed).await;
    assert_eq!(
        (refused.status, refused.wrong_fields()),
        (422, vec!["/definition/pages/0/questions/0"]),
        "{}",
        refused.body
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collectors_publish_their_status_changes_and_cannot_be_reopened_once_closed() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let (collector, link) = author.collector(survey, json!({})).await;
    let path = format!("/api/collectors/{collector}");
    author.post_empty(&format!("{path}/open")).await.with_status(200);
    author.post_empty(&format!("{path}/pause")).await.with_status(200);
    assert_eq!(RespondentClient::try_start(&server, &link, "a").await.problem(409), "collector-not-open");
    author.post_empty(&format!("{path}/open")).await.with_status(200);
    author.post_empty(&format!("{path}/close")).await.with_status(200);
    assert_eq!(author.post_empty(&format!("{path}/open")).await.problem(409), "survey-refuses");
    assert_eq!(RespondentClient::try_start(&server, &link, "b").await.problem(409), "collector-not-open");
    let published = [
        server.published_count("collector.opened.v1").await,
        server.published_count("collector.paused.v1").await,
        server.published_count("collector.closed.v1").await,
    ];
    assert_eq!(published, [2, 1, 1], "an open collector is not opened again");

    let hour = |hours: i64| jiff::Timestamp::now() + jiff::SignedDuration::from_hours(hours);
    let (_, over) = author.collector(survey, json!({"opens_at": hour(-2), "closes_at": hour(-1)})).await;
    let (_, ahead) = author.collector(survey, json!({"opens_at": hour(1), "closes_at": hour(2)})).await;
    for link in [over, ahead] {
        assert_eq!(RespondentClient::try_start(&server, &link, "c").await.problem(409), "collector-not-open");
    }
    let listed = author.get(&format!("/api/surveys/{survey}/collectors")).await.with_status(200);
    assert_eq!(listed["collectors"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_are_required_and_unknown_objects_are_not_found() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let nobody = server.platform.token_for("acme", "nobody", &[], 600);
    let response = HttpResponse::to(server.http.get(format!("{}/api/surveys", server.url)).bearer_auth(nobody)).await;
    assert_eq!(response.problem(403), "forbidden");
    let unknown = Uuid::now_v7();
    for path in ["", "/quotas", "/collectors"] {
        author.get(&format!("/api/surveys/{unknown}{path}")).await.with_status(404);
    }
    author.post_empty(&format!("/api/surveys/{unknown}/publish")).await.with_status(404);
    author.post_empty(&format!("/api/collectors/{unknown}/open")).await.with_status(404);
}
