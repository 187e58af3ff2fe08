//! A client of the orders API.

use onceward_testkit::{Fleet, HttpResponse};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use std::time::Duration;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The API's address and a client.
#[derive(Clone)]
pub struct ApiClient {
    http: Client,
    url: String,
}

impl ApiClient {
    pub fn new(url: &str) -> Self {
        onceward::install_crypto_provider();
        let http = Client::builder().timeout(REQUEST_TIMEOUT).build().expect("a client can be built");
        Self { http, url: url.to_owned() }
    }

    /// Uses the API of a fleet.
    pub fn of(fleet: &Fleet) -> Self {
        Self::new(&fleet.url())
    }

    /// Creates a request that the caller completes and sends.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// Creates a complete request that places an order.
    pub fn order(&self, token: &str, key: &str, body: &Value) -> RequestBuilder {
        self.request(Method::POST, "/api/orders").bearer_auth(token).header("idempotency-key", key).json(body)
    }

    /// Places an order.
    pub async fn place(&self, token: &str, key: &str, body: &Value) -> HttpResponse {
        HttpResponse::to(self.order(token, key, body)).await
    }

    pub async fn show(&self, token: &str, order_id: &str) -> HttpResponse {
        HttpResponse::to(self.request(Method::GET, &format!("/api/orders/{order_id}")).bearer_auth(token)).await
    }

    /// Requests a path that needs no token.
    pub async fn get(&self, path: &str) -> reqwest::Result<HttpResponse> {
        HttpResponse::try_to(self.request(Method::GET, path)).await
    }
}

/// Returns the order's id from the response to an accepted order.
#[track_caller]
pub fn order_id(response: &HttpResponse) -> String {
    assert_eq!(response.status, 202, "{}", response.text);
    response.body["orderId"].as_str().expect("a 202 contains the order's id").to_owned()
}
