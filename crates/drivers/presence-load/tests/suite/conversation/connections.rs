//! Connections that end, and servers that begin again.

use std::io::{Read as _, Write as _};
use std::thread;

use harness_testing::processes::wait_until;
use harness_testing::{peer, rows};

use super::application::{Application, Script};
use super::{FAN_OUT, JOIN, MESSAGES, accounted, call, chat, plan, plan_of};

#[test]
fn users_that_leave_or_are_cut_come_back_and_nothing_is_counted_as_lost() {
    let run = chat(Script::default(), &["--churn", "40", "--duration", "1s"]);
    accounted(&run, &[]);
    let result = &run.result;
    let away = result.count("churn_left") + result.count("churn_cut");
    assert!(away > 20, "{}", result["counts"]);
    result.counts(&[("joins", 6 + away), ("not_back", 0)]);
    result.adds_up();
}

#[test]
fn all_users_come_back_after_a_restart_and_nothing_is_lost_in_their_new_memberships() {
    let application = Application::start(Script::default());
    let plan = plan(&[FAN_OUT, JOIN, MESSAGES]);
    let run = call(&application.url(), &plan, &["--duration", "3s"]).start();
    wait_until("the load has begun", || application.messages() > 30);
    application.restart();
    let run = run.end();
    accounted(&run, &[]);
    run.result.counts(&[
        ("connections_lost", 6),
        ("reconnects", 6),
        ("joins", 12),
        ("not_back", 0),
    ]);
    assert_eq!(run.code, 1);
}

#[test]
fn however_a_connection_ends_its_user_comes_back_and_nothing_is_lost() {
    let faults = &[
        ("close", 5),
        ("disconnect", 10),
        ("end", 15),
        ("half", 20),
        ("garble", 25),
    ];
    let script = Script {
        faults,
        ..Script::default()
    };
    let run = chat(script, &["--duration", "1s"]);
    accounted(&run, &[]);
    run.result.counts(&[
        ("connections_lost", 5),
        ("reconnects", 5),
        ("joins", 11),
        ("not_back", 0),
    ]);
    // Each had a message on the way.
    assert_eq!(run.result.error("connection_lost"), 5);
    assert_eq!(run.result.error("protocol_engine_packet"), 1);
    run.result.adds_up();
}

#[test]
fn a_server_that_closes_in_the_handshake_is_named() {
    for (closes, word) in [
        ("accepted", "as a Socket.IO server"),
        ("upgraded", "as a Socket.IO server"),
        ("open", "as a Socket.IO server"),
        ("connected", "driver.conversation.start[0]"),
    ] {
        let application = Application::start(Script {
            closes: Some(closes),
            ..Script::default()
        });
        let plan = plan(&[FAN_OUT, JOIN, MESSAGES]);
        call(&application.url(), &plan, &[]).refused(2, &[word]);
    }
    for (closes, word) in [
        ("accepted", "as a WebSocket server"),
        ("upgraded", "driver.conversation.steps[0]"),
    ] {
        let application = Application::start(Script {
            closes: Some(closes),
            ..Script::default()
        });
        let plan = plan(&[
            "protocol = \"websocket\"",
            "steps = [{ text = \"a\", expect = {} }]",
        ]);
        call(&application.url(), &plan, &[]).refused(2, &[word]);
    }
}

#[test]
fn a_server_that_says_nothing_in_the_handshake_is_named() {
    let plan = plan(&[FAN_OUT, JOIN, MESSAGES]);
    let is_named = |silent, words: &[&str]| {
        let soon = ["--connect-timeout", "1s"];
        let application = Application::start(Script {
            silent: Some((silent, 1)),
            ..Script::default()
        });
        call(&application.url(), &plan, &soon).refused(2, words);
        // The connections of the check are answered.
        let application = Application::start(Script {
            silent: Some((silent, 3)),
            ..Script::default()
        });
        let short = ["--duration", "100ms", "--set", "timeline.drain=100ms"];
        let run = call(&application.url(), &plan, &[&soon[..], &short].concat()).run();
        assert!(run.result.error("connect_timeout") > 0, "{silent}");
        assert_eq!(run.result.operations("ok"), 0);
    };
    thread::scope(|scope| {
        scope.spawn(|| is_named("accepted", &["within 1s", "https:// if it uses TLS"]));
        let upgraded = ["the handshake: nothing came within 1s", "with its path"];
        scope.spawn(move || is_named("upgraded", &upgraded));
        let open = [
            "the connection to the namespace: nothing came",
            "driver.namespace",
        ];
        scope.spawn(move || is_named("open", &open));
    });
}

#[test]
fn a_server_that_sends_no_pings_any_more_is_given_up_and_named() {
    // A server that sends them has more time, also on a busy machine, and less than the duration.
    for (is_pinging, pings, duration) in [(false, [200, 200], "800ms"), (true, [900, 900], "2s")] {
        let script = Script {
            pings: Some(pings),
            is_pinging,
            ..Script::default()
        };
        let run = chat(script, &["--duration", duration]);
        accounted(&run, &[]);
        let lost = run.result.count("connections_lost");
        assert_eq!(lost == 0, is_pinging, "{}", run.stderr);
        assert_eq!(run.result.error("ping_timeout"), lost);
        run.result.adds_up();
    }
}

#[test]
fn a_late_acknowledgement_is_counted_and_ends_nothing() {
    let application = Application::start(Script {
        faults: &[("late", 0)],
        ..Script::default()
    });
    let groups = "groups = [{ name = \"users\", clients = 6 }]";
    let plan = plan_of(groups, &["think = \"10ms\"", FAN_OUT, JOIN, MESSAGES]);
    let soon = ["--ack-timeout", "300ms", "--duration", "1s"];
    let run = call(&application.url(), &plan, &soon).run();
    accounted(&run, &[]);
    let late = run.result.error("answer_timeout");
    assert!(late > 0 && run.result.count("late_acks") > 0, "{late}");
    let ok = run.result.operations("ok");
    run.result.counts(&[
        ("messages", ok + late),
        ("duplicate_acks", 0),
        ("connections_lost", 0),
    ]);
}

#[test]
fn a_url_of_another_server_or_scheme_is_named_with_its_remedy() {
    let application = Application::start(Script::default());
    let page = peer::serve_page(|_, _| ("404 Not Found", String::new()));
    // The alert of a server of TLS about a first message that is none.
    let secure = peer::serve(|mut stream| {
        let _ = stream.read(&mut [0; 1_024]).ok()?;
        stream.write_all(&[0x15, 3, 3, 0, 2, 2, 70]).ok()
    });
    let [chat, echo] = [
        plan(&[FAN_OUT, JOIN, MESSAGES]),
        plan(&[
            "protocol = \"websocket\"",
            "steps = [{ text = \"a\", expect = {} }]",
        ]),
    ];
    let address = application.url().replace("http://", "");
    let table = "
        {address} => no scheme … did you mean http://127
        tcp://{address} => write http://host:port
        https://{address} => http:// if it does not use TLS
        wss://{page} => TLS … or write ws://
        https://{page} => TLS … or write http://
        ws://{secure} => as a WebSocket server … wss:// if it uses TLS
        http://{secure} => as a Socket.IO server … https:// if it uses TLS
        http://{page} => 404 … with its path if that is not /socket.io/
        ws://{page} => 404 … with its path
    ";
    let table = table.replace("{page}", &format!("127.0.0.1:{page}"));
    let table = table.replace("{secure}", &secure.to_string());
    for (url, words) in rows(&table.replace("{address}", &address)) {
        let plan = if url.starts_with("ws") { &echo } else { &chat };
        call(url, plan, &[]).refused(2, &words);
    }
    // Schemes and paths of the same server.
    for url in [
        format!("ws://{address}"),
        format!("http://{address}/"),
        format!("http://{address}/socket.io/"),
    ] {
        let run = call(&url, &chat, &["--duration", "100ms"]).run();
        assert_eq!(run.result.operations("ok"), 12, "{url}: {}", run.stderr);
    }
}

#[test]
fn a_push_of_a_megabyte_is_read() {
    let application = Application::start(Script {
        padding: 1_000_000,
        ..Script::default()
    });
    let groups = "groups = [{ name = \"messages\", rate = 8.0 }]";
    let plan = plan_of(groups, &[FAN_OUT, JOIN, MESSAGES]);
    let users = "--rooms 1 --users-per-room 2 --ack-timeout 5s";
    let run = call(&application.url(), &plan, &[]).call(users).run();
    accounted(&run, &[]);
    let events = run.result.count("events");
    assert_eq!(events, 2 * run.result.count("messages"));
    assert!(run.result.count("bytes") > 1_000_000 * events && events > 0);
}
