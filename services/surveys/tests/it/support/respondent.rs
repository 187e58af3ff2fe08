//! A test client for respondents.

use super::{TestServer, author::id};
use onceward_testkit::HttpResponse;
use serde_json::{Value, json};
use uuid::Uuid;

/// A respondent with a session.
#[derive(Clone)]
pub struct RespondentClient<'s> {
    server: &'s TestServer,
    pub session: Uuid,
    pub token: String,
    /// The response to the start request.
    pub start_response: Value,
}

impl<'s> RespondentClient<'s> {
    /// Starts a session with the token of a link or an invite, and this key.
    pub async fn start(server: &'s TestServer, link: &str, key: &str) -> Self {
        let response = Self::try_start(server, link, key).await;
        assert!([200, 201].contains(&response.status), "{}", response.body);
        Self::resume(server, &response.body)
    }

    /// Continues a session from the response to its start request.
    pub fn resume(server: &'s TestServer, start_response: &Value) -> Self {
        let token = start_response["token"].as_str().expect("a token").to_owned();
        Self { server, session: id(&start_response["session_id"]), token, start_response: start_response.clone() }
    }

    /// Sends a start request. Short keys are padded to the length that links require.
    pub async fn try_start(server: &TestServer, link: &str, key: &str) -> HttpResponse {
        let key = format!("{key:_<24}");
        let request = server.http.post(format!("{}/runtime/start", server.url));
        HttpResponse::to(request.bearer_auth(link).header("idempotency-key", key)).await
    }

    pub async fn view(&self) -> HttpResponse {
        HttpResponse::to(self.server.http.get(self.path("")).bearer_auth(&self.token)).await
    }

    pub async fn answer(&self, page: &str, attempt: u32, answers: Value) -> HttpResponse {
        self.send(page, attempt, &answers).await.expect("the API responds")
    }

    pub async fn send(&self, page: &str, attempt: u32, answers: &Value) -> Result<HttpResponse, reqwest::Error> {
        let body = json!({"page_id": page, "attempt": attempt, "answers": answers});
        HttpResponse::try_to(self.server.http.post(self.path("/answers")).bearer_auth(&self.token).json(&body)).await
    }

    pub async fn complete(&self) -> HttpResponse {
        HttpResponse::to(self.server.http.post(self.path("/complete")).bearer_auth(&self.token)).await
    }

    pub async fn leave(&self) -> HttpResponse {
        let request = self.server.http.post(self.path("/terminate")).bearer_auth(&self.token);
        HttpResponse::to(request.json(&json!({"reason": "by_respondent"}))).await
    }

    pub fn path(&self, rest: &str) -> String {
        format!("{}/runtime/{}{rest}", self.server.url, self.session)
    }
}
