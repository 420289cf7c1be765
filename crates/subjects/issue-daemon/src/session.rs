//! The requests of one connection: answered in their order, with as many under way at once as the order allows.

use std::collections::VecDeque;

use issue_rpc::{Header, Read, Service, WriteRequest};

/// Reads of one connection that are under way at once.
const READS: usize = 8;

/// Issues of a list that is short.
const SHORT: u32 = 50;

/// Returns true if the answer to a read may take megabytes, or long to make: it has no limit, or a great one.
pub(crate) fn is_long(read: &Read) -> bool {
    let limit = match read {
        Read::List(filter) => filter.limit,
        Read::Ready(filter) => filter.limit,
        Read::Stale(args) => args.limit,
        Read::Export(args) => Some(args.limit),
        Read::GetMutations(args) => Some(args.limit),
        Read::Blocked(_) | Read::DepTree(_) | Read::CommentList(_) => None,
        Read::Count(_) | Read::Show(_) | Read::Stats | Read::ResolveId(_) => return false,
    };
    limit.is_none_or(|limit| limit > SHORT)
}

/// A request that has been read from a connection.
#[derive(Debug)]
pub enum Task {
    /// Is answered already, with this line.
    Answered(String),
    /// Is so long that another thread parses it.
    Unparsed(Vec<u8>),
    /// Concerns the daemon.
    Service(Header, Service),
    /// Reads the database.
    Read(Header, Read),
    /// Changes the database.
    Write(WriteRequest),
}

/// The next thing to do for a connection.
#[derive(Debug)]
pub enum Step {
    /// Send this line.
    Send(String),
    /// Parse this line, and return the result by [`Session::parsed`].
    Parse(Vec<u8>),
    /// Send the answer to this.
    Serve(Header, Service),
    /// Perform a read, and report its end by [`Session::answered`].
    Read(Header, Read),
    /// Perform a write, whose line has this many bytes, and report its end by [`Session::answered`].
    Write(WriteRequest, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Parse,
    Read,
    LongRead,
    Write,
}

/// Orders the requests of a connection.
///
/// Writes that follow each other are under way together, because the writer answers them in order. So are a few reads,
/// which one thread performs for a connection. A read whose answer may be long is alone. A change between the two waits
/// for all answers before it, so that a client reads its own writes, and all answers have the order of the requests.
#[derive(Debug)]
pub struct Session {
    /// With the length of their lines.
    waiting: VecDeque<(usize, Task)>,
    bytes: usize,
    kind: Kind,
    under_way: usize,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            kind: Kind::Read,
            under_way: 0,
        }
    }
}

impl Session {
    /// Adds a request, whose line has this many bytes, after all others.
    pub fn push(&mut self, task: Task, line_bytes: usize) {
        self.bytes += line_bytes;
        self.waiting.push_back((line_bytes, task));
    }

    /// Returns the next thing to do, or none if an answer must be waited for first.
    pub fn next_step(&mut self) -> Option<Step> {
        let joins_those_before = match &self.waiting.front()?.1 {
            Task::Answered(_) | Task::Unparsed(_) | Task::Service(..) => false,
            Task::Read(_, read) if is_long(read) => false,
            Task::Read(..) => self.kind == Kind::Read && self.under_way < READS,
            Task::Write(_) => self.kind == Kind::Write,
        };
        if self.under_way > 0 && !joins_those_before {
            return None;
        }
        let (line_bytes, task) = self.waiting.pop_front()?;
        self.bytes -= line_bytes;
        let (kind, step) = match task {
            Task::Answered(line) => return Some(Step::Send(line)),
            Task::Service(header, service) => return Some(Step::Serve(header, service)),
            Task::Unparsed(line) => (Kind::Parse, Step::Parse(line)),
            Task::Read(header, read) if is_long(&read) => {
                (Kind::LongRead, Step::Read(header, read))
            }
            Task::Read(header, read) => (Kind::Read, Step::Read(header, read)),
            Task::Write(request) => (Kind::Write, Step::Write(request, line_bytes)),
        };
        self.kind = kind;
        self.under_way += 1;
        Some(step)
    }

    /// Notes that a request that was under way is answered.
    pub fn answered(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Replaces the request that was under way by what it says.
    pub fn parsed(&mut self, task: Task, line_bytes: usize) {
        self.answered();
        self.bytes += line_bytes;
        self.waiting.push_front((line_bytes, task));
    }

    /// Replaces the request that has just begun by its answer, which still waits for those before it.
    pub fn refused(&mut self, line: String) {
        self.parsed(Task::Answered(line), 0);
    }

    /// Returns the length of the lines whose requests have not begun.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of requests that are not answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.waiting.len() + self.under_way
    }
}

#[cfg(test)]
mod tests {
    use issue_rpc::{Operation, Request};

    use super::*;

    fn task(operation: &str) -> Task {
        let line = format!(r#"{{"operation":"{operation}","args":{{"id":"a"}}}}"#);
        let Request { header, operation } = Request::parse(line.as_bytes()).unwrap();
        match operation {
            Operation::Read(read) => Task::Read(header, read),
            Operation::Write(write) => Task::Write(WriteRequest { header, write }),
            Operation::Service(service) => Task::Service(header, service),
        }
    }

    /// Begins all that can begin. Returns the kinds.
    fn begin(session: &mut Session) -> String {
        let mut kinds = String::new();
        while let Some(step) = session.next_step() {
            kinds.push(match step {
                Step::Send(_) => 's',
                Step::Parse(_) => 'p',
                Step::Read(..) => 'r',
                Step::Write(..) => 'w',
                Step::Serve(..) => 'v',
            });
        }
        kinds
    }

    #[test]
    fn a_change_between_reads_and_writes_waits_for_the_answers_before() {
        let mut session = Session::default();
        for operation in ["reopen", "reopen", "show", "show", "reopen"] {
            session.push(task(operation), 10);
        }
        session.push(Task::Answered("pong".to_owned()), 10);
        assert_eq!(begin(&mut session), "ww");
        session.answered();
        assert_eq!(begin(&mut session), "");
        session.answered();
        assert_eq!(begin(&mut session), "rr");
        session.answered();
        session.answered();
        assert_eq!(begin(&mut session), "w");
        session.answered();
        assert_eq!(begin(&mut session), "s");
        assert_eq!((session.in_flight(), session.waiting_bytes()), (0, 0));
    }

    #[test]
    fn few_reads_are_under_way_and_many_writes() {
        let mut session = Session::default();
        (0..20).for_each(|_| session.push(task("show"), 10));
        assert_eq!(begin(&mut session).len(), READS);
        session.answered();
        assert_eq!(begin(&mut session), "r");
        let mut session = Session::default();
        (0..20).for_each(|_| session.push(task("reopen"), 10));
        assert_eq!(begin(&mut session).len(), 20);
    }

    #[test]
    fn a_read_whose_answer_may_be_long_is_alone() {
        let mut session = Session::default();
        for operation in ["show", "comment_list", "comment_list", "show"] {
            session.push(task(operation), 10);
        }
        for _ in 0..4 {
            assert_eq!(begin(&mut session), "r");
            session.answered();
        }
    }

    #[test]
    fn a_line_that_is_parsed_elsewhere_keeps_its_turn() {
        let mut session = Session::default();
        session.push(Task::Unparsed(b"{}".to_vec()), 2);
        session.push(task("reopen"), 10);
        assert_eq!(begin(&mut session), "p");
        session.parsed(task("show"), 10);
        assert_eq!(begin(&mut session), "r");
        session.answered();
        assert_eq!(begin(&mut session), "w");
    }

    #[test]
    fn a_refusal_waits_for_the_answers_before_it() {
        let mut session = Session::default();
        session.push(task("reopen"), 10);
        session.push(task("reopen"), 10);
        assert!(session.next_step().is_some());
        assert!(session.next_step().is_some());
        session.refused("busy".to_owned());
        assert!(session.next_step().is_none());
        session.answered();
        assert_eq!(begin(&mut session), "s");
    }
}
