//! Nobody can enter another person's session, neither with a guessed key nor with a planted one.

use crate::support::*;
use reqwest::{header, redirect::Policy};
use serde_json::json;
use uuid::Uuid;

async fn start_with_key(server: &TestServer, link: &str, key: &str) -> HttpResponse {
    let request = server.http.post(format!("{}/runtime/start", server.url)).bearer_auth(link);
    HttpResponse::to(request.header("idempotency-key", key)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_link_a_guessable_key_starts_no_session() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    for key in [
        "me",
        "1",
        "ada@example.org",
        "panel-id-of-somebody ",
        "0123456789abcdef01234",
        "ada.lovelace@example.organisation",
    ] {
        assert_eq!(start_with_key(&server, &link, key).await.problem(400), "start-key-guessable", "{key}");
    }
    let random = [Uuid::new_v4().to_string(), Uuid::now_v7().simple().to_string(), "AbCdEfGhIjKlMnOpQrStU_".to_owned()];
    for key in random {
        assert_eq!(start_with_key(&server, &link, &key).await.status, 201, "{key}");
    }
    assert_eq!(server.published_count("session.started.v1").await, 3);
    let (collector, _) = author.collector(survey, json!({"kind": "invite"})).await;
    let invites = author.invites(collector, 1).await;
    assert_eq!(start_with_key(&server, &invites[0], "me").await.status, 201, "an invite belongs to one person");
    let page =
        server.http.get(format!("{}/problems/start-key-guessable", server.url)).send().await.expect("a response");
    assert!(page.text().await.unwrap().contains("UUID"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_start_never_returns_answers_and_later_no_token() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let older = "UPDATE surveys.session SET started_at = started_at - interval '2 minutes'";
    let key = Uuid::new_v4().to_string();
    let ada = RespondentClient::start(&server, &link, &key).await;
    server.owner.execute(older, &[]).await.unwrap();
    assert!(
        start_with_key(&server, &link, &key).await.with_status(200)["token"].is_string(),
        "nothing is answered yet"
    );

    ada.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    let refused = start_with_key(&server, &link, &key).await;
    assert!(
        !refused.body.to_string().contains("token\":") && refused.body.get("answers").is_none(),
        "{}",
        refused.body
    );
    assert_eq!(refused.problem(409), "session-begun");
    ada.answer("what", 1, json!({})).await.with_status(200);
    ada.complete().await.with_status(200);
    assert_eq!(start_with_key(&server, &link, &key).await.problem(409), "session-begun", "also after completion");

    let key = Uuid::new_v4().to_string();
    let eve = RespondentClient::start(&server, &link, &key).await;
    eve.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    let again = start_with_key(&server, &link, &key).await.with_status(200);
    assert!(
        again["token"].is_string() && again.get("answers").is_none(),
        "a lost response can be requested again at once: {again}"
    );
}

/// Opens the start page. Returns the key in its form and its cookie.
async fn start_page(server: &TestServer, link: &str) -> (String, String) {
    let page = server.http.get(format!("{}/s/{link}", server.url)).send().await.expect("a response");
    let cookie = page.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert!(
        cookie.contains(&format!("; Path=/s/{link}; ")) && cookie.contains("; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    let html = page.text().await.unwrap();
    let key = html.split("name=\"key\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a key");
    (key.to_owned(), cookie.split(';').next().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_planted_by_another_site_starts_no_session() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let (_, other_link) = author.collector(survey, json!({})).await;
    let http = reqwest::Client::builder().redirect(Policy::none()).build().unwrap();
    let post = |key: String, cookie: String, site: Option<&'static str>| {
        let request = http.post(format!("{}/s/{link}", server.url)).header(header::COOKIE, cookie);
        let request =
            request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(format!("key={key}"));
        let request = site.into_iter().fold(request, |request, site| request.header("sec-fetch-site", site));
        async move { request.send().await.expect("a response").status().as_u16() }
    };
    let (attacker_key, _) = start_page(&server, &link).await;
    let (own_key, cookie) = start_page(&server, &link).await;
    let (other_key, other_cookie) = start_page(&server, &other_link).await;
    for (key, cookie, site) in [
        ("evil", "start=evil", None),
        (&*attacker_key, "", None),
        (&*attacker_key, &*cookie, None),
        (&*other_key, &*other_cookie, None),
        (&*own_key, &*cookie, Some("cross-site")),
    ] {
        assert_eq!(post(key.into(), cookie.into(), site).await, 403, "{key} with {cookie:?} from {site:?}");
    }
    assert_eq!(server.published_count("session.started.v1").await, 0);
    assert_eq!(post(own_key.clone(), cookie.clone(), Some("same-origin")).await, 303);
    assert_eq!(post(own_key.clone(), cookie, None).await, 303, "submitted twice, started once");
    assert_eq!(server.published_count("session.started.v1").await, 1);

    // The API does not reach the session of a page with the page's key, in any form.
    assert_eq!(start_with_key(&server, &link, &own_key).await.problem(400), "start-key-guessable");
    let origins = "SELECT count(DISTINCT start_digest) FROM surveys.session";
    assert_eq!(server.query_value::<i64>(origins, &[]).await, 1);
}
