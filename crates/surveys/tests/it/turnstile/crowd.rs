//! Respondents who are sure to come at the same time: the turnstile is held up until all of them wait.

use crate::support::*;
use futures_util::future::join_all;
use onceward_testkit::eventually;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Notify;
use uuid::Uuid;

/// How many may wait.
pub const LINE: usize = 12;
/// How many groups go at once.
const GROUPS: i64 = 2;

/// What a respondent asks for, and in which story.
#[derive(Clone)]
pub struct Ask<'h> {
    pub who: Respondent<'h>,
    pub what: What,
    pub story: String,
    /// When the request is cut off.
    pub cut: Arc<Notify>,
}

#[derive(Clone)]
pub enum What {
    Answer(u32, Value),
    Page(&'static str),
    Complete,
    Leave,
}

impl<'h> Ask<'h> {
    pub fn new(who: &Respondent<'h>, what: What) -> Self {
        Self { who: who.clone(), what, story: Uuid::now_v7().to_string(), cut: Arc::default() }
    }

    pub async fn send(&self, house: &House) -> Answer {
        let (path, body) = match &self.what {
            What::Answer(attempt, answers) => {
                ("/answers", json!({"page_id": "only", "attempt": attempt, "answers": answers}))
            }
            What::Page(page) => ("/answers", json!({"page_id": page, "attempt": 1, "answers": {}})),
            What::Complete => ("/complete", json!({})),
            What::Leave => ("/terminate", json!({"reason": "by_respondent"})),
        };
        let request = house.http.post(self.who.path(path)).bearer_auth(&self.who.token).json(&body);
        Answer::to(request.header("x-correlation-id", &self.story)).await
    }

    /// Comes again until there is room in the line, and notes when there is none. One that is cut off has no status.
    async fn insist(&self, house: &House, full: &Notify) -> Answer {
        loop {
            let answer = tokio::select! {
                answer = self.send(house) => answer,
                () = self.cut.notified() => return Answer { status: 0, headers: HeaderMap::new(), body: Value::Null },
            };
            if answer.status != 503 {
                return answer;
            }
            assert!(answer.headers.contains_key("retry-after"));
            assert_eq!(answer.problem(503), "overloaded");
            full.notify_one();
            tokio::task::yield_now().await;
        }
    }
}

/// A house in whose lines few may wait.
pub async fn house() -> House {
    House::with(onceward_surveys::Settings { steps_waiting_max: LINE, ..settings() }, None).await
}

/// Lets all of them in at once, but for one at most: it is told that the line is full, and comes again.
pub async fn crowd(house: &House, link: &str, asks: &[Ask<'_>]) -> Vec<Answer> {
    let author = house.author("acme");
    let mut others = Vec::new();
    for _ in 0..GROUPS as usize + LINE + 1 - asks.len() {
        let who = author.respondent(link).await;
        others.push(Ask::new(&who, What::Answer(1, json!({"sex": "m", "region": "south"}))));
    }
    let (first, more) = others.split_at(GROUPS as usize);
    let keeper = house.platform.database().owner().await;
    let sessions = first.iter().map(|one| format!("'{}'", one.who.session)).collect::<Vec<_>>().join(",");
    let lock = format!("BEGIN; SELECT 1 FROM surveys.session WHERE session_id IN ({sessions}) FOR UPDATE");
    keeper.batch_execute(&lock).await.expect("the sessions can be locked");
    let full = Notify::new();
    let held_up = join_all(first.iter().map(|one| one.send(house)));
    let behind = async {
        held_up_by_locks(house, GROUPS).await;
        join_all(asks.iter().chain(more).map(|one| one.insist(house, &full))).await
    };
    let release = async {
        full.notified().await;
        keeper.batch_execute("COMMIT").await.expect("the sessions are let go");
    };
    let (first, mut behind, ()) = tokio::join!(held_up, behind, release);
    let more = behind.split_off(asks.len());
    first.into_iter().chain(more).for_each(|answer| drop(answer.with_status(200)));
    behind
}

/// So many transactions wait for a lock.
async fn held_up_by_locks(house: &House, count: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("they wait for locks", || async { (house.ask::<i64>(sql, &[]).await == count).then_some(()) }).await;
}

/// In how many commits the sessions were written last.
pub async fn commits(house: &House, asks: &[Ask<'_>]) -> i64 {
    let sessions: Vec<Uuid> = asks.iter().map(|ask| ask.who.session).collect();
    house.ask("SELECT count(DISTINCT xmin::text) FROM surveys.session WHERE session_id = ANY ($1)", &[&sessions]).await
}
