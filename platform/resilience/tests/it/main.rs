//! The rules as a whole: cases with known values, and a model of all interleavings.

mod model;
mod reference_cases;
