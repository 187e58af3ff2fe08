//! Do-not-contact, consent and assignments over the API.

use crate::support::{CrmFixture, USER};
use serde_json::{Value, json};

const ADDRESS: &str = "ada.lovelace@example.org";

#[tokio::test]
async fn do_not_contact_is_set_per_class_lifted_and_stays_in_the_history() {
    let fixture = CrmFixture::start().await;
    let id = fixture.create_person("acme", "Ada", ADDRESS).await;
    let path = format!("contacts/{id}/do-not-contact");
    let f = &fixture;
    let body = json!({ "class": "marketing", "reason": "asked by phone" });
    let change = f.one_change("acme", async { f.post("acme", &path, body.clone()).await.with_status(201) }).await;
    assert_eq!(change.event_type, "CRM.DNC.SET");
    assert_eq!(change.new, json!({ "class": "marketing", "reason": "asked by phone", "is_in_force": true }));
    let entries = fixture.get("acme", &path).await.with_status(200)["entries"].clone();
    let dnc_id = entries[0]["dnc_id"].as_str().expect("an id").to_owned();
    let change =
        f.one_change("acme", async { f.delete("acme", &format!("{path}/{dnc_id}")).await.with_status(200) }).await;
    assert_eq!((change.event_type.as_str(), &change.new["is_in_force"]), ("CRM.DNC.LIFTED", &json!(false)));
    fixture.post("acme", &path, json!({ "class": "*", "reason": "complained" })).await.with_status(201);
    let entries = fixture.get("acme", &path).await.with_status(200)["entries"].clone();
    assert_eq!((&entries[0]["class"], &entries[0]["lifted_at"]), (&json!("*"), &Value::Null));
    assert_eq!((&entries[1]["class"], entries[1]["lifted_by"].as_str()), (&json!("marketing"), Some(USER)));
}

#[tokio::test]
async fn consent_is_recorded_with_its_basis_source_and_text() {
    let fixture = CrmFixture::start().await;
    let id = fixture.create_person("acme", "Ada", ADDRESS).await;
    let path = format!("contacts/{id}/consents");
    let given = json!({
        "class": "marketing", "is_given": true, "basis": "consent", "source": "web form", "text_version": "2026-01",
    });
    let f = &fixture;
    f.one_change("acme", async { f.post("acme", &path, given.clone()).await.with_status(201) }).await;
    let mut withdrawn = given.clone();
    withdrawn["is_given"] = json!(false);
    let change = f.one_change("acme", async { f.post("acme", &path, withdrawn).await.with_status(201) }).await;
    assert_eq!((change.event_type.as_str(), &change.old["is_given"]), ("CRM.CONSENT.RECORDED", &json!(true)));
    let consents = fixture.get("acme", &path).await.with_status(200)["consents"].clone();
    assert_eq!((&consents[0]["is_given"], &consents[1]["is_given"]), (&json!(false), &json!(true)));
    assert_eq!((&consents[1]["source"], &consents[1]["text_version"]), (&json!("web form"), &json!("2026-01")));
    let mut unknown = given;
    unknown["basis"] = json!("because");
    assert_eq!(fixture.post("acme", &path, unknown).await.status, 422);
}

#[tokio::test]
async fn an_object_has_one_owner_and_the_previous_one_becomes_an_assignee() {
    let fixture = CrmFixture::start().await;
    let f = &fixture;
    fixture.put("acme", "assignments/loan/L-1/ann", json!({ "duty": "owner" })).await.with_status(200);
    let change = f
        .one_change("acme", async {
            f.put("acme", "assignments/loan/L-1/bob", json!({ "duty": "owner" })).await.with_status(200)
        })
        .await;
    assert_eq!((change.event_type.as_str(), &change.old["owner_id"]), ("CRM.ASSIGNMENT.SET", &json!("ann")));
    fixture.put("acme", "assignments/loan/L-2/ann", json!({ "duty": "assignee" })).await.with_status(200);
    let of_loan = fixture.get("acme", "assignments?object_type=loan&object_id=L-1").await.with_status(200);
    let duties: Vec<_> = of_loan["assignments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["user_id"].as_str().unwrap(), one["duty"].as_str().unwrap()))
        .collect();
    assert_eq!(duties, [("ann", "assignee"), ("bob", "owner")]);
    let page = fixture.get("acme", "assignments?user=ann&limit=1").await.with_status(200);
    assert_eq!((page["assignments"][0]["object_id"].as_str(), page["next"].as_str()), (Some("L-1"), Some("loan/L-1")));
    let page = fixture.get("acme", "assignments?user=ann&limit=1&cursor=loan%2FL-1").await.with_status(200);
    assert_eq!((page["assignments"][0]["object_id"].as_str(), &page["next"]), (Some("L-2"), &Value::Null));
    let change =
        f.one_change("acme", async { f.delete("acme", "assignments/loan/L-1/ann").await.with_status(200) }).await;
    assert_eq!(change.event_type, "CRM.ASSIGNMENT.REMOVED");
    assert_eq!(fixture.get("acme", "assignments").await.status, 422);
}
