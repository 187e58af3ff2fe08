//! Contacts over the API: every change is audited once, without personal values.

use crate::support::CrmFixture;
use serde_json::{Value, json};

const ADDRESS: &str = "ada.lovelace@example.org";

fn id_of(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_else(|| panic!("{name} in {body}")).to_owned()
}

#[tokio::test]
async fn a_contact_is_created_shown_changed_and_listed() {
    let fixture = CrmFixture::start().await;
    let company = fixture
        .post("acme", "contacts", json!({ "kind": "company", "display_name": "Analytical Engines" }))
        .await
        .with_status(201);
    let body = json!({
        "kind": "person", "display_name": "Ada Lovelace", "given_name": "Ada", "phone": "+1 555 0100",
        "jurisdiction": "US-CA", "locale": "en-US", "company_id": company["contact_id"], "owner_id": "clerk",
        "tags": ["vip", "early"], "labels": { "region": "west" }, "custom": { "shoe_size": 38, "motto": "Onwards" },
        "addresses": [{ "address": ADDRESS, "label": "work" }, { "address": "ada@home.example", "is_primary": true }],
    });
    let created = fixture.post("acme", "contacts", body).await.with_status(201);
    let id = id_of(&created, "contact_id");
    assert_eq!(created["tags"], json!(["early", "vip"]));
    assert_eq!(created["addresses"][0]["is_primary"], false);
    assert_eq!(created["addresses"][1]["is_primary"], true);
    assert_eq!(fixture.get("acme", &format!("contacts/{id}")).await.with_status(200), created);

    let patch =
        json!({ "version": 1, "phone": null, "family_name": "King", "custom": { "motto": null, "member": true } });
    let changed = fixture.patch("acme", &format!("contacts/{id}"), patch).await.with_status(200);
    assert_eq!(
        (&changed["phone"], &changed["family_name"], &changed["version"]),
        (&Value::Null, &json!("King"), &json!(2))
    );
    assert_eq!(changed["custom"], json!({ "shoe_size": 38, "member": true }));
    assert_eq!(changed["given_name"], "Ada", "omitted fields stay as they are");

    for (query, found) in [
        ("name=ada%20l", true),
        ("name=lovelace", false),
        ("tag=vip", true),
        ("tag=late", false),
        ("owner=clerk", true),
        ("owner=boss", false),
        ("address=Ada.Lovelace@EXAMPLE.org", true),
        ("address=ada@example.org", false),
        ("tag=vip&owner=clerk&name=Ada", true),
        ("tag=vip&owner=boss", false),
    ] {
        let listed = fixture.get("acme", &format!("contacts?{query}")).await.with_status(200);
        let contacts = listed["contacts"].as_array().expect("a list");
        assert_eq!(contacts.iter().any(|contact| contact["contact_id"] == id.as_str()), found, "{query}: {listed}");
    }
}

#[tokio::test]
async fn a_change_that_is_based_on_an_old_version_is_refused() {
    let fixture = CrmFixture::start().await;
    let id = fixture.create_person("acme", "Ada", ADDRESS).await;
    let path = format!("contacts/{id}");
    fixture.patch("acme", &path, json!({ "version": 1, "phone": "1" })).await.with_status(200);
    for (path, body) in [
        (path.clone(), json!({ "version": 1, "phone": "2" })),
        (format!("{path}/tags"), json!({ "version": 1, "tags": ["vip"] })),
        (format!("{path}/labels"), json!({ "version": 1, "labels": { "a": "b" } })),
        (format!("{path}/owner"), json!({ "version": 1, "owner_id": "clerk" })),
    ] {
        let refused = if body.get("phone").is_some() {
            fixture.patch("acme", &path, body).await
        } else {
            fixture.put("acme", &path, body).await
        };
        assert_eq!(refused.body["code"], "contact-changed", "{path}: {}", refused.text);
        assert_eq!(refused.status, 409);
    }
    let shown = fixture.get("acme", &path).await.with_status(200);
    assert_eq!((&shown["phone"], &shown["version"]), (&json!("1"), &json!(2)));
}

#[tokio::test]
async fn every_kind_of_change_writes_one_audit_entry_with_old_and_new_value() {
    let fixture = CrmFixture::start().await;
    let id = fixture.create_person("acme", "Ada", ADDRESS).await;
    let path = format!("contacts/{id}");
    let f = &fixture;

    let change = f
        .one_change("acme", async {
            f.patch("acme", &path, json!({ "locale": "de", "phone": "1" })).await.with_status(200)
        })
        .await;
    assert_eq!(change.event_type, "CRM.CONTACT.UPDATED");
    assert_eq!((&change.old["locale"], &change.new["locale"]), (&Value::Null, &json!("de")));
    assert_eq!(change.new["phone"].as_str().map(str::len), Some(64), "a phone number is hashed");
    assert_eq!(change.payload["detail"], json!({ "fields": ["locale", "phone"] }));

    let change = f
        .one_change("acme", async {
            f.put("acme", &format!("{path}/tags"), json!({ "tags": ["vip"] })).await.with_status(200)
        })
        .await;
    assert_eq!(
        (change.event_type.as_str(), &change.old, &change.new),
        ("CRM.TAGS.CHANGED", &json!({ "tags": [] }), &json!({ "tags": ["vip"] }))
    );

    let change = f
        .one_change("acme", async {
            f.put("acme", &format!("{path}/labels"), json!({ "labels": { "tier": "gold" } })).await.with_status(200)
        })
        .await;
    assert_eq!(
        (change.event_type.as_str(), &change.new),
        ("CRM.LABELS.CHANGED", &json!({ "labels": { "tier": "gold" } }))
    );

    let change = f
        .one_change("acme", async {
            f.put("acme", &format!("{path}/owner"), json!({ "owner_id": "clerk" })).await.with_status(200)
        })
        .await;
    assert_eq!(
        (change.event_type.as_str(), &change.old, &change.new),
        ("CRM.OWNER.CHANGED", &json!({ "owner_id": null }), &json!({ "owner_id": "clerk" }))
    );

    let link = json!({ "object_type": "loan", "object_id": "L-1", "relation": "borrower" });
    let change = f
        .one_change("acme", async { f.post("acme", &format!("{path}/links"), link.clone()).await.with_status(201) })
        .await;
    assert_eq!((change.event_type.as_str(), &change.new), ("CRM.LINK.ADDED", &link));
    assert!(change.document.contains(r#""loanId":"L-1""#));
    let change = f
        .one_change("acme", async { f.delete("acme", &format!("{path}/links/loan/L-1")).await.with_status(200) })
        .await;
    assert_eq!((change.event_type.as_str(), &change.old), ("CRM.LINK.REMOVED", &link));

    let note = json!({ "body": "Prefers letters." });
    let change =
        f.one_change("acme", async { f.post("acme", &format!("{path}/notes"), note).await.with_status(201) }).await;
    assert_eq!(change.event_type, "CRM.NOTE.ADDED");
    let notes = f.get("acme", &format!("{path}/notes")).await.with_status(200);
    let note_id = id_of(&notes["notes"][0], "note_id");
    let removed = f
        .one_change("acme", async { f.delete("acme", &format!("{path}/notes/{note_id}")).await.with_status(200) })
        .await;
    assert_eq!((removed.event_type.as_str(), &removed.old), ("CRM.NOTE.REMOVED", &change.new));

    let rule = json!({ "demand": "consent", "reason": "The law." });
    let change = f
        .one_change("acme", async {
            f.put("acme", "jurisdiction-rules/US-CA/marketing", rule.clone()).await.with_status(200)
        })
        .await;
    assert_eq!((change.event_type.as_str(), &change.new), ("CRM.RULE.SET", &rule));
    let change = f
        .one_change("acme", async { f.delete("acme", "jurisdiction-rules/US-CA/marketing").await.with_status(200) })
        .await;
    assert_eq!((change.event_type.as_str(), &change.old), ("CRM.RULE.REMOVED", &rule));
}

#[tokio::test]
async fn a_change_that_changes_nothing_writes_nothing() {
    let fixture = CrmFixture::start().await;
    let id = fixture.create_person("acme", "Ada", ADDRESS).await;
    let path = format!("contacts/{id}");
    let link = json!({ "object_type": "loan", "object_id": "L-1" });
    let dnc = json!({ "class": "marketing", "reason": "asked by phone" });
    fixture.post("acme", &format!("{path}/links"), link.clone()).await.with_status(201);
    fixture.post("acme", &format!("{path}/do-not-contact"), dnc.clone()).await.with_status(201);
    fixture.put("acme", "assignments/loan/L-1/clerk", json!({ "duty": "owner" })).await.with_status(200);
    let before = fixture.changes("acme").await.len();
    let shown = fixture.get("acme", &path).await.with_status(200);

    let address = id_of(&shown["addresses"][0], "address_id");
    fixture
        .patch("acme", &path, json!({ "display_name": "Ada", "phone": null, "custom": { "x": null } }))
        .await
        .with_status(200);
    fixture.put("acme", &format!("{path}/tags"), json!({ "tags": [] })).await.with_status(200);
    fixture.put("acme", &format!("{path}/labels"), json!({ "labels": {} })).await.with_status(200);
    fixture.put("acme", &format!("{path}/owner"), json!({ "owner_id": null })).await.with_status(200);
    fixture
        .patch("acme", &format!("{path}/addresses/{address}"), json!({ "is_primary": true, "is_verified": false }))
        .await
        .with_status(200);
    fixture.post("acme", &format!("{path}/links"), link).await.with_status(200);
    fixture.post("acme", &format!("{path}/do-not-contact"), dnc).await.with_status(200);
    fixture.put("acme", "assignments/loan/L-1/clerk", json!({ "duty": "owner" })).await.with_status(200);

    assert_eq!(fixture.changes("acme").await.len(), before);
    assert_eq!(fixture.get("acme", &path).await.with_status(200), shown);
}

#[tokio::test]
async fn addresses_are_rows_with_flags_of_their_own() {
    let fixture = CrmFixture::start().await;
    let id = fixture.create_person("acme", "Ada", ADDRESS).await;
    let path = format!("contacts/{id}/addresses");
    let f = &fixture;
    let change = f
        .one_change("acme", async {
            f.post("acme", &path, json!({ "address": "Ada@home.example" })).await.with_status(201)
        })
        .await;
    assert_eq!((change.event_type.as_str(), &change.new["is_primary"]), ("CRM.ADDRESS.ADDED", &json!(false)));
    let twice = fixture.post("acme", &path, json!({ "address": "aDA@HOME.example" })).await;
    assert_eq!((twice.status, &twice.body["code"]), (409, &json!("already-exists")));
    let shown = fixture.get("acme", &format!("contacts/{id}")).await.with_status(200);
    let [first, second] = [0, 1].map(|index| id_of(&shown["addresses"][index], "address_id"));
    assert_eq!(shown["addresses"][1]["address"], "Ada@home.example", "the local part stays as written");

    let verify = json!({ "is_primary": true, "is_verified": true, "label": "home" });
    let change = f
        .one_change("acme", async { f.patch("acme", &format!("{path}/{second}"), verify).await.with_status(200) })
        .await;
    assert_eq!(change.event_type, "CRM.ADDRESS.UPDATED");
    assert_eq!((&change.old["is_verified"], &change.new["is_verified"]), (&json!(false), &json!(true)));
    assert_ne!(change.old["primary"], change.new["primary"]);
    let refused = fixture.patch("acme", &format!("{path}/{second}"), json!({ "is_primary": false })).await;
    assert_eq!((refused.status, refused.wrong_fields()), (422, vec!["/is_primary"]));

    let change =
        f.one_change("acme", async { f.delete("acme", &format!("{path}/{second}")).await.with_status(200) }).await;
    assert_eq!(change.event_type, "CRM.ADDRESS.REMOVED");
    let shown = fixture.get("acme", &format!("contacts/{id}")).await.with_status(200);
    assert_eq!(shown["addresses"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (id_of(&shown["addresses"][0], "address_id"), &shown["addresses"][0]["is_primary"]),
        (first, &json!(true))
    );
}

#[tokio::test]
async fn contacts_are_found_by_a_linked_object_and_listed_in_pages() {
    let fixture = CrmFixture::start().await;
    let mut ids = Vec::new();
    for name in ["Cleo", "anna", "Bert", "Ange"] {
        let id = fixture.create_person("acme", name, &format!("{name}@example.org")).await;
        let link = json!({ "object_type": "loan", "object_id": "L-7" });
        fixture.post("acme", &format!("contacts/{id}/links"), link).await.with_status(201);
        ids.push(id);
    }
    for (query, expected) in [
        ("object_type=loan&object_id=L-7", [3, 2, 1, 0].as_slice()),
        ("object_type=loan&object_id=L-8", &[]),
        ("name=AN", &[3, 1]),
        ("", &[3, 2, 1, 0]),
    ] {
        let mut found = Vec::new();
        let mut cursor = String::new();
        for _ in 0..=ids.len() {
            let page = fixture.get("acme", &format!("contacts?{query}&limit=1{cursor}")).await.with_status(200);
            found.extend(page["contacts"].as_array().unwrap().iter().map(|contact| id_of(contact, "contact_id")));
            let Some(next) = page["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        let expected: Vec<String> = expected.iter().map(|index| ids[*index].clone()).collect();
        assert_eq!(found, expected, "{query}");
    }
    assert_eq!(fixture.get("acme", "contacts?object_type=loan").await.status, 422);
}

#[tokio::test]
async fn erasing_a_contact_removes_what_is_personal_and_forgets_its_key() {
    let fixture = CrmFixture::start().await;
    let id = fixture.create_person("acme", "Ada Lovelace", ADDRESS).await;
    let path = format!("contacts/{id}");
    fixture
        .patch("acme", &path, json!({ "phone": "+1 555 0100", "custom": { "motto": "Onwards" } }))
        .await
        .with_status(200);
    fixture.post("acme", &format!("{path}/notes"), json!({ "body": "Secret." })).await.with_status(201);
    let f = &fixture;
    let change =
        f.one_change("acme", async { f.post_empty("acme", &format!("{path}/erase")).await.with_status(200) }).await;
    assert_eq!((change.event_type.as_str(), &change.new["is_erased"]), ("CRM.CONTACT.ERASED", &json!(true)));
    let erased = fixture.post_empty("acme", &format!("{path}/erase")).await.with_status(200);
    assert_eq!(
        (&erased["display_name"], &erased["phone"], &erased["addresses"]),
        (&json!(""), &Value::Null, &json!([]))
    );
    assert_eq!(fixture.count_audit_entries("acme", "CRM.CONTACT.ERASED").await, 1);
    let forgotten: bool =
        fixture.query("SELECT sealed IS NULL FROM crm.data_key WHERE key_id::text = $1", &[&id]).await;
    assert!(forgotten);
    let rows: String = fixture.query("SELECT concat(string_agg(c::text, ''), (SELECT string_agg(n::text, '') FROM crm.note n), (SELECT string_agg(a::text, '') FROM crm.contact_address a)) FROM crm.contact c", &[]).await;
    for personal in ["Lovelace", "555", "Onwards", "Secret", "example.org"] {
        assert!(!rows.contains(personal), "{personal} in {rows}");
    }
    let refused = fixture.patch("acme", &path, json!({ "phone": "1" })).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("contact-erased")));
    let listed = fixture.get("acme", "contacts").await.with_status(200);
    assert_eq!(listed["contacts"], json!([]));
}

#[tokio::test]
async fn the_audit_chain_contains_no_personal_value() {
    let fixture = CrmFixture::start().await;
    let id = fixture.create_person("acme", "Ada Lovelace", ADDRESS).await;
    let path = format!("contacts/{id}");
    let patch = json!({ "given_name": "Augusta", "family_name": "Byron", "phone": "+1 555 0100", "custom": { "motto": "Onwards" } });
    fixture.patch("acme", &path, patch).await.with_status(200);
    fixture.post("acme", &format!("{path}/notes"), json!({ "body": "Loves numbers." })).await.with_status(201);
    fixture
        .post("acme", &format!("{path}/addresses"), json!({ "address": "countess@home.example" }))
        .await
        .with_status(201);
    fixture.post_empty("acme", &format!("{path}/erase")).await.with_status(200);
    let changes = fixture.changes("acme").await;
    assert_eq!(changes.len(), 5);
    for change in changes {
        for personal in ["Ada", "Lovelace", "Augusta", "Byron", "555", "Onwards", "numbers", "example", "countess"] {
            assert!(!change.document.contains(personal), "{personal} in {}", change.document);
        }
    }
}

#[tokio::test]
async fn wrong_input_is_refused_with_the_field() {
    let fixture = CrmFixture::start().await;
    let id = fixture.create_person("acme", "Ada", ADDRESS).await;
    for (body, field) in [
        (json!({ "kind": "person" }), "/display_name"),
        (json!({ "kind": "robot", "display_name": "R" }), "/kind"),
        (json!({ "kind": "person", "display_name": "A\nB" }), "/display_name"),
        (json!({ "kind": "person", "display_name": "A", "jurisdiction": "usa" }), "/jurisdiction"),
        (json!({ "kind": "person", "display_name": "A", "company_id": id }), "/company_id"),
        (json!({ "kind": "person", "display_name": "A", "tags": ["Not Good"] }), "/tags/0"),
        (
            json!({ "kind": "person", "display_name": "A", "addresses": [{ "address": "a@b.c>\r\nRCPT TO:<x@y>" }] }),
            "/addresses/0/address",
        ),
        (
            json!({ "kind": "person", "display_name": "A", "addresses": [{ "address": "test@" }] }),
            "/addresses/0/address",
        ),
    ] {
        let refused = fixture.post("acme", "contacts", body.clone()).await;
        assert_eq!((refused.status, refused.wrong_fields()), (422, vec![field]), "{body}: {}", refused.text);
    }
    let many: serde_json::Map<String, Value> = (0..51).map(|n| (format!("f{n}"), json!(n))).collect();
    assert_eq!(fixture.patch("acme", &format!("contacts/{id}"), json!({ "custom": many })).await.status, 422);
    assert_eq!(fixture.changes("acme").await.len(), 1, "only the contact itself was created");
}
