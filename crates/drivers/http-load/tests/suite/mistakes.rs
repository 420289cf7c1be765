//! Typical mistakes in calls and plans: each message says what is wrong, where, and what to do.

use std::io::Write as _;
use std::process::Command;

use harness_testing::mistakes::check;
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
        r#"
            -c many {url} => --connections … 'many' … 10k
            -c 1.5 {url} => --connections … whole number
            -c 0 {url} => clients … at least 1
            -c -5 {url} => --connections … 0 or more
            --role daemon --result-dir {dir} --listen localhost => --listen … such as 10.0.0.5
            -c 5 --deadline 1s {url} => deadline (--deadline) … closed loop … give a rate
            -R 5 --deadline 0s {url} => deadline (--deadline) … longer than 0
            -R 5 --objective 'connecting < 1ms' {url} => objectives[0] (--objective) … use response or service
            -R 5 --objective 'latency < 1ms' {url} => no series `latency` … use one of response, service
            -R 5 --threshold 'goodput.pct >= 99' {url} => thresholds[0] (--threshold) … --objective "response <
            --xyz {url} => '--xyz' … tip: --help lists all
            -R 0 {url} => --rate … above 0
            -R fast {url} => --rate … 500 … 10k
            -d 1x {url} => --duration … 1m30s
            -d 0 {url} => timeline.measure … such as 10s
            --conections 5 => '--conections' … --connections
            --format htm {url} => --format … htm … html
            --timeout 0 {url} => --timeout … 30s
            -H @/no/such {url} => --header … /no/such … name a file
            --output /no/such/r.json {url} => --output /no/such/r.json … name a file in a folder
            --into /proc/no/such {url} => --into /proc/no/such … name a folder
            --arrival poisson {url} => groups[0].arrival (--arrival) … give a rate
            --metrics-addr 9100 {url} => --metrics-addr … such as 127.0.0.1:9100
            --body @order.json {url} => driver.body[0] (--body) … write --body-file order.json
        "#,
    );
}

#[test]
fn options_of_other_tools_are_answered_with_the_way_to_say_it_here() {
    check(
        PROGRAM,
        &[],
        "
            -k {url} => '-k' … --tls-insecure
            -L {url} => '-L' … --follow
            --url {url} => '--url' … the address alone
            --dry-run {url} => use --print-plan:
            --clients 5 {url} => use --connections:
            -I {url} => '-I' … --method HEAD
            -A me {url} => '-A' … User-Agent
            -a me:secret {url} => '-a' … -H @FILE
            --user me:secret {url} => '--user' … -H @FILE
            -u me:secret {url} => -u … users … -H @FILE
            -T text/plain {url} => '-T' … Content-Type
            -C a=b {url} => '-C' … Cookie
            -p file {url} => '-p' … --body-file
            -d {} {url} => -d {} … duration … --body
            -s script.lua {url} => -s script.lua … no scripts
            -s 30 {url} => -s 30 … --timeout
            -q 100 {url} => -q 100 … --rate
            --qps 100 {url} => '--qps' … --rate
            -x proxy:1 {url} => '-x' … no proxies
            -i 10 {url} => '-i' … -n
            --iterations 10 {url} => '--iterations' … -n
            -o csv {url} => '-o' … --format
            --unix-socket /s {url} => --unix-socket … unix:/
            -y {url} => '-y' … --help lists all options
            -n 100 -c 30 {url} => -n … multiple, such as 90
            -n 0 {url} => -n … multiple, such as 100
            -n 5 -c 0 {url} => clients … at least 1
            -n 3 {url} => -n … multiple, such as 100
        ",
    );
}

#[test]
fn a_wrong_target_is_named_with_what_it_may_mean() {
    check(
        PROGRAM,
        &[],
        "
            {url} => 127.0.0.1:1 … start the server … leave the URL out
            nginx => nginx … did you mean --daemon nginx?
            ngnix => did you mean --daemon nginx?
            chek => did you mean http-load check?
            my.toml => did you mean the plan --plan my.toml?
            localhost:8080/x => no scheme … did you mean http://localhost:8080/x?
            ftp://127.0.0.1/ => `ftp` … write http://
            http://127.0.0.1:99999/ => port … 65535
            http://no.such.host.invalid/ => no.such.host.invalid … correct the name
            @/no/such => URL @/no/such … name a file
            --daemon ngnix => `ngnix` … did you mean `nginx`?
            --daemon daemons/nginx => `daemons/nginx` … named by its folder
            --daemon rabbitmq => serves amqp, not http … choose one of … nginx
            --daemon go-events => serves events, not http … or measure its protocol, events, with --events
            --daemon nginx --name ../x => --name … used as a folder name
        ",
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
        &"
            --daemon no-manifest => daemons/no-manifest/daemon.toml … cannot be read
            --daemon program => `slepe 60` … correct `slepe` in `run` … install
            --daemon words => daemon.toml: line 3: run … a list in [ ] … not the text
            --daemon key => line 4: unknown field `redy` … did you mean `ready`?
            --daemon protocol => serves htpp, not http … write `http` there
            --daemon address => daemons/address/daemon.toml … neither a `url` … add url =
            --daemon url => driving daemons/url/daemon.toml … has no host
            --daemon occupied => another program answers … {address} … {port}
        "
        .replace("{address}", &address),
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
        "
            --threshold 'respons.p99 < 5ms' {url} => --threshold … did you mean `response.p99`?
            --threshold 'response.p99 < 5' {url} => `5` does not suit `response.p99` … 50ms
            --threshold response.p99 {url} => no operator … <= 50ms
            --threshold 'response < 5ms' {url} => needs a statistic … response.p99
            --threshold 'errors.timeot == 0' {url} => `timeot` … did you mean `timeout`?
            --threshold 'counts.checks_faild == 0' {url} => `checks_faild` … did you mean `checks_failed`?
            --threshold 'counts.nothing < 5' {url} => there is no counter `nothing` … missed_waiting … checks_failed
        ",
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
        r#"
            --plan {dir}/number.toml => number.toml … line 3: timeline.measure … "10s"
            --plan {dir}/text.toml => line 7: groups[0].clients … without quotes
            --plan {dir}/field.toml => line 7: groups[0] … `client` … did you mean `clients`?
            --plan {dir}/setting.toml => line 9: driver … `pth` … did you mean `path`?
            --plan {dir}/missing.toml => `name` is missing … add name =
            --plan {dir}/syntax.toml => line 1 … write TOML
            --plan {dir}/negative.toml => groups[0].clients … 0 or more … -3
            --plan {dir}/list.toml => groups … a list
            --plan {dir}/rihgt.toml => rihgt.toml … did you mean … right.toml?
            --plan {dir} => name a plan in it
            --plan {dir}/empty.toml => empty.toml … is empty … --print-plan
            --plan {dir}/twice.toml => line 2 … `name` is set twice … keep one
            --plan {dir}/no-time.toml => timeline.measure … set a time, such as 10s
            --plan {dir}/no-groups.toml => groups … add a [[groups]]
            --plan {dir}/configs/fdpass/other.toml => this plan is for fdpass-gen, and not for http-load … fdpass-gen --plan … configs/fdpass/other.toml
            --plan {dir}/addressed.toml => for issue-stress … issue-stress --plan
            --plan {dir}/of-rabbitmq.toml => for amqp-perftest … amqp-perftest --plan
            --plan {dir}/of-nobody.toml => the protocol smtp … no known driver … drover list
            --plan {dir}/right.toml --set timeline.measur=3s => --set timeline.measur=3s … did you mean `measure`?
            --plan {dir}/right.toml --set groups.clients=3 => --set groups.clients=3 … is a list … groups.0
            --set timeline.measure => --set timeline.measure … path=value
        "#,
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
