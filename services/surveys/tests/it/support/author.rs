//! A test client for authors.

use super::{RespondentClient, TestServer};
use onceward_testkit::HttpResponse;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

/// A user of a tenant, with every role.
pub struct AuthorClient<'s> {
    pub server: &'s TestServer,
    token: String,
}

impl<'s> AuthorClient<'s> {
    pub fn new(server: &'s TestServer, tenant: &str) -> Self {
        Self { server, token: server.platform.token(tenant) }
    }

    pub async fn get(&self, path: &str) -> HttpResponse {
        self.send(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends a command without a body.
    pub async fn post_empty(&self, path: &str) -> HttpResponse {
        self.send(Method::POST, path, None).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> HttpResponse {
        let request = self.server.http.request(method, format!("{}{path}", self.server.url)).bearer_auth(&self.token);
        let request = request.header("idempotency-key", Uuid::now_v7().to_string());
        HttpResponse::to(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    /// Creates and publishes a survey.
    pub async fn survey(&self, definition: &Value) -> Uuid {
        let body = json!({"title": "Drinks", "definition": definition});
        let survey = id(&self.post("/api/surveys", &body).await.with_status(201)["survey_id"]);
        self.post_empty(&format!("/api/surveys/{survey}/publish")).await.with_status(200);
        survey
    }

    /// Creates an open collector. Returns its id and the token of its link.
    pub async fn collector(&self, survey: Uuid, overrides: Value) -> (Uuid, String) {
        let mut body = json!({"name": "everywhere", "kind": "link"});
        for (name, value) in overrides.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let created = self.post(&format!("/api/surveys/{survey}/collectors"), &body).await.with_status(201);
        let collector = id(&created["collector_id"]);
        self.post_empty(&format!("/api/collectors/{collector}/open")).await.with_status(200);
        (collector, created["token"].as_str().unwrap_or_default().to_owned())
    }

    /// Creates invites and returns their tokens.
    pub async fn invites(&self, collector: Uuid, count: u32) -> Vec<String> {
        let body = json!({ "count": count });
        let created = self.post(&format!("/api/collectors/{collector}/invites"), &body).await.with_status(201);
        created["invites"].as_array().unwrap().iter().map(|one| one["token"].as_str().unwrap().to_owned()).collect()
    }

    /// Creates buckets. Returns all buckets of the survey, by name.
    pub async fn quotas(&self, survey: Uuid, body: &Value) -> Vec<(String, Uuid)> {
        let created = self.post(&format!("/api/surveys/{survey}/quotas"), body).await.with_status(201);
        let buckets = created["buckets"].as_array().unwrap().iter();
        buckets.map(|one| (one["name"].as_str().unwrap().to_owned(), id(&one["bucket_id"]))).collect()
    }

    /// Returns the bucket's counts: reserved, filled, target.
    pub async fn bucket_counts(&self, survey: Uuid, name: &str) -> (i64, i64, i64) {
        let shown = self.get(&format!("/api/surveys/{survey}/quotas")).await.with_status(200);
        let bucket = shown["buckets"].as_array().unwrap().iter().find(|one| one["name"] == name).expect("the bucket");
        let count = |name: &str| bucket[name].as_i64().expect("a count");
        (count("reserved"), count("filled"), count("target"))
    }

    /// Starts a session as a new respondent.
    pub async fn respondent(&self, link: &str) -> RespondentClient<'s> {
        RespondentClient::start(self.server, link, &Uuid::now_v7().to_string()).await
    }
}

pub fn id(value: &Value) -> Uuid {
    value.as_str().and_then(|id| id.parse().ok()).expect("an id")
}
