//! The overfill proof with processes that are killed: respondents at a nearly full bucket use three API processes, and
//! two workers handle what these publish and release the places of silent respondents. All of them are killed in turn,
//! and requests without a response are repeated with the same key. An author raises the target, so that the bucket
//! stays nearly full.
//!
//! `ONCEWARD_OVERFILL_S` sets for how long; `ONCEWARD_SEED` repeats a run's choice of processes.

mod respondents;

use futures_util::future::join_all;
use onceward::broker::BusKind;
use onceward_testkit::{Bus, Executable, Fleet, PrivateDatabase, env_number, eventually, pending_work};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use reqwest::Method;
use respondents::{RespondentOutcome, SurveyApis};
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, HashSet},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};
use tokio::time::interval;
use tokio_postgres::Client;
use uuid::Uuid;

const DEFAULT_S: u64 = 12;
const CLIENTS: usize = 24;
const APIS: usize = 3;
/// The number of free places, and how many more respondents may be admitted.
const PLACES: i64 = 8;
const MAX_OVERFILL: i64 = 1;
const TICK: Duration = Duration::from_millis(10);
/// The number of ticks, and of respondents who finish, between two kills.
const TICKS_BETWEEN_KILLS: std::ops::Range<usize> = 5..50;
const RESPONDENTS_BETWEEN_KILLS: u64 = 10;
/// The maximum number of rounds of kills, for a machine that is too slow for everything to happen in time.
const MAX_ROUNDS: usize = 20;

/// What happened so far. The test must show every kind of outcome.
#[derive(Default)]
struct ObservedOutcomes {
    completed: Mutex<Vec<Uuid>>,
    vanished: Mutex<Vec<Uuid>>,
    quota_full: AtomicU64,
    left: AtomicU64,
    respondents: AtomicU64,
    checks: AtomicU64,
}

impl ObservedOutcomes {
    /// Returns whether every kind of outcome has happened.
    fn is_complete(&self) -> bool {
        let listed = [&self.completed, &self.vanished].map(|sessions| sessions.lock().len() as u64);
        let counted = [&self.quota_full, &self.left, &self.checks].map(|count| count.load(Relaxed));
        listed.iter().chain(&counted).all(|count| *count > 0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bucket_is_overfilled_and_nobody_completes_twice_when_processes_are_killed() {
    let seed = env_number("ONCEWARD_SEED").unwrap_or_else(rand::random);
    let length = Duration::from_secs(env_number("ONCEWARD_OVERFILL_S").unwrap_or(DEFAULT_S));
    eprintln!("quota kill test: seed {seed}, {length:?}");
    let bus = Bus::at(BusKind::Postgres, None);
    let database = PrivateDatabase::start(&program(), &bus).await;
    let (owner, watcher) = (database.owner().await, database.owner().await);
    let mut processes = SurveyProcesses::start(&database, &bus).await;
    let apis = SurveyApis::new(processes.urls());
    let (bucket, link) = apis.survey(PLACES, MAX_OVERFILL).await;

    let (observed, stop) = (ObservedOutcomes::default(), AtomicBool::new(false));
    let clients = async {
        join_all((0..CLIENTS).map(|_| run_client(&apis, &link, &observed, &stop))).await;
    };
    let raising = async {
        let mut pace = interval(TICK * 5);
        while !stop.load(Relaxed) {
            pace.tick().await;
            raise_target(&owner, &apis, &bucket).await;
        }
    };
    let killing = async {
        let kills = processes.kill_in_turn(&observed, seed, length).await;
        stop.store(true, Relaxed);
        kills
    };
    let ((), (), (), kills) = tokio::join!(clients, raising, watch_bucket(&watcher, &observed, &stop), killing);

    raise_target(&owner, &apis, &bucket).await;
    check_vanished_respondents_free_their_places(&owner, &apis, &bucket, &link, &observed).await;
    check(&owner, &observed).await;
    let broken = apis.broken.load(Relaxed);
    println!(
        "quota kill test: {kills} kills, {} completed, {} vanished, {} found the quota full, {} left, {} bucket checks, {broken} \
         connections broken, {} responses 503",
        observed.completed.lock().len(),
        observed.vanished.lock().len(),
        observed.quota_full.load(Relaxed),
        observed.left.load(Relaxed),
        observed.checks.load(Relaxed),
        apis.unavailable.load(Relaxed),
    );
    assert!(observed.is_complete() && broken > 0, "the load was too small to show anything");
    processes.stop().await;
}

/// Returns the program with places that expire soon and without a rate limit per address.
fn program() -> Executable {
    Executable::at(env!("CARGO_BIN_EXE_onceward"))
        .with("ONCEWARD_SURVEYS_RESERVATION_S", "1")
        .with("ONCEWARD_SURVEYS_EXPIRE_CRON", "* * * * * *")
        .with("ONCEWARD_SURVEYS_RATE_PER_S", "0")
}

/// Several API processes, each with its own address; the first fleet also has the workers.
struct SurveyProcesses(Vec<Fleet>);

impl SurveyProcesses {
    async fn start(database: &PrivateDatabase, bus: &Bus) -> Self {
        let mut fleets = vec![Fleet::start(&program(), database, bus).await];
        for _ in 1..APIS {
            let mut fleet = Fleet::without_processes(&program(), database, bus);
            fleet.start_process(Fleet::API);
            fleet.wait_until_ready(Fleet::API).await;
            fleets.push(fleet);
        }
        Self(fleets)
    }

    fn urls(&self) -> Vec<String> {
        self.0.iter().map(Fleet::url).collect()
    }

    /// Kills and replaces processes at random moments of the load for `length`, and each one at least once. Returns the
    /// number of kills.
    async fn kill_in_turn(&mut self, observed: &ObservedOutcomes, seed: u64, length: Duration) -> usize {
        let mut rng = StdRng::seed_from_u64(seed);
        let (began, mut kills, mut pace) = (Instant::now(), 0, interval(TICK));
        for round in 0.. {
            if began.elapsed() >= length && (observed.is_complete() || round >= MAX_ROUNDS) {
                break;
            }
            let mut victims: Vec<(usize, usize)> = (0..APIS).map(|fleet| (fleet, Fleet::API)).collect();
            victims.extend(Fleet::WORKERS.map(|worker| (0, worker)));
            victims.shuffle(&mut rng);
            for (fleet, number) in victims {
                let enough = observed.respondents.load(Relaxed) + RESPONDENTS_BETWEEN_KILLS;
                eventually("respondents finish", || async {
                    (observed.respondents.load(Relaxed) >= enough).then_some(())
                })
                .await;
                for _ in 0..rng.random_range(TICKS_BETWEEN_KILLS) {
                    pace.tick().await;
                }
                self.0[fleet].kill_and_replace(number).await;
                kills += 1;
            }
        }
        kills
    }

    async fn stop(self) {
        for fleet in self.0 {
            fleet.stop().await;
        }
    }
}

/// Runs one respondent after the other.
async fn run_client(apis: &SurveyApis, link: &str, observed: &ObservedOutcomes, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        match apis.run_respondent(link).await {
            (session, RespondentOutcome::Completed) => observed.completed.lock().push(session),
            (session, RespondentOutcome::Vanished) => observed.vanished.lock().push(session),
            (_, RespondentOutcome::QuotaFull) => drop(observed.quota_full.fetch_add(1, Relaxed)),
            (_, RespondentOutcome::Left) => drop(observed.left.fetch_add(1, Relaxed)),
        }
        observed.respondents.fetch_add(1, Relaxed);
    }
}

/// Sets the target to the filled places plus [`PLACES`].
async fn raise_target(owner: &Client, apis: &SurveyApis, bucket: &str) {
    let (_, filled, target) = bucket_counts(owner).await;
    if filled + PLACES != target {
        apis.author(Method::PATCH, bucket, &json!({"target": filled + PLACES})).await;
    }
}

/// Returns the bucket's reserved places, filled places and target.
async fn bucket_counts(owner: &Client) -> (i64, i64, i64) {
    let sql = "SELECT reserved_n::bigint, filled_n::bigint, target_n::bigint FROM surveys.quota_bucket";
    let row = owner.query_one(sql, &[]).await.expect("the bucket");
    (row.get(0), row.get(1), row.get(2))
}

/// Checks the bucket continuously; every query is one snapshot.
async fn watch_bucket(owner: &Client, observed: &ObservedOutcomes, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        check_not_overfilled(owner).await;
        observed.checks.fetch_add(1, Relaxed);
    }
}

/// Checks that no place too many was taken, and that the bucket's counts match its sessions.
async fn check_not_overfilled(owner: &Client) {
    let sql = "SELECT b.reserved_n::bigint, b.filled_n::bigint, (b.target_n + b.max_overfill)::bigint,
            (SELECT count(*) FROM surveys.session s WHERE b.bucket_id = ANY (s.held)),
            (SELECT count(*) FROM surveys.session s WHERE b.bucket_id = ANY (s.filled) AND s.status = 'completed')
        FROM surveys.quota_bucket b";
    let row = owner.query_one(sql, &[]).await.expect("the bucket");
    let [reserved, filled, limit, held, completed]: [i64; 5] = std::array::from_fn(|column| row.get(column));
    assert!(reserved + filled <= limit, "{reserved} reserved and {filled} filled of {limit}");
    assert_eq!((reserved, filled), (held, completed), "the bucket's counts are those of its sessions");
}

/// Checks that workers release the places of vanished respondents, and that then as many respondents complete as places
/// are free.
async fn check_vanished_respondents_free_their_places(
    owner: &Client,
    apis: &SurveyApis,
    bucket: &str,
    link: &str,
    observed: &ObservedOutcomes,
) {
    eventually("the places of silent respondents are released", || async {
        (bucket_counts(owner).await.0 == 0).then_some(())
    })
    .await;
    raise_target(owner, apis, bucket).await;
    for _ in 0..PLACES {
        let (session, token, response) = apis.start_session(link).await;
        assert_eq!(response["status"], "active", "every place can be taken again: {response}");
        let completed = apis.step(session, &token, "complete", &Value::Null).await;
        assert_eq!(completed["status"], "completed", "{completed}");
        observed.completed.lock().push(session);
    }
    assert_eq!(apis.start_session(link).await.2["reason"], "quota_full");
    let (reserved, filled, target) = bucket_counts(owner).await;
    assert_eq!((reserved, filled), (0, target));
}

/// Checks that every session that was reported "completed" is completed once: in the database, in the published
/// messages, and in the workers' counts.
async fn check(owner: &Client, observed: &ObservedOutcomes) {
    check_not_overfilled(owner).await;
    let reported: Vec<Uuid> = observed.completed.lock().clone();
    let distinct: HashSet<Uuid> = reported.iter().copied().collect();
    assert_eq!(distinct.len(), reported.len(), "two respondents share a session");
    let completed = session_ids(owner, "SELECT session_id FROM surveys.session WHERE status = 'completed'").await;
    let reported: BTreeSet<Uuid> = distinct.into_iter().collect();
    assert_eq!(
        completed.iter().copied().collect::<BTreeSet<_>>(),
        reported,
        "the reported sessions are those that completed"
    );
    let published = "SELECT DISTINCT ON (id) (payload ->> 'session_id')::uuid
        FROM onceward.outbox_messages
        WHERE event_type = 'session.completed.v1'";
    let published = session_ids(owner, published).await;
    assert_eq!(published.len(), reported.len(), "each completion is published once");
    assert_eq!(published.into_iter().collect::<BTreeSet<_>>(), reported);
    eventually("everything is handled", || async { pending_work(owner).await.is_empty().then_some(()) }).await;
    let counted = "SELECT coalesce(sum(n), 0)::bigint FROM surveys.dash_standing WHERE state = 'completed'";
    let counted: i64 = owner.query_one(counted, &[]).await.expect("a count").get(0);
    assert_eq!(usize::try_from(counted), Ok(reported.len()), "killed workers count each completion once");
}

async fn session_ids(owner: &Client, sql: &str) -> Vec<Uuid> {
    owner.query(sql, &[]).await.expect("sessions").iter().map(|row| row.get(0)).collect()
}
