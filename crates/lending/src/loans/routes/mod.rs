//! The HTTP surface: parse, command, response.

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

pub(crate) fn routes(routes: Routes, settings: &Arc<Settings>) -> Routes {
    let routes = loans(parties(routes), settings);
    looking(routes)
}

fn parties(routes: Routes) -> Routes {
    routes
        .post("/api/borrowers", write(), borrowers::create)
        .summary("Make a borrower known")
        .request("borrower.new.v1")
        .responds(201, "borrower.v1")
        .get("/api/borrowers/{id}", read(), borrowers::show)
        .summary("Show a borrower")
        .responds(200, "borrower.v1")
        .post("/api/products", Access::role("products:write"), products::create)
        .summary("Make the next version of a product")
        .request("product.new.v1")
        .responds(201, "product.v1")
        .get("/api/products/{code}", read(), products::show)
        .summary("Show a product: its latest version, or the one that ?version= names")
        .responds(200, "product.v1")
}

fn loans(routes: Routes, settings: &Arc<Settings>) -> Routes {
    let is_async = settings.async_loan_create;
    routes
        .post("/api/loans", write(), move |headers, command| create_loan::create(headers, command, is_async))
        .summary("Make a loan: by a message, or at once where the tenant's feature async_loan_create is off")
        .request("loan.new.v1")
        .responds(202, "loan.accepted.v1")
        .responds(201, "loan.v1")
        .idempotency(Idempotency::Optional)
        .patch("/api/loans/{id}", write(), change_loan::change)
        .summary("Fund, change or end a loan, by a message")
        .request("loan.change.v1")
        .responds(202, "loan.accepted.v1")
}

fn looking(routes: Routes) -> Routes {
    routes
        .get("/api/loans", read(), show_loan::list)
        .summary("List loans, by ?status=, ?borrower_entity_id=, ?limit= and ?after=")
        .responds(200, "loan.list.v1")
        .get("/api/loans/{id}", read(), show_loan::show)
        .summary("Show a loan with what it owes")
        .responds(200, "loan.v1")
        .get("/api/loans/{id}/status", read(), show_loan::status)
        .summary("Tell how far the last command about a loan is")
        .responds(200, "loan.status.v1")
        .get("/api/loans/{id}/schedule", read(), show_loan::schedule)
        .summary("Show the schedule in force")
        .responds(200, "loan.schedule.v1")
        .get("/api/loans/{id}/payoff", read(), show_loan::payoff)
        .summary("Quote what ends a loan if it arrives on the day ?goodThrough=")
        .responds(200, "loan.payoff.v1")
        .get("/api/loans/{id}/ledger", read(), ledger::show)
        .summary("Show what was posted and the balances, up to the day ?asOf=; by ?limit= and ?after=")
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
