//! Keeps threads on some CPUs, and finds CPUs that share a core.

use std::collections::BTreeSet;
use std::io;

use load::plan::Invalid;
use measure::isolation::CpuList;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The calling thread, for system calls.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// Returns the CPUs that a process, or one of its threads, may use; 0 stands for the calling thread.
///
/// # Errors
/// The process has ended.
pub fn read(pid: i32) -> io::Result<CpuList> {
    let set = sched_getaffinity(Pid::from_raw(pid))?;
    let is_set = |cpu: &usize| set.is_set(*cpu).unwrap_or(false);
    Ok((0..CpuSet::count()).filter(is_set).collect())
}

/// Returns the CPUs that this program could use: its cpuset, also if it runs under `taskset`.
///
/// # Errors
/// The kernel refuses to tell.
pub fn allowed() -> io::Result<CpuList> {
    // The kernel takes only the CPUs of a mask that it allows, so a thread that asks for all learns which these are.
    let asking = std::thread::spawn(|| {
        let all: CpuList = (0..CpuSet::count()).collect();
        sched_setaffinity(THIS_THREAD, &to_set(&all))?;
        read(0)
    });
    let asked = asking.join();
    asked.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}

/// Checks that this program could use the CPUs that an option names. Of a list with others too, the kernel would take
/// only a part, without an error.
///
/// # Errors
/// The first CPU that it could not use.
pub fn require(option: &str, list: &CpuList) -> Result<(), Invalid> {
    let field = format!("{option} {list}");
    let allowed = allowed().map_err(|error| Invalid::new(&*field, error.to_string()))?;
    list.first_outside(&allowed).map_or(Ok(()), |cpu| {
        let problem = format!("CPU {cpu} is not there, or not allowed by the cpuset of this program: choose from {allowed}");
        Err(Invalid::new(field, problem))
    })
}

pub(crate) fn to_set(list: &CpuList) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in list.iter() {
        set.set(cpu).expect("a list names no CPU beyond the set");
    }
    set
}

/// All threads of this program on some CPUs, until it is dropped. What the threads start inherits the CPUs.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Moves all threads of this program to some CPUs.
    ///
    /// # Errors
    /// The kernel refuses the CPUs.
    pub fn to(list: &CpuList) -> io::Result<Self> {
        let before = sched_getaffinity(THIS_THREAD)?;
        move_threads(&to_set(list))?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The CPUs were allowed before.
        let _ = move_threads(&self.before);
    }
}

fn move_threads(set: &CpuSet) -> io::Result<()> {
    let mut moved = BTreeSet::new();
    loop {
        let tasks = std::fs::read_dir("/proc/self/task")?;
        let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        let new: Vec<i32> = ids.filter(|id| moved.insert(*id)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for id in new {
            match sched_setaffinity(Pid::from_raw(id), set) {
                // It has ended.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // A thread may have started others before it was moved.
    }
}

/// Returns the cores of this machine that this program could use, in the order of their CPUs: each with the CPUs that
/// share it as hyperthreads.
///
/// # Errors
/// The kernel refuses to tell which CPUs may be used.
pub fn cores() -> io::Result<Vec<CpuList>> {
    let siblings = |cpu: usize| {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let text = std::fs::read_to_string(file).ok()?;
        text.trim().parse().ok()
    };
    Ok(cores_of(&allowed()?, siblings))
}

fn cores_of(allowed: &CpuList, siblings: impl Fn(usize) -> Option<CpuList>) -> Vec<CpuList> {
    let mut seen = CpuList::default();
    let mut cores = Vec::new();
    for cpu in allowed.iter() {
        let alone: CpuList = [cpu].into_iter().collect();
        if alone.first_outside(&seen).is_none() {
            continue;
        }
        let core = siblings(cpu).unwrap_or_default().with(&alone);
        let is_allowed = |cpu: &usize| allowed.iter().any(|allowed| allowed == *cpu);
        let core: CpuList = core.iter().filter(is_allowed).collect();
        seen = seen.with(&core);
        cores.push(core);
    }
    cores
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    fn every_thread_is_moved_also_an_older_one_and_moved_back_at_the_end() {
        let allowed = allowed().unwrap();
        let first: CpuList = allowed.iter().take(1).collect();
        let (ask, asked) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let older = std::thread::spawn(move || {
            for () in asked {
                tell.send(read(0).unwrap()).unwrap();
            }
        });
        let of_older = || {
            ask.send(()).unwrap();
            told.recv().unwrap()
        };
        let before = (read(0).unwrap(), of_older());
        let pinned = Pinned::to(&first).unwrap();
        assert_eq!(
            (read(0).unwrap(), of_older()),
            (first.clone(), first.clone())
        );
        let newer = std::thread::spawn(|| read(0).unwrap());
        assert_eq!(newer.join().unwrap(), first);
        drop(pinned);
        assert_eq!((read(0).unwrap(), of_older()), before);
        drop(ask);
        older.join().unwrap();
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_with_those_that_are() {
        let allowed = allowed().unwrap();
        require("--driver-cpus", &allowed).unwrap();
        let problem = require("--driver-cpus", &allowed.with(&list("1023"))).unwrap_err();
        let expected = format!("choose from {allowed}");
        assert!(problem.to_string().contains(&expected), "{problem}");
        assert!(problem.to_string().contains("CPU 1023"), "{problem}");
    }

    #[test]
    fn hyperthreads_of_a_core_stay_together_without_cpus_that_may_not_be_used() {
        let shown = |allowed: &str, siblings: fn(usize) -> Option<CpuList>| {
            let cores = cores_of(&list(allowed), siblings);
            cores.iter().map(CpuList::to_string).collect::<Vec<_>>()
        };
        let halves = |cpu: usize| Some([cpu % 4, cpu % 4 + 4].into_iter().collect());
        assert_eq!(shown("0-7", halves), ["0,4", "1,5", "2,6", "3,7"]);
        assert_eq!(shown("1-5", halves), ["1,5", "2", "3", "4"]);
        assert_eq!(shown("0,3", |_| None), ["0", "3"]);
    }
}
