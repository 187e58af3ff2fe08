//! Definitions that are too large or misspelt are rejected, and those published under earlier rules do no harm.

use crate::support::*;
use reqwest::header;
use serde_json::{Value, json};
use uuid::Uuid;

fn page(questions: Vec<Value>) -> Value {
    json!({"pages": [{"id": "p", "questions": questions}]})
}

fn choices(count: usize) -> Vec<Value> {
    (0..count).map(|number| json!({"id": format!("c{number}"), "label": "x"})).collect()
}

/// Returns the faults that publishing reports, as `place: message`.
async fn publish_errors(author: &AuthorClient<'_>, definition: &Value) -> Vec<String> {
    let body = json!({"title": "Large", "definition": definition});
    let survey = author.post("/api/surveys", &body).await.with_status(201)["survey_id"].clone();
    let refused =
        author.post_empty(&format!("/api/surveys/{}/publish", survey.as_str().unwrap())).await.with_status(422);
    let errors = refused["errors"].as_array().unwrap().iter();
    errors.map(|one| format!("{}: {}", one["path"].as_str().unwrap(), one["message"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_is_too_large_is_rejected() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let scale = json!({"id": "q", "text": "?", "type": "scale", "min": i32::MIN, "max": i32::MAX});
    let message = publish_errors(&author, &page(vec![scale])).await;
    assert_eq!(message[0], "/pages/0/questions/0/max: the scale has 4294967296 steps; at most 101 are allowed");

    let matrices = (0..43).map(|number| {
        json!({"id": format!("m{number}"), "text": "", "type": "matrix", "rows": choices(400), "columns": choices(400)})
    });
    let message = publish_errors(&author, &page(matrices.collect())).await;
    assert_eq!(message, ["/pages/0/questions: the matrices of this page have 6880000 cells; at most 2000 are allowed"]);

    let pages = (0..20).map(|page| {
        let question =
            |number: usize| json!({"id": format!("p{page}q{number}"), "text": "", "type": "text", "pattern": "\\w{4}"});
        json!({"id": format!("p{page}"), "questions": (0..50).map(question).collect::<Vec<_>>()})
    });
    let message = publish_errors(&author, &json!({"pages": pages.collect::<Vec<_>>()})).await;
    assert_eq!(message, ["/pages: the definition has 1000 patterns; at most 50 are allowed"]);

    let pages = (0..30).map(|page| {
        let question = |number: usize| json!({"id": format!("p{page}q{number}"), "text": "", "type": "number"});
        json!({"id": format!("p{page}"), "questions": (0..100).map(question).collect::<Vec<_>>()})
    });
    let message = publish_errors(&author, &json!({"pages": pages.collect::<Vec<_>>()})).await;
    assert_eq!(message, ["/pages: the definition has 3000 questions; at most 2000 are allowed"]);

    let wrong = (0..100).map(|number| json!({"id": format!("q {number}"), "text": "", "type": "number"})).collect();
    let message = publish_errors(&author, &page(wrong)).await;
    assert_eq!((message.len(), message[20].as_str()), (21, ": and 80 more"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_misspelt_field_is_rejected_anywhere_without_rust_terms() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let number = |more: Value| {
        let mut question = json!({"id": "q", "text": "?", "type": "number"});
        question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        page(vec![question])
    };
    let routed =
        |when: Value| json!({"pages": [{"id": "p", "questions": [], "routes": [{"when": when, "then": "complete"}]}]});
    let question = "/definition/pages/0/questions/0";
    let when = "/definition/pages/0/routes/0/when";
    let cases = [
        (number(json!({"requird": true})), format!("{question}/requird"), "unknown field `requird`"),
        (number(json!({"minn": 3})), format!("{question}/minn"), "unknown field `minn`"),
        (number(json!({"pattern": "a"})), question.into(), "unknown field `pattern`: a question of type `number` has"),
        (number(json!({"min": "three"})), question.into(), "`min` is \"\\\"three\\\"\", expected a number"),
        (number(json!({"required": "yes"})), format!("{question}/required"), "expected a boolean"),
        (page(vec![json!("x")]), question.into(), "invalid type: string \"x\", expected an object"),
        (page(vec![json!({"id": "q", "text": "?", "type": "single"})]), question.into(), "missing field `options`"),
        (routed(json!({"answered": "x"})), format!("{when}/answered"), "expected an object with `question`"),
        (
            routed(json!({"equals": {"question": "q", "value": 1, "rwo": "a"}})),
            format!("{when}/equals/rwo"),
            "unknown field `rwo`",
        ),
        (routed(json!("x")), when.into(), "unknown variant `x`"),
    ];
    for (definition, pointer, expected) in cases {
        let refused = author.post("/api/surveys", &json!({"title": "x", "definition": definition})).await;
        let body = refused.clone().with_status(422);
        assert_eq!(refused.wrong_fields(), [pointer.as_str()], "{body}");
        let message = body["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains(expected) && !message.contains("struct") && !message.contains("f64"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_published_under_older_rules_is_an_error_for_its_survey_only() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let scale = |max: i32| page(vec![json!({"id": "q", "text": "?", "type": "scale", "min": 1, "max": max})]);
    let survey = author.survey(&scale(5)).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let before = author.respondent(&link).await;
    let (fresh, other) = (author.survey(&scale(5)).await, author.survey(&scale(5)).await);
    let (_, fresh_link) = author.collector(fresh, json!({})).await;
    let sql = "UPDATE surveys.definition SET definition = $2 WHERE survey_id = $1";
    server.owner.execute(sql, &[&fresh, &scale(i32::MAX)]).await.expect("as an older release left it");
    let refused = RespondentClient::try_start(&server, &fresh_link, &Uuid::new_v4().to_string()).await;
    assert!(refused.body["detail"].as_str().unwrap().contains("published under older rules"), "{}", refused.body);
    assert_eq!(refused.problem(409), "survey-refuses");
    assert_eq!(before.view().await.status, 200, "other sessions continue");
    let (_, link) = author.collector(other, json!({})).await;
    author.respondent(&link).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_choices_that_is_too_long_is_rejected_by_its_length() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey =
        author.survey(&page(vec![json!({"id": "q", "text": "?", "type": "multiple", "options": choices(3)})])).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let ada = author.respondent(&link).await;
    let refused = ada.answer("p", 1, json!({"q": vec!["c0"; 100_000]})).await.with_status(422);
    assert_eq!(refused["errors"][0]["message"], "has 100000 choices, but the question has only 3");
    let unknown: serde_json::Map<String, Value> = (0..10_000).map(|number| (format!("x{number}"), json!(1))).collect();
    let refused = ada.answer("p", 1, Value::Object(unknown)).await.with_status(422);
    let errors = refused["errors"].as_array().unwrap();
    assert_eq!((errors.len(), &errors[20]["message"]), (21, &json!("and 9980 more")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_too_long_to_render_are_rejected_and_not_shown() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let questions = (0..100).map(|number| json!({"id": format!("q{number}"), "text": "?", "type": "text"}));
    let survey = author.survey(&page(questions.collect())).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let ada = author.respondent(&link).await;
    let answers = |count: usize, each: usize| -> Value {
        (0..count)
            .map(|number| (format!("q{number}"), json!("<".repeat(each))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let refused = ada.answer("p", 1, answers(100, 5_000)).await.with_status(422);
    let message = "the texts of this page have 2000000 bytes of HTML; at most 200000 are allowed. Shorten them";
    assert_eq!(refused["errors"], json!([{"path": "/answers", "message": message}]));

    let path = format!("{}/s/session/{}", server.url, ada.session);
    let cookie = format!("respondent={}", ada.token);
    let form: String = (0..100).map(|number| format!("&q{number}={}", "<".repeat(5_000))).collect();
    let sent = server.http.post(&path).header(header::COOKIE, &cookie);
    let sent = sent.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let again = sent.body(format!("page=p&attempt=1{form}")).send().await.expect("a response");
    assert_eq!(again.status(), 422);
    let html = again.text().await.expect("text");
    assert!(html.len() < 10_000 && html.contains("<h1>Your answers are too long</h1>"), "{} bytes", html.len());
    assert!(html.contains(message), "{html}");

    // The largest answers that may be sent are shown in less than a megabyte.
    ada.answer("p", 1, answers(5, 10_000)).await.with_status(200);
    let shown =
        server.http.get(format!("{path}?page=p")).header(header::COOKIE, &cookie).send().await.expect("a response");
    let html = shown.text().await.expect("text");
    assert!((200_000..1_000_000).contains(&html.len()), "{} bytes", html.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_with_too_many_columns_is_rejected_as_csv_and_works_as_json() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let matrices = |version: usize| -> Vec<Value> {
        let rows: Vec<Value> = (0..400).map(|row| json!({"id": format!("v{version}r{row}"), "label": ""})).collect();
        let one = |number: usize| json!({"id": format!("m{number}"), "text": "", "type": "matrix", "rows": rows, "columns": choices(1)});
        (0..21).map(one).collect()
    };
    // Ten pages with two matrices and one with one: 8,400 columns per version.
    let definition = |version: usize| -> Value {
        let all = matrices(version);
        let pages = all.chunks(2).enumerate().map(|(at, some)| json!({"id": format!("p{at}"), "questions": some}));
        json!({"pages": pages.collect::<Vec<_>>()})
    };
    let survey = author.survey(&definition(1)).await;
    let export = async |format: &str| author.get(&format!("/api/surveys/{survey}/export?format={format}")).await;
    assert_eq!(export("csv").await.status, 200);
    let changed = json!({"definition": definition(2)});
    author
        .send(reqwest::Method::PUT, &format!("/api/surveys/{survey}/definition"), Some(&changed))
        .await
        .with_status(200);
    author.post_empty(&format!("/api/surveys/{survey}/publish")).await.with_status(200);
    let refused = export("csv").await;
    assert!(refused.body["detail"].as_str().is_some_and(|text| text.contains("?format=jsonl")), "{}", refused.body);
    assert_eq!(refused.problem(409), "survey-refuses");
    assert_eq!(export("jsonl").await.status, 200);
}
