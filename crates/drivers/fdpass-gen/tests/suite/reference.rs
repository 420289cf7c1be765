//! Tests that the page of this driver's names in `docs/` is up to date.

use harness_testing::reference;
use load::driver::Driver as _;

#[test]
fn the_page_of_names_is_that_of_the_specification() {
    reference::check(<fdpass_gen::driver::FdPass>::SPEC);
}
