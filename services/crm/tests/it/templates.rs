//! Templates over the API: mistakes are found when a version is saved, and a version never changes.

use crate::support::{CrmFixture, greeting};
use onceward_browser::{Browser, Screen};
use reqwest::Method;
use serde_json::{Value, json};

fn draft(source: Value) -> Value {
    json!({ "class": "transactional", "source": source })
}

#[tokio::test]
async fn a_template_has_immutable_versions() {
    let fixture = CrmFixture::start().await;
    fixture.create_template("acme", "welcome", "transactional").await;
    let f = &fixture;
    let change = f
        .one_change("acme", async { f.put("acme", "templates/welcome", draft(greeting("Hi"))).await.with_status(201) })
        .await;
    assert_eq!(change.event_type, "CRM.TEMPLATE.SAVED");
    assert_eq!((&change.old["version"], &change.new["version"]), (&json!(1), &json!(2)));
    let again = fixture.put("acme", "templates/welcome", draft(greeting("Hi"))).await.with_status(200);
    assert_eq!((&again["version"], &again["is_new"]), (&json!(2), &json!(false)));
    assert_eq!(fixture.count_audit_entries("acme", "CRM.TEMPLATE.SAVED").await, 2);

    let first = fixture.get("acme", "templates/welcome/versions/1").await.with_status(200);
    assert_eq!((&first["source"]["text"], &first["delivery"]), (&greeting("Hello")["text"], &json!("at_most_once")));
    let shown = fixture.get("acme", "templates/welcome").await.with_status(200);
    let versions: Vec<_> = shown["versions"].as_array().unwrap().iter().map(|one| one["version"].as_i64()).collect();
    assert_eq!((shown["version"].as_i64(), versions), (Some(2), vec![Some(2), Some(1)]));

    let refused = fixture.platform.db().begin(fixture.platform.scope("acme")).await.unwrap();
    let rewritten = refused.execute("UPDATE crm.template_version SET sha256 = sha256", &[]).await;
    assert!(rewritten.is_err(), "the application may not change a version");
}

#[tokio::test]
async fn another_class_or_delivery_is_a_new_version() {
    let fixture = CrmFixture::start().await;
    fixture.create_template("acme", "notice", "legal").await;
    let first = fixture.get("acme", "templates/notice/versions/1").await.with_status(200);
    assert_eq!(first["delivery"], "at_least_once", "the class decides by default");
    let mut body = json!({ "class": "legal", "delivery": "at_most_once", "source": greeting("Hello") });
    let saved = fixture.put("acme", "templates/notice", body.clone()).await.with_status(201);
    assert_eq!(saved["version"], 2);
    body["class"] = json!("marketing");
    let saved = fixture.put("acme", "templates/notice", body).await.with_status(201);
    assert_eq!(saved["version"], 3);
    let first = fixture.get("acme", "templates/notice/versions/1").await.with_status(200);
    assert_eq!(first["class"], "legal", "a mail that was requested keeps its class");
    let diff = fixture.get("acme", "templates/notice/diff?from=1&to=3").await.with_status(200);
    assert_eq!(diff["class"], json!({ "old": "legal", "new": "marketing" }));
    assert_eq!((&diff["subject"], &diff["variables"]), (&Value::Null, &json!([])));
}

#[tokio::test]
async fn saving_reports_every_mistake_with_the_nearest_declared_name() {
    let fixture = CrmFixture::start().await;
    let source = json!({
        "subject": "Dear {{ contact.frist_name }}",
        "html": "<p>\n{{ contact.first_nam }} {{ loan.id }}</p>",
        "variables": [{ "name": "contact.first_name", "kind": "text" }, { "name": "due", "kind": "date", "default": "soon" }],
    });
    let body = json!({ "template_id": "dear", "class": "transactional", "source": source });
    let refused = fixture.post("acme", "templates", body).await;
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("template-invalid")), "{}", refused.text);
    let fields = refused.wrong_fields();
    for field in ["/source/subject", "/source/html", "/source/variables/1"] {
        assert!(fields.contains(&field), "{field} in {}", refused.text);
    }
    let errors = refused.body["errors"].as_array().unwrap();
    let subject = errors.iter().find(|error| error["path"] == "/source/subject").unwrap();
    let message = subject["message"].as_str().unwrap();
    assert!(message.contains("frist_name") && message.contains("contact.first_name"), "{message}");
    assert!(errors.iter().any(|error| error["message"].as_str().unwrap().starts_with("Line 2:")), "{}", refused.text);
    fixture.get("acme", "templates/dear").await.with_status(404);
    assert_eq!(fixture.changes("acme").await.len(), 0);
}

#[tokio::test]
async fn a_template_id_is_used_once_and_has_a_form() {
    let fixture = CrmFixture::start().await;
    fixture.create_template("acme", "welcome", "transactional").await;
    let body = |id: &str| json!({ "template_id": id, "class": "transactional", "source": greeting("Hello") });
    let twice = fixture.post("acme", "templates", body("welcome")).await;
    assert_eq!((twice.status, &twice.body["code"]), (409, &json!("already-exists")));
    for wrong in ["Welcome", "a b", "", "-a", "ready", "a/b"] {
        assert_eq!(fixture.post("acme", "templates", body(wrong)).await.status, 422, "{wrong}");
    }
    fixture.put("acme", "templates/unknown", draft(greeting("Hi"))).await.with_status(404);
}

#[tokio::test]
async fn a_preview_uses_given_or_sample_variables_and_stores_nothing() {
    let fixture = CrmFixture::start().await;
    fixture.create_template("acme", "welcome", "transactional").await;
    let before = fixture.changes("acme").await.len();
    let preview = fixture.post("acme", "templates/welcome/preview", json!({})).await.with_status(200);
    assert_eq!(preview["subject"], "Hello, Ada");
    let variables = json!({ "variables": { "contact": { "first_name": "<Bob>" } } });
    let preview = fixture.post("acme", "templates/welcome/preview", variables).await.with_status(200);
    assert_eq!(preview["html"], "<p>Hello <b>&lt;Bob&gt;</b></p>");
    assert_eq!((&preview["text"], &preview["text_is_derived"]), (&json!("Hello <Bob>"), &json!(false)));
    for (variables, field) in [
        (json!({ "contact": { "first_name": null } }), "/variables/contact/first_name"),
        (json!({ "contact": { "first_name": "A", "frist": "B" } }), "/variables/contact/frist"),
        (json!({}), "/variables/contact/first_name"),
    ] {
        let body = json!({ "variables": variables });
        let refused = fixture.post("acme", "templates/welcome/preview", body).await;
        assert_eq!((refused.status, refused.wrong_fields()), (422, vec![field]), "{}", refused.text);
    }
    assert_eq!(fixture.changes("acme").await.len(), before);
}

#[tokio::test]
async fn the_difference_of_two_versions_names_lines_and_declarations() {
    let fixture = CrmFixture::start().await;
    fixture.create_template("acme", "welcome", "transactional").await;
    let mut source = greeting("Hi");
    source["variables"].as_array_mut().unwrap().push(json!({ "name": "loan.id", "kind": "text", "default": "" }));
    fixture.put("acme", "templates/welcome", draft(source)).await.with_status(201);
    let diff = fixture.get("acme", "templates/welcome/diff").await.with_status(200);
    assert_eq!((&diff["from"], &diff["to"]), (&json!(1), &json!(2)));
    let text = diff["text"].as_str().unwrap();
    assert!(text.contains("-Hello {{") && text.contains("+Hi {{"), "{text}");
    assert_eq!(diff["variables"][0]["name"], "loan.id");
    assert_eq!(diff["variables"][0]["old"], Value::Null);
    fixture.get("acme", "templates/welcome/diff?to=9").await.with_status(404);
}

#[tokio::test]
async fn a_retired_template_comes_back_when_a_version_is_saved() {
    let fixture = CrmFixture::start().await;
    fixture.create_template("acme", "welcome", "transactional").await;
    let f = &fixture;
    let change =
        f.one_change("acme", async { f.post_empty("acme", "templates/welcome/retire").await.with_status(200) }).await;
    assert_eq!(change.event_type, "CRM.TEMPLATE.RETIRED");
    fixture.post_empty("acme", "templates/welcome/retire").await.with_status(200);
    assert_eq!(fixture.count_audit_entries("acme", "CRM.TEMPLATE.RETIRED").await, 1);
    assert_eq!(fixture.get("acme", "templates").await.with_status(200)["templates"], json!([]));
    let with_retired = fixture.get("acme", "templates?retired=true").await.with_status(200);
    assert_eq!(with_retired["templates"][0]["template_id"], "welcome");
    fixture.post("acme", "templates/welcome/preview", json!({})).await.with_status(404);
    fixture.post("acme", "templates/welcome/preview", json!({ "version": 1 })).await.with_status(200);

    let change = f
        .one_change("acme", async {
            f.put("acme", "templates/welcome", draft(greeting("Hello"))).await.with_status(200)
        })
        .await;
    assert_eq!((&change.old["is_retired"], &change.new["is_retired"]), (&json!(true), &json!(false)));
    assert_eq!(fixture.get("acme", "templates").await.with_status(200)["templates"][0]["version"], 1);
}

#[tokio::test]
async fn the_ready_templates_are_installed_once_and_all_render() {
    let fixture = CrmFixture::start().await;
    fixture.create_template("acme", "lending-welcome", "transactional").await;
    let installed = fixture.post_empty("acme", "templates/ready").await.with_status(200);
    let ids: Vec<&str> = installed["installed"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(ids.contains(&"lending-payment-received") && !ids.contains(&"lending-welcome"), "{ids:?}");
    for id in &ids {
        let preview = fixture.post("acme", &format!("templates/{id}/preview"), json!({})).await.with_status(200);
        assert_ne!(preview["text"], "", "{id}");
    }
    let again = fixture.post_empty("acme", "templates/ready").await.with_status(200);
    assert_eq!(again["installed"], json!([]));
    let first = fixture.get("acme", "templates?limit=2").await.with_status(200);
    let next = first["next"].as_str().expect("there is another page");
    let second = fixture.get("acme", &format!("templates?limit=2&cursor={next}")).await.with_status(200);
    assert_ne!(first["templates"], second["templates"]);
}

#[tokio::test]
async fn only_administrators_save_templates() {
    let fixture = CrmFixture::start().await;
    let body = json!({ "template_id": "welcome", "class": "legal", "source": greeting("Hello") });
    let clerk = fixture.token_with("acme", "clerk", &["crm:read", "crm:write"]);
    let refused = fixture.call_as(&clerk, Method::POST, "templates", Some(&body)).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("forbidden")));
    let reader = fixture.token_with("acme", "reader", &["crm:read"]);
    fixture.call_as(&reader, Method::GET, "templates", None).await.with_status(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_preview_page_shows_the_mail_without_scripts() {
    let fixture = CrmFixture::start().await;
    let source = json!({
        "subject": "Hello {{ name }}",
        "html": "<p id=\"mail\" style=\"color:#b00\">Dear {{ name }}</p>",
        "variables": [{ "name": "name", "kind": "text", "example": "<script>document.title='taken over'</script>" }],
    });
    let body = json!({ "template_id": "page", "class": "transactional", "source": source });
    fixture.post("acme", "templates", body).await.with_status(201);
    let page = fixture.get("acme", "templates/page/preview?version=1").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert_eq!(page.header("cache-control"), Some("no-store"));

    // A browser sends no token: the test's own server passes the page on, with the same headers.
    let (policy, html) = (page.header("content-security-policy").unwrap().to_owned(), page.text.clone());
    let url = serve(policy, html).await;
    let browser = Browser::start("crm_preview", Screen::DESKTOP).await;
    browser.open(&url).await;
    assert_eq!(browser.text("h1").await.as_deref(), Some("page, version 1"));
    assert_eq!(browser.text(".subject").await.as_deref(), Some("Hello <script>document.title='taken over'</script>"));
    assert_eq!(browser.page().title().await.unwrap(), "Preview of page, version 1");
    let frame = browser.find("iframe").await;
    frame.clone().enter_frame().await.expect("the frame can be entered");
    assert!(browser.text("#mail").await.unwrap().starts_with("Dear <script>"));
    browser.page().enter_default_frame().await.expect("the page can be entered");
    browser.screenshot("1-preview").await;
    browser.close().await;
}

/// Serves one page on this machine, and returns its address.
async fn serve(policy: String, html: String) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("a bound address"));
    let page = axum::routing::get(move || async move {
        ([("content-type", "text/html; charset=utf-8".to_owned()), ("content-security-policy", policy)], html)
    });
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().route("/", page)).await });
    url
}
