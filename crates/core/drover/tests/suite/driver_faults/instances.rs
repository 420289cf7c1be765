//! Two runs that want the same folder, or the same port for their metrics.

use std::net::TcpListener;

use harness_testing::program::ended_with;

use super::{end, folders, is_undisturbed, on_each, wait_until_under_way};
use crate::support::Started;

#[test]
fn second_run_on_a_folder_or_a_metrics_port_is_refused_and_the_first_goes_on() {
    on_each(|driver| {
        let (folder, run) = folders();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let page = format!("--metrics-addr={}", free.unwrap());
        driver.with_server(|address| {
            let first = Started::spawn(driver.call_on(&run, address).arg(&page));
            wait_until_under_way(&run);
            let mut second = driver.call_on(&run, address);
            let words = ["--into", "another run", "name another one"];
            ended_with(&second.output().unwrap(), 2, &words, driver);
            let mut second = driver.call_on(&folder.path().join("other"), address);
            let words = ["--metrics-addr", "choose another"];
            ended_with(&second.arg(&page).output().unwrap(), 2, &words, driver);
            is_undisturbed(driver, &end(first, folder.path()));
        });
    });
}
