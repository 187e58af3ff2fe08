//! Reports about mails: recorded once, in any order, and what follows from them.

use crate::support::{CrmFixture, SentMail, WEBHOOK_SECRET};
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

const TENANT: &str = "acme";

async fn start() -> CrmFixture {
    CrmFixture::start_with(|settings| settings.resend_webhook_secret = WEBHOOK_SECRET.to_owned()).await
}

fn days_ago(days: i64) -> Timestamp {
    let now = Timestamp::from_second(Timestamp::now().as_second()).expect("a time");
    now - SignedDuration::from_hours(24 * days)
}

fn hard() -> Value {
    json!({ "type": "Permanent", "subType": "General", "message": "550 5.1.1 user unknown" })
}

fn soft() -> Value {
    json!({ "type": "Transient", "subType": "MailboxFull", "message": "452 4.2.2 mailbox full" })
}

async fn soft_bounce(fixture: &CrmFixture, mail: &SentMail, days: i64) {
    let id = Uuid::now_v7().to_string();
    fixture.report(mail, &id, "email.bounced", days_ago(days), soft()).await.with_status(200);
}

#[tokio::test]
async fn a_hard_bounce_suppresses_every_class_and_is_recorded_once() {
    let fixture = start().await;
    let mail = fixture.insert_mail(TENANT, "transactional", &["ada@example.org"]).await;
    for status in ["recorded", "duplicate", "duplicate"] {
        let answer = fixture.report(&mail, "msg_1", "email.bounced", days_ago(0), hard()).await.with_status(200);
        assert_eq!(answer["status"], status);
    }
    assert_eq!(fixture.feedback_of(&mail).await.as_deref(), Some("bounced"));
    assert_eq!(fixture.count_reports(&mail).await, 1);
    let suppressions = fixture.suppressions(TENANT, "ada@example.org").await;
    assert_eq!(suppressions, [("*".to_owned(), "hard_bounce".to_owned(), None)]);
    for entry in ["CRM.EMAIL.BOUNCED", "CRM.SUPPRESSION.ADDED"] {
        assert_eq!(fixture.count_audit_entries(TENANT, entry).await, 1, "{entry}");
    }
    let published = fixture.published("crm.email.bounced.v1").await;
    assert_eq!(published.len(), 1);
    assert_eq!(published[0]["is_hard"], true);
    assert_eq!(published[0]["status_code"], "5.1.1");
    assert_eq!(published[0]["correlation_id"], "story-of-the-mail");
    for change in fixture.changes(TENANT).await {
        assert!(!change.document.contains("example.org"), "{}", change.document);
    }
    assert!(!published[0].to_string().contains("example.org"));
}

/// Returns the orders in which four reports arrive, some of them twice.
fn orders() -> Vec<Vec<usize>> {
    let mut orders: Vec<Vec<usize>> = Vec::new();
    for first in 0..4 {
        for second in (0..4).filter(|second| *second != first) {
            let mut rest: Vec<usize> = (0..4).filter(|other| ![first, second].contains(other)).collect();
            orders.push([vec![first, second], rest.clone(), vec![first]].concat());
            rest.reverse();
            orders.push([vec![first, second, second], rest].concat());
        }
    }
    orders
}

#[tokio::test]
async fn reports_in_any_order_and_number_end_in_the_same_state() {
    let fixture = start().await;
    for (kinds, state, reasons) in [
        (["email.delivered", "email.delivery_delayed", "email.bounced", "email.complained"], "complained", 1),
        (["email.delivered", "email.delivery_delayed", "email.delivered", "email.bounced"], "bounced", 0),
        (["email.delivery_delayed", "email.delivery_delayed", "email.delivered", "email.delivered"], "delivered", 0),
    ] {
        for (number, order) in orders().iter().enumerate() {
            let address = format!("{state}{number}@example.org");
            let mail = fixture.insert_mail(TENANT, "marketing", &[&address]).await;
            for index in order {
                let id = format!("{}-{index}", mail.id);
                let at = days_ago(4 - *index as i64);
                fixture.report(&mail, &id, kinds[*index], at, soft()).await.with_status(200);
            }
            assert_eq!(fixture.feedback_of(&mail).await.as_deref(), Some(state), "{order:?}");
            assert_eq!(fixture.count_reports(&mail).await, 4, "{order:?}");
            assert_eq!(fixture.suppressions(TENANT, &address).await.len(), reasons, "{order:?}");
        }
    }
}

#[tokio::test]
async fn a_recipient_of_whom_nothing_was_known_becomes_accepted() {
    let fixture = start().await;
    for (kind, bounce) in [("email.delivered", json!(null)), ("email.bounced", soft())] {
        let mail = fixture.insert_mail(TENANT, "transactional", &["ada@example.org"]).await;
        let unknown = format!(
            "UPDATE crm.email_recipient SET state = 'unknown' WHERE email_id = '{0}';
             UPDATE crm.email SET status = 'unknown' WHERE email_id = '{0}'",
            mail.id
        );
        fixture.execute(&unknown).await;
        fixture.report(&mail, &mail.id.to_string(), kind, days_ago(0), bounce).await.with_status(200);
        let state: String =
            fixture.query("SELECT state FROM crm.email_recipient WHERE email_id = $1", &[&mail.id]).await;
        let status: String = fixture.query("SELECT status FROM crm.email WHERE email_id = $1", &[&mail.id]).await;
        assert_eq!((state.as_str(), status.as_str()), ("accepted", "sent"), "{kind}");
    }
}

#[tokio::test]
async fn soft_bounces_of_two_mails_suppress_for_a_week_and_a_delivery_ends_it() {
    let fixture = start().await;
    let first = fixture.insert_mail(TENANT, "transactional", &["ada@example.org"]).await;
    let second = fixture.insert_mail(TENANT, "transactional", &["Ada@example.org"]).await;
    for days in [3, 2, 1] {
        soft_bounce(&fixture, &first, days).await;
    }
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, [], "three reports about one mail");
    soft_bounce(&fixture, &second, 0).await;
    let expected = ("*".to_owned(), "soft_bounce".to_owned(), Some(days_ago(-7)));
    let suppressions = fixture.suppressions(TENANT, "ada@example.org").await;
    let close = |at: Option<Timestamp>| at.map(|at| at.as_second() / 600);
    assert_eq!(suppressions.len(), 1);
    assert!((&suppressions[0].0, &suppressions[0].1) == (&expected.0, &expected.1));
    assert!(close(suppressions[0].2).unwrap().abs_diff(close(expected.2).unwrap()) <= 1, "{suppressions:?}");
    let third = fixture.insert_mail(TENANT, "transactional", &["ada@example.org"]).await;
    fixture.report(&third, "msg_d", "email.delivered", Timestamp::now(), json!(null)).await.with_status(200);
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, []);
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.SUPPRESSION.REMOVED").await, 1);
}

#[tokio::test]
async fn a_delivery_ends_neither_a_complaint_nor_a_hard_bounce() {
    let fixture = start().await;
    let mail = fixture.insert_mail(TENANT, "legal", &["ada@example.org"]).await;
    fixture.report(&mail, "msg_1", "email.complained", days_ago(2), json!(null)).await.with_status(200);
    fixture.report(&mail, "msg_2", "email.bounced", days_ago(1), hard()).await.with_status(200);
    let later = fixture.insert_mail(TENANT, "legal", &["ada@example.org"]).await;
    fixture.report(&later, "msg_3", "email.delivered", days_ago(0), json!(null)).await.with_status(200);
    let reasons = [("*".to_owned(), "complaint".to_owned(), None), ("*".to_owned(), "hard_bounce".to_owned(), None)];
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, reasons);
}

#[tokio::test]
async fn too_many_complaints_stop_a_class_until_the_stop_is_lifted() {
    let fixture = start().await;
    let complain = async |class: &str, number: usize| {
        let mail = fixture.insert_mail(TENANT, class, &[&format!("{class}{number}@example.org")]).await;
        fixture
            .report(&mail, &mail.id.to_string(), "email.complained", days_ago(0), json!(null))
            .await
            .with_status(200);
    };
    for number in 0..5 {
        let stops = fixture.get(TENANT, "class-stops").await.with_status(200);
        assert_eq!(stops["class_stops"], json!([]), "{number} complaints");
        complain("marketing", number).await;
        complain("legal", number).await;
    }
    let stops = fixture.get(TENANT, "class-stops").await.with_status(200);
    assert_eq!(stops["class_stops"][0]["mail_class"], "marketing");
    assert_eq!(stops["class_stops"].as_array().map(Vec::len), Some(1), "legal mail never stops");
    assert_eq!(fixture.get("globex", "class-stops").await.with_status(200)["class_stops"], json!([]));
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.CLASS.STOPPED").await, 1);
    let reason = json!({ "reason": "the list was cleaned" });
    let lift = fixture.call(TENANT, Method::DELETE, "class-stops/marketing", Some(&reason)).await;
    assert_eq!(lift.with_status(200)["class_stops"], json!([]));
    complain("marketing", 5).await;
    assert_eq!(fixture.get(TENANT, "class-stops").await.with_status(200)["class_stops"], json!([]));
    fixture.call(TENANT, Method::DELETE, "class-stops/marketing", Some(&reason)).await.with_status(404);
}
