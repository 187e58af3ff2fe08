//! Definitions and rate limits that processes share through a Redis.

use crate::support::*;
use onceward_surveys::{Settings, limits::RespondentRateLimiter, settings::SecretSetting};
use onceward_testkit::{left_out, redis_url};
use serde_json::json;
use std::{net::IpAddr, time::Instant};
use uuid::Uuid;

fn redis_key(survey: Uuid) -> String {
    format!("onceward:surveys:definition:acme:{survey}:1")
}

async fn first_page(author: &AuthorClient<'_>, survey: Uuid) -> String {
    let (_, link) = author.collector(survey, json!({})).await;
    author.respondent(&link).await.start_response["page"]["id"].as_str().expect("a page").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_are_shared_and_unusable_ones_are_read_from_the_database() {
    if left_out("redis") {
        return;
    }
    let server = TestServer::start_with(Settings { cache_url: SecretSetting(redis_url()), ..settings() }, None).await;
    let author = server.author("acme");
    let redis = redis::Client::open(redis_url()).expect("a URL");
    let mut redis = redis.get_multiplexed_async_connection().await.expect("Redis accepts connections");

    let shared = author.survey(&definition()).await;
    assert_eq!(first_page(&author, shared).await, "who");
    let text: String =
        redis::cmd("GET").arg(redis_key(shared)).query_async(&mut redis).await.expect("the definition is stored");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["pages"][0]["id"], "who");

    // As another process would have stored it.
    let known = author.survey(&definition()).await;
    let other = short_definition().to_string();
    redis::cmd("SET").arg(redis_key(known)).arg(other).query_async::<()>(&mut redis).await.expect("the key can be set");
    assert_eq!(first_page(&author, known).await, "only");

    let corrupt = author.survey(&definition()).await;
    redis::cmd("SET").arg(redis_key(corrupt)).arg("{").query_async::<()>(&mut redis).await.expect("the key can be set");
    assert_eq!(first_page(&author, corrupt).await, "who");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn respondents_are_served_without_the_redis() {
    for url in ["redis://127.0.0.1:1/", "not a url"] {
        let server =
            TestServer::start_with(Settings { cache_url: SecretSetting(url.into()), ..settings() }, None).await;
        let author = server.author("acme");
        let survey = author.survey(&definition()).await;
        assert_eq!(first_page(&author, survey).await, "who");
    }
}

/// Creates a limiter as a separate process would have.
fn limiter(url: String, rate_per_s: u32, rate_burst: u32) -> RespondentRateLimiter {
    RespondentRateLimiter::new(&Settings { cache_url: SecretSetting(url), rate_per_s, rate_burst, ..settings() })
}

/// Sends requests from one address to each limiter in turn. Returns how many passed, and how many more the rate may
/// have allowed in that time.
async fn count_allowed(limiters: &[RespondentRateLimiter], requests: usize) -> (usize, usize) {
    let (collector, address) = (Uuid::now_v7(), IpAddr::from([192, 0, 2, 1]));
    let (started_at, mut allowed) = (Instant::now(), 0);
    for number in 0..requests {
        allowed += usize::from(limiters[number % limiters.len()].check(collector, address).await.is_ok());
    }
    (allowed, started_at.elapsed().as_secs() as usize + 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_share_a_redis_share_one_rate() {
    if left_out("redis") {
        return;
    }
    let two = [limiter(redis_url(), 1, 20), limiter(redis_url(), 1, 20)];
    let (together, refilled) = count_allowed(&two, 80).await;
    assert!((20..=20 + refilled).contains(&together), "{together} allowed, up to {refilled} of them refilled");
    // A slow machine refills; in the same time, two separate buckets would have let 40 through.
    let apart = [limiter(String::new(), 1, 20), limiter(String::new(), 1, 20)];
    assert!(count_allowed(&apart, 80).await.0 >= 40);

    let refused = async || {
        let (collector, address) = (Uuid::now_v7(), IpAddr::from([192, 0, 2, 2]));
        let [first, second] = &[limiter(redis_url(), 1, 1), limiter(redis_url(), 1, 1)];
        first.check(collector, address).await.ok()?;
        second.check(collector, address).await.err()
    };
    assert_eq!(
        onceward_testkit::eventually("the second limiter refuses", refused).await,
        1,
        "the refusal contains the seconds to wait"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_unavailable_each_process_limits_on_its_own() {
    let (alone, refilled) = count_allowed(&[limiter("redis://127.0.0.1:1/".into(), 1, 10)], 40).await;
    assert!((10..=10 + refilled).contains(&alone), "{alone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_share_one_rate_per_address() {
    if left_out("redis") {
        return;
    }
    let settings = || Settings { cache_url: SecretSetting(redis_url()), rate_per_s: 1, rate_burst: 15, ..settings() };
    let server = TestServer::start_with(settings(), None).await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let second = server.another_instance(settings()).await;
    let (started_at, mut started) = (Instant::now(), 0);
    for number in 0..60 {
        let url = if number % 2 == 0 { &server.url } else { &second.url };
        let request = server.http.post(format!("{url}/runtime/start")).bearer_auth(&link);
        let answer = HttpResponse::to(request.header("idempotency-key", Uuid::new_v4().to_string())).await;
        started += u64::from(answer.status == 201);
    }
    let max = 15 + started_at.elapsed().as_secs() + 1;
    assert!((15..=max).contains(&started), "{started} started, {max} allowed");
}
