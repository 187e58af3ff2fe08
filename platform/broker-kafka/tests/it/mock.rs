//! librdkafka's mock cluster inside this process: it can return errors on request, and replaces a server where there is no
//! Java (`ONCEWARD_TEST_KAFKA=mock`).

use onceward_topology::Topology;
use rdkafka::{
    mocking::MockCluster,
    types::{RDKafkaApiKey, RDKafkaRespErr},
};
use std::sync::{
    OnceLock,
    mpsc::{SyncSender, sync_channel},
};

type Work = Box<dyn FnOnce(&MockCluster<'static, rdkafka::producer::DefaultProducerContext>) + Send>;

/// A cluster of one server on its own thread. Dropping it ends both.
pub struct MockKafka {
    url: String,
    work: SyncSender<Work>,
}

impl MockKafka {
    pub fn start() -> Self {
        let (work, to_do) = sync_channel::<Work>(1);
        let (started, servers) = sync_channel(1);
        std::thread::spawn(move || {
            let cluster = MockCluster::new(1).expect("a cluster");
            started.send(cluster.bootstrap_servers()).expect("the receiver waits");
            to_do.into_iter().for_each(|work| work(&cluster));
        });
        Self { url: format!("kafka://{}", servers.recv().expect("the mock starts")), work }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Creates the topics that `declare` would create, which the mock does not support.
    pub fn create_topics(&self, topology: &Topology) {
        let mut topics: Vec<(String, i32)> =
            topology.exchanges.iter().map(|e| (e.name.clone(), e.partitions.unwrap_or(8).into())).collect();
        topics.push(("onceward-queues".to_owned(), 1));
        // An existing topic is left unchanged.
        self.run(move |cluster| topics.iter().for_each(|(name, parts)| drop(cluster.create_topic(name, *parts, 1))));
    }

    /// Makes the next requests of a kind fail with these errors.
    pub fn fail_next(&self, kind: RDKafkaApiKey, errors: &[RDKafkaRespErr]) {
        let errors = errors.to_vec();
        self.run(move |cluster| cluster.request_errors(kind, &errors));
    }

    fn run(
        &self,
        work: impl FnOnce(&MockCluster<'static, rdkafka::producer::DefaultProducerContext>) + Send + 'static,
    ) {
        let (done, wait) = sync_channel(1);
        let work = move |cluster: &_| {
            work(cluster);
            done.send(()).expect("the receiver waits");
        };
        self.work.send(Box::new(work)).expect("the server is running");
        wait.recv().expect("the work is done");
    }
}

/// Returns the mock that all tests share instead of a server, if `ONCEWARD_TEST_KAFKA=mock`.
pub fn shared() -> Option<&'static MockKafka> {
    static SHARED: OnceLock<MockKafka> = OnceLock::new();
    let wanted = std::env::var("ONCEWARD_TEST_KAFKA").is_ok_and(|value| value == "mock");
    wanted.then(|| SHARED.get_or_init(MockKafka::start))
}

/// Returns whether the test must be skipped because it cannot run on the mock, and reports that on standard error. Fails the
/// test unless `ONCEWARD_WITHOUT=kafka` is set: it would pass without having proved anything.
pub fn must_skip(why: &str) -> bool {
    use std::io::Write;
    let left_out = shared().is_some();
    if left_out {
        assert!(
            onceward_testkit::left_out("kafka"),
            "this cannot be tested on librdkafka's mock cluster ({why}); set ONCEWARD_WITHOUT=kafka to leave it out"
        );
        let thread = std::thread::current();
        let _ = writeln!(std::io::stderr(), "LEFT OUT: {}: {why}", thread.name().unwrap_or("a test"));
    }
    left_out
}
