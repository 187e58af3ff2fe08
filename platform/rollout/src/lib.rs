//! Feature flags, and the gates of canary releases.
//!
//! A [`Flag`] is a constant with a type and a default. Its [`FlagRules`] decide in this order: the kill switch, the list of
//! tenants, the percentage, the default. Every [`Evaluation`] carries its [`Reason`] in the words of OpenFeature.
//!
//! A percentage selects by an integer bucket of the flag's salt and a targeting key ([`bucket_of`]), as flagd's
//! `fractional` does. A higher percentage selects everybody whom a lower one selects, over restarts, renames and stops.
//!
//! A gate ([`FailureGate`], [`LatencyGate`]) has three answers: pass, fail, and not enough data. They are exact binomial
//! bounds, so that a gate is right about 10 messages as well as about 10,000.
//!
//! Reading order: `flag`, `kind`, `rules`, `percentage`, `murmur3`, `evaluation`, `snapshot`; then `gate`.

mod evaluation;
mod flag;
mod gate;
mod kind;
mod murmur3;
mod percentage;
mod rules;
mod snapshot;

pub use evaluation::{ErrorCode, Evaluation, FlagContext, Reason, Selection};
pub use flag::{Flag, FlagDeclaration, Unit};
pub use gate::{
    FailureGate, GateAnswer, GateFigures, LatencyGate, LatencySample, Sample,
    bounds::{fisher_exact, lower_bound, upper_bound},
};
pub use kind::{FlagKind, FlagType, Object};
pub use murmur3::murmur3_32;
pub use percentage::{BUCKETS, Percentage, PercentageError, bucket_of, scale};
pub use rules::{Decision, FlagRules};
pub use snapshot::{FlagState, Snapshot};
