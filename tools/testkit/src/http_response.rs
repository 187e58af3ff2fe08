//! A complete HTTP response, for assertions.

use reqwest::{RequestBuilder, Response, header::HeaderMap};
use serde_json::Value;

/// A response whose body has been read.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as JSON; `null` if it is not JSON.
    pub body: Value,
    /// The body as text; empty if it is not UTF-8.
    pub text: String,
}

impl HttpResponse {
    /// Sends the request and reads the response. Panics if the server does not respond.
    pub async fn to(request: RequestBuilder) -> Self {
        Self::read(request.send().await.expect("the server responds")).await.expect("the response can be read")
    }

    /// Sends the request and reads the response. Fails if the connection breaks, for tests that kill the server.
    pub async fn try_to(request: RequestBuilder) -> reqwest::Result<Self> {
        Self::read(request.send().await?).await
    }

    async fn read(response: Response) -> reqwest::Result<Self> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Self { status, headers, body, text: String::from_utf8(bytes.to_vec()).unwrap_or_default() })
    }

    /// Returns the body and asserts this status.
    #[track_caller]
    pub fn with_status(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// Returns a header's value if it is present and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the paths of the fields that a problem document reports, sorted.
    pub fn wrong_fields(&self) -> Vec<&str> {
        let errors = self.body["errors"].as_array();
        let mut paths: Vec<&str> = errors.into_iter().flatten().filter_map(|error| error["path"].as_str()).collect();
        paths.sort_unstable();
        paths
    }
}
