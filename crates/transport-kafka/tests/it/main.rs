//! Kafka as a bus, against a real server.

mod conformance;
