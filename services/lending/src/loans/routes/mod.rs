//! The HTTP routes: parse, command, response.

mod borrowers;
mod change_loan;
mod create_loan;
mod ledger;
mod products;
mod show_loan;

use crate::Settings;
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use onceward::{Access, Idempotency, Routes};
use std::sync::Arc;

pub(crate) fn routes() -> Routes<Arc<Settings>> {
    read_routes(write_routes(borrower_and_product_routes(Routes::new())))
}

fn borrower_and_product_routes(routes: Routes<Arc<Settings>>) -> Routes<Arc<Settings>> {
    routes
        .post("/api/borrowers", write(), borrowers::create)
        .summary("Create a borrower")
        .request("borrower.new.v1")
        .responds(201, "borrower.v1")
        .get("/api/borrowers/{id}", read(), borrowers::show)
        .summary("Show a borrower")
        .responds(200, "borrower.v1")
        .post("/api/products", Access::role("products:write"), products::create)
        .summary("Create the next version of a product")
        .request("product.new.v1")
        .responds(201, "product.v1")
        .get("/api/products/{code}", read(), products::show)
        .summary("Show a product: its latest version, or `?version=`")
        .responds(200, "product.v1")
}

fn write_routes(routes: Routes<Arc<Settings>>) -> Routes<Arc<Settings>> {
    routes
        .post("/api/loans", write(), create_loan::create)
        .summary("Create a loan, asynchronously unless the tenant's feature async_loan_create is off")
        .request("loan.new.v1")
        .responds(202, "loan.accepted.v1")
        .responds(201, "loan.v1")
        .idempotency(Idempotency::Optional)
        .patch("/api/loans/{id}", write(), change_loan::change)
        .summary("Fund, change or end a loan, asynchronously. The action refund_suspense also requires the role payments:operate")
        .request("loan.change.v1")
        .responds(202, "loan.accepted.v1")
}

fn read_routes(routes: Routes<Arc<Settings>>) -> Routes<Arc<Settings>> {
    routes
        .get("/api/loans", read(), show_loan::list)
        .summary("List loans. Filter with `?status=` and `?borrower_entity_id=`; page with `?limit=` and `?after=`")
        .responds(200, "loan.list.v1")
        .get("/api/loans/{id}", read(), show_loan::show)
        .summary("Show a loan and its balances")
        .responds(200, "loan.v1")
        .get("/api/loans/{id}/status", read(), show_loan::status)
        .summary("Show the status of the last command about a loan")
        .responds(200, "loan.status.v1")
        .get("/api/loans/{id}/schedule", read(), show_loan::schedule)
        .summary("Show the schedule in force, or the schedule `?version=`")
        .responds(200, "loan.schedule.v1")
        .get("/api/loans/{id}/statuses", read(), show_loan::statuses)
        .summary("List the changes of a loan's status and their effective dates")
        .responds(200, "loan.statuses.v1")
        .get("/api/loans/{id}/payoff", read(), show_loan::payoff)
        .summary("Quote the amount that pays the loan off on the day `?goodThrough=`")
        .responds(200, "loan.payoff.v1")
        .get("/api/loans/{id}/ledger", read(), ledger::show)
        .summary("Show the postings and balances up to the day `?asOf=`; page with `?limit=` and `?after=`")
        .responds(200, "loan.ledger.v1")
}

fn read() -> Access {
    Access::role("loans:read")
}

fn write() -> Access {
    Access::role("loans:write")
}

fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}
