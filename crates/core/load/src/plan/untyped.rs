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
        let table = table.map_err(|error| unwritable("driver", &error))?;
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

    /// Returns the plan as a table, with its fields in their order.
    ///
    /// # Errors
    /// A number that no table can hold.
    pub fn to_table(&self) -> Result<toml::Table, Invalid> {
        toml::Table::try_from(self).map_err(|error| unwritable("the plan", &error))
    }

    /// Returns the plan as it is stored in a result.
    ///
    /// # Errors
    /// As those of [`to_table`](Self::to_table).
    ///
    /// # Panics
    /// Never: all values of a table are values of JSON.
    pub fn to_json(&self) -> Result<serde_json::Value, Invalid> {
        let table = self.to_table()?;
        Ok(serde_json::to_value(table).expect("a table is text, numbers, lists and tables"))
    }

    /// Returns the plan as the text of a plan file.
    ///
    /// # Errors
    /// As those of [`to_table`](Self::to_table).
    pub fn to_toml(&self) -> Result<String, Invalid> {
        let table = self.to_table()?;
        toml::to_string(&table).map_err(|error| unwritable("the plan", &error))
    }
}

fn unwritable(field: &str, problem: &toml::ser::Error) -> Invalid {
    let problem = format!("{problem}: use whole numbers below 2^63 (9223372036854775808)");
    Invalid::new(field, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::parse;

    const TEXT: &str = "name = 'p'\nseed = 7\n[timeline]\nmeasure = '1500ms'\ndrain = '1s'\n[[groups]]\nname = 'g'\nrate = 0.1\n[[faults]]\nsignal = 'STOP'\nat = '1s'\nback_after = '10ms'\n[driver]\nz = 1\na = [{ deep = true }]\n";

    #[test]
    fn a_plan_comes_back_from_its_text_with_its_fields_in_their_order() {
        let plan: Plan<toml::Table> = parse(TEXT).expect("the text is a plan");
        let text = plan.to_toml().expect("a plan that was read can be written");
        assert_eq!(parse::<toml::Table>(&text), Ok(plan.clone()));
        let position = |part: &str| text.find(part).expect("the field is written");
        assert!(position("name = ") < position("[timeline]"), "{text}");
        assert!(position("z = 1") < position("deep = true"), "{text}");
        let stored = plan.to_json().expect("a plan that was read can be stored");
        assert_eq!(stored["seed"], 7);
        assert_eq!(stored["groups"][0]["rate"], 0.1);
        assert_eq!(stored["driver"]["a"][0]["deep"], true);
    }

    #[test]
    fn a_number_that_no_plan_file_holds_is_refused() {
        let mut plan: Plan<toml::Table> = parse(TEXT).expect("the text is a plan");
        plan.seed = u64::MAX;
        let problem = plan.to_json().expect_err("the seed is too large");
        assert!(problem.to_string().contains("2^63"), "{problem}");
    }
}
