//! The live view while it changes: as server-sent events, and as a page in a browser.

use crate::support::*;
use onceward_browser::{Browser, Screen};
use onceward_surveys::Settings;
use onceward_testkit::{PATIENCE, eventually};
use reqwest::{Response, header};
use serde_json::{Value, json};
use uuid::Uuid;

/// A stream of events as it comes in.
struct Stream {
    response: Response,
    text: String,
}

impl Stream {
    fn new(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next snapshot; `None` when the stream is over.
    async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data: ")) {
                    assert!(event.lines().any(|line| line == "event: live"), "{event}");
                    return Some(serde_json::from_str(data).expect("a snapshot is JSON"));
                }
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("something comes in time");
            self.text.push_str(std::str::from_utf8(&chunk.ok()??).expect("events are text"));
        }
    }

    async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let looking = async {
            loop {
                let live = self.next().await.expect("the stream goes on");
                if wanted(&live) {
                    return live;
                }
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("it comes in time")
    }
}

fn often() -> Settings {
    Settings { live_every_ms: 100, ..settings() }
}

async fn listen(house: &House, survey: Uuid) -> Response {
    let request = house.http.get(format!("{}/api/surveys/{survey}/live", house.url));
    let request = request.bearer_auth(house.platform.token("acme")).header(header::ACCEPT, "text/event-stream");
    request.send().await.expect("an answer")
}

async fn link(author: &Author<'_>, survey: Uuid) -> String {
    let made = author.order(&format!("/api/surveys/{survey}/live-link")).await.with_status(201);
    made["url"].as_str().expect("a path").to_owned()
}

/// Begins, answers and completes.
async fn complete(author: &Author<'_>, link: &str, sex: &str) {
    let respondent = author.respondent(link).await;
    respondent.answer("only", 1, json!({"sex": sex, "region": "north"})).await.with_status(200);
    respondent.complete().await.with_status(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_who_looks_on_is_told_and_a_stop_ends_it() {
    let house = House::with(often(), None).await;
    let author = house.author("acme");
    let survey = author.survey(&short_definition()).await;
    let (_, collector) = author.collector(survey, json!({})).await;
    let mut first = Stream::new(listen(&house, survey).await);
    assert_eq!(first.next().await.expect("a first one at once")["sessions"]["completed"], 0);
    let path = link(&author, survey).await;
    let by_link = house.http.get(format!("{}{path}/events", house.url)).send().await.expect("an answer");
    let mut second = Stream::new(by_link);
    complete(&author, &collector, "f").await;
    for stream in [&mut first, &mut second] {
        let told = stream.until(|live| live["sessions"]["completed"] == 1).await;
        assert_eq!(told["survey_id"], json!(survey));
    }
    drop(author);
    let House { platform, .. } = house;
    let (clean, _database) = platform.stop().await;
    assert!(clean, "the streams hold nothing up");
    while first.next().await.is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_look_on_than_are_let_and_a_seat_that_was_left_is_free_again() {
    let house = House::with(Settings { live_listeners_max: 1, ..often() }, None).await;
    let author = house.author("acme");
    let survey = author.survey(&short_definition()).await;
    let first = listen(&house, survey).await;
    assert_eq!(first.status(), 200);
    assert_eq!(listen(&house, survey).await.status(), 503);
    drop(first);
    eventually("the seat is free", || async { (listen(&house, survey).await.status() == 200).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_opens_its_own_survey_and_nothing_else() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&short_definition()).await;
    let path = link(&author, survey).await;
    let page = house.http.get(format!("{}{path}", house.url)).send().await.expect("an answer");
    assert_eq!(page.status(), 200);
    let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("text");
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.headers()[header::REFERRER_POLICY], "no-referrer");
    let html = page.text().await.expect("text");
    // Without scripts it is whole, and loads itself again.
    for part in
        ["<table>", "<caption>Drop-off by page</caption>", "http-equiv=\"refresh\"", "<h1>Drinks</h1>", "aria-live"]
    {
        assert!(html.contains(part), "no {part} in {html}");
    }
    assert!(!html.contains("style=") && !html.contains("<script>"), "{html}");

    let forged = format!("{}x", path);
    assert_eq!(house.http.get(format!("{}{forged}", house.url)).send().await.expect("an answer").status(), 403);
    let events = house.http.get(format!("{}{forged}/events", house.url)).send().await.expect("an answer");
    assert_eq!(events.status(), 401);
    let token = path.trim_start_matches("/live/");
    let api = house.http.get(format!("{}/api/surveys/{survey}/live", house.url)).bearer_auth(token);
    assert_eq!(api.send().await.expect("an answer").status(), 401, "a link is no token of the tenant");
    assert_eq!(house.author("other").order(&format!("/api/surveys/{survey}/live-link")).await.status, 404);
    let audited = "SELECT count(*) FROM audit.entry WHERE event_type = 'survey_live_link_created'";
    assert_eq!(house.ask::<i64>(audited, &[]).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_changes_before_the_eyes_of_whoever_looks() {
    let house = House::with(often(), None).await;
    let author = house.author("acme");
    let survey = author.survey(&short_definition()).await;
    let women = json!({"equals": {"question": "sex", "value": "f"}});
    author.quotas(survey, &json!({"buckets": [{"name": "Women", "condition": women, "target": 4}]})).await;
    let (_, collector) = author.collector(survey, json!({"name": "Panel"})).await;
    let path = link(&author, survey).await;
    let url = format!("{}{path}", house.url);
    let browser = Browser::start("surveys_live", Screen::PHONE).await;
    browser.open(&url).await;
    assert_eq!(browser.text("h1").await.as_deref(), Some("Drinks"));
    assert_eq!(browser.text("[data-figure=completed]").await.as_deref(), Some("0"));
    let mark = "document.querySelector('main').dataset.loadedOnce = 'yes'";
    browser.page().execute(mark, Vec::new()).await.expect("a script can be run");
    browser.screenshot("1-before").await;

    complete(&author, &collector, "f").await;
    complete(&author, &collector, "m").await;
    author.respondent(&collector).await.leave().await.with_status(200);
    let shows = |css: &'static str, wanted: &'static str| {
        let browser = &browser;
        async move {
            let ask = || async { browser.text(css).await.filter(|text| text.contains(wanted)) };
            eventually(&format!("{css} shows {wanted}"), ask).await
        }
    };
    shows("[data-figure=completed]", "2").await;
    shows("[data-rows=reasons]", "by respondent 1").await;
    shows("[data-rows=quotas]", "1 of 4").await;
    shows("[data-rows=pages]", "before the first page 3 0 1 (33%)").await;
    shows("[data-rows=collectors]", "Panel 3 2").await;
    shows("[data-connection]", "Live").await;
    browser.find("main[data-loaded-once=yes]").await;
    browser.screenshot("2-after").await;
    browser.close().await;

    for (name, screen) in
        [("desk", Screen::DESK), ("desk-dark", Screen::DESK.dark()), ("phone-dark", Screen::PHONE.dark())]
    {
        let browser = Browser::start("surveys_live", screen).await;
        browser.open(&url).await;
        let live = || async { browser.text("[data-connection]").await.filter(|text| text == "Live") };
        eventually("the page is connected", live).await;
        browser.screenshot(&format!("3-{name}")).await;
        browser.close().await;
    }
}
