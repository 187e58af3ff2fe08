//! Accepts sign-ups over HTTP and creates an account for each in a consumer.
//!
//! `cargo run -- up` starts a private PostgreSQL, migrates it, serves HTTP and runs the consumer.

mod store;

use onceward::prelude::*;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use uuid::Uuid;

const EVENTS: &str = "signups.events";
const ACCOUNTS: &str = "signups.accounts.v1";

fn main() -> ExitCode {
    onceward_cli::main(vec![service()])
}

fn service() -> Service {
    Service::new("signups")
        .migrations(Migrations {
            schema: "signups",
            steps: &[Migration { name: "0001_signups", sql: include_str!("../migrations/0001_signups.sql") }],
        })
        .schemas(&[include_str!("../schemas/signup.request.v1.json"), include_str!("../schemas/signup.requested.v1.json")])
        .topology(
            Topology::new()
                .exchange(Exchange::topic(EVENTS))
                .queue(Queue::work(ACCOUNTS))
                .bind(EVENTS, "tenant.*.signup.requested", ACCOUNTS),
        )
        .routes(routes)
        .publishes::<SignupRequested>()
        .consumer(Consumer::transactional("create-accounts", ACCOUNTS).on(CreateAccount))
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignupRequested {
    account_id: Uuid,
    name: String,
}

impl Event for SignupRequested {
    const TYPE: &'static str = "signup.requested.v1";
    const EXCHANGE: &'static str = EVENTS;

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.signup.requested")
    }
}

fn routes() -> Routes {
    Routes::new()
        .post("/api/signups", Access::role("signups:write"), sign_up)
        .summary("Sign up")
        .request("signup.request.v1")
        .get("/api/accounts/{id}", Access::role("signups:read"), show_account)
        .summary("Show an account")
}

#[derive(Deserialize)]
struct SignUp {
    name: String,
}

/// Publishes the request in the transaction that also stores the response of the idempotency key.
async fn sign_up(command: Command<SignUp>) -> Result<Response, Problem> {
    let (SignUp { name }, mut command) = command.into_parts();
    let request = SignupRequested { account_id: Uuid::now_v7(), name };
    outbox::publish(&mut command.tx, &request).await?;
    command
        .accepted(format!("/api/accounts/{}", request.account_id), &json!({ "accountId": request.account_id }))
        .await
}

async fn show_account(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let missing = || Problem::new(codes::NOT_FOUND).detail("There is no such account yet.");
    let account = store::find_account(&reader.tx, id).await?.ok_or_else(missing)?;
    reader.respond(&account).await
}

struct CreateAccount;

impl Handler for CreateAccount {
    type Event = SignupRequested;

    /// The account and the position of the consumer commit together, so each request creates one account.
    async fn handle(&self, tx: &mut Tx, received: &Received<'_, SignupRequested>) -> Result<(), Failure> {
        store::insert_account(tx, received.event.account_id, &received.event.name).await?;
        Ok(())
    }
}
