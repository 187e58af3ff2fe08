//! The survey as a respondent sees it: in a real browser, on a phone, without scripts of ours.

use crate::support::*;
use onceward_browser::{Browser, Screen, thirtyfour::By};
use onceward_testkit::eventually;
use reqwest::{Response, header, redirect::Policy};
use serde_json::{Value, json};
use uuid::Uuid;

/// Every kind of question, on three pages; who drinks nothing skips the second.
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

/// Clicks, and waits until another page is there.
async fn go(browser: &Browser, css: &str, heading: &str) {
    browser.find(css).await.click().await.expect("it can be clicked");
    see(browser, heading).await;
}

async fn see(browser: &Browser, heading: &str) {
    let shown = || async { browser.text("h1").await.filter(|text| text == heading) };
    eventually(&format!("the page {heading:?} is shown"), shown).await;
}

async fn tick(browser: &Browser, label: &str) {
    let found = browser.page().find(By::XPath(format!("//label[normalize-space()='{label}']"))).await;
    found.unwrap_or_else(|error| panic!("{label}: {error}")).click().await.expect("a label can be clicked");
}

async fn write(browser: &Browser, css: &str, text: &str) {
    let field = browser.find(css).await;
    field.clear().await.expect("a field can be emptied");
    field.send_keys(text).await.expect("a field can be written in");
}

async fn value(browser: &Browser, css: &str) -> String {
    browser.find(css).await.prop("value").await.expect("a property").unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respondent_fills_it_in_is_corrected_goes_on_later_and_completes() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&everything()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let browser = Browser::start("surveys_respondent", Screen::PHONE).await;
    browser.open(&format!("{}/s/{link}", house.url)).await;
    see(&browser, "Drinks").await;
    browser.screenshot("1-start").await;
    go(&browser, "button", "About you").await;

    // Too young, and nothing chosen: both are said, at the top and beside the field, and what was written stays.
    write(&browser, "#q0", "12").await;
    browser.find("button").await.click().await.expect("it can be clicked");
    let said = || async { browser.text(".summary").await };
    let summary = eventually("what is wrong is said", said).await;
    assert!(summary.contains("How old are you? Your answer is less than 18."), "{summary}");
    assert!(summary.contains("What do you drink? This question needs an answer."), "{summary}");
    assert_eq!(browser.text("#q0-wrong").await.as_deref(), Some("Your answer is less than 18."));
    let field = browser.find("#q0").await;
    assert_eq!(field.attr("aria-describedby").await.unwrap().as_deref(), Some("q0-wrong"));
    assert_eq!(field.attr("aria-invalid").await.unwrap().as_deref(), Some("true"));
    assert_eq!(value(&browser, "#q0").await, "12");
    assert!(browser.page().title().await.unwrap().starts_with("Error: "));
    browser.screenshot("2-wrong").await;
    // The browser itself counts a refused form among the complaints.
    let complaints = browser.complaints().await;
    assert!(complaints.iter().all(|complaint| complaint.contains("422")), "{complaints:?}");
    browser
        .page()
        .find(By::LinkText("What do you drink? This question needs an answer."))
        .await
        .unwrap()
        .click()
        .await
        .unwrap();
    assert!(browser.page().current_url().await.unwrap().as_str().ends_with("#q1c0"));
    write(&browser, "#q0", "34").await;
    tick(&browser, "Tea & milk").await;
    go(&browser, "button", "How you drink it").await;
    browser.screenshot("3-kinds").await;

    // Another day: the link leads back to where they were.
    browser.open(&format!("{}/s/{link}", house.url)).await;
    assert_eq!(browser.text("a.button").await.as_deref(), Some("Go on where you were"));
    go(&browser, "a.button", "How you drink it").await;
    go(&browser, ".actions a", "About you").await;
    assert_eq!(value(&browser, "#q0").await, "34");
    go(&browser, "button", "How you drink it").await;
    tick(&browser, "Coffee").await;
    tick(&browser, "4").await;
    for (row, label) in [("#q2r0c0", "home"), ("#q2r1c1", "out")] {
        browser.find(row).await.click().await.unwrap_or_else(|error| panic!("{label}: {error}"));
    }
    go(&browser, "button", "At last").await;
    write(&browser, "#q1", "With <b>sugar</b> & \"care\"").await;
    go(&browser, "button", "You have answered everything").await;
    go(&browser, "button", "Thank you").await;
    browser.screenshot("4-thanks").await;
    browser.page().refresh().await.expect("a page can be loaded again");
    see(&browser, "Thank you").await;
    browser.close().await;

    let answers: Value = house.ask("SELECT jsonb_object_agg(page_id, answers) FROM surveys.answer", &[]).await;
    let how = json!({"with": ["coffee"], "often": 4, "judge": {"home": "good", "out": "bad"}});
    let expected =
        json!({"who": {"age": 34, "drink": "tea"}, "how": how, "last": {"words": "With <b>sugar</b> & \"care\""}});
    assert_eq!(answers, expected);
    assert_eq!(house.told("session.completed.v1").await, 1);
    assert_eq!(house.told("session.started.v1").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routing_skips_what_does_not_concern_them_also_in_the_dark() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&everything()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let browser = Browser::start("surveys_respondent_dark", Screen::DESK.dark()).await;
    browser.open(&format!("{}/s/{link}", house.url)).await;
    go(&browser, "button", "About you").await;
    write(&browser, "#q0", "40").await;
    tick(&browser, "Nothing").await;
    browser.screenshot("about-you").await;
    go(&browser, "button", "At last").await;
    browser.close().await;
}

/// A browser without a browser: it follows nothing, and keeps the cookies of one answer.
struct Plain<'h> {
    house: &'h House,
    http: reqwest::Client,
}

impl<'h> Plain<'h> {
    fn new(house: &'h House) -> Self {
        let http = reqwest::Client::builder().redirect(Policy::none()).build().expect("a client can be built");
        Self { house, http }
    }

    async fn get(&self, path: &str, cookie: &str) -> (u16, String) {
        let request = self.http.get(format!("{}{path}", self.house.url)).header(header::COOKIE, cookie);
        let response = request.send().await.expect("an answer");
        (response.status().as_u16(), response.text().await.expect("text"))
    }

    async fn post(&self, path: &str, cookie: &str, body: &str) -> Response {
        let request = self.http.post(format!("{}{path}", self.house.url)).header(header::COOKIE, cookie.to_owned());
        let form = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(body.to_owned());
        form.send().await.expect("an answer")
    }

    /// Begins; gives the session's path and cookie.
    async fn begin(&self, link: &str, key: &str) -> (String, String) {
        let begun = self.post(&format!("/s/{link}"), "", &format!("key={key}")).await;
        assert_eq!(begun.status(), 303);
        let path = begun.headers()[header::LOCATION].to_str().unwrap().to_owned();
        let cookies: Vec<&str> =
            begun.headers().get_all(header::SET_COOKIE).iter().map(|one| one.to_str().unwrap()).collect();
        let cookie = cookies.iter().find(|cookie| cookie.starts_with("respondent=")).expect("the session's cookie");
        assert!(
            cookie.contains(&format!("; Path={path}; ")) && cookie.contains("; HttpOnly; SameSite=Lax"),
            "{cookie}"
        );
        (path, cookie.split(';').next().unwrap().to_owned())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_sent_twice_is_sent_once_and_nobody_enters_another_session() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&everything()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let plain = Plain::new(&house);
    let (first, cookie) = plain.begin(&link, "one-key").await;
    let (again, _) = plain.begin(&link, "one-key").await;
    assert_eq!(first, again, "the same form begins one session");
    let (second, other) = plain.begin(&link, "another-key").await;
    assert_ne!(first, second);
    for _ in 0..2 {
        let sent = plain.post(&first, &cookie, "page=who&attempt=1&q0=30&q1=tea").await;
        assert_eq!((sent.status().as_u16(), sent.headers()[header::LOCATION].to_str().unwrap()), (303, &*first));
    }
    assert_eq!(house.told("answer.upserted.v1").await, 1);
    let wrong = plain.post(&first, &cookie, "page=how&attempt=1&q1=9&q2r0=good").await;
    assert_eq!(wrong.status(), 422);

    for bad in ["", "respondent=nonsense", other.as_str()] {
        assert_eq!(plain.get(&first, bad).await.0, 403, "{bad}");
        assert_eq!(plain.post(&first, bad, "page=how&attempt=1&q1=3").await.status(), 403);
        assert_eq!(plain.post(&format!("{first}/complete"), bad, "").await.status(), 403);
    }
    let (status, text) = plain.get("/s/nonsense", "").await;
    assert!(status == 403 && text.contains("<h1>This address does not work here</h1>"), "{text}");
    author.order(&format!("/api/surveys/{survey}/pause")).await.with_status(200);
    let refused = plain.post(&format!("/s/{link}"), "", &format!("key={}", Uuid::now_v7())).await;
    assert_eq!(refused.status(), 409);
    assert!(refused.text().await.unwrap().contains("This survey is not open"));
}
