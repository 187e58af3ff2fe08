//! Definitions that processes share by a Redis.

use crate::support::*;
use onceward_surveys::{Settings, settings::Secret};
use onceward_testkit::{left_out, redis_url};
use serde_json::json;
use uuid::Uuid;

fn name(survey: Uuid) -> String {
    format!("onceward:surveys:definition:acme:{survey}:1")
}

async fn first_page(author: &Author<'_>, survey: Uuid) -> String {
    let (_, link) = author.collector(survey, json!({})).await;
    author.respondent(&link).await.begun["page"]["id"].as_str().expect("a page").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_is_shared_and_what_cannot_be_used_is_read_from_the_database() {
    if left_out("redis") {
        return;
    }
    let house = House::with(Settings { cache_url: Secret(redis_url()), ..settings() }, None).await;
    let author = house.author("acme");
    let redis = redis::Client::open(redis_url()).expect("a URL");
    let mut redis = redis.get_multiplexed_async_connection().await.expect("it is there");

    let shared = author.survey(&definition()).await;
    assert_eq!(first_page(&author, shared).await, "who");
    let text: String = redis::cmd("GET").arg(name(shared)).query_async(&mut redis).await.expect("it is shared");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["pages"][0]["id"], "who");

    // As another process would have left it.
    let known = author.survey(&definition()).await;
    let other = short_definition().to_string();
    redis::cmd("SET").arg(name(known)).arg(other).query_async::<()>(&mut redis).await.expect("it can be written");
    assert_eq!(first_page(&author, known).await, "only");

    let spoiled = author.survey(&definition()).await;
    redis::cmd("SET").arg(name(spoiled)).arg("{").query_async::<()>(&mut redis).await.expect("it can be written");
    assert_eq!(first_page(&author, spoiled).await, "who");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_redis_nobody_waits_in_vain() {
    for url in ["redis://127.0.0.1:1/", "not a url"] {
        let house = House::with(Settings { cache_url: Secret(url.into()), ..settings() }, None).await;
        let author = house.author("acme");
        let survey = author.survey(&definition()).await;
        assert_eq!(first_page(&author, survey).await, "who");
    }
}
