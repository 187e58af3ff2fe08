//! Bypassing the ledger's functions: the tables themselves refuse.

use crate::support::{DAY, LedgerFixture, payment};
use onceward_db::{DbError, Tx};
use uuid::Uuid;

const CHECK_VIOLATION: &str = "23514";
const INSUFFICIENT_PRIVILEGE: &str = "42501";
const NOT_IN_PREREQUISITE_STATE: &str = "55000";

const DRAFT: &str = "
    INSERT INTO ledger.ledger_event (tenant_id, event_id, loan_id, schema, correlation_id, effective_date)
    VALUES ('acme', $1, $2, 'posting.test.v1', $1::uuid::text, $3)";
const LINE: &str = "
    INSERT INTO ledger.ledger_entry
        (tenant_id, event_id, line_no, loan_id, account, currency, debit_minor, credit_minor, memo, effective_date)
    VALUES ('acme', $1, $4, $2, $5, $6, $7, $8, '', $3)";
const FINALIZE: &str = "SELECT ledger.sp_finalize_ledger_event($1)";

struct Draft<'a> {
    tx: &'a Tx,
    event_id: Uuid,
    loan_id: Uuid,
}

impl<'a> Draft<'a> {
    async fn new(tx: &'a Tx) -> Self {
        let draft = Self { tx, event_id: Uuid::now_v7(), loan_id: Uuid::now_v7() };
        tx.execute(DRAFT, &[&draft.event_id, &draft.loan_id, &DAY]).await.expect("a draft");
        draft
    }

    async fn line(&self, line_no: i16, account: &str, currency: &str, debit: i64, credit: i64) -> Result<(), DbError> {
        let line: [&(dyn onceward_db::ToSql + Sync); 8] =
            [&self.event_id, &self.loan_id, &DAY, &line_no, &account, &currency, &debit, &credit];
        self.tx.execute(LINE, &line).await.map(drop)
    }

    async fn finalize(&self) -> Result<(), DbError> {
        self.tx.query_one(FINALIZE, &[&self.event_id]).await.map(drop)
    }
}

fn code(result: Result<impl Sized, DbError>) -> String {
    let error = result.err().expect("it is refused");
    error.sql_state().map_or_else(|| error.to_string(), |state| state.code().to_owned())
}

#[tokio::test]
async fn a_balanced_draft_is_finalised_once_and_counts_from_then_on() {
    let ledger = LedgerFixture::new().await;
    let tx = ledger.begin().await;
    let draft = Draft::new(&tx).await;
    draft.line(1, "cash", "USD", 70, 0).await.expect("a line");
    draft.line(2, "suspense", "USD", 0, 70).await.expect("a line");
    draft.line(3, "cash", "EUR", 5, 0).await.expect("a line");
    draft.line(4, "suspense", "EUR", 0, 5).await.expect("a line");
    let stored = "SELECT count(*) FROM ledger.balance";
    assert_eq!(tx.query_one(stored, &[]).await.expect("a count").get::<_, i64>(0), 0, "a draft counts nowhere");
    draft.finalize().await.expect("it balances in each currency");
    let latest = "SELECT account || ' ' || currency || ' ' || balance_minor FROM ledger.latest_balances($1)";
    let rows = tx.query(latest, &[&draft.loan_id]).await.expect("balances");
    let rows: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(rows, ["cash EUR 5", "cash USD 70", "suspense EUR -5", "suspense USD -70"]);
    assert_eq!(code(draft.finalize().await), NOT_IN_PREREQUISITE_STATE);
}

#[tokio::test]
async fn an_unbalanced_line_makes_finalising_fail() {
    let ledger = LedgerFixture::new().await;
    let tampered: [&[(&str, &str, i64, i64)]; 5] = [
        &[],
        &[("cash", "USD", 70, 0)],
        &[("cash", "USD", 70, 0), ("suspense", "USD", 0, 70), ("fee_income", "USD", 0, 1)],
        &[("cash", "USD", 70, 0), ("suspense", "USD", 0, 69)],
        &[("cash", "USD", 70, 0), ("suspense", "EUR", 0, 70)],
    ];
    for lines in tampered {
        let tx = ledger.begin().await;
        let draft = Draft::new(&tx).await;
        for (number, (account, currency, debit, credit)) in (1..).zip(lines) {
            draft.line(number, account, currency, *debit, *credit).await.expect("a draft takes any line");
        }
        let refused = draft.finalize().await;
        let text = refused.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(text.contains(&draft.event_id.to_string()), "{text}");
        assert_eq!(code(refused), CHECK_VIOLATION, "{lines:?}");
    }
    ledger.assert_consistent().await;
}

#[tokio::test]
async fn setting_the_time_manually_is_checked_like_finalising() {
    let ledger = LedgerFixture::new().await;
    let tx = ledger.begin().await;
    let draft = Draft::new(&tx).await;
    draft.line(1, "cash", "USD", 70, 0).await.expect("a line");
    let by_hand = tx.execute("UPDATE ledger.ledger_event SET finalized_at = now()", &[]).await;
    assert_eq!(code(by_hand), CHECK_VIOLATION);
    drop(tx);
    let tx = ledger.begin().await;
    let born_final = "
        INSERT INTO ledger.ledger_event (tenant_id, event_id, loan_id, schema, correlation_id, effective_date, finalized_at)
        VALUES ('acme', $1, $1, '', 'born final', $2, now())";
    assert_eq!(code(tx.execute(born_final, &[&Uuid::now_v7(), &DAY]).await), INSUFFICIENT_PRIVILEGE);
}

#[tokio::test]
async fn a_line_has_one_positive_side_a_known_account_and_the_loan_of_its_event() {
    let ledger = LedgerFixture::new().await;
    let wrong = [("cash", "USD", 5, 5), ("cash", "USD", 0, 0), ("cash", "USD", -5, 0), ("cash", "usd", 5, 0)];
    for (account, currency, debit, credit) in wrong.into_iter().chain([("unknown", "USD", 5, 0)]) {
        let tx = ledger.begin().await;
        let refused = Draft::new(&tx).await.line(1, account, currency, debit, credit).await;
        assert_eq!(code(refused), CHECK_VIOLATION, "{account} {currency} {debit} {credit}");
    }
    let tx = ledger.begin().await;
    let mut draft = Draft::new(&tx).await;
    draft.loan_id = Uuid::now_v7();
    assert_eq!(code(draft.line(1, "cash", "USD", 5, 0).await), NOT_IN_PREREQUISITE_STATE);
}

#[tokio::test]
async fn the_application_can_neither_change_nor_delete_nor_extend_final_events() {
    let ledger = LedgerFixture::new().await;
    let event = payment(Uuid::now_v7(), 70);
    ledger.post(&event).await;
    for statement in [
        "UPDATE ledger.ledger_event SET note = 'changed'",
        "UPDATE ledger.ledger_event SET effective_date = effective_date + 1",
        "DELETE FROM ledger.ledger_event",
        "UPDATE ledger.ledger_entry SET debit_minor = debit_minor + 1",
        "DELETE FROM ledger.ledger_entry",
        "DELETE FROM ledger.balance",
        "TRUNCATE ledger.ledger_entry",
        "ALTER TABLE ledger.ledger_entry DISABLE TRIGGER ALL",
    ] {
        let tx = ledger.begin().await;
        assert_eq!(code(tx.execute(statement, &[]).await), INSUFFICIENT_PRIVILEGE, "{statement}");
    }
    for statement in
        ["UPDATE ledger.ledger_event SET finalized_at = NULL", "UPDATE ledger.ledger_event SET finalized_at = now()"]
    {
        let tx = ledger.begin().await;
        assert_eq!(code(tx.execute(statement, &[]).await), NOT_IN_PREREQUISITE_STATE, "{statement}");
    }
    let tx = ledger.begin().await;
    let draft = Draft { tx: &tx, event_id: event.event_id, loan_id: event.loan_id };
    assert_eq!(code(draft.line(3, "cash", "USD", 1, 0).await), NOT_IN_PREREQUISITE_STATE);
    ledger.assert_consistent().await;
}

#[tokio::test]
async fn the_tables_stop_even_their_owner() {
    let ledger = LedgerFixture::new().await;
    ledger.post(&payment(Uuid::now_v7(), 70)).await;
    let owner = ledger.owner().await;
    for statement in [
        "UPDATE ledger.ledger_event SET note = 'changed'",
        "UPDATE ledger.ledger_event SET finalized_at = NULL",
        "DELETE FROM ledger.ledger_event",
        "UPDATE ledger.ledger_entry SET debit_minor = debit_minor + 1",
        "DELETE FROM ledger.ledger_entry",
        "TRUNCATE ledger.ledger_entry",
        "TRUNCATE ledger.ledger_event CASCADE",
        "INSERT INTO ledger.ledger_entry
         SELECT tenant_id, event_id, 9, loan_id, account, currency, 1, 0, memo, effective_date FROM ledger.ledger_entry LIMIT 1",
    ] {
        let refused = owner.execute(statement, &[]).await.map_err(DbError::from);
        assert_eq!(code(refused), NOT_IN_PREREQUISITE_STATE, "{statement}");
    }
    ledger.assert_consistent().await;
}

#[tokio::test]
async fn a_finalisation_waits_for_an_uncommitted_line_and_sees_it() {
    let ledger = LedgerFixture::new().await;
    let tx = ledger.begin().await;
    let draft = Draft::new(&tx).await;
    draft.line(1, "cash", "USD", 70, 0).await.expect("a line");
    draft.line(2, "suspense", "USD", 0, 70).await.expect("a line");
    let (event_id, loan_id) = (draft.event_id, draft.loan_id);
    tx.commit().await.expect("drafts can be committed");

    let (adding, finalizing) = (ledger.begin().await, ledger.begin().await);
    let late = Draft { tx: &adding, event_id, loan_id };
    late.line(3, "cash", "USD", 1, 0).await.expect("it is still a draft");
    let finalize = async { Draft { tx: &finalizing, event_id, loan_id }.finalize().await };
    let commit = async {
        ledger.wait_until_a_session_waits_for_a_lock().await;
        adding.commit().await
    };
    let (refused, committed) = tokio::join!(finalize, commit);
    committed.expect("the commit succeeds");
    assert_eq!(code(refused), CHECK_VIOLATION, "the line is seen after its commit");
}

#[tokio::test]
async fn a_line_added_during_a_finalisation_is_rejected() {
    let ledger = LedgerFixture::new().await;
    let tx = ledger.begin().await;
    let draft = Draft::new(&tx).await;
    draft.line(1, "cash", "USD", 70, 0).await.expect("a line");
    draft.line(2, "suspense", "USD", 0, 70).await.expect("a line");
    let (event_id, loan_id) = (draft.event_id, draft.loan_id);
    tx.commit().await.expect("drafts can be committed");

    let (adding, finalizing) = (ledger.begin().await, ledger.begin().await);
    Draft { tx: &finalizing, event_id, loan_id }.finalize().await.expect("it balances");
    let add = async { Draft { tx: &adding, event_id, loan_id }.line(3, "cash", "USD", 1, 0).await };
    let commit = async {
        ledger.wait_until_a_session_waits_for_a_lock().await;
        finalizing.commit().await
    };
    let (refused, committed) = tokio::join!(add, commit);
    committed.expect("the commit succeeds");
    assert_eq!(code(refused), NOT_IN_PREREQUISITE_STATE);
    ledger.assert_consistent().await;
}
