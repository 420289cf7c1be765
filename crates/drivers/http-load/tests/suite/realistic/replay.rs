//! A log is sent again at its times.

use harness_testing::mistakes::check;
use harness_testing::program::Program;

use super::{file, seen};
use crate::program::{PROGRAM, program};
use crate::secure::{Secure, Spoken};
use crate::servers::{url, well};

/// Two requests in the first second and one in the fourth; one that changes data, and one that is not HTTP.
const LOG: &str = concat!(
    "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a?x=1 HTTP/1.1\" 200 5 \"-\" \"one\"\n",
    "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"POST /order HTTP/1.1\" 200 5 \"-\" \"two\"\n",
    "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"\\x16\\x03\" 400 5 \"-\" \"-\"\n",
    "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /b HTTP/1.1\" 200 5 \"-\" \"three\"\n",
    "192.0.2.1 - - [10/Oct/2000:13:55:39 -0700] \"GET /c HTTP/1.1\" 200 5 \"-\" \"four\"\n",
);

/// Two workers, or two processes, share the log: each request is sent once, and none before its time.
#[test]
fn a_log_is_sent_at_its_times_by_all_workers_together() {
    for more in [&["--threads", "2"][..], &["--processes", "2", "-t", "1"]] {
        let (server, log) = (well(), file(".log", LOG));
        let path = log.path().to_str().unwrap();
        let load = "--speed 5 -c 2 -H 'User-Agent: {{user_agent}}'";
        let call = program(&["--replay", path]).call(load);
        let run = call.args(more).args([url(&server)]).run();
        let mut requests: Vec<String> = seen(&server, 1)
            .iter()
            .map(|request| {
                let agent = request.split("User-Agent: ").nth(1).unwrap_or_default();
                let agent = agent.lines().next().unwrap_or_default();
                format!("{} {agent}", request.lines().next().unwrap_or_default())
            })
            .collect();
        requests.sort_unstable();
        let expected = [
            "GET /a?x=1 HTTP/1.1 one",
            "GET /b HTTP/1.1 three",
            "GET /c HTTP/1.1 four",
        ];
        assert_eq!(requests, expected, "{}", run.stderr);
        let note = "3 requests with GET are replayed; 1 with other methods are not sent; 1 lines are not requests, such as line 3";
        assert!(run.stderr.contains(note), "{}", run.stderr);
        let plan = &run.result["plan"];
        // 4 s at a speed of 5.
        assert_eq!(plan["timeline"]["measure"], "800ms");
        let seconds = run.result["wall_s"].as_f64().unwrap();
        assert!(seconds >= 0.6, "{seconds}");
        let lag = run.result["lag"]["count"].as_u64();
        assert_eq!((lag, run.result.values("response")), (Some(3), 3));
    }
}

#[test]
fn a_log_is_sent_over_http2_too() {
    let (server, log) = (
        Secure::start(Spoken::Http2),
        file(".csv", "time,path\n1.0,/a\n1.1,/b\n"),
    );
    let url = server.url("localhost");
    let call = Program::new(PROGRAM).args(["--http2", "-q", "-c", "1", "--replay"]);
    let run = call
        .args([log.path().to_str().unwrap(), url.as_str()])
        .run();
    assert_eq!(run.result["operations"]["ok"], 2, "{}", run.stderr);
}

#[test]
fn a_log_that_does_not_fit_the_load_is_refused() {
    let files = [("log", LOG), ("log.csv", "when,path\n1,/\n")];
    check(
        PROGRAM,
        &files,
        "
            --replay log --rate 5 {url} => driver.replay (--replay) … leave out --rate
            --replay log --speed 0 {url} => driver.speed (--speed) … not above 0
            --replay log -d 1m {url} => --replay) … the log lasts 4s … leave timeline.measure
            --replay log --rows log.csv {url} => --replay … --rows … cannot be used with
            --replay log --method PUT {url} => has no request with the method PUT, and 4 with others
            --replay log --cookies {url} => driver.cookies … give clients
            --replay log.csv {url} => --replay) log.csv … no column `time`
        ",
    );
}
