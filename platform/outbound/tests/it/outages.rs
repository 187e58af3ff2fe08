//! Outages: of the destination, of one process's network, of the prober, of the database.

use crate::support::*;
use onceward_db::{Db, Scope};
use onceward_outbound::{Outbound, OutboundError, RejectReason, close, isolate, list};
use onceward_resilience::SharedPhase;
use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

async fn is_open_for_all(db: &Db) -> bool {
    let rows = list(db).await.expect("the breakers can be read");
    rows.iter().any(|row| row.breaker.phase != SharedPhase::Watched)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_destination_sees_one_probe_per_pause_of_all_processes_and_recovers() {
    let (database, receiver, stop) = (database().await, Arc::new(Receiver::default()), CancellationToken::new());
    let processes: Vec<Process> = (0..8).map(|_| Process::start(&database)).collect();
    for process in &processes {
        for _ in 0..8 {
            tokio::spawn(work(process.outbound.clone(), receiver.clone(), stop.clone()));
        }
    }
    let follows = async || processes.iter().all(|process| process.outbound.is_open(SMS));
    eventually("all processes stop", async || is_open_for_all(&processes[0].db).await && follows().await).await;
    eventually("no call is left", async || receiver.in_flight.load(SeqCst) == 0).await;
    let (before, since) = (receiver.calls.load(SeqCst), Instant::now());
    assert!(before <= 8 * (5 + 8), "{before} calls until all had stopped");
    receiver.most_in_flight.store(0, SeqCst);
    eventually("five probes", async || receiver.calls.load(SeqCst) >= before + 5).await;
    let probes = receiver.calls.load(SeqCst) - before;
    let pauses = since.elapsed().as_millis() / u128::from(LEAST_PAUSE_MS);
    assert!(probes as u128 <= pauses + 2, "{probes} probes in {pauses} pauses");
    assert_eq!(receiver.most_in_flight.load(SeqCst), 1, "one probe at a time");

    receiver.is_up.store(true, SeqCst);
    let (calls, returned) = (receiver.calls.load(SeqCst), Instant::now());
    eventually("full rate", async || receiver.calls.load(SeqCst) >= calls + 2_000).await;
    println!("full rate {:?} after the destination returned", returned.elapsed());
    let failures = receiver.failures.load(SeqCst);
    eventually("all have closed", async || !processes.iter().any(|process| process.outbound.is_open(SMS))).await;
    assert!(!is_open_for_all(&processes[0].db).await, "it did not open again");
    assert_eq!(receiver.failures.load(SeqCst), failures);
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_without_a_network_does_not_stop_the_others() {
    let database = database().await;
    let processes: Vec<Process> = (0..3).map(|_| Process::start(&database)).collect();
    let (unreachable, receiver) = (Receiver::default(), Receiver::default());
    receiver.is_up.store(true, SeqCst);
    for _ in 0..5 {
        assert!(matches!(send(&processes[0].outbound, &unreachable).await, Err(OutboundError::Call(_))));
    }
    assert!(matches!(send(&processes[0].outbound, &unreachable).await, Err(OutboundError::Rejected(_))));
    let rows = list(&processes[0].db).await.expect("the breakers can be read");
    assert_eq!((rows.len(), rows[0].breaker.votes.len()), (1, 1), "it has voted");
    for _ in 0..100 {
        for process in &processes[1..] {
            send(&process.outbound, &receiver).await.expect("the others go on");
        }
    }
    assert!(!is_open_for_all(&processes[1].db).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prober_that_dies_is_replaced_after_its_limit() {
    let (database, receiver) = (database().await, Receiver::default());
    let processes: Vec<Process> = (0..2).map(|_| Process::start(&database)).collect();
    for process in &processes {
        for _ in 0..5 {
            assert!(matches!(send(&process.outbound, &receiver).await, Err(OutboundError::Call(_))));
        }
    }
    assert!(is_open_for_all(&processes[0].db).await);
    let hangs = async || {
        let call = processes[0].outbound.call(SMS).expect("it is declared");
        let started = Arc::new(tokio::sync::Notify::new());
        let probe = call.run(|_| {
            started.notify_one();
            std::future::pending::<Result<(), _>>()
        });
        // Dropping the call in the middle is what a crash leaves behind.
        tokio::select! { result = probe => result.is_ok(), () = started.notified() => true }
    };
    eventually("a probe begins", hangs).await;
    receiver.is_up.store(true, SeqCst);
    let since = Instant::now();
    eventually("another process probes", async || send(&processes[1].outbound, &receiver).await.is_ok()).await;
    assert!(since.elapsed() >= Duration::from_millis(PROBE_LIMIT_MS - 500), "not before the limit");
    assert!(!is_open_for_all(&processes[0].db).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_database_each_process_decides_for_itself() {
    let database = database().await;
    let mut config = database.config();
    config.url = "postgres://nobody@127.0.0.1:1/none".to_owned();
    let outbound = Outbound::new([sms()], Some(Db::connect(config).expect("the settings are valid")));
    let receiver = Receiver::default();
    for _ in 0..5 {
        assert!(matches!(send(&outbound, &receiver).await, Err(OutboundError::Call(_))));
    }
    let rejected = send(&outbound, &receiver).await;
    assert!(matches!(rejected, Err(OutboundError::Rejected(rejected)) if rejected.why == RejectReason::BreakerOpen));
    receiver.is_up.store(true, SeqCst);
    eventually("it recovers", async || send(&outbound, &receiver).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_destination_is_not_called_until_it_is_closed() {
    let (database, receiver) = (database().await, Receiver::default());
    let process = Process::start(&database);
    receiver.is_up.store(true, SeqCst);
    let tx = process.db.begin(Scope::platform("test")).await.expect("a connection");
    isolate(&tx, SMS, "", ("ana", "their maintenance"), None).await.expect("it can be isolated");
    tx.commit().await.expect("it commits");
    let is_isolated = async || {
        let sent = send(&process.outbound, &receiver).await;
        matches!(sent, Err(OutboundError::Rejected(rejected)) if rejected.why == RejectReason::Isolated)
    };
    eventually("calls are rejected", is_isolated).await;
    let tx = process.db.begin(Scope::platform("test")).await.expect("a connection");
    close(&tx, SMS, "").await.expect("it can be closed");
    tx.commit().await.expect("it commits");
    eventually("calls are made", async || send(&process.outbound, &receiver).await.is_ok()).await;
    assert_eq!(list(&process.db).await.expect("the breakers can be read"), []);
}

#[tokio::test]
async fn a_call_whose_deadline_has_passed_is_not_made() {
    let (outbound, receiver) = (Outbound::new([sms()], None), Receiver::default());
    let call = outbound.call(SMS).expect("it is declared").deadline(Instant::now());
    assert_eq!(call.run(|_| receiver.answer()).await, Err(OutboundError::DeadlineExceeded));
    assert_eq!(receiver.calls.load(SeqCst), 0);
}
