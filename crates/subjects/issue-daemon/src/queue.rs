//! Writes that wait for the next group.

use std::collections::{HashSet, VecDeque};
use std::mem;

use issue_rpc::WriteRequest;

/// Requests of a group.
const GROUP_REQUESTS: usize = 1_024;
/// Bytes of the requests of a group.
const GROUP_BYTES: usize = 8 << 20;
/// A longer request, such as a batch of a hundred creates, is a group of its own: short ones do not wait for its commit
/// unless it came before them.
const LONG_BYTES: usize = 16 << 10;
/// Bytes of all requests that wait.
const QUEUED_BYTES: usize = 256 << 20;
/// The time for which a request without a deadline waits for another process that writes, in milliseconds.
const DEFAULT_WAIT_MS: u64 = 5_000;

/// A request that waits.
#[derive(Debug)]
pub struct Job {
    /// The number of the connection.
    pub connection: u64,
    /// The length of its line, in bytes.
    pub bytes: usize,
    /// The request.
    pub request: WriteRequest,
}

/// Requests that are stored together.
#[derive(Debug, Default)]
pub struct Group {
    /// The requests, in the order of their arrival.
    pub jobs: Vec<Job>,
}

/// The queue has reached a limit.
#[derive(Debug)]
pub struct Full {
    /// The number of requests that wait.
    pub queued: usize,
}

/// The requests that wait, in the order of their arrival.
#[derive(Debug)]
pub struct Queue {
    jobs: VecDeque<Job>,
    bytes: usize,
    limit: usize,
}

impl Queue {
    /// Creates a queue for at most this many requests.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            jobs: VecDeque::new(),
            bytes: 0,
            limit,
        }
    }

    /// Adds a request.
    ///
    /// # Errors
    /// Too many requests wait, or too many bytes.
    pub fn push(&mut self, job: Job) -> Result<(), Full> {
        let queued = self.jobs.len();
        if queued >= self.limit || (queued > 0 && self.bytes + job.bytes > QUEUED_BYTES) {
            return Err(Full { queued });
        }
        self.bytes += job.bytes;
        self.jobs.push_back(job);
        Ok(())
    }

    /// Removes the next group: at most this many requests, and as many as are allowed together.
    pub fn take_group(&mut self, requests: usize) -> Group {
        let mut group = Group::default();
        if !self.extend(&mut group, requests)
            && let Some(long) = self.jobs.pop_front()
        {
            self.bytes -= long.bytes;
            group.jobs.push(long);
        }
        group
    }

    /// Moves the next requests to a group, until it has this many or as many as are allowed together. Returns true if
    /// there were any.
    pub fn extend(&mut self, group: &mut Group, requests: usize) -> bool {
        let mut bytes: usize = group.jobs.iter().map(|job| job.bytes).sum();
        let is_long = group.jobs.iter().any(|job| job.bytes > LONG_BYTES);
        let room = requests
            .min(GROUP_REQUESTS)
            .saturating_sub(group.jobs.len());
        let fits = |job: &&Job| {
            bytes += job.bytes;
            !is_long && job.bytes <= LONG_BYTES && bytes <= GROUP_BYTES
        };
        let count = self.jobs.iter().take(room).take_while(fits).count();
        let before = group.jobs.len();
        group.jobs.extend(self.jobs.drain(..count));
        self.bytes -= group.jobs[before..]
            .iter()
            .map(|job| job.bytes)
            .sum::<usize>();
        count > 0
    }

    /// Puts a group back that another process keeps from being stored. Removes the requests of the whole queue whose
    /// deadlines have passed at a Unix time in milliseconds. A request stays if its connection has an earlier one that
    /// waits on, as answers have the order of requests.
    pub fn put_back(&mut self, group: Group, now_ms: u64) -> Vec<Job> {
        let behind = mem::take(&mut self.jobs);
        let (mut late, mut waiting) = (Vec::new(), HashSet::new());
        for mut job in group.jobs.into_iter().chain(behind) {
            let header = &mut job.request.header;
            let last = now_ms.saturating_add(DEFAULT_WAIT_MS);
            header.deadline_ms.get_or_insert(last);
            if header.is_expired(now_ms) && !waiting.contains(&job.connection) {
                late.push(job);
            } else {
                waiting.insert(job.connection);
                self.jobs.push_back(job);
            }
        }
        self.bytes = self.jobs.iter().map(|job| job.bytes).sum();
        late
    }

    /// Returns the number of requests that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns true if no request waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use issue_rpc::{Header, Write};

    use super::*;

    fn job(connection: u64, bytes: usize) -> Job {
        let request = WriteRequest {
            header: Header::default(),
            write: Write::Reopen(String::new()),
        };
        Job {
            connection,
            bytes,
            request,
        }
    }

    #[test]
    fn a_group_is_all_that_waits_up_to_its_limits() {
        let mut queue = Queue::new(10_000);
        for connection in 0..1_500 {
            queue.push(job(connection, 10)).unwrap();
        }
        queue.push(job(1_500, GROUP_BYTES)).unwrap();
        queue.push(job(1_501, 3 * GROUP_BYTES)).unwrap();
        let mut sizes = Vec::new();
        let mut next = 0;
        while !queue.is_empty() {
            let group = queue.take_group(usize::MAX);
            for job in &group.jobs {
                assert_eq!(job.connection, next, "the order of arrival is kept");
                next += 1;
            }
            sizes.push(group.jobs.len());
        }
        assert_eq!(sizes, [GROUP_REQUESTS, 1_500 - GROUP_REQUESTS, 1, 1]);
        assert_eq!(queue.bytes, 0);
        assert!(queue.take_group(usize::MAX).jobs.is_empty());
    }

    #[test]
    fn a_long_request_is_a_group_of_its_own() {
        let mut queue = Queue::new(10);
        for bytes in [10, 10, LONG_BYTES + 1, 10, LONG_BYTES] {
            queue.push(job(0, bytes)).unwrap();
        }
        let sizes = std::iter::from_fn(|| {
            Some(queue.take_group(usize::MAX).jobs.len()).filter(|size| *size > 0)
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [2, 1, 2]);
    }

    #[test]
    fn a_group_is_extended_up_to_a_number_and_not_beside_a_long_request() {
        let mut queue = Queue::new(10);
        for bytes in [10, 10, 10, LONG_BYTES + 1, 10] {
            queue.push(job(0, bytes)).unwrap();
        }
        let mut group = queue.take_group(1);
        assert_eq!(group.jobs.len(), 1);
        for (requests, is_extended, length) in
            [(2, true, 2), (2, false, 2), (10, true, 3), (10, false, 3)]
        {
            assert_eq!(queue.extend(&mut group, requests), is_extended);
            assert_eq!(group.jobs.len(), length);
        }
        let mut long = queue.take_group(usize::MAX);
        assert!(!queue.extend(&mut long, 10));
        assert_eq!((long.jobs.len(), queue.len(), queue.bytes), (1, 1, 10));
    }

    #[test]
    fn a_group_that_is_put_back_keeps_its_order_without_the_late_ones() {
        let mut queue = Queue::new(10);
        let far = u64::MAX;
        // The connection and the deadline of each request; the fourth is a group of its own.
        for (connection, deadline_ms, bytes) in [
            (1, far, 10),
            (2, 100, 10),
            (1, 100, 10),
            (3, far, LONG_BYTES + 1),
            (4, 100, 10),
        ] {
            let mut job = job(connection, bytes);
            job.request.header.deadline_ms = Some(deadline_ms);
            queue.push(job).unwrap();
        }
        queue.push(job(5, 10)).unwrap();
        let connections = |jobs: &[Job]| jobs.iter().map(|job| job.connection).collect::<Vec<_>>();
        let group = queue.take_group(usize::MAX);
        assert!(queue.put_back(group, 99).is_empty());
        let group = queue.take_group(usize::MAX);
        assert_eq!(connections(&queue.put_back(group, 100)), [2, 4]);
        assert_eq!(connections(&queue.take_group(usize::MAX).jobs), [1, 1]);
        assert_eq!(connections(&queue.take_group(usize::MAX).jobs), [3]);
        let group = queue.take_group(usize::MAX);
        assert_eq!(connections(&group.jobs), [5]);
        let late = queue.put_back(group, 99 + DEFAULT_WAIT_MS);
        assert_eq!(connections(&late), [5], "it had no deadline");
        assert_eq!((queue.len(), queue.bytes), (0, 0));
    }

    #[test]
    fn a_full_queue_refuses_by_number_and_by_bytes() {
        let mut queue = Queue::new(2);
        queue.push(job(0, 1)).unwrap();
        assert!(queue.push(job(1, QUEUED_BYTES)).is_err());
        queue.push(job(1, 1)).unwrap();
        assert_eq!(queue.push(job(2, 1)).unwrap_err().queued, 2);
    }
}
