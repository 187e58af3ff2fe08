//! Places in buckets: reserved, filled, released, and never given out twice.

use crate::support::*;
use onceward_testkit::eventually;
use reqwest::Method;
use serde_json::json;

fn women() -> serde_json::Value {
    json!({"equals": {"question": "sex", "value": "f"}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_is_reserved_by_an_answer_and_filled_by_completing() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let buckets = json!({"buckets": [{"name": "women", "condition": women(), "target": 1}, {"name": "none", "condition": {"equals": {"question": "sex", "value": "x"}}, "target": 0, "max_overfill": 3}]});
    author.quotas(survey, &buckets).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let (ada, eve, sam) =
        (author.respondent(&link).await, author.respondent(&link).await, author.respondent(&link).await);
    assert_eq!(author.bucket_counts(survey, "women").await, (0, 0, 1));
    ada.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    assert_eq!(author.bucket_counts(survey, "women").await, (1, 0, 1));
    let full = json!({"status": "terminated", "reason": "quota_full"});
    assert_eq!(eve.answer("who", 1, json!({"age": 31, "sex": "f"})).await.with_status(200), full);
    assert_eq!(
        sam.answer("who", 1, json!({"age": 32, "sex": "x"})).await.with_status(200),
        full,
        "a bucket with target 0 is full from the start"
    );

    // Other answers release the place, and the next respondent gets it.
    ada.answer("who", 2, json!({"age": 30, "sex": "m"})).await.with_status(200);
    assert_eq!(author.bucket_counts(survey, "women").await, (0, 0, 1));
    let joan = author.respondent(&link).await;
    joan.answer("who", 1, json!({"age": 33, "sex": "f"})).await.with_status(200);
    joan.answer("what", 1, json!({})).await.with_status(200);
    assert_eq!(joan.complete().await.with_status(200), json!({"status": "completed"}));
    assert_eq!(author.bucket_counts(survey, "women").await, (0, 1, 1));
    for (event, times) in
        [("quota.reserved.v1", 2), ("quota.released.v1", 1), ("quota.finalized.v1", 1), ("quota.bucket_closed.v1", 2)]
    {
        assert_eq!(server.published_count(event).await, times, "{event}");
    }
    server.assert_places_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partial_reservation_is_never_kept() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let north = json!({"equals": {"question": "region", "value": "north"}});
    let quotas = json!({
        "buckets": [{"name": "everybody", "target": 100}, {"name": "women", "condition": women(), "target": 100}],
        "grids": [{"name": "cell", "dimensions": [[{"name": "f", "condition": women()}], [{"name": "north", "condition": north}]],
                   "cells": [{"at": ["f", "north"], "target": 0}]}]});
    author.quotas(survey, &quotas).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let ada = author.respondent(&link).await;
    assert_eq!(author.bucket_counts(survey, "everybody").await.0, 1, "a bucket for everybody is reserved at the start");
    let out = ada.answer("only", 1, json!({"sex": "f", "region": "north"})).await.with_status(200);
    assert_eq!(out["reason"], "quota_full");
    for bucket in ["everybody", "women", "cell: f × north"] {
        assert_eq!(author.bucket_counts(survey, bucket).await.0, 0, "{bucket}");
    }
    server.assert_places_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_off_the_path_do_not_count() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let tea = json!({"equals": {"question": "drink", "value": "tea"}});
    let talks = json!({"answered": {"question": "reason"}});
    author.quotas(survey, &json!({"buckets": [{"name": "tea", "condition": tea, "target": 5}, {"name": "talks", "condition": talks, "target": 5}]})).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let ada = author.respondent(&link).await;
    ada.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    ada.answer("what", 1, json!({"drink": ["tea", "water"]})).await.with_status(200);
    ada.answer("why", 1, json!({"reason": "it is warm"})).await.with_status(200);
    assert_eq!((author.bucket_counts(survey, "tea").await.0, author.bucket_counts(survey, "talks").await.0), (1, 1));
    ada.answer("what", 2, json!({})).await.with_status(200);
    assert_eq!(
        (author.bucket_counts(survey, "tea").await.0, author.bucket_counts(survey, "talks").await.0),
        (0, 0),
        "the last page is no longer on the path"
    );
    ada.complete().await.with_status(200);
    assert_eq!(
        (author.bucket_counts(survey, "tea").await, author.bucket_counts(survey, "talks").await),
        ((0, 0, 5), (0, 0, 5))
    );
    server.assert_places_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inactive_respondents_release_their_places_and_pass_the_gate_again() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    author.quotas(survey, &json!({"buckets": [{"name": "women", "condition": women(), "target": 1}]})).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let answers = json!({"sex": "f", "region": "north"});
    let (slow, quick) = (author.respondent(&link).await, author.respondent(&link).await);
    slow.answer("only", 1, answers.clone()).await.with_status(200);
    server.make_idle("acme", 1300).await;
    server.publish_expiry_tick("acme").await;
    server.wait_for_published("quota.released.v1", 1).await;
    assert_eq!(author.bucket_counts(survey, "women").await, (0, 0, 1));
    quick.answer("only", 1, answers.clone()).await.with_status(200);
    assert_eq!(slow.complete().await.with_status(200)["reason"], "quota_full", "another respondent has the place now");
    quick.leave().await.with_status(200);
    let late = author.respondent(&link).await;
    late.answer("only", 1, answers).await.with_status(200);
    server.make_idle("acme", 1300).await;
    server.publish_expiry_tick("acme").await;
    server.wait_for_published("quota.released.v1", 3).await;
    assert_eq!(
        late.complete().await.with_status(200)["status"],
        "completed",
        "the place was free and is reserved again"
    );
    assert_eq!(author.bucket_counts(survey, "women").await, (0, 1, 1));

    let gone = author.respondent(&link).await;
    server.make_idle("acme", 700_000).await;
    server.publish_expiry_tick("acme").await;
    eventually("the session ends", || async { (gone.view().await.body["reason"] == "expired").then_some(()) }).await;
    server.assert_places_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_below_the_places_taken_closes_the_bucket_and_keeps_the_places() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let buckets =
        author.quotas(survey, &json!({"buckets": [{"name": "women", "condition": women(), "target": 3}]})).await;
    let bucket = buckets[0].1;
    let (_, link) = author.collector(survey, json!({})).await;
    let answers = json!({"sex": "f", "region": "north"});
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(author.respondent(&link).await);
        all.last().unwrap().answer("only", 1, answers.clone()).await.with_status(200);
    }
    all[0].complete().await.with_status(200);
    let path = format!("/api/surveys/{survey}/quotas/{bucket}");
    let lowered = author.send(Method::PATCH, &path, Some(&json!({"target": 1}))).await.with_status(200);
    assert!(!lowered["closed_at"].is_null());
    assert_eq!(server.published_count("quota.bucket_closed.v1").await, 1);
    assert_eq!(author.bucket_counts(survey, "women").await, (2, 1, 1));
    let new = author.respondent(&link).await;
    assert_eq!(new.answer("only", 1, answers.clone()).await.with_status(200)["reason"], "quota_full");
    all[1].complete().await.with_status(200);
    all[2].leave().await.with_status(200);
    assert_eq!(author.bucket_counts(survey, "women").await, (0, 2, 1));

    // The constraint is the last line of defence: counts above the target may shrink, but never grow.
    let grow = "UPDATE surveys.quota_bucket SET reserved_n = reserved_n + 1 WHERE bucket_id = $1";
    let refused = server.owner.execute(grow, &[&bucket]).await.expect_err("the bucket is above its target");
    assert_eq!(refused.as_db_error().unwrap().constraint(), Some("quota_never_overfills"));
    author.send(Method::PATCH, &path, Some(&json!({"target": 3}))).await.with_status(200);
    server.owner.execute(grow, &[&bucket]).await.expect("one place is free again");
    server.owner.execute(grow, &[&bucket]).await.expect_err("a second place is not free");
    let cheat = "UPDATE surveys.quota_bucket SET limit_n = 100, reserved_n = 50 WHERE bucket_id = $1";
    server.owner.execute(cheat, &[&bucket]).await.expect_err("the limit cannot be set");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retired_bucket_admits_everybody_and_releases_its_places() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&definition()).await;
    let buckets =
        author.quotas(survey, &json!({"buckets": [{"name": "women", "condition": women(), "target": 1}]})).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let (ada, eve) = (author.respondent(&link).await, author.respondent(&link).await);
    ada.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    let path = format!("/api/surveys/{survey}/quotas/{}", buckets[0].1);
    author.send(Method::DELETE, &path, None).await.with_status(200);
    eve.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    ada.answer("what", 1, json!({"drink": ["tea"]})).await.with_status(200);
    assert_eq!(author.bucket_counts(survey, "women").await.0, 0, "the next step released the place");
    let unknown = json!({"buckets": [{"name": "odd", "condition": {"answered": {"question": "shoe"}}, "target": 1}]});
    let refused = author.post(&format!("/api/surveys/{survey}/quotas"), &unknown).await;
    assert_eq!((refused.status, refused.wrong_fields()), (422, vec!["/quotas/odd/condition/answered"]));
}
