//! Plans whose driver settings are a table. The code that reads, writes and sends plans handles these, so that it is
//! compiled once and not for each driver.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Invalid, Plan};
use crate::document::{self, Misread};

impl<D> Plan<D> {
    /// Returns the plan with other settings of the driver.
    fn with_driver<E>(self, driver: E) -> Plan<E> {
        Plan {
            name: self.name,
            protocol: self.protocol,
            daemon: self.daemon,
            endpoint: self.endpoint,
            instances: self.instances,
            daemon_env: self.daemon_env,
            timeline: self.timeline,
            groups: self.groups,
            level: self.level,
            seed: self.seed,
            thresholds: self.thresholds,
            faults: self.faults,
            suite: self.suite,
            driver,
        }
    }
}

impl<D: Serialize> Plan<D> {
    /// Returns the plan with the settings of its driver as a table.
    ///
    /// # Errors
    /// A setting that no table can hold: a whole number of 2^63 or more.
    pub fn untyped(self) -> Result<Plan<toml::Table>, Invalid> {
        let table = toml::Table::try_from(&self.driver);
        let table = table.map_err(|error| Invalid::new("driver", error.to_string()))?;
        Ok(self.with_driver(table))
    }
}

impl Plan<toml::Table> {
    /// Returns the plan with the settings of the driver `D`.
    ///
    /// # Errors
    /// The first setting that is wrong.
    pub fn typed<D: DeserializeOwned>(mut self) -> Result<Plan<D>, Misread> {
        let table = std::mem::take(&mut self.driver);
        let driver = document::from_table(table).map_err(|problem| problem.below("driver"))?;
        Ok(self.with_driver(driver))
    }

    /// Returns the plan as it is stored in a result.
    ///
    /// # Panics
    /// Never: all parts of a plan are values of JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a plan is text, numbers, lists and tables")
    }
}
