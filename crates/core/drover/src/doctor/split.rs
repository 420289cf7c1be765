//! Proposes CPUs for driver and daemon.

use measure::isolation::CpuList;
use subject::cpus;

/// Returns a line with options that give driver and daemon cores of their own; `None` if there is only one core.
pub(crate) fn split() -> Option<String> {
    let (driver, daemon) = halves(&cpus::cores().ok()?)?;
    Some(format!(
        "Driver and daemon disturb each other less on CPUs of their own: --driver-cpus {driver} --daemon-cpus {daemon}\n"
    ))
}

/// Divides cores between the driver and the daemon, which has more of an odd number. Hyperthreads of a core stay together:
/// they share its caches and its units.
fn halves(cores: &[CpuList]) -> Option<(CpuList, CpuList)> {
    let (driver, daemon) = cores.split_at(cores.len() / 2);
    let cpus = |cores: &[CpuList]| cores.iter().flat_map(CpuList::iter).collect();
    (!driver.is_empty()).then(|| (cpus(driver), cpus(daemon)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_gets_half_of_the_cores_with_all_their_hyperthreads() {
        let proposed = |cores: &[&str]| {
            let cores: Vec<CpuList> = cores.iter().map(|core| core.parse().unwrap()).collect();
            halves(&cores).map(|(driver, daemon)| format!("{driver} {daemon}"))
        };
        for (cores, expected) in [
            (&["0", "1"][..], "0 1"),
            (&["0", "1", "2", "3", "4", "5", "6", "7"], "0-3 4-7"),
            (&["0,4", "1,5", "2,6", "3,7"], "0-1,4-5 2-3,6-7"),
            (&["0-1", "2-3", "4-5"], "0-1 2-5"),
        ] {
            assert_eq!(proposed(cores).as_deref(), Some(expected), "{cores:?}");
        }
        assert_eq!(proposed(&["0-1"]), None);
        assert_eq!(proposed(&[]), None);
    }
}
