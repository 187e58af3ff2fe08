//! All recipes in one program: `cargo run -p onceward-example-recipes -- up`.

use onceward_example_recipes::{activity_feed, batch_totals, leased_call, nightly_report};

fn main() -> std::process::ExitCode {
    onceward_cli::main(vec![
        activity_feed::service(),
        batch_totals::service(),
        leased_call::service("http://127.0.0.1:9000/charges"),
        nightly_report::service("0 2 * * *"),
    ])
}
