//! Steps that come at the same time go through together, and nobody notices.

mod crowd;

use crate::support::*;
use crowd::{Ask, LINE, What, commits, crowd, house};
use onceward_testkit::eventually;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

fn woman() -> Value {
    json!({"sex": "f", "region": "north"})
}

/// A survey with a bucket for women; gives it with the token of a link.
async fn survey(author: &Author<'_>, target: usize) -> (Uuid, String) {
    let survey = author.survey(&short_definition()).await;
    let women = json!({"equals": {"question": "sex", "value": "f"}});
    author.quotas(survey, &json!({"buckets": [{"name": "women", "condition": women, "target": target}]})).await;
    let (_, link) = author.collector(survey, json!({})).await;
    (survey, link)
}

async fn respondents<'h>(author: &Author<'h>, link: &str, count: usize) -> Vec<Respondent<'h>> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(author.respondent(link).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_come_together_share_a_commit_and_each_has_its_own_story() {
    let house = house().await;
    let author = house.author("acme");
    let (survey, link) = survey(&author, LINE - 2).await;
    let all = respondents(&author, &link, LINE).await;
    let asks: Vec<Ask<'_>> = all.iter().map(|one| Ask::new(one, What::Answer(1, woman()))).collect();
    let answers = crowd(&house, &link, &asks).await;
    assert!(commits(&house, &asks).await <= 2, "one for all, and one for who may have come again");
    let full = answers.into_iter().filter(|one| one.clone().with_status(200)["reason"] == "quota_full").count();
    assert_eq!((full, author.fill(survey, "women").await.0), (2, LINE as i64 - 2));

    let sql = "SELECT o.payload, o.correlation_id, o.event_type
        FROM onceward.outbox_messages o JOIN onceward.message_log m ON m.id = o.id AND m.copy = 0
        WHERE o.event_type IN ('answer.upserted.v1', 'quota.reserved.v1', 'session.terminated.v1') ORDER BY m.seq";
    let told = house.owner.query(sql, &[]).await.expect("what was told");
    let stories: BTreeMap<String, &str> =
        asks.iter().map(|ask| (ask.who.session.to_string(), ask.story.as_str())).collect();
    let (mut reserved, mut heard) = (Vec::new(), 0);
    for row in &told {
        let payload: Value = row.get(0);
        if let Some(story) = stories.get(payload["session_id"].as_str().expect("a session")) {
            assert_eq!(row.get::<_, &str>(1), *story, "{payload}");
            heard += 1;
        }
        if row.get::<_, &str>(2) == "quota.reserved.v1" {
            reserved.push(payload["reserved"].as_u64().expect("a count"));
        }
    }
    assert_eq!(heard, 2 * LINE, "a page each, and a place or an end");
    assert_eq!(reserved, (1..=LINE as u64 - 2).collect::<Vec<_>>(), "as if they had come one after the other");

    let inside: Vec<Ask<'_>> = asks.iter().map(|ask| Ask::new(&ask.who, What::Complete)).collect();
    let ends = crowd(&house, &link, &inside).await;
    let completed = ends.into_iter().filter(|one| one.clone().with_status(200)["status"] == "completed").count();
    assert_eq!(completed, LINE - 2);
    assert_eq!(author.fill(survey, "women").await, (0, LINE as i64 - 2, LINE as i64 - 2));
    assert_eq!(house.told("quota.bucket_closed.v1").await, 1);
    house.places_add_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_one_is_told_to_that_one() {
    let house = house().await;
    let author = house.author("acme");
    let (survey, link) = survey(&author, 100).await;
    let all = respondents(&author, &link, LINE).await;
    all[0].leave().await.with_status(200);
    all[1].answer("only", 1, woman()).await.with_status(200);
    all[2].answer("only", 2, woman()).await.with_status(200);
    house.owner.execute("DELETE FROM surveys.session WHERE session_id = $1", &[&all[3].session]).await.expect("gone");
    let mut asks = vec![
        Ask::new(&all[0], What::Answer(1, woman())),
        Ask::new(&all[1], What::Answer(1, woman())),
        Ask::new(&all[2], What::Answer(1, woman())),
        Ask::new(&all[3], What::Answer(1, woman())),
        Ask::new(&all[4], What::Page("other")),
        Ask::new(&all[5], What::Answer(1, json!({"sex": "f", "region": "west"}))),
        Ask::new(&all[6], What::Complete),
        Ask::new(&all[7], What::Leave),
    ];
    let good: Vec<Ask<'_>> = all[8..].iter().map(|one| Ask::new(one, What::Answer(1, woman()))).collect();
    asks.extend(good.iter().cloned());
    let answers = crowd(&house, &link, &asks).await;
    let found: Vec<(u16, &str)> =
        answers.iter().map(|one| (one.status, one.body["code"].as_str().unwrap_or_default())).collect();
    let wrong =
        [(409, "session-ended"), (200, ""), (409, "attempt-conflict"), (404, "not-found"), (409, "page-not-due")];
    assert_eq!(found[..5], wrong);
    assert_eq!(found[5..8], [(422, "validation-failed"), (409, "page-not-due"), (200, "")]);
    assert!(found[8..].iter().all(|(status, _)| *status == 200), "{found:?}");
    assert!(commits(&house, &good).await <= 2, "they went together all the same");
    assert_eq!(author.fill(survey, "women").await.0, 2 + good.len() as i64);
    house.places_add_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_the_database_refuses_fails_alone() {
    let house = house().await;
    let author = house.author("acme");
    let (survey, link) = survey(&author, 100).await;
    let all = respondents(&author, &link, LINE).await;
    let refuse = format!(
        "CREATE FUNCTION surveys.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON surveys.answer FOR EACH ROW WHEN (NEW.session_id = '{}')
         EXECUTE FUNCTION surveys.refuse()",
        all[5].session
    );
    house.owner.batch_execute(&refuse).await.expect("a trigger");
    let asks: Vec<Ask<'_>> = all.iter().map(|one| Ask::new(one, What::Answer(1, woman()))).collect();
    let statuses: Vec<u16> = crowd(&house, &link, &asks).await.iter().map(|one| one.status).collect();
    let expected: Vec<u16> = (0..LINE).map(|number| if number == 5 { 500 } else { 200 }).collect();
    assert_eq!(statuses, expected);
    assert_eq!(author.fill(survey, "women").await.0, LINE as i64 - 1);
    let told: i64 = house.told("quota.reserved.v1").await;
    assert_eq!(told, LINE as i64 - 1, "nothing is told of who was refused, nor of anybody twice");
    house.places_add_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_of_one_session_are_taken_one_after_the_other() {
    let house = house().await;
    let author = house.author("acme");
    let (survey, link) = survey(&author, 100).await;
    let all = respondents(&author, &link, LINE / 2).await;
    let man = json!({"sex": "m", "region": "north"});
    let asks: Vec<Ask<'_>> = all
        .iter()
        .flat_map(|one| [Ask::new(one, What::Answer(1, woman())), Ask::new(one, What::Answer(2, man.clone()))])
        .collect();
    let answers = crowd(&house, &link, &asks).await;
    for (pair, one) in answers.chunks(2).zip(&all) {
        // Which of them comes first is the network's to say.
        assert!([200, 409].contains(&pair[0].status) && pair[1].status == 200, "{pair:?}");
        assert_eq!(one.look().await.with_status(200)["answers"]["only"], man);
    }
    assert_eq!(author.fill(survey, "women").await.0, 0, "who had a place gave it back");
    let taken = answers.iter().filter(|one| one.status == 200).count() as i64;
    let others: i64 = 3 + LINE as i64 - asks.len() as i64;
    assert_eq!(house.told("answer.upserted.v1").await, taken + others);
    house.places_add_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_cut_off_cuts_nobody_else() {
    let house = house().await;
    let author = house.author("acme");
    let (survey, link) = survey(&author, 100).await;
    let all = respondents(&author, &link, LINE).await;
    let asks: Vec<Ask<'_>> = all.iter().map(|one| Ask::new(one, What::Answer(1, woman()))).collect();
    // The last in the order of locks is locked, so that its group is held up in the middle of its transaction.
    let (cut, last) = (&asks[0], &asks[LINE - 1]);
    let keeper = house.platform.database().owner().await;
    let lock = format!("BEGIN; SELECT 1 FROM surveys.session WHERE session_id = '{}' FOR UPDATE", last.who.session);
    keeper.batch_execute(&lock).await.expect("it can be locked");
    let on_its_way =
        "SELECT count(*) FROM (SELECT 1 FROM surveys.session WHERE session_id = $1 FOR UPDATE SKIP LOCKED) s";
    let cutting = async {
        eventually("it is on its way", || async {
            (house.ask::<i64>(on_its_way, &[&cut.who.session]).await == 0).then_some(())
        })
        .await;
        cut.cut.notify_one();
        keeper.batch_execute("COMMIT").await.expect("it is let go");
    };
    let (answers, ()) = tokio::join!(crowd(&house, &link, &asks), cutting);
    assert!(answers[1..].iter().all(|one| one.status == 200), "{answers:?}");
    eventually("all of them have their places, also who did not wait for it", || async {
        (author.fill(survey, "women").await.0 == LINE as i64).then_some(())
    })
    .await;
    assert_eq!(cut.who.answer("only", 1, woman()).await.with_status(200)["next"], "complete");
    house.places_add_up().await;
}
