//! Typical mistakes in calls and plans: each message says what is wrong, where, and what to do.

use std::io::Write as _;
use std::process::Command;

use harness_testing::mistakes::{check, refused};
use harness_testing::program::ended_with;

const PROGRAM: &str = env!("CARGO_BIN_EXE_http-load");
const URL: &str = "http://127.0.0.1:1";

/// A plan in which one text is replaced.
fn plan(text: &str, by: &str) -> String {
    const PLAN: &str = "name = 'mine'\n[timeline]\nmeasure = '10s'\ndrain = '1s'\n[[groups]]\nname = 'users'\nclients = 3\n[driver]\npath = '/'\n";
    assert!(PLAN.contains(text), "{text}");
    PLAN.replace(text, by)
}

#[test]
fn a_wrong_option_is_named_with_its_remedy() {
    check(
        PROGRAM,
        &[],
        &[
            refused(&["-c", "many", URL], &["--connections", "'many'", "10k"]),
            refused(&["-c", "1.5", URL], &["--connections", "whole number"]),
            refused(&["-c", "0", URL], &["clients", "at least 1"]),
            refused(&["-c", "-5", URL], &["--connections", "0 or more"]),
            refused(
                &[
                    "--role",
                    "daemon",
                    "--result-dir",
                    "{dir}",
                    "--listen",
                    "localhost",
                ],
                &["--listen", "such as 10.0.0.5"],
            ),
            refused(
                &["-c", "5", "--deadline", "1s", URL],
                &["deadline (--deadline)", "closed loop", "give a rate"],
            ),
            refused(
                &["-R", "5", "--deadline", "0s", URL],
                &["deadline (--deadline)", "longer than 0"],
            ),
            refused(
                &["-R", "5", "--objective", "connecting < 1ms", URL],
                &["objectives[0] (--objective)", "use response or service"],
            ),
            refused(
                &["-R", "5", "--objective", "latency < 1ms", URL],
                &["no series `latency`", "use one of response, service"],
            ),
            refused(
                &["-R", "5", "--threshold", "goodput.pct >= 99", URL],
                &["thresholds[0] (--threshold)", "--objective \"response <"],
            ),
            refused(&["--xyz", URL], &["'--xyz'", "tip: --help lists all"]),
            refused(&["-R", "0", URL], &["--rate", "above 0"]),
            refused(&["-R", "fast", URL], &["--rate", "500", "10k"]),
            refused(&["-d", "1x", URL], &["--duration", "1m30s"]),
            refused(&["-d", "0", URL], &["timeline.measure", "such as 10s"]),
            refused(&["--conections", "5"], &["'--conections'", "--connections"]),
            refused(&["--format", "htm", URL], &["--format", "htm", "html"]),
            refused(&["--timeout", "0", URL], &["--timeout", "30s"]),
            refused(
                &["-H", "@/no/such", URL],
                &["--header", "/no/such", "name a file"],
            ),
            refused(
                &["--output", "/no/such/r.json", URL],
                &["--output /no/such/r.json", "name a file in a folder"],
            ),
            refused(
                &["--into", "/proc/no/such", URL],
                &["--into /proc/no/such", "name a folder"],
            ),
            refused(
                &["--arrival", "poisson", URL],
                &["groups[0].arrival (--arrival)", "give a rate"],
            ),
            refused(
                &["--metrics-addr", "9100", URL],
                &["--metrics-addr", "such as 127.0.0.1:9100"],
            ),
            refused(
                &["--body", "@order.json", URL],
                &["driver.body[0] (--body)", "write --body-file order.json"],
            ),
        ],
    );
}

#[test]
fn options_of_other_tools_are_answered_with_the_way_to_say_it_here() {
    check(
        PROGRAM,
        &[],
        &[
            refused(&["-k", URL], &["'-k'", "--tls-insecure"]),
            refused(&["-L", URL], &["'-L'", "--follow"]),
            refused(&["--url", URL], &["'--url'", "the address alone"]),
            refused(&["--dry-run", URL], &["use --print-plan:"]),
            refused(&["--clients", "5", URL], &["use --connections:"]),
            refused(&["-I", URL], &["'-I'", "--method HEAD"]),
            refused(&["-A", "me", URL], &["'-A'", "User-Agent"]),
            refused(&["-a", "me:secret", URL], &["'-a'", "-H @FILE"]),
            refused(&["--user", "me:secret", URL], &["'--user'", "-H @FILE"]),
            refused(&["-u", "me:secret", URL], &["-u", "users", "-H @FILE"]),
            refused(&["-T", "text/plain", URL], &["'-T'", "Content-Type"]),
            refused(&["-C", "a=b", URL], &["'-C'", "Cookie"]),
            refused(&["-p", "file", URL], &["'-p'", "--body-file"]),
            refused(&["-d", "{}", URL], &["-d {}", "duration", "--body"]),
            refused(&["-s", "script.lua", URL], &["-s script.lua", "no scripts"]),
            refused(&["-s", "30", URL], &["-s 30", "--timeout"]),
            refused(&["-q", "100", URL], &["-q 100", "--rate"]),
            refused(&["--qps", "100", URL], &["'--qps'", "--rate"]),
            refused(&["-x", "proxy:1", URL], &["'-x'", "no proxies"]),
            refused(&["-i", "10", URL], &["'-i'", "-n"]),
            refused(&["--iterations", "10", URL], &["'--iterations'", "-n"]),
            refused(&["-o", "csv", URL], &["'-o'", "--format"]),
            refused(&["--unix-socket", "/s", URL], &["--unix-socket", "unix:/"]),
            refused(&["-y", URL], &["'-y'", "--help lists all options"]),
            refused(
                &["-n", "100", "-c", "30", URL],
                &["-n", "multiple, such as 90"],
            ),
            refused(&["-n", "0", URL], &["-n", "multiple, such as 100"]),
            refused(&["-n", "5", "-c", "0", URL], &["clients", "at least 1"]),
            refused(&["-n", "3", URL], &["-n", "multiple, such as 100"]),
        ],
    );
}

#[test]
fn a_wrong_target_is_named_with_what_it_may_mean() {
    check(
        PROGRAM,
        &[],
        &[
            refused(
                &[URL],
                &["127.0.0.1:1", "start the server", "leave the URL out"],
            ),
            refused(&["nginx"], &["nginx", "did you mean --daemon nginx?"]),
            refused(&["ngnix"], &["did you mean --daemon nginx?"]),
            refused(&["chek"], &["did you mean http-load check?"]),
            refused(&["my.toml"], &["did you mean the plan --plan my.toml?"]),
            refused(
                &["localhost:8080/x"],
                &["no scheme", "did you mean http://localhost:8080/x?"],
            ),
            refused(&["ftp://127.0.0.1/"], &["`ftp`", "write http://"]),
            refused(&["http://127.0.0.1:99999/"], &["port", "65535"]),
            refused(
                &["http://no.such.host.invalid/"],
                &["no.such.host.invalid", "correct the name"],
            ),
            refused(&["@/no/such"], &["URL @/no/such", "name a file"]),
            refused(
                &["--daemon", "ngnix"],
                &["`ngnix`", "did you mean `nginx`?"],
            ),
            refused(
                &["--daemon", "daemons/nginx"],
                &["`daemons/nginx`", "named by its folder"],
            ),
            refused(
                &["--daemon", "rabbitmq"],
                &["serves amqp, not http", "choose one of", "nginx"],
            ),
            refused(
                &["--daemon", "go-events"],
                &[
                    "serves events, not http",
                    "or measure its protocol, events, with --events",
                ],
            ),
            refused(
                &["--daemon", "nginx", "--name", "../x"],
                &["--name", "used as a folder name"],
            ),
        ],
    );
}

#[test]
fn a_wrong_manifest_is_named_with_its_line_and_its_key() {
    let right = "about = 'mine'\nserves = ['http']\nrun = ['sleep', '60']\nready = { tcp = '127.0.0.1:{port}' }\nurl = 'http://127.0.0.1:{port}/'\n";
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let changes = [
        ("program", "'sleep'", "'slepe'"),
        ("words", "['sleep', '60']", "'sleep 60'"),
        ("key", "ready =", "redy ="),
        ("protocol", "'http'", "'htpp'"),
        ("address", "url = 'http://127.0.0.1:{port}/'", ""),
        ("url", "http://127.0.0.1:{port}/", "http://:80"),
        ("occupied", "127.0.0.1:{port}' }", &format!("{address}' }}")),
    ];
    let files = changes.map(|(name, text, by)| {
        let path = format!("daemons/{name}/daemon.toml");
        // The daemons without a usable URL are ready at once.
        let text = right.replace(text, by);
        let at_once = text.replace("['sleep', '60']", "['sh', '-c', 'echo up; exec sleep 60']");
        match name {
            "address" | "url" => (
                path,
                at_once.replace("tcp = '127.0.0.1:{port}'", "line = 'up'"),
            ),
            _ => (path, text),
        }
    });
    let mut files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    files.push(("daemons/no-manifest/run.sh", "true\n"));
    check(
        PROGRAM,
        &files,
        &[
            refused(
                &["--daemon", "no-manifest"],
                &["daemons/no-manifest/daemon.toml", "cannot be read"],
            ),
            refused(
                &["--daemon", "program"],
                &["`slepe 60`", "correct `slepe` in `run`", "install"],
            ),
            refused(
                &["--daemon", "words"],
                &["daemon.toml: line 3: run", "a list in [ ]", "not the text"],
            ),
            refused(
                &["--daemon", "key"],
                &["line 4: unknown field `redy`", "did you mean `ready`?"],
            ),
            refused(
                &["--daemon", "protocol"],
                &["serves htpp, not http", "write `http` there"],
            ),
            refused(
                &["--daemon", "address"],
                &[
                    "daemons/address/daemon.toml",
                    "neither a `url`",
                    "add url =",
                ],
            ),
            refused(
                &["--daemon", "url"],
                &["driving daemons/url/daemon.toml", "has no host"],
            ),
            refused(
                &["--daemon", "occupied"],
                &["another program answers", &address, "{port}"],
            ),
        ],
    );
}

#[test]
fn a_variable_with_nearly_the_name_of_an_option_is_refused_and_others_are_not() {
    for (variable, code, says) in [
        (
            "HTTP_LOAD_CONECTIONS",
            2,
            "did you mean HTTP_LOAD_CONNECTIONS?",
        ),
        ("HTTP_LOAD_SERVICE_PORT", 0, ""),
        ("HTTP_LOAD_PORT_80_TCP_ADDR", 0, ""),
    ] {
        let mut command = Command::new(PROGRAM);
        let output = command
            .arg("--print-plan")
            .env(variable, "5")
            .output()
            .unwrap();
        ended_with(&output, code, &[says], &variable);
    }
}

#[test]
fn a_plan_is_read_from_a_pipe() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(plan("3", "5").as_bytes()).unwrap();
    drop(writer);
    let mut command = Command::new(PROGRAM);
    let arguments = ["--plan", "/dev/stdin", "--print-plan"];
    let output = command.args(arguments).stdin(reader).output().unwrap();
    ended_with(&output, 0, &[], &arguments);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("clients = 5"), "{printed}");
}

#[test]
fn a_wrong_threshold_is_named_with_what_it_may_mean() {
    check(
        PROGRAM,
        &[],
        &[
            refused(
                &["--threshold", "respons.p99 < 5ms", URL],
                &["--threshold", "did you mean `response.p99`?"],
            ),
            refused(
                &["--threshold", "response.p99 < 5", URL],
                &["`5` does not suit `response.p99`", "50ms"],
            ),
            refused(
                &["--threshold", "response.p99", URL],
                &["no operator", "<= 50ms"],
            ),
            refused(
                &["--threshold", "response < 5ms", URL],
                &["needs a statistic", "response.p99"],
            ),
            refused(
                &["--threshold", "errors.timeot == 0", URL],
                &["`timeot`", "did you mean `timeout`?"],
            ),
            refused(
                &["--threshold", "counts.checks_faild == 0", URL],
                &["`checks_faild`", "did you mean `checks_failed`?"],
            ),
            refused(
                &["--threshold", "counts.nothing < 5", URL],
                &[
                    "there is no counter `nothing`",
                    "missed_waiting",
                    "checks_failed",
                ],
            ),
        ],
    );
}

#[test]
fn a_wrong_plan_is_named_with_its_line_and_its_field() {
    let files = [
        ("number.toml", plan("'10s'", "10")),
        ("text.toml", plan("clients = 3", "clients = '3'")),
        ("field.toml", plan("clients", "client")),
        ("setting.toml", plan("path", "pth")),
        ("missing.toml", plan("name = 'mine'", "")),
        ("syntax.toml", plan("name = 'mine'", "name = mine")),
        ("negative.toml", plan("clients = 3", "clients = -3")),
        ("list.toml", plan("[[groups]]", "[groups]")),
        ("right.toml", plan("3", "3")),
        ("empty.toml", "\n".to_owned()),
        ("twice.toml", plan("[timeline]", "name = 'a'\n[timeline]")),
        (
            "no-time.toml",
            "name = 'mine'\n[[groups]]\nname = 'users'\nclients = 3\n".to_owned(),
        ),
        (
            "no-groups.toml",
            "name = 'mine'\ntimeline = { measure = '1s' }\n".to_owned(),
        ),
        (
            "addressed.toml",
            plan("[timeline]", "protocol = 'issue'\n[timeline]"),
        ),
        (
            "of-nobody.toml",
            plan("[timeline]", "protocol = 'smtp'\n[timeline]"),
        ),
        ("configs/fdpass/other.toml", plan("3", "3")),
        (
            "of-rabbitmq.toml",
            plan("[timeline]", "daemon = 'rabbitmq'\n[timeline]"),
        ),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    check(
        PROGRAM,
        &files,
        &[
            refused(
                &["--plan", "{dir}/number.toml"],
                &["number.toml", "line 3: timeline.measure", "\"10s\""],
            ),
            refused(
                &["--plan", "{dir}/text.toml"],
                &["line 7: groups[0].clients", "without quotes"],
            ),
            refused(
                &["--plan", "{dir}/field.toml"],
                &["line 7: groups[0]", "`client`", "did you mean `clients`?"],
            ),
            refused(
                &["--plan", "{dir}/setting.toml"],
                &["line 9: driver", "`pth`", "did you mean `path`?"],
            ),
            refused(
                &["--plan", "{dir}/missing.toml"],
                &["`name` is missing", "add name ="],
            ),
            refused(&["--plan", "{dir}/syntax.toml"], &["line 1", "write TOML"]),
            refused(
                &["--plan", "{dir}/negative.toml"],
                &["groups[0].clients", "0 or more", "-3"],
            ),
            refused(&["--plan", "{dir}/list.toml"], &["groups", "a list"]),
            refused(
                &["--plan", "{dir}/rihgt.toml"],
                &["rihgt.toml", "did you mean", "right.toml?"],
            ),
            refused(&["--plan", "{dir}"], &["name a plan in it"]),
            refused(
                &["--plan", "{dir}/empty.toml"],
                &["empty.toml", "is empty", "--print-plan"],
            ),
            refused(
                &["--plan", "{dir}/twice.toml"],
                &["line 2", "`name` is set twice", "keep one"],
            ),
            refused(
                &["--plan", "{dir}/no-time.toml"],
                &["timeline.measure", "set a time, such as 10s"],
            ),
            refused(
                &["--plan", "{dir}/no-groups.toml"],
                &["groups", "add a [[groups]]"],
            ),
            refused(
                &["--plan", "{dir}/configs/fdpass/other.toml"],
                &[
                    "this plan is for fdpass-gen, and not for http-load",
                    "fdpass-gen --plan",
                    "configs/fdpass/other.toml",
                ],
            ),
            refused(
                &["--plan", "{dir}/addressed.toml"],
                &["for issue-stress", "issue-stress --plan"],
            ),
            refused(
                &["--plan", "{dir}/of-rabbitmq.toml"],
                &["for amqp-perftest", "amqp-perftest --plan"],
            ),
            refused(
                &["--plan", "{dir}/of-nobody.toml"],
                &["the protocol smtp", "no known driver", "drover list"],
            ),
            refused(
                &["--plan", "{dir}/right.toml", "--set", "timeline.measur=3s"],
                &["--set timeline.measur=3s", "did you mean `measure`?"],
            ),
            refused(
                &["--plan", "{dir}/right.toml", "--set", "groups.clients=3"],
                &["--set groups.clients=3", "is a list", "groups.0"],
            ),
            refused(
                &["--set", "timeline.measure"],
                &["--set timeline.measure", "path=value"],
            ),
        ],
    );
}

#[test]
fn options_spelled_as_in_other_tools_are_taken() {
    for (arguments, field) in [
        (&["-X", "HEAD"][..], "method = \"HEAD\""),
        (&["--request", "PUT"], "method = \"PUT\""),
        (&["--data", "x"], "body = [\"x\"]"),
        (&["--data-raw", "x"], "body = [\"x\"]"),
        (&["--insecure"], "tls_insecure = true"),
        (&["--insecure-skip-tls-verify"], "tls_insecure = true"),
        (&["--max-time", "5"], "timeout = \"5s\""),
        (&["--http2-prior-knowledge"], "http2 = true"),
        (&["--disable-keepalive"], "keep_alive = false"),
        (&["--rps", "70"], "rate = 70.0"),
        (&["--vus", "7"], "clients = 7"),
        (&["-z", "7s"], "measure = \"7s\""),
        (&["-n", "700"], "ops = 7"),
        (&["-n", "70", "-R", "7"], "ops = 70"),
        (&["-t2", "-c7", "-d7s", "--latency"], "clients = 7"),
    ] {
        let mut call = Command::new(PROGRAM);
        let printed = call
            .args(arguments)
            .args([URL, "--print-plan"])
            .output()
            .unwrap();
        let plan = String::from_utf8(printed.stdout).unwrap();
        let is_set = plan.lines().any(|line| line == field);
        let error = String::from_utf8_lossy(&printed.stderr);
        assert!(is_set, "{arguments:?}: {plan}{error}");
    }
}
