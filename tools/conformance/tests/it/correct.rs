//! A correct in-memory broker passes the whole suite; cases about outages do not apply to it.

use crate::memory_broker::MemoryHarness;

onceward_conformance::broker_suite!(MemoryHarness::correct());
