//! All SQL of payments. Row-level security adds the tenant to every condition.

mod allocation;
mod conflict;
mod intake;
mod payment_details;
mod posting;
mod replay;
mod seen_event;
mod unapplied;
mod validation;

pub(crate) use allocation::{
    NewAllocation, RequestedAllocation, find_allocations, find_due_allocation, insert_allocation,
};
pub(crate) use conflict::{NewConflict, find_conflict, list_conflicts, record_conflict, resolve_conflict};
pub(crate) use intake::{KnownPayment, NewIntake, find_known, has_provider, insert_intakes, secrets, set_secret};
pub(crate) use payment_details::{LINKED_STORIES, PaymentDetails, find_payment_details};
pub(crate) use posting::{
    NewPosting, NewRepost, NewReturn, PostedPayment, PostingState, find_posted, insert_postings, insert_repost,
    insert_return, posting_state, posting_states,
};
pub(crate) use replay::{EventInForce, accrued_by, events_in_force_after, insert_replay, reversed_charge_offs};
pub(crate) use seen_event::{SeenEvent, record_seen_events};
pub(crate) use unapplied::{
    NewUnapplied, UnappliedPayment, UnappliedSettlement, insert_unapplied, list_unapplied, lock_unapplied,
    settle_unapplied,
};
pub(crate) use validation::{PaymentToValidate, ValidationDecision, load_validations, save_validations};
