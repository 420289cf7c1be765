//! Options that the sink can do nothing with.

use crate::support::Daemon;

#[test]
fn a_sink_says_that_nothing_listens_on_the_port_of_https() {
    let mut daemon = Daemon::start(&["--sink", "--https-port", "0", "--workers", "1"]);
    assert_eq!(daemon.https, None);
    assert!(daemon.stop().success());
    let said = daemon.said();
    assert!(said.contains("speaks no TLS"), "{said}");
}
