//! The SQL of contacts. Row-level security restricts every statement to the tenant.

mod address;
mod assignment;
mod consent;
mod contact;
mod contact_list;
mod do_not_contact;
mod link;
mod note;
mod rule;

pub(super) use address::{
    ContactAddress, delete_address, delete_addresses, find_address, insert_address, list_addresses, make_primary,
    update_address,
};
pub(super) use assignment::{
    delete_assignment, demote_owner, find_assignment, list_assignments, lock_assignments, put_assignment,
};
pub(super) use consent::{insert_consent, list_consents};
pub(super) use contact::{
    ContactInsert, erase_contact, find_contact, insert_contact, lock_contact, update_labels, update_owner, update_tags,
    update_values,
};
pub(super) use contact_list::{ContactFilter, list_contacts};
pub(super) use do_not_contact::{find_in_force, insert_dnc, lift_dnc, list_dnc, lock_dnc};
pub(super) use link::{delete_link, find_link, insert_link, list_links};
pub(super) use note::{delete_note, delete_notes, find_note, insert_note, list_notes};
pub(super) use rule::{delete_rule, find_rule, list_rules, put_rule};
