//! Kafka as a bus, against a real server; most tests also run on librdkafka's mock cluster (`ONCEWARD_TEST_KAFKA=mock`).

mod conformance;
mod declaring;
mod effects;
mod mock;
mod outages;
mod positions;
mod publishing;
mod receiving;
mod support;
