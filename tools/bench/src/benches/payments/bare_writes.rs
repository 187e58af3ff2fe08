//! The limit: the rows that a payment writes, written by plain SQL in one transaction, into tables with the same
//! columns, indexes and checks. No rules, no reads, and no locks except on the balances.

use crate::{
    load::{self, Operation},
    server::Bench,
};
use futures_util::future::try_join_all;
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio_postgres::{Client, Statement, types::ToSql};
use uuid::Uuid;

pub(super) const TABLES: &str = "
    CREATE SCHEMA bare;
    CREATE TABLE bare.payment_intake (LIKE lending.payment_intake INCLUDING ALL);
    CREATE TABLE bare.payment_validation (LIKE lending.payment_validation INCLUDING ALL);
    CREATE TABLE bare.payment_posting (LIKE lending.payment_posting INCLUDING ALL);
    CREATE TABLE bare.ledger_event (LIKE ledger.ledger_event INCLUDING ALL);
    CREATE TABLE bare.ledger_entry (LIKE ledger.ledger_entry INCLUDING ALL);
    CREATE TABLE bare.balance (LIKE ledger.balance INCLUDING ALL) WITH (fillfactor = 50);
    CREATE TABLE bare.entry (LIKE audit.entry INCLUDING ALL);
    CREATE TABLE bare.message_log (LIKE onceward.message_log INCLUDING ALL);
    INSERT INTO bare.balance
    SELECT tenant_id, loan_id, account, 'USD', 0 FROM lending.loan CROSS JOIN unnest('{cash,loan_principal}'::text[]) account";

/// $1: the payment, $2: the loan, $3: a number unique to the payment.
const WRITES: [&str; 7] = [
    "INSERT INTO bare.payment_intake (tenant_id, payment_id, loan_id, method, amount_minor, currency, received_at,
         gateway_txn_id, source_provider, idempotency_key, effective_date, correlation_id, raw_payload)
     SELECT 'bench', $1::uuid, $2::uuid, 'other', 100, 'USD', now(), $1::uuid::text, 'mock', lpad($3::bigint::text, 64, 'a'), current_date,
         $1::uuid::text, jsonb_build_object('txn_id', $1::uuid, 'loan_id', $2::uuid, 'amount_minor', '100')",
    "INSERT INTO bare.payment_validation (tenant_id, payment_id, is_valid, effective_date)
     SELECT 'bench', $1::uuid, $2::uuid IS NOT NULL AND $3::bigint > 0, current_date",
    "INSERT INTO bare.payment_posting (tenant_id, payment_id, event_id, applied, new_balances, held)
     SELECT 'bench', $1::uuid, $1::uuid, '[{\"bucket\": \"principal\", \"amount_minor\": \"100\"}]',
         jsonb_build_object('principal_minor', $3::bigint::text, 'interest_receivable_minor', '0', 'escrow_liability_minor', '0',
             'fees_receivable_minor', '0', 'cash_minor', '100'), $2::uuid IS NULL",
    "INSERT INTO bare.ledger_event (tenant_id, event_id, loan_id, schema, correlation_id, effective_date, finalized_at)
     SELECT 'bench', $1::uuid, $2::uuid, 'posting.payment.v1', 'payment:' || $1::uuid, current_date, now() WHERE $3::bigint > 0",
    "INSERT INTO bare.ledger_entry (tenant_id, event_id, line_no, loan_id, account, currency, debit_minor, credit_minor, memo,
         effective_date)
     SELECT 'bench', $1::uuid, n, $2::uuid, account, 'USD', debit, 100 - debit, memo, current_date
     FROM (VALUES (1::smallint, 'cash', 100, 'payment received'), (2::smallint, 'loan_principal', 0, 'principal reduction'))
         AS line (n, account, debit, memo) WHERE $3::bigint > 0",
    "INSERT INTO bare.entry (tenant_id, seq, occurred_at, event_type, object_type, object_id, loan_id, correlation_id, document,
         prev_hash, record_hash)
     SELECT 'bench', $3::bigint * 3 + n, now(), 'payment_posted', 'payment', $1::uuid::text, $2::uuid::text, 'payment:' || $1::uuid,
         repeat('a canonical document of usual length ', 12), sha256('a'), sha256('b')
     FROM generate_series(0, 2) n",
    "INSERT INTO bare.message_log (seq, xid, created_at, id, epoch, lane_id, copy, version, tenant_id, event_type, topic,
         ordering_key, correlation_id, causation_id, payload)
     SELECT $3::bigint * 3 + n, pg_current_xact_id(), now(), $1::uuid, 1, 7, 0, 1, 'bench', 'payment.posted',
         'payments.events:payment.posted.v1', $2::uuid::text, 'payment:' || $1::uuid, $1::uuid::text,
         jsonb_build_object('payment_id', $1::uuid, 'loan_id', $2::uuid, 'event_id', $1::uuid, 'effective_date', current_date,
             'amount_minor', '100', 'currency', 'USD', 'allocation_hints', '{}')
     FROM generate_series(0, 2) n",
];
/// $1: the loan. One statement updates all rows of a loan, in the same order, which avoids deadlocks.
const BALANCES: &str = "
    UPDATE bare.balance SET balance_minor = balance_minor + CASE account WHEN 'cash' THEN 100 ELSE -100 END
    WHERE tenant_id = 'bench' AND loan_id = $1";

/// Measures the payments per second.
pub(super) async fn rate(bench: &Bench, clients: usize, time: Duration, loans: &[Uuid]) -> anyhow::Result<f64> {
    let number: i64 = bench.owner().await?.query_one(LAST_NUMBER, &[]).await?.get(0);
    let number = Arc::new(AtomicI64::new(number + 1));
    load::rate(clients, time, async |_| {
        let client = bench.owner().await?;
        let writes = try_join_all(WRITES.iter().map(|sql| client.prepare(sql))).await?;
        let balances = client.prepare(BALANCES).await?;
        let payment = BarePayment { writes, balances, loans: loans.to_vec(), number: number.clone(), client };
        Ok(Box::new(payment) as Box<dyn Operation>)
    })
    .await
}

const LAST_NUMBER: &str = "SELECT coalesce(max(seq), 0) FROM bare.message_log";

struct BarePayment {
    client: Client,
    writes: Vec<Statement>,
    balances: Statement,
    loans: Vec<Uuid>,
    number: Arc<AtomicI64>,
}

impl Operation for BarePayment {
    fn once(&mut self) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + '_>> {
        Box::pin(async {
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            let payment = Uuid::now_v7();
            let loan = self.loans[number.unsigned_abs() as usize % self.loans.len()];
            let params: [&(dyn ToSql + Sync); 3] = [&payment, &loan, &number];
            let tx = self.client.transaction().await?;
            // Pipelined: all statements are sent before the first result is awaited.
            let written = try_join_all(self.writes.iter().map(|write| tx.execute(write, &params)));
            let balances: [&(dyn ToSql + Sync); 1] = [&loan];
            futures_util::try_join!(written, tx.execute(&self.balances, &balances))?;
            Ok(tx.commit().await?)
        })
    }
}
