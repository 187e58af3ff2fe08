//! A drill with real processes: eight of them, with eight workers each, call a destination that is dead for a while.
//!
//! `ONCEWARD_DRILL_OUTAGE_SECONDS` sets the length of the outage: 600 is the full drill, and the pauses of the breaker grow with it.

use crate::support::{HandlerCall, Job, QUEUE, count, drained, publish_names, quick, service, write_effect};
use onceward::{
    BreakerSettings, CallError, Config, Consumer, Destination, Failure, LeaseContext, LeasedHandler, Platform, Queue,
    Received, Service, Tx, runtime::ProcessRuntime,
};
use onceward_testkit::{Executable, Scratch, ServerProcess, TestPlatform, eventually, eventually_within};
use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

const SMS: &str = "sms";
const PROCESSES: usize = 8;
const WORKERS: usize = 8;
const MESSAGES: usize = 1_000;
const SHORT_OUTAGE_S: u64 = 12;
/// The calls after the opening, however long the outage is.
const MAX_CALLS_AFTER_OPENING: usize = 40;

const DATABASE: &str = "ONCEWARD_DRILL_DATABASE";
const ADDRESS: &str = "ONCEWARD_DRILL_ADDRESS";
const OUTAGE: &str = "ONCEWARD_DRILL_OUTAGE_SECONDS";

fn outage() -> Duration {
    let seconds = env::var(OUTAGE).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(SHORT_OUTAGE_S))
}

/// The first pause, which doubles once: 15 s and 30 s in an outage of ten minutes.
fn pause_ms() -> u64 {
    u64::try_from(outage().as_millis()).unwrap_or(u64::MAX) / 40
}

/// Calls the destination: it answers with one byte, or closes the connection.
struct SmsHandler {
    address: String,
}

impl LeasedHandler for SmsHandler {
    type Event = Job;
    type Work = ();

    async fn perform(&self, lease: &LeaseContext, received: &Received<'_, Job>) -> Result<(), Failure> {
        let call = async {
            let failed = |error: std::io::Error| CallError::Failed(error.to_string());
            let mut connection = TcpStream::connect(&self.address).await.map_err(failed)?;
            connection.read_u8().await.map_err(failed)
        };
        lease.call(SMS, received)?.run(|_| call).await?;
        Ok(())
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Job>, (): &()) -> Result<(), Failure> {
        write_effect(tx, &HandlerCall::of(received, &received.event)).await
    }
}

fn sms_service(address: &str) -> Service {
    let handler = SmsHandler { address: address.to_owned() };
    let consumer = Consumer::leased("probe", QUEUE).on(handler).concurrency(WORKERS).retry(quick(3));
    let breaker = BreakerSettings { pause_ms: pause_ms(), max_pause_ms: 2 * pause_ms(), ..BreakerSettings::default() };
    service(Queue::work(QUEUE).dead_letter("probe.dlq"), consumer).destination(Destination::new(SMS).breaker(breaker))
}

/// The other system. It counts its calls, and answers them while it is up.
#[derive(Default)]
struct Receiver {
    is_up: AtomicBool,
    calls: AtomicUsize,
    failures: AtomicUsize,
    answered: AtomicUsize,
}

impl Receiver {
    async fn serve(self: Arc<Self>, listener: TcpListener) {
        while let Ok((mut connection, _)) = listener.accept().await {
            self.calls.fetch_add(1, SeqCst);
            if self.is_up.load(SeqCst) {
                self.answered.fetch_add(1, SeqCst);
                tokio::spawn(async move { connection.write_u8(1).await });
            } else {
                self.failures.fetch_add(1, SeqCst);
            }
        }
    }
}

/// A worker process. The drill starts this test in processes of their own; alone it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_process_of_the_drill() {
    let (Ok(database), Ok(address)) = (env::var(DATABASE), env::var(ADDRESS)) else { return };
    onceward::install_crypto_provider();
    let platform = Platform::assemble(vec![sms_service(&address)]).expect("the service is valid");
    let mut config = Config::load_with(None, &[], |_| None).expect("the defaults are valid");
    config.database.url = database;
    let stop = CancellationToken::new();
    let mut running = ProcessRuntime::new(platform, config, stop.clone()).expect("the platform can be created");
    running.run_consumers();
    // The drill kills it.
    stop.cancelled().await;
}

fn start_workers(platform: &TestPlatform, address: &str, scratch: &std::path::Path) -> Vec<ServerProcess> {
    let (database, outage) = (platform.database().url(), outage().as_secs().to_string());
    let variables = [(DATABASE, database.as_str()), (ADDRESS, address), (OUTAGE, outage.as_str())];
    let program = Executable::at(env::current_exe().expect("a test is a program"));
    let args = ["--exact", "outage_drill::the_worker_process_of_the_drill", "--nocapture"];
    (0..PROCESSES).map(|n| program.start(&args, &variables, &scratch.join(format!("worker-{n}.log")))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_leave_a_dead_destination_alone_and_lose_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound address").to_string();
    let receiver = Arc::new(Receiver::default());
    tokio::spawn(receiver.clone().serve(listener));
    let platform = TestPlatform::new(vec![sms_service(&address)]).await;
    let owner = platform.database().owner().await;
    let names: Vec<String> = (0..MESSAGES).map(|n| format!("sms {n}")).collect();
    for (tenant, names) in names.chunks(MESSAGES / 8).enumerate() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        publish_names(platform.db(), &format!("tenant-{tenant}"), &names).await;
    }
    let scratch = Scratch::new();
    let mut workers = start_workers(&platform, &address, scratch.path());
    let open = "SELECT count(*) FROM outbound.breaker WHERE state->'phase'->>'phase' IN ('open', 'probing')";
    eventually("the breaker is open for all", || async { (count(&owner, open).await == 1).then_some(()) }).await;
    let (dead_since, until_open) = (Instant::now(), receiver.calls.load(SeqCst));
    // Processes that do not know it yet may have calls in flight.
    let in_flight = PROCESSES * WORKERS;
    assert!(until_open <= PROCESSES * 5 + in_flight, "{until_open} calls until the breaker was open");
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    while dead_since.elapsed() < outage() {
        ticks.tick().await;
        workers.iter_mut().for_each(ServerProcess::assert_running);
    }
    let (calls, pauses) =
        (receiver.calls.load(SeqCst), dead_since.elapsed().as_millis() / u128::from(pause_ms() * 9 / 10));
    assert!(calls <= PROCESSES * 5 + in_flight + pauses as usize + 1, "{calls} calls in {pauses} pauses");
    let after_opening = calls - until_open;
    println!(
        "{until_open} calls until all stopped, {after_opening} in the {:?} after it, {pauses} pauses",
        dead_since.elapsed()
    );
    assert!(after_opening <= MAX_CALLS_AFTER_OPENING, "{after_opening} calls after the opening");

    let letters = "SELECT count(*) FROM onceward.dead_letters";
    assert_eq!(count(&owner, letters).await, 0);
    let failures = receiver.failures.load(SeqCst);
    receiver.is_up.store(true, SeqCst);
    let returned = Instant::now();
    let longest = Duration::from_millis(2 * pause_ms()) + Duration::from_secs(120);
    let noticed = tokio::time::timeout(longest, async {
        while receiver.answered.load(SeqCst) == 0 {
            ticks.tick().await;
        }
        Instant::now()
    });
    let noticed = noticed.await.expect("a probe notices that it is back");
    // Only a bound: nine processes share this machine with other tests.
    eventually_within(Duration::from_secs(300), "everything is sent", || async {
        (count(&owner, "SELECT count(*) FROM probe.effect").await >= MESSAGES as i64).then_some(())
    })
    .await;
    println!(
        "back: a probe noticed it after {:?}, and {MESSAGES} messages were done {:?} later",
        noticed - returned,
        noticed.elapsed()
    );
    drained(&owner).await;
    assert_eq!(count(&owner, letters).await, 0, "an outage makes no dead letter");
    assert_eq!(receiver.failures.load(SeqCst), failures, "no call failed after the return, so nothing opened again");
    eventually("the breaker is closed", || async { (count(&owner, open).await == 0).then_some(()) }).await;
    assert_eq!(receiver.answered.load(SeqCst), MESSAGES, "every message was sent once");
}
