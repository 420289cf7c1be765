//! The users of a run: rooms with equal numbers of users, their names, and the part of each worker.
//!
//! A worker holds whole rooms, so that the audit of a room is local arithmetic: room r belongs to worker r mod n.

use load::schedule::Share;

/// The users of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Population {
    pub(crate) rooms: u64,
    pub(crate) users_per_room: u64,
    /// Users that stop reading.
    pub(crate) slow_consumers: u64,
    /// Users whose connection falls silent.
    pub(crate) half_open: u64,
}

/// The behaviour of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Behaviour {
    /// Sends heartbeats, and reads.
    #[default]
    Active,
    /// Joins, and stops reading.
    SlowConsumer,
    /// Joins, and neither reads nor sends any more.
    HalfOpen,
}

impl Population {
    pub(crate) fn users(self) -> u64 {
        self.rooms * self.users_per_room
    }

    /// Returns the number of users that send heartbeats.
    pub(crate) fn senders(self) -> u64 {
        self.users() - self.special()
    }

    /// Returns the index of the user of the run with this name.
    pub(crate) fn user_named(self, name: &str) -> Option<u64> {
        let (room, member) = name.strip_prefix("user-")?.split_once('-')?;
        let (room, member) = parse(room).zip(parse(member))?;
        let is_user =
            (1..=self.rooms).contains(&room) && (1..=self.users_per_room).contains(&member);
        is_user.then(|| (room - 1) * self.users_per_room + member - 1)
    }

    fn special(self) -> u64 {
        self.slow_consumers + self.half_open
    }

    /// Returns the behaviour of a user. The users that are not active are spread evenly over the rooms, and are the same
    /// in each run.
    pub(crate) fn behaviour(self, user: u64) -> Behaviour {
        let Some(special) = selected(user, self.special(), self.users()) else {
            return Behaviour::Active;
        };
        match selected(special, self.slow_consumers, self.special()) {
            Some(_) => Behaviour::SlowConsumer,
            None => Behaviour::HalfOpen,
        }
    }
}

/// Selects `many` of `of` numbers evenly. Returns the index of `number` among the selected ones, or `None` if it is not
/// selected.
fn selected(number: u64, many: u64, of: u64) -> Option<u64> {
    let before = |number: u64| (u128::from(number) * u128::from(many) / u128::from(of)) as u64;
    let index = before(number);
    (before(number + 1) > index).then_some(index)
}

/// The users of one worker. Users and rooms are counted from 0 within the part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) population: Population,
    pub(crate) share: Share,
}

impl Part {
    /// Creates the part of the only worker of one room.
    pub(crate) fn new_room(users: u32) -> Self {
        let population = Population {
            rooms: 1,
            users_per_room: users.into(),
            slow_consumers: 0,
            half_open: 0,
        };
        let share = Share::ALL;
        Self { population, share }
    }

    pub(crate) fn rooms(self) -> u64 {
        self.share.count(self.population.rooms)
    }

    pub(crate) fn users(self) -> u64 {
        self.rooms() * self.population.users_per_room
    }

    /// Returns the room of a user, within the part.
    pub(crate) fn room_of(self, user: u32) -> u32 {
        user / self.population.users_per_room as u32
    }

    /// Returns the index of a user among the members of its room.
    pub(crate) fn member_of(self, user: u32) -> u32 {
        user % self.population.users_per_room as u32
    }

    /// Returns the index of a user among all users of the run.
    pub(crate) fn index_of(self, user: u32) -> u64 {
        let room = self.run_room(self.room_of(user));
        room * self.population.users_per_room + u64::from(self.member_of(user))
    }

    fn run_room(self, room: u32) -> u64 {
        u64::from(room) * self.share.of + self.share.index
    }

    /// Returns when a user begins to connect: nanoseconds after the first one.
    pub(crate) fn begins_at(self, user: u32, ramp_up_ns: u64) -> u64 {
        let users = u128::from(self.population.users());
        (u128::from(self.index_of(user)) * u128::from(ramp_up_ns) / users) as u64
    }

    /// Returns the names of a user and of its room, such as `user-1-1` and `room-001`.
    pub(crate) fn names(self, user: u32) -> Names {
        let room = self.run_room(self.room_of(user)) + 1;
        Names {
            room: format!("room-{room:03}"),
            user: format!("user-{room}-{}", self.member_of(user) + 1),
        }
    }

    /// Returns true if this is the name of a room of the part.
    pub(crate) fn is_room(self, room: u32, name: &str) -> bool {
        let Some(digits) = name.strip_prefix("room-") else {
            return false;
        };
        let number = self.run_room(room) + 1;
        // 1000 has no zeros in front, 7 has two.
        (digits.len() == 3 || number > 999) && parse(digits) == Some(number)
    }

    /// Returns the member of a room with this name, or `None` if the name is not of this run.
    pub(crate) fn member_named(self, room: u32, name: &str) -> Option<u32> {
        let (of_room, member) = name.strip_prefix("user-")?.split_once('-')?;
        if parse(of_room)? != self.run_room(room) + 1 {
            return None;
        }
        let member = parse(member)?.checked_sub(1)?;
        (member < self.population.users_per_room).then_some(member as u32)
    }
}

/// Parses decimal digits.
fn parse(digits: &str) -> Option<u64> {
    digits.parse().ok().filter(|_| !digits.starts_with('+'))
}

/// The names of a user and its room.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) room: String,
    pub(crate) user: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn population(rooms: u64, users_per_room: u64) -> Population {
        Population {
            rooms,
            users_per_room,
            slow_consumers: 0,
            half_open: 0,
        }
    }

    fn parts(population: Population, of: u64) -> impl Iterator<Item = Part> {
        (0..of).map(move |index| Part {
            population,
            share: Share { index, of },
        })
    }

    #[test]
    fn the_parts_of_all_workers_have_each_user_once_by_its_own_name() {
        let population = population(1_005, 3);
        let mut seen = BTreeSet::new();
        for part in parts(population, 4) {
            for user in 0..part.users() as u32 {
                let names = part.names(user);
                let (room, member) = (part.room_of(user), part.member_of(user));
                assert!(part.is_room(room, &names.room), "{names:?}");
                assert_eq!(part.member_named(room, &names.user), Some(member));
                let index = part.index_of(user);
                assert_eq!(population.user_named(&names.user), Some(index));
                assert!(seen.insert((names.room, names.user)));
            }
        }
        assert_eq!(seen.len(), 3_015);
        let named = |room: &str, user: &str| seen.contains(&(room.to_owned(), user.to_owned()));
        assert!(named("room-001", "user-1-1") && named("room-1005", "user-1005-3"));
    }

    #[test]
    fn the_names_of_others_are_not_of_the_room() {
        let part = parts(population(20, 2), 1).next().unwrap();
        for name in ["room-2", "room-002 ", "room-0002", "room-", "x", "room-003"] {
            assert!(!part.is_room(1, name), "{name}");
        }
        assert!(part.is_room(1, "room-002"));
        for name in [
            "user-2-3", "user-2-0", "user-1-1", "user-2-", "user--1", "x",
        ] {
            assert_eq!(part.member_named(1, name), None, "{name}");
        }
    }

    #[test]
    fn users_begin_evenly_over_the_ramp() {
        let population = population(10, 2);
        let mut begins: Vec<u64> = parts(population, 3)
            .flat_map(|part| (0..part.users() as u32).map(move |user| part.begins_at(user, 1_000)))
            .collect();
        begins.sort_unstable();
        let expected: Vec<u64> = (0..20).map(|user| user * 50).collect();
        assert_eq!(begins, expected);
    }

    #[test]
    fn users_that_are_not_active_are_as_many_as_asked_and_spread() {
        let population = Population {
            slow_consumers: 7,
            half_open: 3,
            ..population(50, 4)
        };
        let behaviours: Vec<_> = (0..200).map(|user| population.behaviour(user)).collect();
        let many = |behaviour| behaviours.iter().filter(|each| **each == behaviour).count();
        assert_eq!(many(Behaviour::SlowConsumer), 7);
        assert_eq!(many(Behaviour::HalfOpen), 3);
        assert_eq!(population.senders(), 190);
        let first_half = behaviours[..100].iter();
        assert_eq!(
            first_half
                .filter(|each| **each != Behaviour::Active)
                .count(),
            5
        );
    }
}
