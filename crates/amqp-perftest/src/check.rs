//! `amqp-perftest check`: verifies every operation of the driver on brokers, with the smoke cases of the conformance
//! suite.

use anyhow::Context as _;
use harness::cli::lines_of_files;
use harness::failure::Failure;
use harness::verify::check::{self, Finding};

use crate::cli::CheckArgs;
use crate::spec::SPEC;
use amqp_client::Broker;

/// Checks the brokers given on the command line. Returns true if every broker answered correctly.
///
/// # Errors
/// A wrong call, or a failure that has nothing to do with a broker.
pub(crate) fn run(typed: &CheckArgs) -> Result<bool, Failure> {
    let Some(uri) = &typed.uri else {
        return check::check_daemons(&SPEC.protocol, &typed.options, |name, endpoint| {
            let url = endpoint.url.as_deref();
            let found = url
                .context("its manifest has no `url`")
                .and_then(|url| amqp_conformance::smoke(&Broker::parse(url)?));
            vec![Finding {
                name: name.to_owned(),
                found,
            }]
        });
    };
    let mut all_right = true;
    for uri in lines_of_files("--uri", vec![uri.clone()])? {
        let found = amqp_conformance::smoke(&Broker::parse(&uri)?);
        all_right &= check::print(&[Finding { name: uri, found }])?;
    }
    Ok(all_right)
}
