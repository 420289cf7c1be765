//! Tests of invalid arguments and plans, and of their messages, before any request is sent.

use harness_testing::rows;

use crate::program::{plan, program};
use crate::servers::{url, well};

#[test]
fn a_call_that_is_wrong_says_what_where_and_what_to_do_before_anything_is_asked() {
    let server = well();
    let url = url(&server);
    for (call, parts) in rows(
        "
            --threshold 'response.p98x < 5ms' => thresholds[0] (--threshold) … response
            --threshold 'http_req_size: p(95)<5' => there is no metric `http_req_size` … http_req_duration
            --threshold 'errors.nothing < 5' => --threshold … nothing … refused
            --body-file /no/such.json => --body-file /no/such.json … No such file … can be read
            --tls-ca /no/such.pem => --tls-ca /no/such.pem … in PEM
            --http2 --pipeline 2 => driver.pipeline (--pipeline) … --streams
            --check status=200 => driver.checks[0] … status==200
            --check 'body containing x' => driver.checks[0] … body contains
            --rate 0 => groups[0].rate (--rate) … above 0
            --rate nan => --rate … not a number … 10k
            --rate 1e12 => groups[0].rate (--rate) … 10,000,000
            --rate 10 --pipeline 2 => driver.pipeline (--pipeline) … no effect with a rate … --connections
            --keep-open --pipeline 2 => driver.pipeline (--pipeline) … leave out the rate
            --rate-stage 1s:9 --pipeline 2 => driver.pipeline (--pipeline)
            --follow 2 --pipeline 2 => driver.follow (--follow) … leave out --pipeline or --follow
            --follow 2 -H 'Host: a b' => Host: a b … is not a valid host … leave out --follow
            --follow -1 => -1
            --processes 51 --threads 51 => --threads … 2601 workers … use fewer
            --pipeline 0 => driver.pipeline (--pipeline) … between 1 and
            --keep-open -c 100 --connect-rate 10 --open-timeout 2s => driver.open_timeout (--open-timeout) … 20 of 100 connections … 10s at least
            -R 10 --open-timeout 2s => driver.open_timeout (--open-timeout) … --connect-rate
            --keep-open --no-keep-alive => --no-keep-alive … cannot be used with
            --keep-open --connect-rate 1e-300 => driver.connect_rate (--connect-rate) … below 1
            --keep-open -c 18446744073709551615 --connect-rate 1 => driver.connections … 10,000,000
            --connect-rate 10 => driver.connect_rate (--connect-rate) … closed loop … --keep-open
            -c 0 => groups[0].clients … at least 1
            -c -5 => -5
            -d 0s => timeline.measure … 10s
            -d soon => --duration … 1m30s
            --timeout 0s => driver.timeout (--timeout) … 30s
            --timeout 500000000000y => longer than a day
            --header nocolon => --header … Name: value
            --path x => driver.path (--path) … begins with /
            --path '/größe' => driver.path (--path) … %C3%BC
            --path /{id:0} => driver.path … remainder by 0
            --expect-status 20 => --expect-status … between 100 and 599
            --source-addresses 192.0.2.1 => --source-addresses … of this machine
            --source-addresses 127.0.0.1 -c 70000 => --source-addresses … 70000 connections … 127.0.0.1 has  … name 2 addresses
            -c 70000 => --source-addresses … the kernel has … use auto
            --daemon http-daemon => cannot be used with … --daemon
            --plan /no/such.toml => /no/such.toml
        ",
    ) {
        program(&[]).call(call).args([&url]).refused(2, &parts);
    }
    assert_eq!(server.finish().connections, 0);
}

#[test]
fn a_plan_that_is_wrong_names_the_field() {
    let server = well();
    let url = url(&server);
    // The top level; the table of the driver.
    let plans = r#"
        ; conections = 5 => conections … unknown field … connections
        endpiont = "https"; => endpiont … unknown field
        thresholds = ["nothing.p99 < 5ms"]; => thresholds[0] … nothing
        ; pipeline = 2\nhttp2 = true => driver.pipeline … --streams
        ; body_files = ["/no/such"] => driver.body_files … /no/such
        ; pipeline = "two" => driver.pipeline: must be a whole number, without quotes
        ; [[faults]]\nat = "500ms"\nsignal = "KILL"\nback_after = "100ms" => faults … the URL
    "#;
    for (text, parts) in rows(plans) {
        let (top, driver) = text.split_once(';').unwrap();
        let file = plan(top, &driver.replace(r"\n", "\n"));
        let path = file.path().to_str().unwrap();
        program(&["--plan", path, &url]).refused(2, &parts);
    }
    assert_eq!(server.finish().connections, 0);
}
