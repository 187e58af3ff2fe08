//! Kafka as a bus, against a real server; or, for most of it, against librdkafka's own (`ONCEWARD_TEST_KAFKA=mock`).

mod conformance;
mod declaring;
mod mock;
mod outages;
mod publishing;
mod receiving;
mod support;
