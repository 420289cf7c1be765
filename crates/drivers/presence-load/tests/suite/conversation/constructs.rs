//! Conformance of the description: each construct once, against `node-echo`.

use std::io::Write as _;
use std::process::Command;
use std::thread;

use harness::launcher::Launcher;
use harness_testing::daemons::prepared;
use harness_testing::program::CompletedRun;

use super::accounted;

/// Steps of each connection, before the load. A line has the name of a construct, and a step that has it.
const START: &str = r#"
    capture: emit = "join", data = ["{{room}}"], ack = true, expect = { pointer = "/0/ok", is = true }, capture = ["json:/0/id as me"]
    the id of the connection: emit = "same", data = ["{{socket}}"], ack = true, expect = { pointer = "/0", is = "{{me}}" }
    names in auth: emit = "handshake", ack = true, expect = { pointer = "/0/auth", is = { token = "{{user.token}}", room = "{{room}}" } }
    names in header fields: emit = "handshake", ack = true, expect = { pointer = "/0/headers/cookie", is = "token={{user.token}}; user={{user}}" }
    names in the query: emit = "handshake", ack = true, expect = { pointer = "/0/query/token", is = "{{user.token}}" }
    an event as the answer: emit = "back", data = [1], expect = { event = "back", pointer = "/0", is = 1 }
"#;

/// Steps of two scenarios of the load, over Socket.IO.
const SCENARIOS: [&str; 2] = [
    r#"
    rows: emit = "row", data = ["{{n:json}}", "{{token}}"], ack = true, expect = { pointer = "/0" }
    repeat: emit = "again", data = ["{id}"], ack = true, repeat = "uniform:2:3", expect = { pointer = "/0", is = "{id}" }
    "#,
    r#"
    think: emit = "thought", ack = true, think = "uniform:1ms:2ms"
    attachments: emit = "file", data = ["{binary:1000}", { b = "{binary:base64:AAEC}" }], ack = true, expect = { pointer = "/1", is = { b = "{binary:base64:AAEC}" } }
    "#,
];

/// Steps of the load, over plain WebSocket.
const PLAIN: &str = r#"
    text: text = "hello {{user}}", expect = {}
    data: data = { a = "{{room}}" }, expect = { pointer = "/a", is = "{{room}}" }
    binary: text = "a", binary = true, expect = {}
    bytes: text = "{binary:300}", expect = {}
"#;

const BY_NUMBER: &str = r#"answer_id: data = { id = "{id}" }, expect = {}"#;

/// The users that receive a push, how its sender is named there, and whether they are in other rooms.
const FAN_OUT: [(&str, &str, u64); 4] = [
    ("room", r#"sender = "/0/from", name = "{{socket}}""#, 3),
    ("others", r#"sender = "/0/from", name = "{{me}}""#, 2),
    ("everybody", r#"sender = "/0/message/user""#, 6),
    (
        "everybody-else",
        r#"sender = "/0/from", name = "{{socket}}""#,
        5,
    ),
];

const OPEN: &str = "groups = [{ name = \"messages\", rate = 200.0 }]";
const CLOSED: &str = "groups = [{ name = \"users\", clients = 6 }]";

/// Returns the constructs of some lines, and their steps.
fn constructs(lines: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = lines.trim().lines();
    lines.map(|line| line.trim().split_once(": ").unwrap())
}

/// Returns a list of steps.
fn list(lines: &str) -> String {
    let steps = constructs(lines).map(|(_, step)| format!("  {{ {step} }},\n"));
    format!("[\n{}]", steps.collect::<String>())
}

/// A plan of 2 rooms with 3 users: its name, its load, settings of the driver, and the conversation.
type Plan = (&'static str, &'static str, String, String);

/// Runs a plan. Returns an error that names the construct that failed: of the step whose field it names, or the plan's.
fn run(url: &str, (name, load, driver, conversation): &Plan) -> Result<CompletedRun, String> {
    let folder = tempfile::tempdir().unwrap();
    let is_plain = conversation.contains("websocket");
    // Pushes to everybody reach the users of no other plan.
    let namespace = format!("namespace = \"/{}\"", name.replace(' ', "-"));
    let namespace = if is_plain { "" } else { &namespace };
    let plan = folder.path().join("plan.toml");
    let text = format!(
        "name = \"test\"\n{load}\ntimeline = {{ warmup = \"0s\", measure = \"300ms\", drain = \"4s\" }}\n\
         [driver]\nrooms = 2\nusers_per_room = 3\nramp_up = \"0s\"\n{driver}\n{namespace}\n\
         [driver.conversation]\n{conversation}\n"
    );
    std::fs::write(&plan, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_presence-load"));
    command
        .arg("--plan")
        .arg(plan)
        .args(["--threads", "2", url]);
    let results = folder.path().join("results");
    let output = command.arg("--into").arg(results).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(2) {
        return Ok(CompletedRun::read(&output, folder.path()));
    }
    let failed = [
        ("start[", START),
        ("scenarios[0].steps[", SCENARIOS[0]),
        ("scenarios[1].steps[", SCENARIOS[1]),
        ("conversation.steps[", PLAIN),
    ];
    let failed = failed.iter().find_map(|(field, lines)| {
        let (_, rest) = stderr.split_once(field)?;
        let index: usize = rest.split_once(']')?.0.parse().ok()?;
        Some(constructs(lines).nth(index)?.0)
    });
    Err(format!("{}: {stderr}", failed.unwrap_or(name)))
}

/// Returns the plans, which have all constructs; `rows` is a file with a row for each user.
fn plans(rows: &str) -> Vec<Plan> {
    let access = r#"auth = '{"token":"{{user.token}}","room":"{{room}}"}'
      headers = ["Cookie: token={{user.token}}; user={{user}}"]"#;
    let start = format!("start = {}", list(START));
    let load = SCENARIOS.map(list);
    let with_scenarios = format!(
        "rows = {rows:?}\nquery = \"token={{{{user.token}}}}\"\n{start}\n\
         scenarios = [{{ weight = 3, steps = {} }}, {{ steps = {} }}]",
        load[0], load[1]
    );
    let plain = |lines| format!("protocol = \"websocket\"\nsteps = {}", list(lines));
    let by_number = format!("answer_id = \"/id\"\n{}", plain(BY_NUMBER));
    let over = |transport: &str| format!("transport = \"{transport}\"\n{access}");
    let mut plans = vec![
        (
            "scenarios",
            CLOSED,
            over("websocket"),
            with_scenarios.clone(),
        ),
        (
            "long-polling",
            CLOSED,
            over("polling"),
            with_scenarios.clone(),
        ),
        ("an upgrade", CLOSED, over("upgrade"), with_scenarios),
        ("plain WebSocket", OPEN, String::new(), plain(PLAIN)),
        ("answer_id", OPEN, String::new(), by_number),
    ];
    plans.extend(FAN_OUT.map(|(to, sender, _)| {
        let rule = format!(
            r#"fan_out = {{ event = "pushed", to = "{to}", number = "/0/message/n", {sender} }}"#
        );
        let join = list(START.trim().lines().next().unwrap());
        let message =
            r#"[{ emit = "push", data = ["TO", { user = "{{user}}", n = "{id}" }], ack = true }]"#;
        let message = message.replace("TO", to);
        let conversation = format!("{rule}\nstart = {join}\nsteps = {message}");
        (to, OPEN, String::new(), conversation)
    }));
    plans
}

#[test]
fn each_construct_is_understood_by_the_echo() {
    let Some(prepared) = prepared("node-echo", "socket.io") else {
        return;
    };
    let mut rows = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    writeln!(rows, "token,n").unwrap();
    (1..=6).for_each(|user| writeln!(rows, "secret {user},{user}").unwrap());
    let plans = plans(rows.path().to_str().unwrap());
    let launcher = Launcher::new().unwrap();
    let served = launcher.with(&prepared, &[], |daemon| {
        let url = daemon.endpoint().url.clone().unwrap();
        let results: Vec<_> = thread::scope(|scope| {
            let runs: Vec<_> = plans
                .iter()
                .map(|plan| scope.spawn(|| run(&url, plan)))
                .collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        let failed: Vec<&String> = results
            .iter()
            .filter_map(|result| result.as_ref().err())
            .collect();
        assert!(failed.is_empty(), "{failed:?}");
        for ((name, ..), run) in plans.iter().zip(results.iter().flatten()) {
            let ok = run.result.operations("ok");
            assert!(ok >= 6, "{name}: {} {}", run.stdout, run.stderr);
            assert_eq!(run.result.operations("failed"), 0, "{name}: {}", run.stdout);
            run.result.counts(&[("messages", ok), ("ignored", 0)]);
            if let Some((.., receivers)) = FAN_OUT.iter().find(|(to, ..)| to == name) {
                accounted(run, &[]);
                run.result.counts(&[("events", receivers * ok)]);
            }
        }
    });
    served.unwrap();
}
