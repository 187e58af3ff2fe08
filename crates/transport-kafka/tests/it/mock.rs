//! librdkafka's own cluster inside this process: it can be told to make mistakes, and stands in for a server where there is
//! no Java (`ONCEWARD_TEST_KAFKA=mock`).

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

/// A cluster of one server, which lives on a thread of its own. It ends with it.
pub struct Mock {
    url: String,
    work: SyncSender<Work>,
}

impl Mock {
    pub fn start() -> Self {
        let (work, to_do) = sync_channel::<Work>(1);
        let (started, servers) = sync_channel(1);
        std::thread::spawn(move || {
            let cluster = MockCluster::new(1).expect("a cluster");
            started.send(cluster.bootstrap_servers()).expect("somebody waits");
            to_do.into_iter().for_each(|work| work(&cluster));
        });
        Self { url: format!("kafka://{}", servers.recv().expect("it starts")), work }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes what `declare` would, which it cannot be asked for.
    pub fn make_topics(&self, topology: &Topology) {
        let mut topics: Vec<(String, i32)> =
            topology.exchanges.iter().map(|e| (e.name.clone(), e.partitions.unwrap_or(8).into())).collect();
        topics.push(("onceward-queues".to_owned(), 1));
        // A topic that is there already is left alone.
        self.run(move |cluster| topics.iter().for_each(|(name, parts)| drop(cluster.create_topic(name, *parts, 1))));
    }

    /// The next requests of a kind are answered so.
    pub fn answer(&self, kind: RDKafkaApiKey, errors: &[RDKafkaRespErr]) {
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
            done.send(()).expect("somebody waits");
        };
        self.work.send(Box::new(work)).expect("it runs");
        wait.recv().expect("it is done");
    }
}

/// The one that all tests share in place of a server, if that is wanted.
pub fn in_place_of_a_server() -> Option<&'static Mock> {
    static SHARED: OnceLock<Mock> = OnceLock::new();
    let wanted = std::env::var("ONCEWARD_TEST_KAFKA").is_ok_and(|value| value == "mock");
    wanted.then(|| SHARED.get_or_init(Mock::start))
}

/// Says on standard error, past the test runner, that a test cannot be run on it. `true`: leave it out.
pub fn leaves_out(why: &str) -> bool {
    use std::io::Write;
    let left_out = in_place_of_a_server().is_some();
    if left_out {
        let thread = std::thread::current();
        let _ = writeln!(std::io::stderr(), "LEFT OUT: {}: {why}", thread.name().unwrap_or("a test"));
    }
    left_out
}
