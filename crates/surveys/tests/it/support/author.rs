//! An author at work.

use super::{Answer, House, Respondent};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

/// A user of a tenant, with every role.
pub struct Author<'h> {
    pub house: &'h House,
    token: String,
}

impl<'h> Author<'h> {
    pub fn new(house: &'h House, tenant: &str) -> Self {
        Self { house, token: house.platform.token(tenant) }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    /// A command without a body.
    pub async fn order(&self, path: &str) -> Answer {
        self.send(Method::POST, path, None).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let request = self.house.http.request(method, format!("{}{path}", self.house.url)).bearer_auth(&self.token);
        let request = request.header("idempotency-key", Uuid::now_v7().to_string());
        Answer::to(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    /// A survey that is published.
    pub async fn survey(&self, definition: &Value) -> Uuid {
        let body = json!({"title": "Drinks", "definition": definition});
        let survey = id(&self.post("/api/surveys", &body).await.with_status(201)["survey_id"]);
        self.order(&format!("/api/surveys/{survey}/publish")).await.with_status(200);
        survey
    }

    /// An open collector; gives its id and the token of its link.
    pub async fn collector(&self, survey: Uuid, differs: Value) -> (Uuid, String) {
        let mut body = json!({"name": "everywhere", "kind": "link"});
        for (name, value) in differs.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let made = self.post(&format!("/api/surveys/{survey}/collectors"), &body).await.with_status(201);
        let collector = id(&made["collector_id"]);
        self.order(&format!("/api/collectors/{collector}/open")).await.with_status(200);
        (collector, made["token"].as_str().unwrap_or_default().to_owned())
    }

    /// The tokens of new invites.
    pub async fn invites(&self, collector: Uuid, count: u32) -> Vec<String> {
        let body = json!({ "count": count });
        let made = self.post(&format!("/api/collectors/{collector}/invites"), &body).await.with_status(201);
        made["invites"].as_array().unwrap().iter().map(|one| one["token"].as_str().unwrap().to_owned()).collect()
    }

    /// New buckets; gives all of the survey's, by name.
    pub async fn quotas(&self, survey: Uuid, body: &Value) -> Vec<(String, Uuid)> {
        let made = self.post(&format!("/api/surveys/{survey}/quotas"), body).await.with_status(201);
        let buckets = made["buckets"].as_array().unwrap().iter();
        buckets.map(|one| (one["name"].as_str().unwrap().to_owned(), id(&one["bucket_id"]))).collect()
    }

    /// How full the bucket of this name is: reserved, filled, target.
    pub async fn fill(&self, survey: Uuid, name: &str) -> (i64, i64, i64) {
        let shown = self.get(&format!("/api/surveys/{survey}/quotas")).await.with_status(200);
        let bucket = shown["buckets"].as_array().unwrap().iter().find(|one| one["name"] == name).expect("the bucket");
        let count = |name: &str| bucket[name].as_i64().expect("a count");
        (count("reserved"), count("filled"), count("target"))
    }

    /// A respondent who has begun.
    pub async fn respondent(&self, link: &str) -> Respondent<'h> {
        Respondent::start(self.house, link, &Uuid::now_v7().to_string()).await
    }
}

pub fn id(value: &Value) -> Uuid {
    value.as_str().and_then(|id| id.parse().ok()).expect("an id")
}
