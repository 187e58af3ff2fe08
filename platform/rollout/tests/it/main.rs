//! Flags and gates: reference cases of the field, properties, and processes on a real PostgreSQL.

mod buckets;
mod evaluation;
mod gates;
mod reference_cases;
