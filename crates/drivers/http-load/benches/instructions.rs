//! An operation whose instructions are counted: an HTTP request is written and its response parsed.

#[path = "support/responses.rs"]
mod responses;

use std::hint::black_box;

use harness_testing::operations;
use http_load::{Exchange, Settings};

fn main() {
    operations::run(&[("http", exchange)]);
}

fn exchange(count: u64) {
    let settings = Settings {
        path: Some("/items/{id:1000}".to_owned()),
        ..Settings::default()
    };
    let exchange = Exchange::new(&settings, "http://127.0.0.1:80/");
    let mut exchange = exchange.expect("the settings are right");
    let response = responses::whole();
    for number in 0..count {
        black_box(exchange.request(black_box(number)));
        let answer = exchange.receive(black_box(&response));
        assert!(matches!(answer, Ok(Some(_))));
    }
}
