//! What authors do.

use crate::support::*;
use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survey_is_written_published_paused_and_written_again() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&definition()).await;
    let path = format!("/api/surveys/{survey}");
    let shown = author.get(&path).await.with_status(200);
    assert_eq!((&shown["status"], &shown["version"]), (&json!("published"), &json!(1)));
    assert_eq!(shown["definition"], definition());
    assert_eq!(author.order(&format!("{path}/publish")).await.problem(409), "survey-refuses", "there is no draft");

    let (_, link) = author.collector(survey, json!({})).await;
    author.order(&format!("{path}/pause")).await.with_status(200);
    assert_eq!(Respondent::try_start(&house, &link, "a").await.problem(409), "collector-not-open");
    author.order(&format!("{path}/resume")).await.with_status(200);
    let before = author.respondent(&link).await;

    let draft = json!({ "definition": short_definition() });
    author.send(Method::PUT, &format!("{path}/definition"), Some(&draft)).await.with_status(200);
    assert_eq!(author.respondent(&link).await.begun["page"]["id"], "who", "a draft is not in force");
    author.order(&format!("{path}/publish")).await.with_status(200);
    assert_eq!(author.respondent(&link).await.begun["page"]["id"], "only");
    assert_eq!(before.look().await.with_status(200)["page"]["id"], "who", "a session keeps its version");

    let listed = author.get("/api/surveys").await.with_status(200);
    assert_eq!(listed["surveys"][0]["published_version"], 2);
    for (action, times) in
        [("survey_created", 1_i64), ("survey_published", 2), ("survey_paused", 1), ("collector_open", 1)]
    {
        let sql = "SELECT count(*) FROM audit.entry WHERE tenant_id = 'acme' AND event_type = $1";
        assert_eq!(house.ask::<i64>(sql, &[&action]).await, times, "{action}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_is_wrong_with_a_definition_is_named_with_its_place() {
    let house = House::open().await;
    let author = house.author("acme");
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
    let refused = author.order(&format!("/api/surveys/{survey}/publish")).await;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.wrong(),
        [
            "pages[0].questions[0].pattern",
            "pages[0].routes",
            "pages[0].routes[0].then",
            "pages[1]",
            "pages[2].routes",
            "pages[2].routes[0].when.answered",
        ],
        "{}",
        refused.body
    );
    let malformed = json!({"title": "x", "definition": {"pages": [{"id": "a", "questions": [{"id": "q", "text": "?", "type": "single"}]}]}});
    let refused = author.post("/api/surveys", &malformed).await;
    assert_eq!((refused.status, refused.wrong()), (422, vec!["pages[0].questions[0]"]), "{}", refused.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collectors_tell_when_they_open_pause_and_close_and_close_for_good() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&short_definition()).await;
    let (collector, link) = author.collector(survey, json!({})).await;
    let path = format!("/api/collectors/{collector}");
    author.order(&format!("{path}/open")).await.with_status(200);
    author.order(&format!("{path}/pause")).await.with_status(200);
    assert_eq!(Respondent::try_start(&house, &link, "a").await.problem(409), "collector-not-open");
    author.order(&format!("{path}/open")).await.with_status(200);
    author.order(&format!("{path}/close")).await.with_status(200);
    assert_eq!(author.order(&format!("{path}/open")).await.problem(409), "survey-refuses");
    assert_eq!(Respondent::try_start(&house, &link, "b").await.problem(409), "collector-not-open");
    let told = [
        house.told("collector.opened.v1").await,
        house.told("collector.paused.v1").await,
        house.told("collector.closed.v1").await,
    ];
    assert_eq!(told, [2, 1, 1], "what is open already is not opened again");

    let hour = |hours: i64| jiff::Timestamp::now() + jiff::SignedDuration::from_hours(hours);
    let (_, over) = author.collector(survey, json!({"opens_at": hour(-2), "closes_at": hour(-1)})).await;
    let (_, ahead) = author.collector(survey, json!({"opens_at": hour(1), "closes_at": hour(2)})).await;
    for link in [over, ahead] {
        assert_eq!(Respondent::try_start(&house, &link, "c").await.problem(409), "collector-not-open");
    }
    let listed = author.get(&format!("/api/surveys/{survey}/collectors")).await.with_status(200);
    assert_eq!(listed["collectors"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_are_asked_for_and_unknown_things_are_not_found() {
    let house = House::open().await;
    let author = house.author("acme");
    let nobody = house.platform.token_for("acme", "nobody", &[], 600);
    let answer = Answer::to(house.http.get(format!("{}/api/surveys", house.url)).bearer_auth(nobody)).await;
    assert_eq!(answer.problem(403), "forbidden");
    let unknown = Uuid::now_v7();
    for path in ["", "/quotas", "/collectors"] {
        author.get(&format!("/api/surveys/{unknown}{path}")).await.with_status(404);
    }
    author.order(&format!("/api/surveys/{unknown}/publish")).await.with_status(404);
    author.order(&format!("/api/collectors/{unknown}/open")).await.with_status(404);
}
