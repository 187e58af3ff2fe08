//! The survey as a respondent sees it: in a real browser, on a phone, without any scripts.

use crate::support::*;
use onceward_browser::{Browser, Screen, thirtyfour::By};
use onceward_testkit::eventually;
use reqwest::{Response, header, redirect::Policy};
use serde_json::{Value, json};

/// Every kind of question, on three pages; respondents who drink nothing skip the second.
fn everything() -> Value {
    let options = json!([{"id": "tea", "label": "Tea & milk"}, {"id": "coffee", "label": "Coffee"}, {"id": "none", "label": "Nothing"}]);
    json!({"pages": [
        {"id": "who", "title": "About you", "questions": [
            {"id": "age", "text": "How old are you?", "type": "number", "min": 18, "max": 120, "integer": true, "required": true},
            {"id": "drink", "text": "What do you drink?", "type": "single", "options": options, "required": true}],
         "routes": [{"when": {"equals": {"question": "drink", "value": "none"}}, "then": {"page": "last"}}]},
        {"id": "how", "title": "How you drink it", "questions": [
            {"id": "with", "text": "With what?", "type": "multiple", "options": options},
            {"id": "often", "text": "How much do you like it?", "type": "scale", "min": 1, "max": 5, "required": true},
            {"id": "judge", "text": "How good are these?", "type": "matrix", "required": true,
             "rows": [{"id": "home", "label": "At home"}, {"id": "out", "label": "Elsewhere"}],
             "columns": [{"id": "good", "label": "Good"}, {"id": "bad", "label": "Bad"}]}]},
        {"id": "last", "title": "At last", "questions": [
            {"id": "since", "text": "Since when?", "type": "date", "max": "2026-12-31"},
            {"id": "words", "text": "In your words?", "type": "text", "max_length": 500}]}]})
}

/// Clicks, and waits until the next page is loaded.
async fn click_and_wait(browser: &Browser, css: &str, heading: &str) {
    browser.find(css).await.click().await.expect("the element can be clicked");
    wait_for_heading(browser, heading).await;
}

async fn wait_for_heading(browser: &Browser, heading: &str) {
    let shown = || async { browser.text("h1").await.filter(|text| text == heading) };
    eventually(&format!("the page {heading:?} is shown"), shown).await;
}

async fn click_label(browser: &Browser, label: &str) {
    let found = browser.page().find(By::XPath(format!("//label[normalize-space()='{label}']"))).await;
    found.unwrap_or_else(|error| panic!("{label}: {error}")).click().await.expect("a label can be clicked");
}

async fn type_into(browser: &Browser, css: &str, text: &str) {
    let field = browser.find(css).await;
    field.clear().await.expect("a field can be emptied");
    field.send_keys(text).await.expect("a field can be written in");
}

async fn field_value(browser: &Browser, css: &str) -> String {
    browser.find(css).await.prop("value").await.expect("a property").unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respondent_corrects_faults_continues_later_and_completes() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&everything()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let browser = Browser::start("surveys_respondent", Screen::PHONE).await;
    browser.open(&format!("{}/s/{link}", server.url)).await;
    wait_for_heading(&browser, "Drinks").await;
    browser.screenshot("1-start").await;
    click_and_wait(&browser, "button", "About you").await;

    // Too young, and nothing chosen: both faults are shown, at the top and beside the field, and the input is kept.
    type_into(&browser, "#q0", "12").await;
    browser.find("button").await.click().await.expect("the element can be clicked");
    let faults = || async { browser.text(".summary").await };
    let summary = eventually("the faults are shown", faults).await;
    assert!(summary.contains("How old are you? Your answer is less than 18."), "{summary}");
    assert!(summary.contains("What do you drink? This question needs an answer."), "{summary}");
    assert_eq!(browser.text("#q0-wrong").await.as_deref(), Some("Your answer is less than 18."));
    let field = browser.find("#q0").await;
    assert_eq!(field.attr("aria-describedby").await.unwrap().as_deref(), Some("q0-wrong"));
    assert_eq!(field.attr("aria-invalid").await.unwrap().as_deref(), Some("true"));
    assert_eq!(field_value(&browser, "#q0").await, "12");
    assert!(browser.page().title().await.unwrap().starts_with("Error: "));
    browser.screenshot("2-wrong").await;
    // The browser itself logs a rejected form as an error.
    let console_errors = browser.console_errors().await;
    assert!(console_errors.iter().all(|error| error.contains("422")), "{console_errors:?}");
    browser
        .page()
        .find(By::LinkText("What do you drink? This question needs an answer."))
        .await
        .unwrap()
        .click()
        .await
        .unwrap();
    assert!(browser.page().current_url().await.unwrap().as_str().ends_with("#q1c0"));
    type_into(&browser, "#q0", "34").await;
    click_label(&browser, "Tea & milk").await;
    click_and_wait(&browser, "button", "How you drink it").await;
    browser.screenshot("3-kinds").await;

    // On another day, the link leads back to where the respondent was.
    browser.open(&format!("{}/s/{link}", server.url)).await;
    assert_eq!(browser.text("a.button").await.as_deref(), Some("Continue where you left off"));
    click_and_wait(&browser, "a.button", "How you drink it").await;
    click_and_wait(&browser, ".actions a", "About you").await;
    assert_eq!(field_value(&browser, "#q0").await, "34");
    click_and_wait(&browser, "button", "How you drink it").await;
    click_label(&browser, "Coffee").await;
    click_label(&browser, "4").await;
    for (row, label) in [("#q2r0c0", "home"), ("#q2r1c1", "out")] {
        browser.find(row).await.click().await.unwrap_or_else(|error| panic!("{label}: {error}"));
    }
    click_and_wait(&browser, "button", "At last").await;
    type_into(&browser, "#q1", "With <b>sugar</b> & \"care\"").await;
    click_and_wait(&browser, "button", "You have answered everything").await;
    click_and_wait(&browser, "button", "Thank you").await;
    browser.screenshot("4-thanks").await;
    browser.page().refresh().await.expect("a page can be loaded again");
    wait_for_heading(&browser, "Thank you").await;
    browser.close().await;

    let answers: Value = server.query_value("SELECT jsonb_object_agg(page_id, answers) FROM surveys.answer", &[]).await;
    let how = json!({"with": ["coffee"], "often": 4, "judge": {"home": "good", "out": "bad"}});
    let expected =
        json!({"who": {"age": 34, "drink": "tea"}, "how": how, "last": {"words": "With <b>sugar</b> & \"care\""}});
    assert_eq!(answers, expected);
    assert_eq!(server.published_count("session.completed.v1").await, 1);
    assert_eq!(server.published_count("session.started.v1").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routing_skips_pages_in_dark_mode() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&everything()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let browser = Browser::start("surveys_respondent_dark", Screen::DESKTOP.dark()).await;
    browser.open(&format!("{}/s/{link}", server.url)).await;
    click_and_wait(&browser, "button", "About you").await;
    type_into(&browser, "#q0", "40").await;
    click_label(&browser, "Nothing").await;
    browser.screenshot("about-you").await;
    click_and_wait(&browser, "button", "At last").await;
    browser.close().await;
}

/// A minimal HTTP client: it follows no redirects, and keeps the cookies of one response.
struct FormClient<'s> {
    server: &'s TestServer,
    http: reqwest::Client,
}

impl<'s> FormClient<'s> {
    fn new(server: &'s TestServer) -> Self {
        let http = reqwest::Client::builder().redirect(Policy::none()).build().expect("a client can be built");
        Self { server, http }
    }

    async fn get(&self, path: &str, cookie: &str) -> (u16, String) {
        let request = self.http.get(format!("{}{path}", self.server.url)).header(header::COOKIE, cookie);
        let response = request.send().await.expect("a response");
        (response.status().as_u16(), response.text().await.expect("text"))
    }

    async fn post(&self, path: &str, cookie: &str, body: &str) -> Response {
        let request = self.http.post(format!("{}{path}", self.server.url)).header(header::COOKIE, cookie.to_owned());
        let form = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(body.to_owned());
        form.send().await.expect("a response")
    }

    /// Opens the start page. Returns the key of its form and the cookie that came with it.
    async fn open(&self, link: &str) -> (String, String) {
        let response = self.http.get(format!("{}/s/{link}", self.server.url)).send().await.expect("a response");
        let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
        let html = response.text().await.expect("text");
        let key = html.split("name=\"key\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
        (key.expect("a key").to_owned(), cookie)
    }

    /// Starts a session. Returns its path and cookie.
    async fn start(&self, link: &str, (key, start): &(String, String)) -> (String, String) {
        let response = self.post(&format!("/s/{link}"), start, &format!("key={key}")).await;
        assert_eq!(response.status(), 303);
        let path = response.headers()[header::LOCATION].to_str().unwrap().to_owned();
        let cookies: Vec<&str> =
            response.headers().get_all(header::SET_COOKIE).iter().map(|one| one.to_str().unwrap()).collect();
        let cookie = cookies.iter().find(|cookie| cookie.starts_with("respondent=")).expect("the session's cookie");
        assert!(
            cookie.contains(&format!("; Path={path}; ")) && cookie.contains("; HttpOnly; SameSite=Lax"),
            "{cookie}"
        );
        (path, cookie.split(';').next().unwrap().to_owned())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_submitted_twice_counts_once_and_sessions_are_private() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&everything()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let client = FormClient::new(&server);
    let start = client.open(&link).await;
    let (first, cookie) = client.start(&link, &start).await;
    let (again, _) = client.start(&link, &start).await;
    assert_eq!(first, again, "the same form starts one session");
    let (second, other) = client.start(&link, &client.open(&link).await).await;
    assert_ne!(first, second);
    for _ in 0..2 {
        let sent = client.post(&first, &cookie, "page=who&attempt=1&q0=30&q1=tea").await;
        assert_eq!((sent.status().as_u16(), sent.headers()[header::LOCATION].to_str().unwrap()), (303, &*first));
    }
    assert_eq!(server.published_count("answer.upserted.v1").await, 1);
    let wrong = client.post(&first, &cookie, "page=how&attempt=1&q1=9&q2r0=good").await;
    assert_eq!(wrong.status(), 422);

    for bad in ["", "respondent=nonsense", other.as_str()] {
        assert_eq!(client.get(&first, bad).await.0, 403, "{bad}");
        assert_eq!(client.post(&first, bad, "page=how&attempt=1&q1=3").await.status(), 403);
        assert_eq!(client.post(&format!("{first}/complete"), bad, "").await.status(), 403);
    }
    let (status, text) = client.get("/s/nonsense", "").await;
    assert!(status == 403 && text.contains("<h1>This address does not work here</h1>"), "{text}");
    let (key, start) = client.open(&link).await;
    author.post_empty(&format!("/api/surveys/{survey}/pause")).await.with_status(200);
    let refused = client.post(&format!("/s/{link}"), &start, &format!("key={key}")).await;
    assert_eq!(refused.status(), 409);
    assert!(refused.text().await.unwrap().contains("This survey is not open"));
}
