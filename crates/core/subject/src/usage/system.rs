//! Reads the machine's memory and TCP counters from files of `/proc` that stay open.

use std::fs::File;

use measure::system::{SystemSample, TcpCounters};

use super::stat::{read_whole, status_value};

/// The largest of the files, `netstat`, has about 5 KiB.
const BUFFER: usize = 32 << 10;

/// Samples the machine. A sample is four reads. Its cost grows with the processors and not with processes or sockets.
#[derive(Debug)]
pub struct Machine {
    memory: File,
    sockets: File,
    snmp: File,
    netstat: File,
    buffer: Vec<u8>,
    page_kb: u64,
}

impl Machine {
    /// Opens the files; `None` if the kernel does not offer one of them, as in a sandbox or another system.
    #[must_use]
    pub fn open() -> Option<Self> {
        let open = |name: &str| File::open(format!("/proc/{name}")).ok();
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
        Some(Self {
            memory: open("meminfo")?,
            sockets: open("net/sockstat")?,
            snmp: open("net/snmp")?,
            netstat: open("net/netstat")?,
            buffer: vec![0; BUFFER],
            page_kb: u64::try_from(page.ok()??).ok()? / 1024,
        })
    }

    /// Takes one sample; `None` if a file can't be read any more.
    pub fn snapshot(&mut self) -> Option<SystemSample> {
        let memory = read_whole(&self.memory, &mut self.buffer)?;
        let snapshot = SystemSample {
            available_kb: status_value(memory, "MemAvailable"),
            slab_kb: status_value(memory, "Slab"),
            slab_unreclaimable_kb: status_value(memory, "SUnreclaim"),
            ..SystemSample::default()
        };
        let pages = tcp_pages(read_whole(&self.sockets, &mut self.buffer)?);
        let snmp = Table::parse(read_whole(&self.snmp, &mut self.buffer)?, "Tcp:");
        let (retransmits, resets) = (snmp.get("RetransSegs"), snmp.get("EstabResets"));
        let netstat = Table::parse(read_whole(&self.netstat, &mut self.buffer)?, "TcpExt:");
        Some(SystemSample {
            tcp_kb: pages * self.page_kb,
            tcp: TcpCounters {
                listen_overflows: netstat.get("ListenOverflows"),
                listen_drops: netstat.get("ListenDrops"),
                syn_cookies_sent: netstat.get("SyncookiesSent"),
                timeouts: netstat.get("TCPTimeouts"),
                retransmits,
                resets,
            },
            ..snapshot
        })
    }
}

/// Returns the pages in `TCP: inuse 5 orphan 0 tw 0 alloc 8 mem 1`; 0 if there is no such line.
fn tcp_pages(text: &[u8]) -> u64 {
    let line = line(text, "TCP:").next().unwrap_or_default();
    let mut words = line.split_ascii_whitespace();
    words.find(|word| *word == "mem");
    number(words.next())
}

/// Two lines of a file like `/proc/net/snmp`: the names, then the numbers.
#[derive(Debug, Clone, Copy)]
struct Table<'a> {
    names: &'a str,
    numbers: &'a str,
}

impl<'a> Table<'a> {
    fn parse(text: &'a [u8], begin: &'a str) -> Self {
        let mut lines = line(text, begin);
        Self {
            names: lines.next().unwrap_or_default(),
            numbers: lines.next().unwrap_or_default(),
        }
    }

    /// Returns a counter by its name; 0 if this kernel does not count it.
    fn get(&self, name: &str) -> u64 {
        let mut names = self.names.split_ascii_whitespace();
        let index = names.position(|found| found == name);
        let at = |index| self.numbers.split_ascii_whitespace().nth(index);
        number(index.and_then(at))
    }
}

/// Returns the text after `begin` in the lines that start with it.
fn line<'a>(text: &'a [u8], begin: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.filter_map(|line| std::str::from_utf8(line).ok());
    lines.filter_map(move |line| line.strip_prefix(begin))
}

fn number(word: Option<&str>) -> u64 {
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, connect, getsockname, listen,
        socket,
    };
    use proptest::prelude::*;

    const SNMP: &[u8] = b"Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn RetransSegs EstabResets\nTcp: 1 -1 42 7\nUdp: InDatagrams\nUdp: 3\n";
    const SOCKSTAT: &[u8] =
        b"sockets: used 200\nTCP: inuse 5 orphan 0 tw 9 alloc 8 mem 33\nUDP: inuse 1 mem 4\n";

    #[test]
    fn a_counter_is_found_by_its_name_in_its_own_table() {
        let tcp = Table::parse(SNMP, "Tcp:");
        assert_eq!((tcp.get("RetransSegs"), tcp.get("EstabResets")), (42, 7));
        assert_eq!((tcp.get("MaxConn"), tcp.get("InDatagrams")), (0, 0));
        assert_eq!(tcp_pages(SOCKSTAT), 33);
    }

    #[test]
    fn this_machine_has_memory_and_a_reset_connection_is_counted() {
        let mut machine = Machine::open().unwrap();
        let before = machine.snapshot().unwrap();
        assert!(before.available_kb > 1_000 && before.slab_kb >= before.slab_unreclaimable_kb);
        assert!(before.slab_unreclaimable_kb > 1_000, "{before:?}");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut server, b"unread").unwrap();
        let mut seen = [0];
        assert_eq!(client.peek(&mut seen).unwrap(), 1);
        // Closing with unread bytes resets the peer.
        drop(client);
        let after = machine.snapshot().unwrap();
        assert!(after.tcp.resets > before.tcp.resets, "{after:?}");
    }

    #[test]
    fn a_connection_that_finds_the_accept_queue_full_is_counted() {
        let mut machine = Machine::open().unwrap();
        let before = machine.snapshot().unwrap().tcp;
        let new = || {
            let kind = SockType::Stream;
            socket(AddressFamily::Inet, kind, SockFlag::SOCK_NONBLOCK, None).unwrap()
        };
        let server = new();
        bind(server.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        listen(&server, Backlog::new(1).unwrap()).unwrap();
        let address: SockaddrIn = getsockname(server.as_raw_fd()).unwrap();
        // Over loopback the handshake is completed, or dropped, within the call; nobody accepts.
        let clients: Vec<_> = (0..8).map(|_| new()).collect();
        for client in &clients {
            let _ = connect(client.as_raw_fd(), &address);
        }
        let after = machine.snapshot().unwrap().tcp;
        assert!(
            after.listen_overflows > before.listen_overflows
                && after.listen_drops > before.listen_drops,
            "{before:?} {after:?}"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..SNMP.len()) {
            tcp_pages(&bytes);
            Table::parse(&bytes, "Tcp:").get("RetransSegs");
            Table::parse(&SNMP[..cut], "Tcp:").get("RetransSegs");
            tcp_pages(&SOCKSTAT[..cut.min(SOCKSTAT.len())]);
        }
    }
}
