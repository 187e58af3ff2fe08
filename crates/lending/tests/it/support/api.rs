//! Calling the API, with answers read as a whole.

use reqwest::{RequestBuilder, header::HeaderMap};
use serde_json::Value;
use uuid::Uuid;

/// A whole answer. `body` is `null` where there was no JSON.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    pub async fn to(request: RequestBuilder) -> Self {
        let response = request.send().await.expect("the API answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.expect("the answer can be read");
        Self { status, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) }
    }

    /// The body of an answer that has this status.
    #[track_caller]
    pub fn with_status(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The loan's id in the answer to an accepted command.
    #[track_caller]
    pub fn loan_id(&self) -> Uuid {
        assert_eq!(self.status, 202, "{}", self.body);
        self.body["loanId"].as_str().and_then(|id| id.parse().ok()).expect("a 202 names its loan")
    }

    /// The paths of the fields that were complained about, sorted.
    pub fn wrong_fields(&self) -> Vec<&str> {
        let errors = self.body["errors"].as_array();
        let mut paths: Vec<&str> = errors.into_iter().flatten().filter_map(|error| error["path"].as_str()).collect();
        paths.sort_unstable();
        paths
    }
}
