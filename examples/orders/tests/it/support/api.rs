//! Calling the API, with answers read as a whole.

use onceward_testkit::Fleet;
use reqwest::{Client, Method, RequestBuilder, header::HeaderMap};
use serde_json::Value;
use std::time::Duration;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the API is, and a way to get there.
#[derive(Clone)]
pub struct Api {
    http: Client,
    url: String,
}

/// A whole answer. `body` is `null` where there was no JSON.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The order's id in the answer to an accepted order.
    pub fn order_id(&self) -> String {
        assert_eq!(self.status, 202, "{}", self.body);
        self.body["orderId"].as_str().expect("a 202 names its order").to_owned()
    }
}

impl Api {
    pub fn new(url: &str) -> Self {
        onceward::cli::install_crypto();
        let http = Client::builder().timeout(REQUEST_TIMEOUT).build().expect("a client can be built");
        Self { http, url: url.to_owned() }
    }

    /// The API of a fleet.
    pub fn of(fleet: &Fleet) -> Self {
        Self::new(&fleet.url())
    }

    /// A request that the caller completes; sent with [`answer`].
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// An order as a request that lacks nothing.
    pub fn order(&self, token: &str, key: &str, body: &Value) -> RequestBuilder {
        self.request(Method::POST, "/api/orders").bearer_auth(token).header("idempotency-key", key).json(body)
    }

    pub async fn place(&self, token: &str, key: &str, body: &Value) -> Answer {
        answer(self.order(token, key, body)).await.expect("the API answers")
    }

    pub async fn show(&self, token: &str, order_id: &str) -> Answer {
        let request = self.request(Method::GET, &format!("/api/orders/{order_id}")).bearer_auth(token);
        answer(request).await.expect("the API answers")
    }

    /// A path that needs no token.
    pub async fn get(&self, path: &str) -> Result<Answer, reqwest::Error> {
        answer(self.request(Method::GET, path)).await
    }
}

/// Sends a request and reads the answer.
pub async fn answer(request: RequestBuilder) -> Result<Answer, reqwest::Error> {
    let response = request.send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = serde_json::from_slice(&response.bytes().await?).unwrap_or(Value::Null);
    Ok(Answer { status, headers, body })
}
