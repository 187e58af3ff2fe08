//! Places in buckets: reserved, filled, given back, and never given out twice.

use crate::support::*;
use onceward_testkit::eventually;
use reqwest::Method;
use serde_json::json;

fn women() -> serde_json::Value {
    json!({"equals": {"question": "sex", "value": "f"}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_is_reserved_by_an_answer_and_filled_by_completing() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&definition()).await;
    let buckets = json!({"buckets": [{"name": "women", "condition": women(), "target": 1}, {"name": "none", "condition": {"equals": {"question": "sex", "value": "x"}}, "target": 0, "max_overfill": 3}]});
    author.quotas(survey, &buckets).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let (ada, eve, sam) =
        (author.respondent(&link).await, author.respondent(&link).await, author.respondent(&link).await);
    assert_eq!(author.fill(survey, "women").await, (0, 0, 1));
    ada.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    assert_eq!(author.fill(survey, "women").await, (1, 0, 1));
    let full = json!({"status": "terminated", "reason": "quota_full"});
    assert_eq!(eve.answer("who", 1, json!({"age": 31, "sex": "f"})).await.with_status(200), full);
    assert_eq!(
        sam.answer("who", 1, json!({"age": 32, "sex": "x"})).await.with_status(200),
        full,
        "a quota of 0 is full at once"
    );

    // Other answers give the place back, and the next one gets it.
    ada.answer("who", 2, json!({"age": 30, "sex": "m"})).await.with_status(200);
    assert_eq!(author.fill(survey, "women").await, (0, 0, 1));
    let joan = author.respondent(&link).await;
    joan.answer("who", 1, json!({"age": 33, "sex": "f"})).await.with_status(200);
    joan.answer("what", 1, json!({})).await.with_status(200);
    assert_eq!(joan.complete().await.with_status(200), json!({"status": "completed"}));
    assert_eq!(author.fill(survey, "women").await, (0, 1, 1));
    for (event, times) in
        [("quota.reserved.v1", 2), ("quota.released.v1", 1), ("quota.finalized.v1", 1), ("quota.bucket_closed.v1", 2)]
    {
        assert_eq!(house.told(event).await, times, "{event}");
    }
    house.places_add_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partial_reservation_never_survives() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&short_definition()).await;
    let north = json!({"equals": {"question": "region", "value": "north"}});
    let quotas = json!({
        "buckets": [{"name": "everybody", "target": 100}, {"name": "women", "condition": women(), "target": 100}],
        "grids": [{"name": "cell", "dimensions": [[{"name": "f", "condition": women()}], [{"name": "north", "condition": north}]],
                   "cells": [{"at": ["f", "north"], "target": 0}]}]});
    author.quotas(survey, &quotas).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let ada = author.respondent(&link).await;
    assert_eq!(author.fill(survey, "everybody").await.0, 1, "a bucket for everybody is reserved at the start");
    let out = ada.answer("only", 1, json!({"sex": "f", "region": "north"})).await.with_status(200);
    assert_eq!(out["reason"], "quota_full");
    for bucket in ["everybody", "women", "cell: f × north"] {
        assert_eq!(author.fill(survey, bucket).await.0, 0, "{bucket}");
    }
    house.places_add_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_beside_the_way_do_not_count() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&definition()).await;
    let tea = json!({"equals": {"question": "drink", "value": "tea"}});
    let talks = json!({"answered": {"question": "reason"}});
    author.quotas(survey, &json!({"buckets": [{"name": "tea", "condition": tea, "target": 5}, {"name": "talks", "condition": talks, "target": 5}]})).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let ada = author.respondent(&link).await;
    ada.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    ada.answer("what", 1, json!({"drink": ["tea", "water"]})).await.with_status(200);
    ada.answer("why", 1, json!({"reason": "it is warm"})).await.with_status(200);
    assert_eq!((author.fill(survey, "tea").await.0, author.fill(survey, "talks").await.0), (1, 1));
    ada.answer("what", 2, json!({})).await.with_status(200);
    assert_eq!(
        (author.fill(survey, "tea").await.0, author.fill(survey, "talks").await.0),
        (0, 0),
        "the last page is skipped now"
    );
    ada.complete().await.with_status(200);
    assert_eq!((author.fill(survey, "tea").await, author.fill(survey, "talks").await), ((0, 0, 5), (0, 0, 5)));
    house.places_add_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_respondents_give_their_places_back_and_pass_the_gate_again() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&short_definition()).await;
    author.quotas(survey, &json!({"buckets": [{"name": "women", "condition": women(), "target": 1}]})).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let answers = json!({"sex": "f", "region": "north"});
    let (slow, quick) = (author.respondent(&link).await, author.respondent(&link).await);
    slow.answer("only", 1, answers.clone()).await.with_status(200);
    house.silence("acme", 1300).await;
    house.tick("acme").await;
    house.eventually_told("quota.released.v1", 1).await;
    assert_eq!(author.fill(survey, "women").await, (0, 0, 1));
    quick.answer("only", 1, answers.clone()).await.with_status(200);
    assert_eq!(slow.complete().await.with_status(200)["reason"], "quota_full", "the place is another's now");
    quick.leave().await.with_status(200);
    let late = author.respondent(&link).await;
    late.answer("only", 1, answers).await.with_status(200);
    house.silence("acme", 1300).await;
    house.tick("acme").await;
    house.eventually_told("quota.released.v1", 3).await;
    assert_eq!(late.complete().await.with_status(200)["status"], "completed", "the place was free, and is taken again");
    assert_eq!(author.fill(survey, "women").await, (0, 1, 1));

    let gone = author.respondent(&link).await;
    house.silence("acme", 700_000).await;
    house.tick("acme").await;
    eventually("the session ends", || async { (gone.look().await.body["reason"] == "expired").then_some(()) }).await;
    house.places_add_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_below_what_is_taken_closes_the_bucket_and_takes_nothing_away() {
    let house = House::open().await;
    let author = house.author("acme");
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
    assert_eq!(house.told("quota.bucket_closed.v1").await, 1);
    assert_eq!(author.fill(survey, "women").await, (2, 1, 1));
    let new = author.respondent(&link).await;
    assert_eq!(new.answer("only", 1, answers.clone()).await.with_status(200)["reason"], "quota_full");
    all[1].complete().await.with_status(200);
    all[2].leave().await.with_status(200);
    assert_eq!(author.fill(survey, "women").await, (0, 2, 1));

    // The constraint is the last line: what is over the target may shrink, and nothing makes it grow.
    let grow = "UPDATE surveys.quota_bucket SET reserved_n = reserved_n + 1 WHERE bucket_id = $1";
    let refused = house.owner.execute(grow, &[&bucket]).await.expect_err("it is over its target");
    assert_eq!(refused.as_db_error().unwrap().constraint(), Some("quota_never_overfills"));
    author.send(Method::PATCH, &path, Some(&json!({"target": 3}))).await.with_status(200);
    house.owner.execute(grow, &[&bucket]).await.expect("there is one place again");
    house.owner.execute(grow, &[&bucket]).await.expect_err("and not two");
    let cheat = "UPDATE surveys.quota_bucket SET limit_n = 100, reserved_n = 50 WHERE bucket_id = $1";
    house.owner.execute(cheat, &[&bucket]).await.expect_err("the limit is not for setting");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_retired_lets_everybody_go() {
    let house = House::open().await;
    let author = house.author("acme");
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
    assert_eq!(author.fill(survey, "women").await.0, 0, "the next step gave the place back");
    let unknown = json!({"buckets": [{"name": "odd", "condition": {"answered": {"question": "shoe"}}, "target": 1}]});
    let refused = author.post(&format!("/api/surveys/{survey}/quotas"), &unknown).await;
    assert_eq!((refused.status, refused.wrong()), (422, vec!["quotas[\"odd\"].condition.answered"]));
}
