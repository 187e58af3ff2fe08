//! The live view as it changes: as server-sent events, and as a page in a browser.

use crate::support::*;
use onceward_browser::{Browser, Screen};
use onceward_surveys::Settings;
use onceward_testkit::{PATIENCE, eventually};
use reqwest::{Response, header};
use serde_json::{Value, json};
use uuid::Uuid;

/// A stream of server-sent events as it arrives.
struct EventStream {
    response: Response,
    text: String,
}

impl EventStream {
    fn new(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// Returns the next snapshot, or `None` when the stream has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data: "))
                    && event.lines().any(|line| line == "event: live")
                {
                    return Some(serde_json::from_str(data).expect("a snapshot is JSON"));
                }
            }
            let chunk =
                tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("the next chunk arrives in time");
            self.text.push_str(std::str::from_utf8(&chunk.ok()??).expect("events are text"));
        }
    }

    async fn wait_for(&mut self, expected: impl Fn(&Value) -> bool) -> Value {
        let waiting = async {
            loop {
                let live = self.next().await.expect("the stream continues");
                if expected(&live) {
                    return live;
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the expected snapshot arrives in time")
    }
}

fn frequent_updates() -> Settings {
    Settings { live_every_ms: 100, ..settings() }
}

async fn open_stream(server: &TestServer, survey: Uuid) -> Response {
    let request = server.http.get(format!("{}/api/surveys/{survey}/live", server.url));
    let request = request.bearer_auth(server.platform.token("acme")).header(header::ACCEPT, "text/event-stream");
    request.send().await.expect("a response")
}

async fn link(author: &AuthorClient<'_>, survey: Uuid) -> String {
    let created = author.post_empty(&format!("/api/surveys/{survey}/live-link")).await.with_status(201);
    created["url"].as_str().expect("a path").to_owned()
}

/// Starts a session, answers and completes it.
async fn complete(author: &AuthorClient<'_>, link: &str, sex: &str) {
    let respondent = author.respondent(link).await;
    respondent.answer("only", 1, json!({"sex": sex, "region": "north"})).await.with_status(200);
    respondent.complete().await.with_status(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_viewer_receives_updates_and_a_shutdown_ends_the_streams() {
    let server = TestServer::start_with(frequent_updates(), None).await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let (_, collector) = author.collector(survey, json!({})).await;
    let mut first = EventStream::new(open_stream(&server, survey).await);
    assert_eq!(first.next().await.expect("the first snapshot arrives at once")["sessions"]["completed"], 0);
    let path = link(&author, survey).await;
    let by_link = server.http.get(format!("{}{path}/events", server.url)).send().await.expect("a response");
    let mut second = EventStream::new(by_link);
    complete(&author, &collector, "f").await;
    for stream in [&mut first, &mut second] {
        let live = stream.wait_for(|live| live["sessions"]["completed"] == 1).await;
        assert_eq!(live["survey_id"], json!(survey));
    }
    drop(author);
    let TestServer { platform, .. } = server;
    let (clean, _database) = platform.stop().await;
    assert!(clean, "the streams do not delay the shutdown");
    while first.next().await.is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn viewers_are_limited_and_a_viewer_that_leaves_makes_room() {
    let server = TestServer::start_with(Settings { live_listeners_max: 1, ..frequent_updates() }, None).await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let first = open_stream(&server, survey).await;
    assert_eq!(first.status(), 200);
    assert_eq!(open_stream(&server, survey).await.status(), 503);
    drop(first);
    eventually("a viewer is admitted again", || async {
        (open_stream(&server, survey).await.status() == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_link_opens_its_own_survey_only() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let path = link(&author, survey).await;
    let page = server.http.get(format!("{}{path}", server.url)).send().await.expect("a response");
    assert_eq!(page.status(), 200);
    let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("text");
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.headers()[header::REFERRER_POLICY], "no-referrer");
    let html = page.text().await.expect("text");
    // Without scripts the page is complete and reloads itself.
    for part in
        ["<table", "How far respondents get", "http-equiv=\"refresh\"", "<h1>Drinks</h1>", "aria-live", "<svg", "<desc"]
    {
        assert!(html.contains(part), "no {part} in {html}");
    }
    assert!(!html.contains("style=") && !html.contains("<script>"), "{html}");

    let forged = format!("{}x", path);
    assert_eq!(server.http.get(format!("{}{forged}", server.url)).send().await.expect("a response").status(), 403);
    let events = server.http.get(format!("{}{forged}/events", server.url)).send().await.expect("a response");
    assert_eq!(events.status(), 401);
    let token = path.trim_start_matches("/live/");
    let api = server.http.get(format!("{}/api/surveys/{survey}/live", server.url)).bearer_auth(token);
    assert_eq!(api.send().await.expect("a response").status(), 401, "a live link is not a token of the tenant");
    assert_eq!(server.author("other").post_empty(&format!("/api/surveys/{survey}/live-link")).await.status, 404);
    let audited = "SELECT count(*) FROM audit.entry WHERE event_type = 'survey_live_link_created'";
    assert_eq!(server.query_value::<i64>(audited, &[]).await, 1);
}

/// Creates a survey that has run for an hour, as an author would see it.
async fn create_busy_survey(server: &TestServer, author: &AuthorClient<'_>) -> (Uuid, String) {
    let mut busy = definition();
    for (page, title) in [(0, "About you"), (1, "What you drink"), (2, "And why?")] {
        busy["pages"][page]["title"] = json!(title);
    }
    let survey = author.survey(&busy).await;
    let sex = |value: &str| json!({"equals": {"question": "sex", "value": value}});
    let bucket = |name: &str, sex: Value, target: u32| json!({"name": name, "condition": sex, "target": target});
    let buckets = [bucket("Women", sex("f"), 1_200), bucket("Men", sex("m"), 1_200), bucket("Neither", sex("x"), 2)];
    author.quotas(survey, &json!({ "buckets": buckets })).await;
    let (collector, link) = author.collector(survey, json!({"name": "Panel"})).await;
    let history =
        "INSERT INTO surveys.dash_tally (tenant_id, survey_id, minute, collector_id, bucket_id, kind, detail, n)
        SELECT 'acme', $1, date_trunc('minute', now()) - make_interval(mins => n), $2, $1, kind, '',
            greatest(1, (18 + 14 * sin(n / 7.0) + (n * 7919) % 9) * CASE kind WHEN 'started' THEN 1 ELSE 0.6 END)::int
        FROM generate_series(1, 58) AS n CROSS JOIN (VALUES ('started'), ('completed')) AS k (kind)";
    server.owner.execute(history, &[&survey, &collector]).await.expect("history");
    let standing = "INSERT INTO surveys.dash_standing (tenant_id, survey_id, collector_id, page_id, page_index, state, n)
        SELECT 'acme', $1, $2, page, place, state, n FROM (VALUES ('', 0, 'active', 31), ('', 0, 'expired', 402), ('who', 0, 'screened_out', 277),
            ('what', 1, 'active', 58), ('what', 1, 'by_respondent', 96), ('what', 1, 'quota_full', 324), ('why', 2, 'active', 12),
            ('why', 2, 'expired', 41), ('@end', 2147483647, 'completed', 1743)) AS v (page, place, state, n)";
    server.owner.execute(standing, &[&survey, &collector]).await.expect("standings");
    let filled =
        "UPDATE surveys.quota_bucket SET filled_n = CASE name WHEN 'Women' THEN 978 WHEN 'Men' THEN 763 ELSE 2 END,
        reserved_n = CASE name WHEN 'Women' THEN 41 WHEN 'Men' THEN 60 ELSE 0 END,
        closed_at = CASE name WHEN 'Neither' THEN now() END";
    server.owner.execute(filled, &[]).await.expect("buckets");
    (survey, link)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_live_page_updates_without_reloading() {
    let server = TestServer::start_with(frequent_updates(), None).await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let women = json!({"equals": {"question": "sex", "value": "f"}});
    author.quotas(survey, &json!({"buckets": [{"name": "Women", "condition": women, "target": 4}]})).await;
    let (_, collector) = author.collector(survey, json!({"name": "Panel"})).await;
    let path = link(&author, survey).await;
    let url = format!("{}{path}", server.url);
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
    let shows = |css: &'static str, expected: &'static str| {
        let browser = &browser;
        async move {
            let text = || async { browser.text(css).await.filter(|text| text.contains(expected)) };
            eventually(&format!("{css} shows {expected}"), text).await
        }
    };
    shows("[data-figure=completed]", "2").await;
    shows("[data-rows=reasons]", "Stopped by the respondent 1").await;
    shows("[data-rows=quotas]", "1 of 4").await;
    shows("[data-rows=pages] th", "1. only").await;
    shows("[data-rows=pages] td:nth-of-type(2)", "3").await;
    shows("[data-rows=pages] td:nth-of-type(4)", "1 33 %").await;
    shows("[data-rows=collectors]", "Panel 3 2 67 %").await;
    shows("[data-connection]", "Live").await;
    browser.find("svg.chart rect.completed").await;
    browser.find("main[data-loaded-once=yes]").await;
    browser.screenshot("2-after").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_survey_is_shown_with_charts_on_every_screen() {
    let server = TestServer::start_with(frequent_updates(), None).await;
    let author = server.author("acme");
    let (survey, collector) = create_busy_survey(&server, &author).await;
    author.respondent(&collector).await;
    let url = format!("{}{}", server.url, link(&author, survey).await);
    for (name, screen) in [
        ("phone", Screen::PHONE),
        ("desk", Screen::DESKTOP),
        ("desk-dark", Screen::DESKTOP.dark()),
        ("phone-dark", Screen::PHONE.dark()),
    ] {
        let browser = Browser::start("surveys_live", screen).await;
        browser.open(&url).await;
        let live = || async { browser.text("[data-connection]").await.filter(|text| text == "Live") };
        eventually("the page is connected", live).await;
        assert_eq!(browser.text("[data-figure=completed]").await.as_deref(), Some("1,743"));
        let script = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth";
        let fits = browser.page().execute(script, Vec::new()).await.expect("a script can be run");
        assert_eq!(fits.json(), &json!(true), "{name}: nothing is wider than the screen");
        for part in
            ["svg.chart title", "svg.chart desc", "[data-part=pages] svg.bar title", "[data-part=quotas] svg.bar title"]
        {
            browser.find(part).await;
        }
        browser.screenshot(&format!("3-{name}")).await;
        browser.close().await;
    }
}
