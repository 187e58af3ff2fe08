//! A respondent at work.

use super::{Answer, House, author::id};
use serde_json::{Value, json};
use uuid::Uuid;

/// Somebody with a session.
#[derive(Clone)]
pub struct Respondent<'h> {
    house: &'h House,
    pub session: Uuid,
    pub token: String,
    /// What the start was answered with.
    pub begun: Value,
}

impl<'h> Respondent<'h> {
    /// Begins by the token of a link or an invite, with this key.
    pub async fn start(house: &'h House, link: &str, key: &str) -> Self {
        let answer = Self::try_start(house, link, key).await;
        assert!([200, 201].contains(&answer.status), "{}", answer.body);
        Self::resume(house, &answer.body)
    }

    /// Goes on with what a start was answered with.
    pub fn resume(house: &'h House, begun: &Value) -> Self {
        let token = begun["token"].as_str().expect("a token").to_owned();
        Self { house, session: id(&begun["session_id"]), token, begun: begun.clone() }
    }

    pub async fn try_start(house: &House, link: &str, key: &str) -> Answer {
        let request = house.http.post(format!("{}/runtime/start", house.url));
        Answer::to(request.bearer_auth(link).header("idempotency-key", key)).await
    }

    pub async fn look(&self) -> Answer {
        Answer::to(self.house.http.get(self.path("")).bearer_auth(&self.token)).await
    }

    pub async fn answer(&self, page: &str, attempt: u32, answers: Value) -> Answer {
        self.send(page, attempt, &answers).await.expect("the API answers")
    }

    pub async fn send(&self, page: &str, attempt: u32, answers: &Value) -> Result<Answer, reqwest::Error> {
        let body = json!({"page_id": page, "attempt": attempt, "answers": answers});
        Answer::try_to(self.house.http.post(self.path("/answers")).bearer_auth(&self.token).json(&body)).await
    }

    pub async fn complete(&self) -> Answer {
        Answer::to(self.house.http.post(self.path("/complete")).bearer_auth(&self.token)).await
    }

    pub async fn leave(&self) -> Answer {
        let request = self.house.http.post(self.path("/terminate")).bearer_auth(&self.token);
        Answer::to(request.json(&json!({"reason": "by_respondent"}))).await
    }

    pub fn path(&self, rest: &str) -> String {
        format!("{}/runtime/{}{rest}", self.house.url, self.session)
    }
}
