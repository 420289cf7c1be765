//! Tests the search for the processes behind an address with real servers.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use harness_testing::assert_contains;
use harness_testing::processes::{children, wait_until};
use harness_testing::skip;
use load::driver::Target;
use subject::listeners::{self, Listeners, NotFound};

/// A server, killed at the end of the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn found(target: &Target) -> Result<Listeners, NotFound> {
    let mut all = listeners::find(target);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn of_url(url: &str) -> Result<Listeners, NotFound> {
    found(&Target::of_urls(vec![url.to_owned()]))
}

/// Starts a Python server that listens at an address and writes its port to a file; returns the port.
fn python(folder: &Path, host: &str) -> (Server, u16) {
    let script = "import socket, sys, time\n\
        s = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6, dualstack_ipv6=sys.argv[1] == '::')\n\
        open(sys.argv[2] + '.new', 'w').write(str(s.getsockname()[1]))\n\
        import os; os.rename(sys.argv[2] + '.new', sys.argv[2])\n\
        time.sleep(1000)";
    let port = folder.join(host.replace(':', "_"));
    let server = Command::new("python3")
        .args(["-c", script, host])
        .arg(&port)
        .spawn();
    let server = Server(server.unwrap());
    wait_until("the server listens", || port.exists());
    let number = std::fs::read_to_string(port).unwrap();
    (server, number.parse().unwrap())
}

#[test]
fn a_server_at_the_ipv6_wildcard_is_found_by_every_address_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    if TcpListener::bind("[::1]:0").is_err() {
        return skip("IPv6 on the loopback interface");
    }
    let (server, port) = python(folder.path(), "::");
    for host in [
        "localhost",
        "127.0.0.1",
        "127.0.0.2",
        "[::1]",
        "0.0.0.0",
        "[::]",
    ] {
        let found = of_url(&format!("http://{host}:{port}/x")).unwrap();
        assert_eq!(found.roots, BTreeSet::from([server.0.id()]), "{host}");
    }
    let (server, port) = python(folder.path(), "::1");
    let found = of_url(&format!("amqp://u:p@[::1]:{port}/")).unwrap();
    assert_eq!(found.roots, BTreeSet::from([server.0.id()]));
    let other = of_url(&format!("http://127.0.0.1:{port}/"));
    assert!(matches!(other, Err(NotFound::NoListener(_))), "{other:?}");
}

#[test]
fn sockets_are_held_by_the_processes_that_were_found_until_one_changes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::of_urls(vec![format!("http://{}/", listener.local_addr().unwrap())]);
    let holders = found(&target).unwrap().holders;
    assert!(listeners::are_held_by(&target, &holders));
    let more = BTreeSet::from([1, std::process::id()]);
    assert!(!listeners::are_held_by(&target, &more));
    drop(listener);
    assert!(!listeners::are_held_by(&target, &holders));
}

#[test]
fn a_master_and_its_workers_are_one_tree_with_the_master_at_its_root() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let configuration = format!(
        "daemon off; worker_processes 2; pid {0}/pid; error_log stderr; events {{}}\n\
         http {{ access_log off; client_body_temp_path {0}; proxy_temp_path {0}; fastcgi_temp_path {0};\n\
         uwsgi_temp_path {0}; scgi_temp_path {0}; server {{ listen unix:{1}; return 204; }} }}\n",
        folder.path().display(),
        socket.display()
    );
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, configuration).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-c").arg(&file).stderr(Stdio::null());
    let path = std::env::var("PATH").unwrap_or_default();
    let Ok(master) = command.env("PATH", format!("{path}:/usr/sbin")).spawn() else {
        return skip("nginx");
    };
    let mut master = Server(master);
    wait_until("nginx has its workers", || {
        assert_eq!(master.0.try_wait().unwrap(), None, "nginx runs");
        children(master.0.id()).len() == 2
    });
    for target in [
        Target::at(socket.clone()),
        Target::of_urls(vec![format!("unix:{}:/x", socket.display())]),
    ] {
        let found = found(&target).unwrap();
        assert_eq!(found.roots, BTreeSet::from([master.0.id()]));
        assert_eq!(found.holders.len(), 3, "{found:?}");
    }
    // A worker that ends by itself would be replaced by its master.
    harness_testing::processes::send(&master.0, nix::sys::signal::Signal::SIGTERM);
    master.0.wait().unwrap();
}

#[test]
fn siblings_that_share_a_socket_are_several_roots() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let child = || {
        let socket = std::os::fd::OwnedFd::from(listener.try_clone().unwrap());
        let mut command = Command::new("sleep");
        Server(command.arg("1000").stdin(socket).spawn().unwrap())
    };
    let servers = [child(), child()];
    let ids = BTreeSet::from(servers.each_ref().map(|server| server.0.id()));
    let url = format!("http://127.0.0.1:{port}/");
    // This process is the parent of both, and holds the socket itself.
    let own = BTreeSet::from([std::process::id()]);
    assert_eq!(of_url(&url).unwrap().roots, own);
    drop(listener);
    wait_until("only the children hold the socket", || {
        of_url(&url).is_ok_and(|found| found.roots == ids)
    });
}

#[test]
fn an_address_without_a_listener_here_is_explained_with_a_remedy() {
    let told = |found: Result<Listeners, NotFound>| {
        let why = found.unwrap_err();
        format!("{why}: {}", why.remedy())
    };
    let elsewhere = told(of_url("http://192.0.2.1:80/"));
    assert_contains(&elsewhere, &["192.0.2.1", "not an address of this machine"]);
    let listener = UnixListener::bind(tempfile::tempdir().unwrap().path().join("gone"));
    let gone = listener.unwrap().local_addr().unwrap();
    let gone = Target::at(gone.as_pathname().unwrap().to_owned());
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for nobody in [found(&gone), of_url(&format!("http://{free}/"))] {
        let nobody = told(nobody);
        assert_contains(
            &nobody,
            &[
                "no process of this machine's network namespace listens at",
                "--pid",
            ],
        );
    }
}
