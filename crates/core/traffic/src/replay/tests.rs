//! Tests of due times, with logs as servers write them.

use super::*;

const FIELD: &str = "driver.replay (--replay)";
const LOG: &str = concat!(
    "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a?x=1 HTTP/1.1\" 200 5 \"-\" \"Mozilla/5.0 (X11) \\\"q\\\"\"\n",
    "::1 - al ice [10/Oct/2000:13:55:36 -0700] \"GET /b\\x22 HTTP/2.0\" 304 0 \"http://x/\" \"curl\" 0.005\r\n",
    "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"POST /a HTTP/1.1\" 200 5\n",
    "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"\\x16\\x03\\x01\" 400 5 \"-\" \"-\"\n",
    "\n",
    "192.0.2.1 - - [10/Oct/2000:13:55:38 -0700] \"GET /c HTTP/1.1\" 200 -\n",
    "192.0.2.1 - - [10/Oct/2000:13:55:37 -0700] \"GET /d HTTP/1.1\" 200 5",
);

fn open(name: &str, log: &str, speed: f64) -> Result<(tempfile::TempDir, Rows, Replay), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, log).unwrap();
    let opened = Rows::open_log(FIELD, &path).and_then(|mut rows| {
        let mut replay = Replay::new(FIELD, &mut rows, "GET", speed)?;
        replay.check(FIELD, &mut rows, &[])?;
        Ok((rows, replay))
    });
    let opened = opened.map_err(|error| error.to_string());
    opened.map(|(rows, replay)| (folder, rows, replay))
}

/// Returns the due times of a share in milliseconds, by the index of the operation.
fn due(rows: &Rows, replay: &Replay, share: Share) -> Vec<(u64, u64)> {
    let schedule = replay.schedule(rows, share);
    schedule
        .map(|due| (due.index, due.at / 1_000_000))
        .collect()
}

#[test]
fn requests_of_a_second_are_spread_over_it_and_a_late_line_is_due_at_once() {
    let (_folder, rows, replay) = open("access.log", LOG, 2.0).unwrap();
    let whole = due(&rows, &replay, Share::ALL);
    assert_eq!(whole, [(0, 0), (1, 250), (2, 1_000), (3, 1_250)]);
    let times = replay.times();
    assert_eq!((times.late, times.late_ns), (1, 1_000_000_000));
    assert_eq!(replay.duration(), Duration::from_millis(1_500));
    let ignored = rows.ignored();
    assert_eq!(
        (ignored.others, ignored.unreadable, ignored.first_unreadable),
        (1, 1, 4)
    );
    let mut shares = due(&rows, &replay, Share { index: 0, of: 2 });
    assert_eq!(shares, [(0, 0), (2, 1_000)]);
    shares.extend(due(&rows, &replay, Share { index: 1, of: 2 }));
    shares.sort_unstable();
    assert_eq!(shares, whole);
    assert_eq!(replay.failure(), None);
}

#[test]
fn a_log_s_fields_are_read_without_their_escapes() {
    let (_folder, rows, _) = open("access.log", LOG, 1.0).unwrap();
    let column = |name: &str| {
        rows.columns()
            .iter()
            .position(|column| column == name)
            .unwrap()
    };
    let mut reader = rows.reader(Share::ALL, &[]);
    let mut field = |row: u64, name: &str| {
        reader.go_to(&rows, row);
        String::from_utf8(reader.field(column(name)).to_vec()).unwrap()
    };
    assert_eq!(field(0, "path"), "/a?x=1");
    assert_eq!(field(0, "user_agent"), "Mozilla/5.0 (X11) \"q\"");
    assert_eq!(field(1, "path"), "/b\"");
    assert_eq!(
        (field(1, "host"), field(1, "status")),
        ("::1".to_owned(), "304".to_owned())
    );
    assert_eq!(
        (field(1, "referer"), field(1, "user_agent")),
        ("http://x/".to_owned(), "curl".to_owned())
    );
    assert_eq!(
        (field(3, "path"), field(3, "bytes")),
        ("/d".to_owned(), "5".to_owned())
    );
    // A request that is sent again has an earlier number.
    assert_eq!(
        (field(0, "path"), field(2, "path")),
        ("/a?x=1".to_owned(), "/c".to_owned())
    );
}

#[test]
fn times_with_a_fraction_are_kept_to_their_resolution() {
    let csv = "ts,path\n1700000000.250,/a\n1700000000.250,/b\n1700000000.253,/c\n";
    let (_folder, rows, replay) = open("log.csv", csv, 0.5).unwrap();
    assert_eq!(due(&rows, &replay, Share::ALL), [(0, 0), (1, 1), (2, 6)]);
    let json = "{\"timestamp\":\"2026-01-31T12:00:00Z\",\"method\":\"GET\"}\n{\"timestamp\":\"2026-01-31T12:00:01.5Z\",\"method\":\"PUT\"}\n{\"timestamp\":1769860802,\"method\":\"GET\"}\n";
    let (_folder, rows, replay) = open("log.jsonl", json, 1.0).unwrap();
    assert_eq!(due(&rows, &replay, Share::ALL), [(0, 0), (1, 2_000)]);
}

/// A log that many lines do not fit: rows are found from known positions.
#[test]
fn a_row_of_a_long_log_is_found_by_its_number() {
    let lines: String = (0..20_000)
        .map(|row| format!("{},/{row}\n", 1_700_000_000 + row / 10))
        .collect();
    let (_folder, rows, replay) = open("log.csv", &format!("time,path\n{lines}"), 1.0).unwrap();
    let mut reader = rows.reader(Share::ALL, &[1]);
    for row in [19_999, 0, 1, 4_100, 4_099, 4_099, 12_345] {
        reader.go_to(&rows, row);
        assert_eq!(reader.field(1), format!("/{row}").as_bytes());
    }
    let due = due(&rows, &replay, Share { index: 3, of: 4 });
    assert_eq!(
        (due.len(), due[0], due[4_999]),
        (5_000, (3, 300), (19_999, 1_999_900))
    );
}

#[test]
fn a_log_that_can_t_be_replayed_says_why() {
    for (name, log, problem) in [
        ("access.log", "", "has no requests"),
        (
            "access.log",
            "hello\n",
            "has no request in the common or combined log format",
        ),
        (
            "access.log",
            "h - - [yesterday] \"GET / HTTP/1.1\" 200 1\n",
            "line 1: `yesterday` is not a time",
        ),
        (
            "access.log",
            "h - - [10/Oct/2000:13:55:36 -0700] \"PUT / HTTP/1.1\" 200 1\n",
            "has no request with the method GET, and 1 with others",
        ),
        ("log.csv", "path\n/\n", "has no column `time`"),
        (
            "log.csv",
            "time,path\n1,/\nx,/\n",
            "line 3: `x` is not a time",
        ),
    ] {
        let error = open(name, log, 1.0).unwrap_err();
        assert!(
            error.contains("--replay)") && error.contains(problem),
            "{log}: {error}"
        );
    }
}

#[test]
fn a_log_that_ends_in_the_run_is_reported() {
    let (folder, rows, replay) = open("log.csv", "time,path\n1,/\n2,/\n", 1.0).unwrap();
    std::fs::write(folder.path().join("log.csv"), "time,path\n1,/\nnow,/\n").unwrap();
    assert_eq!(due(&rows, &replay, Share::ALL), [(0, 0)]);
    assert!(replay.failure().unwrap().contains("`now` is not a time"));
    let (folder, rows, replay) = open("log.csv", "time,path\n1,/\n2,/\n", 1.0).unwrap();
    std::fs::write(folder.path().join("log.csv"), "time,path\n1,/\n").unwrap();
    assert_eq!(due(&rows, &replay, Share::ALL), [(0, 0)]);
    assert!(replay.failure().unwrap().contains("has changed"));
}
